//! Types that a database has beyond those of PostgreSQL itself: its enumerations, domains, and arrays of them.

use super::connection::Connection;
use super::error::Error;
use super::patience::Patience;
use postgres_types::{Kind, Oid, Type};

/// Most types within each other, such as a domain of arrays of an enumeration.
const DEPTH_MAX: u32 = 8;

const QUESTION: &str = "select t.typname::text, t.typtype::text, t.typcategory::text, t.typelem, t.typbasetype, \
    n.nspname::text, array(select e.enumlabel::text from pg_catalog.pg_enum e where e.enumtypid = t.oid \
    order by e.enumsortorder) \
    from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace where t.oid = $1";

impl Connection {
    /// The type of this number. The database is asked once for one that it made itself; composites and ranges of its own
    /// are known by name only.
    pub(super) fn kind(&mut self, patience: &Patience<'_>, oid: Oid) -> Result<Type, Error> {
        self.kind_within(patience, oid, DEPTH_MAX)
    }

    fn kind_within(&mut self, patience: &Patience<'_>, oid: Oid, depth: u32) -> Result<Type, Error> {
        if let Some(known) = Type::from_oid(oid).or_else(|| self.kinds.get(&oid).cloned()) {
            return Ok(known);
        }
        let mut found = None;
        self.run(patience, QUESTION, &[&oid], &mut |row| {
            found = Some(row);
            Ok(())
        })?;
        let Some(row) = found else {
            return Ok(Type::new("unknown".to_owned(), oid, Kind::Simple, "pg_catalog".to_owned()));
        };
        let (element, base): (Oid, Oid) = (row.get(3)?, row.get(4)?);
        let kind = match (row.get::<&str>(1)?, row.get::<&str>(2)?) {
            _ if depth == 0 => Kind::Simple,
            ("e", _) => Kind::Enum(row.get(6)?),
            // Its values are those of its base.
            ("d", _) => return self.kind_within(patience, base, depth - 1),
            (_, "A") if element != 0 => Kind::Array(self.kind_within(patience, element, depth - 1)?),
            ("p", _) => Kind::Pseudo,
            _ => Kind::Simple,
        };
        let kind = Type::new(row.get(0)?, oid, kind, row.get(5)?);
        self.kinds.insert(oid, kind.clone());
        Ok(kind)
    }
}
