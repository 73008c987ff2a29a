//! Benchmarks against peers. Each writes a page under `docs/benchmarks` with the command that repeats it.
//!
//! A benchmark is made of *rows*. What a row found takes the place of its section in the page, and the others stay, so
//! that a long benchmark can be run row by row.

mod blocks;
mod load;
mod page;
mod server;
mod target;
mod techempower;
mod whyslow;

use clap::Subcommand;

pub(crate) use self::whyslow::release;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// The generator against other generators: CPU, memory, send lag, and a witness
    Load(load::Args),
    /// straightline against other servers: CPU, latency and memory
    Server(server::Args),
    /// straightline against other frameworks in TechEmpower's tests, on PostgreSQL
    Techempower(techempower::Args),
}

/// Measures and writes the page.
pub(crate) fn bench(what: &Bench) -> anyhow::Result<()> {
    match what {
        Bench::Load(args) => load::run(args),
        Bench::Server(args) => server::run(args),
        Bench::Techempower(args) => techempower::run(args),
    }
}
