//! Flags of the commands that deal with one server, or with the lists of servers and cases.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use model::units::{CpuSet, Span};

use super::{Format, RequestArgs};

/// A built-in model of concurrency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// A thread for each connection
    Threads,
    /// Futures: hyper on tokio
    Futures,
    /// Coroutines: straightline, blocking-style handlers at event-loop speed
    Coroutines,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow serve --model futures --port 8080")]
pub(crate) struct ServeArgs {
    /// Model of concurrency
    #[arg(long, value_enum)]
    pub(crate) model: Model,
    /// Address to listen on; any but loopback can be reached by others
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) address: std::net::IpAddr,
    /// Port; 0 takes a free one and prints it
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Worker threads; the thread model has so many acceptors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
}

const INIT_EXAMPLE: &str = "\
Examples:
  whyslow init http://127.0.0.1:8080/users
      while the server runs: its command line, what it answers, and how such a repository is usually built
  whyslow init
      from the folder alone";

#[derive(Debug, Args)]
#[command(after_help = INIT_EXAMPLE)]
pub(crate) struct InitArgs {
    /// A server of this repository that runs on this machine; it is asked once
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow targets build warp@lto")]
pub(crate) struct TargetsArgs {
    #[command(subcommand)]
    pub(crate) action: TargetsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TargetsAction {
    /// What can be compared here, and what is missing to build it
    #[command(after_help = "Example:\n  whyslow targets list")]
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Build targets
    #[command(after_help = "Example:\n  whyslow targets build nginx warp@lto")]
    Build {
        /// NAME or NAME@VARIANT
        #[arg(required = true)]
        names: Vec<String>,
        /// How the outcome is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Start each target once and check its answers
    #[command(after_help = "Example:\n  whyslow targets verify nginx")]
    Verify {
        /// NAME or NAME@VARIANT
        #[arg(required = true)]
        names: Vec<String>,
        /// How the outcome is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
}

const CASE_EXAMPLE: &str = "\
Examples:
  whyslow case list
  whyslow case show warp-vs-fasthttp
  whyslow case run warp-vs-fasthttp --quick";

#[derive(Debug, Args)]
#[command(after_help = CASE_EXAMPLE)]
pub(crate) struct CaseArgs {
    #[command(subcommand)]
    pub(crate) action: CaseAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaseAction {
    /// The cases and their questions
    #[command(after_help = "Example:\n  whyslow case list")]
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// What a case asks, measures and claims, and how it is fitted to this machine
    #[command(after_help = "Example:\n  whyslow case show warp-vs-fasthttp")]
    Show {
        /// The case
        name: String,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Build, measure, and hold the figures against the published ones
    Run(Box<CaseRunArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = CASE_EXAMPLE)]
pub(crate) struct CaseRunArgs {
    /// The case
    pub(crate) name: String,
    /// 8 to 32 short blocks
    #[arg(long)]
    pub(crate) quick: bool,
    /// One block of two slices, of targets that are built already: shows that everything works, decides nothing
    #[arg(long, conflicts_with = "quick")]
    pub(crate) smoke: bool,
    /// Only this comparison of the case; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) comparison: Vec<String>,
    /// Count instructions per function under valgrind too
    #[arg(long)]
    pub(crate) callgrind: bool,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// CPUs of the servers [default: the first half of those allowed]
    #[arg(long, value_name = "LIST")]
    pub(crate) server_cpus: Option<CpuSet>,
    /// CPUs of the generator [default: the others]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuSet>,
    /// Seed of order, ports, padding and arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Directory of the runs; one that holds the same plan is gone on with [default: whyslow-runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// File of the answer [default: docs/answers/NAME.md beside the cases; none with --smoke]
    #[arg(long, value_name = "FILE")]
    pub(crate) answer: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Everything that was measured, behind what is read first
    #[arg(long)]
    pub(crate) details: bool,
}

const WATCH_EXAMPLE: &str = "\
Examples:
  whyslow watch :8080 -d 30s
      whoever listens on port 8080, for half a minute
  whyslow watch 4711 --profile --counter http://127.0.0.1:8080/count
      process 4711 with its descendants, with a profile, per request by the server's own count";

#[derive(Debug, Args)]
#[command(after_help = WATCH_EXAMPLE)]
pub(crate) struct WatchArgs {
    /// A process, or the port on which it listens
    #[arg(value_name = "PID|:PORT")]
    pub(crate) what: String,
    /// How long; as long again for each kind of profile
    #[arg(short = 'd', long, default_value = "10s")]
    pub(crate) duration: Span,
    /// Afterwards, sample where its CPU time goes
    #[arg(long)]
    pub(crate) profile: bool,
    /// Afterwards, record where its threads wait, and for how long
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Write the profile as folded stacks, for flame graphs
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub(crate) folded: Option<PathBuf>,
    /// Samples per second of its CPU time, 99 to 997
    #[arg(long, default_value_t = 199, value_parser = clap::value_parser!(u32).range(99..=997))]
    pub(crate) frequency: u32,
    /// URL whose answer begins with the number of requests served so far
    #[arg(long, value_name = "URL")]
    pub(crate) counter: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Everything that was measured, behind what is read first
    #[arg(long)]
    pub(crate) details: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow doctor --format json")]
pub(crate) struct DoctorArgs {
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}
