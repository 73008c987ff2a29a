//! Every statistic against SciPy, R, its own mathematics, and simulated sessions.

mod changes;
mod cycles;
mod decisions;
mod derived;
mod fixture;
mod growth;
mod host;
mod pairs;
mod properties;
mod ranks;
mod rng;
mod simulation;
