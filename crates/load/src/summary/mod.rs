//! From what workers counted to a report. Pure.

mod correlation;
mod gather;
mod percentiles;
mod report;
mod stationarity;
mod warnings;

pub(crate) use gather::{Gathered, Measured, second};
pub(crate) use report::{Facts, outcome};
