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
      the built-in servers, with --quick
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --path /users
      two builds of one service
  whyslow compare main=git:main pr=git:. --build make --run './server --port {port}'
      a branch and the working tree; nothing is built a second time
  whyslow compare main=podman:shop:2.0 pr=podman:shop:2.1 --run './server --port {port}'
      two images in containers (WHYSLOW_PODMAN_FLAGS and WHYSLOW_PODMAN_RUN_FLAGS add flags for podman and for its run command)
  whyslow compare main=compose:main.yaml#web pr=compose:pr.yaml#web
      a service in two compose files, with the other services of each; a file reads its ports from PORT and, for a service db, DB_PORT
  whyslow compare warp fasthttp --pipeline 16 --fail-if 'fasthttp slower'
      two servers from targets/; exit code 3 if the condition holds
  whyslow compare main='./old --bind {host}:{port}' pr='./new --bind {host}:{port}' --on ssh://me@big
      servers on another machine, the load generator here
  whyslow compare main='./old --port {port}' pr='./new --port {port}' --fail-if 'pr syscalls > 1.05x' --comment comment.md
      two builds in CI, with a comment for the pull request";

#[derive(Debug, Clone, Args)]
#[command(after_help = COMPARE_EXAMPLE)]
pub(crate) struct CompareArgs {
    /// The servers to compare, the baseline first: targets (NAME or NAME@VARIANT), commands (NAME='COMMAND with {port}'; {tmp} is a
    /// folder of the server's own, removed when it ends), revisions of the git repository here (NAME=git:REF, NAME=git:. for the
    /// working tree), images (NAME='podman:IMAGE COMMAND with {port}', NAME=docker:IMAGE), services in compose files
    /// (NAME=compose:FILE#SERVICE) or servers that are already running (NAME=http://127.0.0.1:PORT/PATH) [default: the built-in
    /// servers, with --quick]
    #[arg(value_name = "TARGET|NAME=WHAT")]
    pub(crate) arms: Vec<String>,
    /// Of a ladder: arms with one step's change alone, by the step.
    #[arg(skip)]
    pub(crate) steps_alone: BTreeMap<String, String>,
    /// One more server, as a command: NAME='COMMAND with {port}'
    #[arg(long = "cmd", value_name = "NAME=COMMAND")]
    pub(crate) commands: Vec<String>,
    /// For arms from git: the shell command that builds one, in its folder; {build} is a folder for its output
    #[arg(long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// For arms from git: the command that starts one, in its folder; for images: the command that follows IMAGE
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// File with settings that the command line does not give [default, for arms from git: whyslow.toml in this folder or one above it
    /// in the repository]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder of the file above, where there is one.
    #[arg(skip)]
    pub(crate) folder: Option<PathBuf>,
    /// What the file has run beside the arms.
    #[arg(skip)]
    pub(crate) services: Vec<Service>,
    /// For a server that is already running: the process, with its children, whose CPU time is measured [default: the process that
    /// listens there]
    #[arg(long, value_name = "[NAME=]PID")]
    pub(crate) watch_pid: Vec<String>,
    /// For a server that is already running: the systemd unit or cgroup whose CPU time is measured
    #[arg(long, value_name = "[NAME=]UNIT")]
    pub(crate) watch_unit: Vec<String>,
    /// Path to request [default: the target's own]
    #[arg(long)]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Connections, all opened before the measurement [default: 64; fewer if a slow server cannot serve so many]
    #[arg(long)]
    pub(crate) connections: Option<u32>,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: u32,
    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) no_keep_alive: bool,
    /// 'max': a closed loop, then the same rate for every arm; a number: only that rate
    #[arg(long, default_value = "max", value_name = "max|N")]
    pub(crate) rate: String,
    /// With --rate max: the equal rates, in percent of the slowest arm's capacity, or 'none'
    #[arg(long, default_value = "25", value_name = "LIST|none")]
    pub(crate) equal_rates: String,
    /// How requests are spaced at an equal rate
    #[arg(long, value_enum, default_value_t = Arrival::Constant)]
    pub(crate) arrival: Arrival,
    /// Judge once, after this many blocks; each block starts fresh servers [default: judge after 8, 14 and 24 blocks, and stop at the
    /// first that decides]
    #[arg(long, conflicts_with_all = ["quick", "rigorous"])]
    pub(crate) blocks: Option<u32>,
    /// Judge once, after 8 to 32 short blocks, more of them if the servers are cheap to start: about 40 s for two servers, and 15 s for
    /// the causes
    #[arg(long, conflicts_with = "rigorous")]
    pub(crate) quick: bool,
    /// How long an arm is loaded before the next one has its turn [default: 20ms to 50ms by how fast the servers are; 200ms with
    /// a just-in-time compiler; longer for slow servers and for servers that stop answering now and then]
    #[arg(long, conflicts_with_all = ["alone", "window"])]
    pub(crate) slice: Option<Span>,
    /// Turns of each arm in a block, under each condition [default: 24 of 50ms, or as many as take as long, but at least 6; the
    /// first block then runs for 7.5 s, to find servers that stop answering now and then]
    #[arg(long, value_name = "N", conflicts_with_all = ["alone", "window"])]
    pub(crate) cycles: Option<u32>,
    /// Run one arm at a time: for servers that cannot run together, and for work that takes longer than a slice
    #[arg(long)]
    pub(crate) alone: bool,
    /// Add a second copy of the baseline to every block, to measure the noise floor
    #[arg(long)]
    pub(crate) rigorous: bool,
    /// How long an arm is loaded when it runs alone, at least; implies --alone [default: 10s; 3s with --quick; up to 30s for servers that
    /// stop answering now and then]
    #[arg(long)]
    pub(crate) window: Option<Span>,
    /// Shortest warm-up of an arm, counting only its own turns [default: 1s, or 5s with a just-in-time compiler; with --quick 150ms or
    /// 1s]
    #[arg(long)]
    pub(crate) warmup: Option<Span>,
    /// Longest warm-up; the report names an arm that is not steady by then [default: 10s, or 1m with a just-in-time compiler; with --quick
    /// 2s or 6s]
    #[arg(long)]
    pub(crate) warmup_cap: Option<Span>,
    /// Longest wait for a server's first correct answer
    #[arg(long, default_value = "1m")]
    pub(crate) ready_limit: Span,
    /// CPUs of the servers [default: the first half of those allowed]
    #[arg(long, value_name = "LIST")]
    pub(crate) server_cpus: Option<CpuSet>,
    /// CPUs of the load generator [default: the others]
    #[arg(long, value_name = "LIST")]
    pub(crate) load_cpus: Option<CpuSet>,
    /// Machine to run the arms on, reached with ssh: their commands are those of that machine, and {host} is its address
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) on: Option<Machine>,
    /// Machine to run the load generator on, reached with ssh; give it several times to divide connections and requests between machines
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) load_on: Vec<Machine>,
    /// Address at which the load generator reaches the servers' machine, if it is another one [default: the address that ssh used]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) server_address: Option<IpAddr>,
    /// The arm that the others are compared with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Seed for order, ports, padding and arrivals [default: random, and recorded]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Commands read their port from the environment variable PORT, or listen on one that cannot be changed
    #[arg(long)]
    pub(crate) port_env: bool,
    /// How to tell that an arm is ready: a path that answers GET with a status below 500, or a command that ends with status 0 [default:
    /// the first request is answered; if it is not a GET, a GET of / is answered]
    #[arg(long, value_name = "PATH|CMD")]
    pub(crate) ready: Option<String>,
    /// Status that commands must answer with [default: 200; for requests from a file, any below 400]
    #[arg(long)]
    pub(crate) expect_status: Option<u16>,
    /// File with the body that commands must answer with
    #[arg(long, value_name = "FILE")]
    pub(crate) expect_body: Option<PathBuf>,
    /// How strictly the answers of the arms must agree
    #[arg(long, value_enum, default_value_t = Same::Shape)]
    pub(crate) same: Same,
    /// Compare arms even if their answers differ
    #[arg(long)]
    pub(crate) allow_difference: bool,
    /// Do not look for causes
    #[arg(long)]
    pub(crate) no_why: bool,
    /// Test the causes found: measure again with each one taken away
    #[arg(long, conflicts_with = "no_why")]
    pub(crate) confirm: bool,
    #[command(flatten)]
    pub(crate) judged: JudgedArgs,
    /// Folder for the run [default: whyslow-runs/ID]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print everything that is known, not only the first screen
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
    /// Exit with code 3 if this holds: 'NAME slower', 'NAME slower in p99', 'NAME syscalls > 1.05x' (times the baseline's), 'NAME
    /// context_switches > +0.1' (more than the baseline's), 'NAME p99 > 20ms' …; conditions of fail_if in a whyslow.toml apply, too
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Conditions of the whyslow.toml.
    #[arg(skip)]
    pub(crate) fail_if_of_file: Vec<String>,
    /// Hold counts of --fail-if, such as 'NAME syscalls > 1.05x', against the arm of the same name in this stored run in place of the
    /// baseline; a run of another machine makes them void (exit code 5)
    #[arg(long, value_name = "RUN")]
    pub(crate) against: Option<PathBuf>,
    /// Write a comment for a pull request: at most 30 lines of Markdown, the first of which is a marker
    #[arg(long, value_name = "FILE")]
    pub(crate) comment: Option<PathBuf>,
    /// Where the page is kept, such as the artefacts of a job in CI: the comment has a link there
    #[arg(long, value_name = "URL", requires = "comment", value_parser = link)]
    pub(crate) comment_link: Option<String>,
    /// Write JUnit XML for CI: a test for each arm and primary metric, and one for each condition
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
}

/// An address that a comment can link to as it is.
fn link(text: &str) -> Result<String, String> {
    let is_whole = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = !text.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>'));
    match is_whole && is_plain {
        true => Ok(text.to_owned()),
        false => Err("write a whole address without blanks, such as https://ci.example/run/7".to_owned()),
    }
}

const LADDER_EXAMPLE: &str = "\
Example:
  whyslow ladder warp --steps lto,lto-jemalloc,lto-jemalloc-pipeline --quick
      what each step gains, and whether the steps multiply to the whole
  whyslow ladder git:v1.0 --steps v1.1,v1.2,main --build make --run './server --port {port}'
      what each release gained
  whyslow ladder warp --each
      also what each step gains by itself, which shows whether steps depend on each other";

#[derive(Debug, Args)]
#[command(after_help = LADDER_EXAMPLE)]
#[command(mut_arg("arms", |arg| arg.hide(true)), mut_arg("commands", |arg| arg.hide(true)))]
#[command(mut_arg("details", |arg| arg.hide(true)), mut_arg("on", |arg| arg.hide(true)))]
#[command(mut_arg("load_on", |arg| arg.hide(true)), mut_arg("server_address", |arg| arg.hide(true)))]
pub(crate) struct LadderArgs {
    /// The server to begin with: a target whose variants are the steps, git:REF with later revisions as steps, or podman:IMAGE,
    /// docker:IMAGE or compose:FILE#SERVICE with others of the same kind as steps
    #[arg(value_name = "TARGET|git:REF|podman:IMAGE")]
    pub(crate) target: String,
    /// The steps in order, each with the changes of those before it: variants, revisions, images or services in compose files [default:
    /// all variants of the target, in the order of its file]
    #[arg(long, value_delimiter = ',', value_name = "A,B,C")]
    pub(crate) steps: Vec<String>,
    /// Also measure the change of each step by itself, if the target has a variant for it, to see how the steps affect each other
    #[arg(long)]
    pub(crate) each: bool,
    #[command(flatten)]
    pub(crate) design: CompareArgs,
}

/// How strictly answers must agree; each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Same {
    /// The same status
    Status,
    /// The same header names, content type, and keys and types of JSON; other bodies within 2 % of the length
    Shape,
    /// The same bytes
    Body,
}

const BISECT_EXAMPLE: &str = "\
Example:
  whyslow bisect v1.2..main --build make --run './server --port {port}' --path /users
      find the commit between the two that made it slower; after an interruption, the same command continues";

#[derive(Debug, Args)]
#[command(after_help = BISECT_EXAMPLE)]
#[command(mut_arg("arms", |arg| arg.hide(true)), mut_arg("commands", |arg| arg.hide(true)))]
#[command(mut_arg("details", |arg| arg.hide(true)), mut_arg("baseline", |arg| arg.hide(true)))]
#[command(mut_arg("fail_if", |arg| arg.hide(true)), mut_arg("against", |arg| arg.hide(true)), mut_arg("comment", |arg| arg.hide(true)))]
#[command(mut_arg("comment_link", |arg| arg.hide(true)))]
#[command(mut_arg("junit", |arg| arg.hide(true)), mut_arg("verify", |arg| arg.hide(true)))]
#[command(mut_arg("rigorous", |arg| arg.hide(true)), mut_arg("confirm", |arg| arg.hide(true)))]
#[command(mut_arg("load_on", |arg| arg.hide(true)), mut_arg("server_address", |arg| arg.hide(true)))]
#[command(mut_arg("on", |arg| arg.hide(true)))]
pub(crate) struct BisectArgs {
    /// A commit at which the server was fast, and a later one at which it is slow
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
      a target, which is started on the first half of the CPUs
  whyslow capacity pr=git:. --slo 'p99 < 10ms'
      the working tree, built and started as its whyslow.toml says, with the services it needs
  whyslow capacity podman:shop:2.1 --run './server --port {port}'
      an image in a container
  whyslow capacity http://127.0.0.1:8080/users --slo 'p99.9 < 50ms' -c 256
      a server that is already running
  whyslow capacity http://10.0.0.7:8080/ --load-on ssh://me@gen1 --load-on ssh://me@gen2
      a server that needs more load than one machine can send";

#[derive(Debug, Clone, Args)]
#[command(after_help = CAPACITY_EXAMPLE)]
pub(crate) struct CapacityArgs {
    /// The server: a target (NAME or NAME@VARIANT), a command (NAME='COMMAND with {port}'), a revision of the git repository here
    /// (git:REF, git:. for the working tree), an image ('podman:IMAGE COMMAND with {port}', docker:IMAGE), a service in a compose file
    /// (compose:FILE#SERVICE), or a URL
    #[arg(value_name = "TARGET|URL")]
    pub(crate) target: String,
    /// For a revision: the shell command that builds it, in its folder; {build} is a folder for its output
    #[arg(long, value_name = "COMMAND")]
    pub(crate) build: Option<String>,
    /// For a revision: the command that starts it, in its folder; for an image: the command that follows IMAGE
    #[arg(long, value_name = "COMMAND")]
    pub(crate) run: Option<String>,
    /// The command reads its port from the environment variable PORT
    #[arg(long)]
    pub(crate) port_env: bool,
    /// File with settings that the command line does not give, and with the services that the server needs [default, for a revision:
    /// whyslow.toml in this folder or one above it in the repository]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder of the file above, where there is one.
    #[arg(skip)]
    pub(crate) folder: Option<PathBuf>,
    /// What the file has run beside.
    #[arg(skip)]
    pub(crate) services: Vec<Service>,
    /// The condition that must hold: FIGURE < VALUE, such as 'p99 < 10ms'
    #[arg(long, value_name = "CONDITION", default_value = "p99 < 10ms")]
    pub(crate) slo: String,
    /// Path to request from a target [default: the target's own]
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// How to tell that the server is ready: a path that answers GET with a status below 500, or a command that ends with status 0
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
    /// How long each rate is tried; the window that confirms the answer is three times as long, or as long as the condition needs, 2
    /// min at most
    #[arg(long, default_value = "5s")]
    pub(crate) window: Span,
    /// Warm-up before each window
    #[arg(long, default_value = "1s")]
    pub(crate) warmup: Span,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// How requests are spaced
    #[arg(long, value_enum, default_value_t = Arrival::Poisson)]
    pub(crate) arrival: Arrival,
    /// First rate to try [default: a sixteenth of the closed loop's rate]
    #[arg(long, value_name = "RATE")]
    pub(crate) from: Option<Rate>,
    /// Highest rate to try
    #[arg(long, value_name = "RATE")]
    pub(crate) max_rate: Option<Rate>,
    /// How closely to find the rate, as a share of it
    #[arg(long, default_value_t = 0.05)]
    pub(crate) precision: f64,
    /// CPUs of the load generator [default: the second half if a server is started, otherwise all]
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,
    /// For a URL: machine to run a load generator on, reached with ssh; give it several times to divide connections and requests between
    /// machines
    #[arg(long, value_name = "ssh://[USER@]HOST")]
    pub(crate) load_on: Vec<Machine>,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print everything that was measured, not only the summary
    #[arg(long)]
    pub(crate) details: bool,
}
