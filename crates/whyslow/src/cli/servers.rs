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
    /// Coroutines: straightline, with handlers that block as in ordinary code
    Coroutines,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow serve --model futures --port 8080")]
pub(crate) struct ServeArgs {
    /// Model of concurrency
    #[arg(long, value_enum)]
    pub(crate) model: Model,
    /// Address to listen on; other machines can reach any address but loopback
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) address: std::net::IpAddr,
    /// Port; 0 chooses a free one and prints it
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Worker threads; with the thread model, the number of threads that accept connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
}

const INIT_EXAMPLE: &str = "\
Examples:
  whyslow init http://127.0.0.1:8080/users
      while the server runs: from its command line, its answer, and the way such a repository is usually built
  whyslow init
      from the files in this folder alone";

#[derive(Debug, Args)]
#[command(after_help = INIT_EXAMPLE)]
pub(crate) struct InitArgs {
    /// A server from this repository that is running on this machine; it is sent one request
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
    /// Show what can be compared here, and what the rest still needs
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
    /// Show the cases and their questions
    #[command(after_help = "Example:\n  whyslow case list")]
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Show what a case asks, measures and claims, and how it is adapted to this machine
    #[command(after_help = "Example:\n  whyslow case show warp-vs-fasthttp")]
    Show {
        /// The case
        name: String,
        /// How it is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Build and measure, and compare the figures with the published ones
    Run(Box<CaseRunArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = CASE_EXAMPLE)]
pub(crate) struct CaseRunArgs {
    /// The case
    pub(crate) name: String,
    /// Measure only 8 to 32 short blocks
    #[arg(long)]
    pub(crate) quick: bool,
    /// Run one block of two slices with targets that are already built: this shows that everything works, but decides nothing
    #[arg(long, conflicts_with = "quick")]
    pub(crate) smoke: bool,
    /// Run only this comparison of the case; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) comparison: Vec<String>,
    /// Also count instructions per function, with valgrind
    #[arg(long)]
    pub(crate) callgrind: bool,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// CPUs of the servers [default: the first half of those allowed]
    #[arg(long, value_name = "LIST")]
    pub(crate) server_cpus: Option<CpuSet>,
    /// CPUs of the load generator [default: the others]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuSet>,
    /// Seed for order, ports, padding and arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Folder for the runs; if it holds an unfinished run of the same plan, that is continued [default: whyslow-runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// File to write the answer to [default: docs/answers/NAME.md beside the cases; none with --smoke]
    #[arg(long, value_name = "FILE")]
    pub(crate) answer: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print everything that was measured, not only the summary
    #[arg(long)]
    pub(crate) details: bool,
}

const WATCH_EXAMPLE: &str = "\
Examples:
  whyslow watch :8080 -d 30s
      the process that listens on port 8080, for half a minute
  whyslow watch 4711 --profile --counter http://127.0.0.1:8080/count
      process 4711 and its descendants, with a profile; requests are counted by the server itself";

#[derive(Debug, Args)]
#[command(after_help = WATCH_EXAMPLE)]
pub(crate) struct WatchArgs {
    /// A process, or the port on which it listens
    #[arg(value_name = "PID|:PORT")]
    pub(crate) what: String,
    /// How long to watch; each kind of profile takes as long again
    #[arg(short = 'd', long, default_value = "10s")]
    pub(crate) duration: Span,
    /// Then sample where its CPU time goes
    #[arg(long)]
    pub(crate) profile: bool,
    /// Then record where its threads wait, and for how long
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
    /// Print everything that was measured, not only the summary
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
