//! Why a statistic cannot be computed.

use std::fmt;

/// Why a statistic cannot be computed from the numbers given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Error {
    /// More observations are needed for this statistic at this level.
    TooFew {
        /// Observations given.
        have: usize,
        /// Observations that would be enough.
        need: usize,
    },
    /// The exact method is not meant for so many observations.
    TooMany {
        /// Observations given.
        have: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// Two slices that belong together differ in length.
    Unequal {
        /// Length of the first slice.
        left: usize,
        /// Length of the second slice.
        right: usize,
    },
    /// A value is not a finite number, or not positive where a logarithm is taken.
    BadValue {
        /// Position of the first such value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A parameter (a level, a quantile, a tolerance) lies outside its range.
    OutOfRange {
        /// The parameter's name.
        name: &'static str,
        /// The value given.
        value: f64,
    },
    /// The observations do not determine the answer, for example because they are all alike.
    Degenerate,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooFew { have, need } => write!(f, "{have} observations, at least {need} are needed"),
            Self::TooMany { have, most } => write!(f, "{have} observations, at most {most} are accepted"),
            Self::Unequal { left, right } => write!(f, "{left} values on one side, {right} on the other"),
            Self::BadValue { index, value } => write!(f, "value {value} at position {index} cannot be used"),
            Self::OutOfRange { name, value } => write!(f, "{name} = {value} is out of range"),
            Self::Degenerate => write!(f, "the observations do not determine the answer"),
        }
    }
}

impl std::error::Error for Error {}

/// Refuses fewer than `need` observations.
pub(crate) fn at_least(have: usize, need: usize) -> Result<(), Error> {
    if have < need { Err(Error::TooFew { have, need }) } else { Ok(()) }
}

/// Refuses values that are not finite.
pub(crate) fn all_finite(values: &[f64]) -> Result<(), Error> {
    refuse(values, |value| !value.is_finite())
}

/// Refuses values that are not finite and above zero.
pub(crate) fn all_positive(values: &[f64]) -> Result<(), Error> {
    refuse(values, |value| !(value.is_finite() && value > 0.0))
}

fn refuse(values: &[f64], bad: impl Fn(f64) -> bool) -> Result<(), Error> {
    match values.iter().position(|&value| bad(value)) {
        Some(index) => Err(Error::BadValue { index, value: values[index] }),
        None => Ok(()),
    }
}

/// Refuses a parameter outside the open interval (0, 1).
pub(crate) fn inside_unit(name: &'static str, value: f64) -> Result<(), Error> {
    if value > 0.0 && value < 1.0 { Ok(()) } else { Err(Error::OutOfRange { name, value }) }
}
