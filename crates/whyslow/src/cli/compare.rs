//! Flags of the commands that start servers and hold them against each other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::plan::{Machine, Service};
use model::units::{CpuSet, Rate, Span};

use super::{Format, RequestArgs};

const COMPARE_EXAMPLE: &str = "\
Examples:
  whyslow compare
      the built-in servers, quick
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --path /users
      two builds of one service
  whyslow compare main=git:main pr=git:. --build make --run './server --port {port}'
      what a branch and the work tree build; the second time nothing is built
  whyslow compare main=podman:shop:2.0 pr=podman:shop:2.1 --run './server --port {port}'
      two images in containers (WHYSLOW_PODMAN_FLAGS and WHYSLOW_PODMAN_RUN_FLAGS have more words for podman and for its run)
  whyslow compare main=compose:main.yaml#web pr=compose:pr.yaml#web
      a service of two compose files, with the services beside it; the file is told its ports in PORT and, for a service db, DB_PORT
  whyslow compare warp fasthttp --pipeline 16 --fail-if 'fasthttp slower'
      two targets of targets/; exit code 3 if the condition holds
  whyslow compare main='./old --bind {host}:{port}' pr='./new --bind {host}:{port}' --on ssh://me@big
      servers on another machine, the generator here
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --fail-if 'pr syscalls > 1.05x' --comment comment.md
      two builds in CI: what to post on the pull request";

#[derive(Debug, Clone, Args)]
#[command(after_help = COMPARE_EXAMPLE)]
pub(crate) struct CompareArgs {
    /// Targets (NAME or NAME@VARIANT), commands (NAME='COMMAND with {port}'; {tmp} is a directory of its own, gone when it is),
    /// states of the git repository here (NAME=git:REF, NAME=git:. for the work tree), images (NAME='podman:IMAGE COMMAND with
    /// {port}', NAME=docker:IMAGE), services of compose files (NAME=compose:FILE#SERVICE) or servers that run already
    /// (NAME=http://127.0.0.1:PORT/PATH); none: the built-in servers, quick
    #[arg(value_name = "TARGET|NAME=WHAT")]
    pub(crate) arms: Vec<String>,
    /// Of a ladder: arms with one step's change alone, by the step.
    #[arg(skip)]
    pub(crate) steps_alone: BTreeMap<String, String>,
    /// A command as one more arm: NAME='COMMAND with {port}'
    #[arg(long = "cmd", value_name = "NAME=COMMAND")]
    pub(crate) commands: Vec<String>,
    /// Of arms from git: the shell line that builds one, in its folder; {build} is a folder for what it makes
    #[arg(long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// Of arms from git: the command that starts one, in its folder; of images: what stands behind IMAGE
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// What the command line leaves open [default, for arms from git: whyslow.toml here or above in the repository]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder of the file above, where there is one.
    #[arg(skip)]
    pub(crate) folder: Option<PathBuf>,
    /// What the file has run beside the arms.
    #[arg(skip)]
    pub(crate) services: Vec<Service>,
    /// Of an arm that runs already: the process whose CPU time is its own, with its children [default: who listens there]
    #[arg(long, value_name = "[NAME=]PID")]
    pub(crate) watch_pid: Vec<String>,
    /// Of an arm that runs already: the unit or cgroup whose CPU time is its own
    #[arg(long, value_name = "[NAME=]UNIT")]
    pub(crate) watch_unit: Vec<String>,
    /// Path that is asked for; a target's own where none is given
    #[arg(long)]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Connections, all open before the window [default: 64; fewer for slow servers that are full]
    #[arg(long)]
    pub(crate) connections: Option<u32>,
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
    /// Blocks of fresh servers, looked at once; without it looks after 8, 14 and 24, and the first that decides is the last
    #[arg(long, conflicts_with_all = ["quick", "rigorous"])]
    pub(crate) blocks: Option<u32>,
    /// 8 to 32 short blocks, the more the cheaper starting them is, and one look: some 40 s for two servers, and 15 s for the causes
    #[arg(long, conflicts_with = "rigorous")]
    pub(crate) quick: bool,
    /// How long one arm is loaded before it is the next one's turn [default: 50ms; 200ms with a just-in-time compiler; longer for slow servers]
    #[arg(long, conflicts_with_all = ["alone", "window"])]
    pub(crate) slice: Option<Span>,
    /// Slices of each arm in a block, under each condition [default: 24, fewer where they are longer, 6 at least]
    #[arg(long, value_name = "N", conflicts_with_all = ["alone", "window"])]
    pub(crate) cycles: Option<u32>,
    /// One arm at a time, for what cannot live together and for what takes longer than a slice
    #[arg(long)]
    pub(crate) alone: bool,
    /// A second copy of the baseline in every block, which measures the noise floor
    #[arg(long)]
    pub(crate) rigorous: bool,
    /// Length of the window of an arm alone; asks for --alone [default: 10s; 3s with --quick]
    #[arg(long)]
    pub(crate) window: Option<Span>,
    /// Shortest warm-up of an arm, its own turns only [default: 1s, 5s with a just-in-time compiler; with --quick 150ms and 2s]
    #[arg(long)]
    pub(crate) warmup: Option<Span>,
    /// Longest warm-up; an arm that is not steady by then is said to be so [default: 10s, 1m with a just-in-time compiler;
    /// with --quick 2s and 20s]
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
    /// Machine that the arms run on, reached by this system's ssh: their commands are of that machine, {host} is its address
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) on: Option<Machine>,
    /// Machine that the generator runs on, reached by this system's ssh; given several times, each drives a part of the connections
    /// and of the arrivals
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) load_on: Vec<Machine>,
    /// Address at which the generator reaches the servers' machine, where the two are not one [default: the one by which ssh
    /// reached it]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server_address: Option<IpAddr>,
    /// Arm that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Seed of order, ports, padding and arrivals [default: a random one, recorded]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Commands read their port from PORT in the environment
    #[arg(long)]
    pub(crate) port_env: bool,
    /// What shows that an arm is ready: a path, whose GET is answered with a status below 500, or a command that ends with
    /// status 0 [default: an answer to the first request, or any to a GET of / if that is no GET]
    #[arg(long, value_name = "PATH|CMD")]
    pub(crate) ready: Option<String>,
    /// Status that commands must answer with [default: 200; any below 400 to the requests of a file]
    #[arg(long)]
    pub(crate) expect_status: Option<u16>,
    /// File with the body that commands must answer with
    #[arg(long, value_name = "FILE")]
    pub(crate) expect_body: Option<PathBuf>,
    /// How alike the answers of arms must be
    #[arg(long, value_enum, default_value_t = Same::Shape)]
    pub(crate) same: Same,
    /// Go on where the arms answer differently
    #[arg(long)]
    pub(crate) allow_difference: bool,
    /// Stop at the verdict
    #[arg(long)]
    pub(crate) no_why: bool,
    /// Put the causes named to the test: measure again with each taken away
    #[arg(long, conflicts_with = "no_why")]
    pub(crate) confirm: bool,
    #[command(flatten)]
    pub(crate) judged: JudgedArgs,
    /// Directory of the run [default: whyslow-runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Everything that is known, behind the first screen
    #[arg(long)]
    pub(crate) details: bool,
    /// Print the plan and start nothing
    #[arg(long, conflicts_with = "verify")]
    pub(crate) list: bool,
    /// Start each arm once, check its answers, and stop
    #[arg(long)]
    pub(crate) verify: bool,
}

impl CompareArgs {
    /// Whether something runs on another machine.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.on.is_some() || !self.load_on.is_empty()
    }
}

/// What is made of the findings of a comparison, beside the page.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct JudgedArgs {
    /// Condition that makes the exit code 3: 'NAME slower', 'NAME slower in p99', 'NAME syscalls > 1.05x' (times the
    /// baseline's), 'NAME context_switches > +0.1' (more than the baseline's), 'NAME p99 > 20ms' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// File for a comment on a pull request: Markdown of at most 30 lines, the first of which is a marker
    #[arg(long, value_name = "FILE")]
    pub(crate) comment: Option<PathBuf>,
    /// File for CI that shows tests: JUnit XML, a test for each arm and primary metric and one for each condition
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

const LADDER_EXAMPLE: &str = "\
Example:
  whyslow ladder warp --steps lto,lto-jemalloc,lto-jemalloc-pipeline --quick
      what each step brings, and whether their product is the whole
  whyslow ladder git:v1.0 --steps v1.1,v1.2,main --build make --run './server --port {port}'
      what each release brought
  whyslow ladder warp --each
      and what each brings by itself: whether one takes from another";

#[derive(Debug, Args)]
#[command(after_help = LADDER_EXAMPLE)]
#[command(mut_arg("arms", |arg| arg.hide(true)), mut_arg("commands", |arg| arg.hide(true)))]
#[command(mut_arg("details", |arg| arg.hide(true)), mut_arg("on", |arg| arg.hide(true)))]
#[command(mut_arg("load_on", |arg| arg.hide(true)), mut_arg("server_address", |arg| arg.hide(true)))]
pub(crate) struct LadderArgs {
    /// The target whose variants are climbed; or git:REF, with later states of the git repository here as its steps; or podman:IMAGE,
    /// docker:IMAGE or compose:FILE#SERVICE with others of its kind
    #[arg(value_name = "TARGET|git:REF|podman:IMAGE")]
    pub(crate) target: String,
    /// Variants in order, each holding those before it [default: all of the target's, in its file's order]; or revisions, images or services of compose files
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub(crate) steps: Vec<String>,
    /// Measure the change of each step by itself, too, where the target has a variant for it: what steps do to each other
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) design: CompareArgs,
}

/// How alike answers must be; each asks for what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Same {
    /// The same status
    Status,
    /// Names of fields, content type, keys and types of JSON; other bodies within 2 % of the length
    Shape,
    /// The same bytes
    Body,
}

const BISECT_EXAMPLE: &str = "\
Example:
  whyslow bisect v1.2..main --build make --run './server --port {port}' --path /users
      the commit between the two that made it slower; the same command goes on after an interruption";

#[derive(Debug, Args)]
#[command(after_help = BISECT_EXAMPLE)]
#[command(mut_arg("arms", |arg| arg.hide(true)), mut_arg("commands", |arg| arg.hide(true)))]
#[command(mut_arg("details", |arg| arg.hide(true)), mut_arg("baseline", |arg| arg.hide(true)))]
#[command(mut_arg("fail_if", |arg| arg.hide(true)), mut_arg("comment", |arg| arg.hide(true)))]
#[command(mut_arg("junit", |arg| arg.hide(true)), mut_arg("verify", |arg| arg.hide(true)))]
#[command(mut_arg("rigorous", |arg| arg.hide(true)), mut_arg("confirm", |arg| arg.hide(true)))]
#[command(mut_arg("load_on", |arg| arg.hide(true)), mut_arg("server_address", |arg| arg.hide(true)))]
#[command(mut_arg("on", |arg| arg.hide(true)))]
pub(crate) struct BisectArgs {
    /// A commit at which it was fast and a later one at which it is slow
    #[arg(value_name = "GOOD..BAD")]
    pub(crate) range: String,
    /// What became worse: cpu_per_request, rate, p50, p90, p99, p99_9 or rss
    #[arg(long, default_value = "cpu_per_request")]
    pub(crate) metric: String,
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

const CAPACITY_EXAMPLE: &str = "\
Examples:
  whyslow capacity futures --slo 'p99 < 10ms'
      a target, started on the first half of the CPUs
  whyslow capacity pr=git:. --slo 'p99 < 10ms'
      what the work tree builds, as its whyslow.toml says, with the services that it needs
  whyslow capacity podman:shop:2.1 --run './server --port {port}'
      an image in a container
  whyslow capacity http://127.0.0.1:8080/users --slo 'p99.9 < 50ms' -c 256
      a server that already runs
  whyslow capacity http://10.0.0.7:8080/ --load-on ssh://me@gen1 --load-on ssh://me@gen2
      one that needs more load than a single machine sends";

#[derive(Debug, Clone, Args)]
#[command(after_help = CAPACITY_EXAMPLE)]
pub(crate) struct CapacityArgs {
    /// A target (NAME or NAME@VARIANT), NAME='COMMAND with {port}', a state of the git repository here (git:REF, git:. for the work
    /// tree), an image ('podman:IMAGE COMMAND with {port}', docker:IMAGE), a service of a compose file (compose:FILE#SERVICE), or a
    /// URL
    #[arg(value_name = "TARGET|URL")]
    pub(crate) target: String,
    /// Of a state of git: the shell line that builds it, in its folder; {build} is a folder for what it makes
    #[arg(long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// Of a state of git: the command that starts it, in its folder; of an image: what stands behind IMAGE
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// A command reads its port from PORT in the environment
    #[arg(long)]
    pub(crate) port_env: bool,
    /// What the command line leaves open, services beside among it [default, for a state of git: whyslow.toml here or above in
    /// the repository]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder of the file above, where there is one.
    #[arg(skip)]
    pub(crate) folder: Option<PathBuf>,
    /// What the file has run beside.
    #[arg(skip)]
    pub(crate) services: Vec<Service>,
    /// What must hold: FIGURE < VALUE, such as 'p99 < 10ms'
    #[arg(long, value_name = "CONDITION", default_value = "p99 < 10ms")]
    pub(crate) slo: String,
    /// Path of a target [default: the target's own]
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// What shows that a target is ready: a path, whose GET is answered with a status below 500, or a command that ends with
    /// status 0
    #[arg(long, value_name = "PATH|CMD")]
    pub(crate) ready: Option<String>,
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
    #[command(flatten)]
    pub(crate) request: RequestArgs,
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
    /// Machine that a generator runs on, reached by this system's ssh, where a URL is searched; given several times, each drives a
    /// part of the connections and of the arrivals
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) load_on: Vec<Machine>,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Everything that was measured, behind what is read first
    #[arg(long)]
    pub(crate) details: bool,
}
