//! The words that every other crate speaks: quantities, what is to be done, and what was seen.
//!
//! | module | in | out |
//! |---|---|---|
//! | [`units`] | text | rates, bytes, quantiles, durations, CPU sets, each valid by construction |
//! | [`job`] | what a generator is to do | the lines between orchestrator and generator |
//! | [`plan`] | target files, case files and flags, as text | a validated plan: arms, conditions, blocks, placement |
//! | [`record`] | what the other crates saw | the run directory, schema version first |
//!
//! It starts nothing, measures nothing and concludes nothing; only [`record::RunDir`] touches files.
#![forbid(unsafe_code)]

pub mod job;
pub mod plan;
pub mod record;
pub mod units;
