//! The command line: the one definition from which help, man pages and completions are made.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use units::{CpuSet, Rate, Span};

/// Which HTTP server is slower, by how much, and why.
#[derive(Debug, Parser)]
#[command(name = "whyslow", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare servers: which is slower, by how much, and whether to believe it
    Compare(Box<CompareArgs>),
    /// Load one server along a schedule and report honestly
    Load(Box<LoadArgs>),
    /// Run one of the built-in servers
    Serve(ServeArgs),
    /// List, build and verify the servers that can be compared here
    Targets(TargetsArgs),
    /// Gates, ledger and verdict again from a run directory
    Analyse(AnalyseArgs),
    /// Write runs as one HTML page that opens offline
    Report(ReportArgs),
    /// Serve the pages of the runs kept here, on loopback
    View(ViewArgs),
    /// Show how figures moved over the runs kept here
    History(HistoryArgs),
    /// Print the JSON Schema of an output
    Schema(SchemaArgs),
    /// Print a shell completion
    Completions(CompletionsArgs),
    /// Print a man page
    Man(ManArgs),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For scripts
    Json,
    /// Markdown
    Md,
}

const COMPARE_EXAMPLE: &str = "\
Examples:
  whyslow compare
      the built-in servers, quick
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --path /users
      two builds of one service
  whyslow compare warp fasthttp --pipeline 16 --fail-if 'fasthttp slower'
      two targets of targets/; exit code 3 if the condition holds";

#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLE)]
pub(crate) struct CompareArgs {
    /// Targets (NAME or NAME@VARIANT) or commands (NAME='COMMAND with {port}'); none: the built-in servers, quick
    #[arg(value_name = "TARGET|NAME=COMMAND")]
    pub(crate) arms: Vec<String>,
    /// A command as one more arm: NAME='COMMAND with {port}'
    #[arg(long = "cmd", value_name = "NAME=COMMAND")]
    pub(crate) commands: Vec<String>,
    /// Path that is asked for; a target's own where none is given
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Connections, all open before the window
    #[arg(long, default_value_t = 64)]
    pub(crate) connections: u32,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: u32,
    /// 'max': a closed loop, then an equal rate for all; a number: that rate only
    #[arg(long, default_value = "max", value_name = "max|N")]
    pub(crate) rate: String,
    /// With --rate max: the equal rates in percent of the slowest arm's capacity, or 'none'
    #[arg(long, default_value = "25", value_name = "LIST|none")]
    pub(crate) equal_rates: String,
    /// Arrivals at an equal rate
    #[arg(long, value_enum, default_value_t = Arrival::Constant)]
    pub(crate) arrival: Arrival,
    /// Blocks of one round each, looked at once; without it 10, and up to 30 where the first look is undecided
    #[arg(long, conflicts_with_all = ["quick", "rigorous"])]
    pub(crate) blocks: Option<u32>,
    /// 6 blocks with windows of 3 s
    #[arg(long, conflicts_with = "rigorous")]
    pub(crate) quick: bool,
    /// A second copy of the baseline in every block, which measures the noise floor
    #[arg(long)]
    pub(crate) rigorous: bool,
    /// Length of a window [default: 10s; 3s with --quick; 20s where a target has a just-in-time compiler]
    #[arg(long)]
    pub(crate) window: Option<Span>,
    /// Shortest warm-up [default: 3s; 20s for a target with a just-in-time compiler]
    #[arg(long)]
    pub(crate) warmup: Option<Span>,
    /// Longest warm-up; a target still moving then is recorded as without steady state [default: 2m; that of --warmup
    /// with --quick]
    #[arg(long)]
    pub(crate) warmup_cap: Option<Span>,
    /// Longest wait for a target's first right answer
    #[arg(long, default_value = "1m")]
    pub(crate) ready_limit: Span,
    /// CPUs of the servers [default: the first half of those allowed]
    #[arg(long, value_name = "LIST")]
    pub(crate) server_cpus: Option<CpuSet>,
    /// CPUs of the generator [default: the others]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuSet>,
    /// Arm that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Seed of order, ports, padding and arrivals [default: a random one, recorded]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Commands read their port from PORT in the environment
    #[arg(long)]
    pub(crate) port_env: bool,
    /// Status that commands must answer with
    #[arg(long, default_value_t = 200)]
    pub(crate) expect_status: u16,
    /// File with the body that commands must answer with
    #[arg(long, value_name = "FILE")]
    pub(crate) expect_body: Option<PathBuf>,
    /// Go on where the arms answer differently
    #[arg(long)]
    pub(crate) allow_difference: bool,
    /// Stop at the verdict
    #[arg(long)]
    pub(crate) no_why: bool,
    /// Condition that makes the exit code 3: 'NAME slower', 'NAME faster', 'NAME invalid' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Directory of the run [default: whyslow-runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print the plan and start nothing
    #[arg(long, conflicts_with = "verify")]
    pub(crate) list: bool,
    /// Start each arm once, check its answers, and stop
    #[arg(long)]
    pub(crate) verify: bool,
}

/// Spacing of arrivals in an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrival {
    /// Evenly spaced
    Constant,
    /// Exponential gaps
    Poisson,
}

const LOAD_EXAMPLE: &str = "\
Examples:
  whyslow load -t1 -c64 -d10s http://127.0.0.1:8080/
      closed loop, as wrk
  whyslow load -c64 -d30s -R 20k --arrival poisson --format json http://127.0.0.1:8080/
      open loop at 20 000 requests a second";

#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLE)]
pub(crate) struct LoadArgs {
    /// Generator threads
    #[arg(short = 't', long, default_value_t = 2)]
    pub(crate) threads: u32,
    /// Connections over all threads
    #[arg(short = 'c', long, default_value_t = 10)]
    pub(crate) connections: u32,
    /// Length of the window
    #[arg(short = 'd', long, default_value = "10s")]
    pub(crate) duration: Span,
    /// Header added to every request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// A request unanswered for longer counts as a timeout, once
    #[arg(long, default_value = "2s")]
    pub(crate) timeout: Span,
    /// Requests per second (open loop); without it each connection asks again as soon as it is answered
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,
    /// Print the latency distribution (always printed; for command lines written for wrk)
    #[arg(short = 'L', long)]
    pub(crate) latency: bool,
    /// Arrivals of an open loop
    #[arg(long, value_enum, default_value_t = Arrival::Constant)]
    pub(crate) arrival: Arrival,
    /// Who serves an arrival: any idle connection of its thread, or (wrk2) a schedule for each connection
    #[arg(long, value_enum, default_value_t = ScheduleKind::Shared)]
    pub(crate) schedule: ScheduleKind,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: u32,
    /// Method
    #[arg(short = 'X', long = "method", default_value = "GET")]
    pub(crate) method: String,
    /// Body: a string, or @FILE
    #[arg(long, value_name = "STRING|@FILE")]
    pub(crate) body: Option<String>,
    /// Load before the window that no figure refers to
    #[arg(long, default_value = "0s")]
    pub(crate) warmup: Span,
    /// End after exactly this many requests
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// CPUs of the generator
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,
    /// How a thread waits for the next arrival or answer
    #[arg(long, value_enum, default_value_t = IdleKind::Sleep)]
    pub(crate) idle: IdleKind,
    /// Write the latencies as an HdrHistogram log (V2)
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write the percentile distribution as HdrHistogram prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// One JSON object a line, as things happen: how `compare` follows its generator
    #[arg(long, hide = true)]
    pub(crate) events: bool,
    /// Longest warm-up: go on past --warmup until the rate is steady
    #[arg(long, hide = true)]
    pub(crate) warmup_until: Option<Span>,
    /// Where to, such as <http://127.0.0.1:8080/path>
    pub(crate) url: String,
}

/// Who serves the next arrival of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScheduleKind {
    /// Any idle connection of the thread
    Shared,
    /// The connection whose turn it is, as in wrk2
    #[value(alias = "constant")]
    Connection,
}

/// How a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdleKind {
    /// In the kernel, with a nanosecond timer
    Sleep,
    /// In the kernel until shortly before the next arrival, then polling
    Spin,
    /// Polling without end
    Poll,
}

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
    /// Port on 127.0.0.1; 0 takes a free one and prints it
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Worker threads; the thread model has so many acceptors
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: u32,
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
    List {
        /// How the list is printed
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Build targets
    Build {
        /// NAME or NAME@VARIANT
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Start each target once and check its answers
    Verify {
        /// NAME or NAME@VARIANT
        #[arg(required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow analyse whyslow-runs/20260102-030405-9f3c --format json")]
pub(crate) struct AnalyseArgs {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow report whyslow-runs/20260102-030405-9f3c -o report.html")]
pub(crate) struct ReportArgs {
    /// Run directories; several stand beside each other on the page
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The file
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow view --runs whyslow-runs")]
pub(crate) struct ViewArgs {
    /// One run directory, which alone is then served
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// Where to listen; whoever reaches it can read the runs. Port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8710", value_name = "ADDRESS:PORT")]
    pub(crate) listen: std::net::SocketAddr,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow history main --metric cpu_per_request")]
pub(crate) struct HistoryArgs {
    /// An arm or a target; all where none is named
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// One metric: cpu_per_request, rate, p50, p90, p99, p99_9 or rss
    #[arg(long)]
    pub(crate) metric: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow schema compare > findings.schema.json")]
pub(crate) struct SchemaArgs {
    /// The output that is described
    #[arg(value_enum)]
    pub(crate) output: Output,
}

/// An output that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// whyslow compare and whyslow analyse
    Compare,
    /// The data in a page of whyslow report
    Report,
    /// whyslow load
    Load,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  whyslow completions bash > ~/.local/share/bash-completion/completions/whyslow"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow man compare | man -l -")]
pub(crate) struct ManArgs {
    /// The command; the program itself where none is given
    pub(crate) command: Option<String>,
}
