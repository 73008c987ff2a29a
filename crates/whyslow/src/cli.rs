//! The command line: the one definition from which help, man pages and completions are made.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use units::{CpuSet, Rate, Span};

use crate::asking::AskingArgs;
use crate::load_command::pace::Ramp;
use crate::reach::ReachArgs;
use crate::sharding::ShardingArgs;

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
    /// One change after another, each against the one before it
    Ladder(Box<LadderArgs>),
    /// Load one server along a schedule and report honestly
    Load(Box<LoadArgs>),
    /// Search the highest rate at which a condition holds; the curve and the knee
    Capacity(Box<CapacityArgs>),
    /// Put the shards of one run together, without loss
    Merge(MergeArgs),
    /// Run one of the built-in servers
    Serve(ServeArgs),
    /// List, build and verify the servers that can be compared here
    Targets(TargetsArgs),
    /// Watch a running server under someone else's load: what it costs and what it lacks
    Watch(WatchArgs),
    /// What this machine can and cannot measure, and what would allow it
    Doctor(DoctorArgs),
    /// Repeat a published comparison and hold it against what was published
    Case(CaseArgs),
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

/// How the result of a load is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadFormat {
    /// For people
    Text,
    /// For scripts
    Json,
    /// Markdown
    Md,
    /// What wrk prints, or with --rate what wrk2 does
    Wrk,
}

/// The program in whose place we were called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Called {
    /// wrk
    Wrk,
    /// wrk2
    Wrk2,
}

/// A time as wrk reads it: a number alone is seconds.
fn wrk_time(text: &str) -> Result<Span, String> {
    let alone = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if alone { format!("{text}s") } else { text.to_owned() };
    text.parse().map_err(|error: units::ParseError| error.to_string())
}

/// A number as wrk reads it: 2k is 2000.
fn wrk_count(text: &str) -> Result<u32, String> {
    let scales = [('k', 1_000), ('m', 1_000_000)];
    let found = scales.iter().find(|(letter, _)| text.to_ascii_lowercase().ends_with(*letter));
    let (digits, scale) = found.map_or((text, 1), |(_, scale)| (&text[..text.len() - 1], *scale));
    let number = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(scale));
    number.ok_or_else(|| format!("'{text}' is not a number: write such as 64, 2k or 1M"))
}

const COMPARE_EXAMPLE: &str = "\
Examples:
  whyslow compare
      the built-in servers, quick
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --path /users
      two builds of one service
  whyslow compare warp fasthttp --pipeline 16 --fail-if 'fasthttp slower'
      two targets of targets/; exit code 3 if the condition holds";

#[derive(Debug, Clone, Args)]
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
    /// A new connection for each request
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
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

const LADDER_EXAMPLE: &str = "\
Example:
  whyslow ladder warp --steps lto,lto-jemalloc,lto-jemalloc-pipeline --quick
      what each step brings, and whether their product is the whole";

#[derive(Debug, Args)]
#[command(after_help = LADDER_EXAMPLE)]
#[command(mut_arg("arms", |arg| arg.hide(true)), mut_arg("commands", |arg| arg.hide(true)))]
pub(crate) struct LadderArgs {
    /// The target whose variants are climbed
    pub(crate) target: String,
    /// Variants in order, each holding those before it [default: all of the target's, in its file's order]
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub(crate) steps: Vec<String>,
    #[command(flatten)]
    pub(crate) design: CompareArgs,
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
      open loop at 20 000 requests a second
  whyslow load -s docs/examples/lua/counter.lua http://127.0.0.1:8080
      requests from a script with wrk's Lua API; called by the name wrk or wrk2, it takes their command lines";

#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLE, version, disable_version_flag = true)]
pub(crate) struct LoadArgs {
    /// Generator threads
    #[arg(short = 't', long, default_value_t = 2, value_parser = wrk_count)]
    pub(crate) threads: u32,
    /// Connections over all threads
    #[arg(short = 'c', long, default_value_t = 10, value_parser = wrk_count)]
    pub(crate) connections: u32,
    /// Length of the window; a number alone is seconds
    #[arg(short = 'd', long, default_value = "10s", value_parser = wrk_time)]
    pub(crate) duration: Span,
    /// Lua script with wrk's API: requests, delays, what to do with answers, a report of its own
    #[arg(short = 's', long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Header added to every request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// A request unanswered for longer counts as a timeout, once
    #[arg(short = 'T', long, default_value = "2s", value_parser = wrk_time)]
    pub(crate) timeout: Span,
    /// Requests per second (open loop); without it each connection asks again as soon as it is answered
    #[arg(short = 'R', long)]
    pub(crate) rate: Option<Rate>,
    /// With --format wrk, print the latency distribution; the other formats always do
    #[arg(short = 'L', long)]
    pub(crate) latency: bool,
    /// With --format wrk and --rate, print the latencies counted from when requests were really sent, too
    #[arg(short = 'U', long = "u_latency")]
    pub(crate) uncorrected_latency: bool,
    /// Where a script returns several requests at once, time only the last answer to them
    #[arg(short = 'B', long = "batch_latency")]
    pub(crate) batch_latency: bool,
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
    #[command(flatten)]
    pub(crate) asking: AskingArgs,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
    #[command(flatten)]
    pub(crate) sharding: ShardingArgs,
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
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = LoadFormat::Text, overrides_with = "format")]
    pub(crate) format: LoadFormat,
    /// One JSON object a line, as things happen: how `compare` follows its generator
    #[arg(long, hide = true)]
    pub(crate) events: bool,
    /// Longest warm-up: go on past --warmup until the rate is steady
    #[arg(long, hide = true)]
    pub(crate) warmup_until: Option<Span>,
    /// The program in whose place this was called
    #[arg(long, hide = true, value_enum)]
    pub(crate) called: Option<Called>,
    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    /// Where to, such as <http://127.0.0.1:8080/path>, or https://
    pub(crate) url: String,
    /// What the script's init() is given, after --
    #[arg(value_name = "SCRIPT ARG")]
    pub(crate) script_args: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  whyslow load --shard 0/2 --save a -R 10k http://127.0.0.1:8080/ &\n  whyslow load --shard 1/2 --save b -R 10k http://127.0.0.1:8080/ & wait\n  whyslow merge a b"
)]
pub(crate) struct MergeArgs {
    /// Directories that `whyslow load --save` wrote
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Condition on the merged figures that makes the exit code 3: 'p99 > 10ms', 'errors > 0' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Keep the merged shards in this directory, to be merged again
    #[arg(long, value_name = "RUN")]
    pub(crate) save: Option<PathBuf>,
    /// Write the latencies as an HdrHistogram log (V2)
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    /// Write the percentile distribution as HdrHistogram prints it
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
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
    List,
    /// What a case asks, measures and claims, and how it is fitted to this machine
    Show {
        /// The case
        name: String,
    },
    /// Build, measure, and hold the figures against the published ones
    Run(CaseRunArgs),
}

#[derive(Debug, Args)]
#[command(after_help = CASE_EXAMPLE)]
pub(crate) struct CaseRunArgs {
    /// The case
    pub(crate) name: String,
    /// 6 blocks with windows of 3 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// One block with windows of 1 s, of targets that are built already: shows that everything works, decides nothing
    #[arg(long, conflicts_with = "quick")]
    pub(crate) smoke: bool,
    /// Only this comparison of the case; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) comparison: Vec<String>,
    /// Count instructions per function under valgrind too
    #[arg(long)]
    pub(crate) callgrind: bool,
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
    /// How long
    #[arg(short = 'd', long, default_value = "10s")]
    pub(crate) duration: Span,
    /// Sample where its CPU time goes
    #[arg(long)]
    pub(crate) profile: bool,
    /// Sample where its threads wait, and for how long
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
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow doctor --format json")]
pub(crate) struct DoctorArgs {
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
    /// whyslow capacity
    Capacity,
    /// whyslow watch
    Watch,
    /// whyslow case run
    Case,
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

const CAPACITY_EXAMPLE: &str = "\
Examples:
  whyslow capacity futures --slo 'p99 < 10ms'
      a target, started on the first half of the CPUs
  whyslow capacity http://127.0.0.1:8080/users --slo 'p99.9 < 50ms' -c 256
      a server that already runs";

#[derive(Debug, Args)]
#[command(after_help = CAPACITY_EXAMPLE)]
pub(crate) struct CapacityArgs {
    /// A target (NAME or NAME@VARIANT), NAME='COMMAND with {port}', or a URL
    #[arg(value_name = "TARGET|URL")]
    pub(crate) target: String,
    /// What must hold: FIGURE < VALUE, such as 'p99 < 10ms'
    #[arg(long, value_name = "CONDITION", default_value = "p99 < 10ms")]
    pub(crate) slo: String,
    /// Path of a target [default: the target's own]
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Connections over all threads
    #[arg(short = 'c', long, default_value_t = 64)]
    pub(crate) connections: u32,
    /// Generator threads
    #[arg(short = 't', long, default_value_t = 1)]
    pub(crate) threads: u32,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: u32,
    /// Length of a window of the search; the confirming one is three times as long
    #[arg(long, default_value = "5s")]
    pub(crate) window: Span,
    /// Load before each window
    #[arg(long, default_value = "1s")]
    pub(crate) warmup: Span,
    /// A request unanswered for longer counts as a timeout
    #[arg(long, default_value = "2s")]
    pub(crate) timeout: Span,
    /// Arrivals
    #[arg(long, value_enum, default_value_t = Arrival::Poisson)]
    pub(crate) arrival: Arrival,
    /// First rate that is tried [default: a sixteenth of what the closed loop answers]
    #[arg(long, value_name = "RATE")]
    pub(crate) from: Option<Rate>,
    /// Highest rate that is tried
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,
    /// How narrow the answer must be, as a share
    #[arg(long, default_value_t = 0.05)]
    pub(crate) precision: f64,
    /// CPUs of the generator [default: the second half where a target is started, all otherwise]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Rates that change within the window.
#[derive(Debug, Default, Args)]
#[group(id = "changing", multiple = false, conflicts_with = "rate")]
pub(crate) struct RateArgs {
    /// A rate that grows or falls evenly over the window
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) ramp: Option<Ramp>,
    /// Rates one after another, each for an equal part of the window
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub(crate) steps: Vec<Rate>,
    /// File of rates: RATE DURATION on each line, such as 20k 5s; the last one stays
    #[arg(long, value_name = "FILE")]
    pub(crate) rates: Option<PathBuf>,
}

/// What becomes of the figures.
#[derive(Debug, Default, Args)]
pub(crate) struct KeepArgs {
    /// Condition that makes the exit code 3: 'p99 > 10ms', 'errors > 0', 'rate < 30k', 'service.p50 > 1ms' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Write the window second by second as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the figures in Prometheus' text format
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Write the figures as OpenTelemetry metrics (OTLP/JSON, one line)
    #[arg(long, value_name = "FILE")]
    pub(crate) otlp: Option<PathBuf>,
    /// Show rate, percentiles and errors second by second in the terminal
    #[arg(long)]
    pub(crate) live: bool,
}
