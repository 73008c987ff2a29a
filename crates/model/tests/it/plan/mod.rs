//! Orders, seeds, placements, refusals and target files.

mod cases;
mod order;
mod placement;
mod refusals;
mod search;
mod split;
mod support;
mod targets;
mod workload;
