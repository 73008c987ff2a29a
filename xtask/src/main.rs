//! Checks, calibrations and benchmarks of the workspace: `cargo xtask --help`.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "this program talks to whoever works on the project")]

mod awake;
mod bench;
mod calibrate;
mod ci;
mod dist;
mod memory;
mod restarts;
mod shell;
mod soak;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the workspace.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// All checks and tests: what CI runs
    Ci,
    /// The invariants of ARCHITECTURE.md and the limits of CONTRIBUTING.md
    Tidy {
        /// Print how large each crate is instead: lines without tests, public items, longest file
        #[arg(long)]
        figures: bool,
    },
    /// What a release consists of, built and tried out, in target/dist/whyslow-VERSION
    Dist {
        /// This part only; the others stay as they were made before
        part: Option<dist::Part>,
    },
    /// The tests of what handles memory by hand, under AddressSanitizer
    Memory,
    /// straightline at full size: a million requests with faults, ten thousand slow heads, an upload of 1 GiB, ten restarts
    Soak {
        /// Part of a test's name, or `restarts`: only those that have it
        #[arg(default_value = "")]
        part: String,
        /// The program that loads the service in `restarts` [default: a release build of this workspace]
        #[arg(long)]
        program: Option<PathBuf>,
    },
    /// Calibrate the instrument against known truths
    Calibrate(calibrate::Args),
    /// Measure against peers and write a page under docs/benchmarks
    #[command(subcommand)]
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Ci => ci::run(),
        Task::Tidy { figures: true } => tidy::print_figures(),
        Task::Tidy { figures: false } => tidy::run(),
        Task::Dist { part } => dist::run(part),
        Task::Memory => memory::run(),
        Task::Soak { part, program } => soak::run(&part, program.as_deref()),
        Task::Calibrate(args) => calibrate::calibrate(&args),
        Task::Bench(what) => bench::bench(&what),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
