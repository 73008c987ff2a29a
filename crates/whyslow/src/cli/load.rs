//! Flags of the generator.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{ArgAction, Args, ValueEnum};
use model::plan::Machine;
use model::units::{CpuSet, Rate, Span};

use super::{Arrival, Format, RequestArgs};
use crate::load_command::pace::Ramp;
use crate::load_command::push::{self, Receiver};
use crate::sharding::ShardingArgs;

/// Windows of one load at most: each leaves its histograms, a few hundred KiB, until the last is over.
const MAX_REPEATS: i64 = 1000;

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
pub(super) fn wrk_time(text: &str) -> Result<Span, String> {
    let alone = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = if alone { format!("{text}s") } else { text.to_owned() };
    text.parse().map_err(|error: model::units::ParseError| error.to_string())
}

/// A number as wrk reads it: 2k is 2000.
fn wrk_count(text: &str) -> Result<u32, String> {
    let scales = [('k', 1_000), ('m', 1_000_000)];
    let found = scales.iter().find(|(letter, _)| text.to_ascii_lowercase().ends_with(*letter));
    let (digits, scale) = found.map_or((text, 1), |(_, scale)| (&text[..text.len() - 1], *scale));
    let number = digits.parse::<u32>().ok().and_then(|number| number.checked_mul(scale));
    number.ok_or_else(|| format!("'{text}' is not a number: write such as 64, 2k or 1M"))
}

const LOAD_EXAMPLE: &str = "\
Examples:
  whyslow load -t1 -c64 -d10s http://127.0.0.1:8080/
      closed loop, like wrk
  whyslow load -c64 -d30s -R 20k --arrival poisson --format json http://127.0.0.1:8080/
      open loop at 20 000 requests a second
  whyslow load -c64 -R 100k --load-on ssh://me@gen1 --load-on ssh://me@gen2 http://10.0.0.7:8080/
      two machines, each with half of the connections and half of the requests
  whyslow load -s docs/examples/lua/counter.lua http://127.0.0.1:8080
      requests from a script with wrk's Lua API; started under the name wrk or wrk2, whyslow takes that program's command line";

#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLE, version, disable_version_flag = true)]
pub(crate) struct LoadArgs {
    /// Generator threads [default: 2, or 1 where only one CPU may be used]
    #[arg(short = 't', long, value_parser = wrk_count)]
    pub(crate) threads: Option<u32>,
    /// Connections over all threads
    #[arg(short = 'c', long, default_value_t = 10, value_parser = wrk_count)]
    pub(crate) connections: u32,
    /// How long to measure; a number without a unit is seconds
    #[arg(short = 'd', long, default_value = "10s", value_parser = wrk_time)]
    pub(crate) duration: Span,
    /// Requests per second (open loop); without it, each connection sends its next request as soon as it has its answer
    #[arg(short = 'R', long, conflicts_with = "replay")]
    pub(crate) rate: Option<Rate>,
    /// With --format wrk, print the latency distribution; the other formats always do
    #[arg(short = 'L', long)]
    pub(crate) latency: bool,
    /// With --format wrk and --rate, also print latencies that count from when requests were really sent
    #[arg(short = 'U', long = "u_latency")]
    pub(crate) uncorrected_latency: bool,
    /// If a script returns several requests at once, time only the last answer
    #[arg(short = 'B', long = "batch_latency")]
    pub(crate) batch_latency: bool,
    /// How requests are spaced in an open loop
    #[arg(long, value_enum, default_value_t = Arrival::Constant)]
    pub(crate) arrival: Arrival,
    /// Which connection sends a request when it is due: any idle one, or the one whose turn it is, as in wrk2
    #[arg(long, value_enum, default_value_t = ScheduleKind::Shared)]
    pub(crate) schedule: ScheduleKind,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pub(crate) pipeline: u32,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// Local addresses to connect from, in turn; each has its own range of ports
    #[arg(long = "source", value_name = "LIST", value_delimiter = ',', conflicts_with = "unix")]
    pub(crate) sources: Vec<IpAddr>,
    #[command(flatten)]
    pub(crate) sharding: ShardingArgs,
    /// Machine to run a load generator on, reached with ssh. Give it several times to divide connections and requests between machines;
    /// -t and --cpus apply to each of them, and the figures cover all of them
    #[arg(long, value_name = "ssh://[USER@]HOST", help_heading = "Several generators")]
    pub(crate) load_on: Vec<Machine>,
    /// Load for this long before measuring
    #[arg(long, default_value = "0s")]
    pub(crate) warmup: Span,
    /// Measure this many times, each with new connections and its own warm-up, and report all of them together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=MAX_REPEATS), conflicts_with_all = ["script", "save", "shard", "start_at"])]
    pub(crate) repeat: u32,
    /// Seed of the arrival times
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// CPUs of the load generator
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuSet>,
    /// How a thread waits for the next arrival or answer
    #[arg(long, value_enum, default_value_t = IdleKind::Sleep)]
    pub(crate) idle: IdleKind,
    /// In an open loop, let a request wait this long for others that are sent with it: this saves CPU time, and the wait is part of the
    /// send lag and the response time
    #[arg(long, value_name = "T", default_value = "0s")]
    pub(crate) slack: Span,
    /// Write the latencies as an HdrHistogram log (V2), second by second
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    #[command(flatten)]
    pub(crate) rates: RateArgs,
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = LoadFormat::Text, overrides_with = "format")]
    pub(crate) format: LoadFormat,
    /// Print everything that is known, such as intervals, service times and the generator's CPU time
    #[arg(long)]
    pub(crate) details: bool,
    /// Read a job and commands from standard input, one JSON object per line: `compare` drives its generator this way
    #[arg(long, hide = true)]
    pub(crate) job: bool,
    /// The program under whose name this was started
    #[arg(long, hide = true, value_enum)]
    pub(crate) called: Option<Called>,
    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    /// The server, such as <http://127.0.0.1:8080/path>
    #[arg(required_unless_present = "job")]
    pub(crate) url: Option<String>,
    /// Arguments for the script's init(), after --
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
    /// Exit with code 3 if this holds for the merged figures: 'p99 > 10ms', 'errors > 0' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Save the merged result in this folder, so that it can be merged again
    #[arg(long, value_name = "RUN")]
    pub(crate) save: Option<PathBuf>,
    /// Write the latencies as an HdrHistogram log (V2)
    #[arg(long, value_name = "FILE")]
    pub(crate) hlog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Print everything that is known, such as intervals, service times and the generator's CPU time
    #[arg(long)]
    pub(crate) details: bool,
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
    /// In the kernel, with a nanosecond timer that allows for how late such timers are on this machine
    Sleep,
    /// In the kernel until shortly before the next arrival, then polling
    Spin,
    /// By polling all the time; the CPU figures leave out polling that found nothing
    Poll,
}

/// Rates that change within the window.
#[derive(Debug, Default, Args)]
#[group(id = "changing", multiple = false, conflicts_with_all = ["rate", "replay"])]
pub(crate) struct RateArgs {
    /// A rate that grows or falls evenly over the window
    #[arg(long, value_name = "FROM..TO")]
    pub(crate) ramp: Option<Ramp>,
    /// Rates one after another, each for an equal part of the window
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    pub(crate) steps: Vec<Rate>,
    /// File of rates: RATE DURATION on each line, such as 20k 5s; the last rate continues to the end
    #[arg(long, value_name = "FILE")]
    pub(crate) rates: Option<PathBuf>,
}

/// Files of the figures, of one generator or of several that were merged.
#[derive(Debug, Args)]
pub(crate) struct FigureArgs {
    /// Write the percentile distribution in HdrHistogram's format
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write the window second by second as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the figures in Prometheus' text format
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
    /// Write the figures as OpenTelemetry metrics (OTLP/JSON, one line), or send them to the collector at this http:// URL; load also sends
    /// them while it runs
    #[arg(long, value_name = "FILE|URL")]
    pub(crate) otlp: Option<PathBuf>,
}

impl FigureArgs {
    /// Whether `--otlp` is a URL.
    pub(crate) fn sends_otlp(&self) -> bool {
        self.otlp.as_ref().and_then(|otlp| otlp.to_str()).is_some_and(|otlp| otlp.contains("://"))
    }

    /// The collector of `--otlp`, where that is no file.
    pub(crate) fn otlp_receiver(&self) -> anyhow::Result<Option<Receiver>> {
        let url = self.otlp.as_ref().and_then(|otlp| otlp.to_str()).filter(|_| self.sends_otlp());
        url.map(|url| Receiver::read(push::Format::Otlp, url).context("--otlp")).transpose()
    }
}

/// What becomes of the figures.
#[derive(Debug, Default, Args)]
pub(crate) struct KeepArgs {
    /// Exit with code 3 if this holds: 'p99 > 10ms', 'errors > 0', 'rate < 30k', 'service.p50 > 1ms' …
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub(crate) fail_if: Vec<String>,
    /// Show rate, percentiles and errors second by second in the terminal
    #[arg(long)]
    pub(crate) live: bool,
    /// Watch the memory and descriptors of the server on this machine, and report how much they grow per hour, with an interval.
    /// --fail-if 'rss_slope > 1MiB/h' and 'descriptors_slope > 10/h' hold where the whole interval does; with the bound inside it the window
    /// was too short to tell, and the exit code is 4
    #[arg(long)]
    pub(crate) soak: bool,
    /// While the load runs, serve its figures for Prometheus at /metrics, on this port of 127.0.0.1 or on this address
    #[arg(long, value_name = "PORT|ADDRESS")]
    pub(crate) metrics_port: Option<String>,
    /// While the load runs, send its figures to Prometheus by remote write at this URL, such as
    /// <http://127.0.0.1:9090/api/v1/write>
    #[arg(long, value_name = "URL")]
    pub(crate) remote_write: Option<String>,
}

impl KeepArgs {
    /// The Prometheus of `--remote-write`.
    pub(crate) fn remote_write_receiver(&self) -> anyhow::Result<Option<Receiver>> {
        let url = self.remote_write.as_deref();
        url.map(|url| Receiver::read(push::Format::RemoteWrite, url).context("--remote-write")).transpose()
    }
}
