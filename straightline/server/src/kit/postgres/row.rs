//! Rows and their columns.

use super::error::Error;
use bytes::Bytes;
use postgres_types::{FromSql, Type, WrongType};
use std::fmt;
use std::sync::Arc;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
}

impl Column {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of its values.
    pub fn kind(&self) -> &Type {
        &self.kind
    }
}

/// One row of a result.
#[derive(Clone)]
pub struct Row {
    pub(super) columns: Arc<[Column]>,
    /// For each column the length of its value, −1 for NULL, and the value.
    pub(super) values: Bytes,
}

impl fmt::Debug for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Row").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// What says which column of a row is meant: its number from 0, or its name.
pub trait ColumnIndex: fmt::Display {
    /// The number of the column.
    fn find(&self, columns: &[Column]) -> Option<usize>;
}

impl ColumnIndex for usize {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        (*self < columns.len()).then_some(*self)
    }
}

impl ColumnIndex for &str {
    fn find(&self, columns: &[Column]) -> Option<usize> {
        columns.iter().position(|column| column.name == *self)
    }
}

impl Row {
    /// The columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The value of a column. NULL is the `None` of an `Option`.
    ///
    /// # Errors
    ///
    /// [`Error::Column`] if there is no such column, its type is another, or it is NULL and `T` cannot be.
    pub fn get<'r, T: FromSql<'r>>(&'r self, column: impl ColumnIndex) -> Result<T, Error> {
        self.value(&column).map_err(|cause| Error::Column { column: column.to_string(), cause })
    }

    fn value<'r, T: FromSql<'r>>(
        &'r self,
        column: &impl ColumnIndex,
    ) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
        let index = column.find(&self.columns).ok_or("the result has no such column")?;
        let kind = &self.columns[index].kind;
        if !T::accepts(kind) {
            return Err(Box::new(WrongType::new::<T>(kind.clone())));
        }
        T::from_sql_nullable(kind, self.raw(index).ok_or("the row is cut short")?)
    }

    /// The bytes of a value; `None` if the row has no such value.
    fn raw(&self, index: usize) -> Option<Option<&[u8]>> {
        let mut rest = &self.values[..];
        let mut left = index;
        loop {
            let (length, after) = rest.split_first_chunk::<4>()?;
            // Only NULL has a negative length.
            let value = match usize::try_from(i32::from_be_bytes(*length)) {
                Ok(length) => {
                    let (value, after) = after.split_at_checked(length)?;
                    rest = after;
                    Some(value)
                }
                Err(_) => {
                    rest = after;
                    None
                }
            };
            if left == 0 {
                return Some(value);
            }
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, Row};
    use bytes::Bytes;
    use postgres_types::Type;

    fn row(values: &[u8]) -> Row {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let columns = [column("a", Type::INT4), column("b", Type::TEXT), column("c", Type::TEXT)];
        Row { columns: columns.into(), values: Bytes::copy_from_slice(values) }
    }

    const WHOLE: &[u8] = b"\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\0\0\x02hi";

    #[test]
    fn values_are_found_by_number_and_name() {
        let row = row(WHOLE);
        assert_eq!(row.get::<i32>(0).unwrap(), 7);
        assert_eq!(row.get::<Option<&str>>("b").unwrap(), None);
        assert_eq!(row.get::<&str>("c").unwrap(), "hi");
        assert!(row.get::<&str>("b").is_err(), "NULL is no text");
        assert!(row.get::<&str>("d").is_err() && row.get::<&str>(3).is_err(), "there is no such column");
        assert!(row.get::<i64>(0).is_err(), "another type");
    }

    #[test]
    fn a_row_that_is_cut_short_gives_errors_and_no_more() {
        for end in 0..WHOLE.len() {
            let row = row(&WHOLE[..end]);
            assert!(row.get::<&str>("c").is_err(), "{end}");
            assert_eq!(row.get::<i32>(0).is_ok(), end >= 8, "{end}");
        }
        assert!(row(b"\x7f\xff\xff\xff1").get::<i32>(0).is_err());
    }
}
