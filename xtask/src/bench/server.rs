//! straightline against other servers: the rows of its proof.

mod closing;
mod compared;
mod memory;
mod models;
mod uneven;
mod upload;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::page::Page;
use super::target::Cpus;
use super::whyslow::Instrument;
use crate::shell::run as run_words;

/// straightline, by its example `measured`, which answers what the targets answer.
const OURS: &str = "straightline";
/// Whom it is compared with: fast and lenient, common in Rust, C and Go; and last what no server can be faster than.
const PEERS: [&str; 9] = [
    "may-mini",
    "hyper-futures",
    "actix-web",
    "axum",
    "nginx",
    "h2o@plaintext",
    "fasthttp",
    "go-net-http",
    "epoll-limit",
];
/// Whom it is compared with under many connections: the servers of the published experiments (`docs/answers`).
const LATENCY_PEERS: [&str; 13] = [
    "hyper-threads",
    "hyper-coroutines",
    "hyper-futures@hyper011",
    "hyper-futures",
    "tokio-mini",
    "may-mini",
    "warp",
    "fasthttp",
    "h2o@plaintext",
    "akka-http",
    "nim",
    "wai",
    "cohttp-lwt",
];
/// Whom it is compared with where clients speak HTTP/2.
const HTTP2_PEERS: [&str; 1] = ["hyper-futures@http2"];
/// Those of a quick run: the ones that a bar is set by.
const QUICK_PEERS: [&str; 3] = ["may-mini", "hyper-futures", "epoll-limit"];

const PAGE: Page = Page::new(
    "server",
    "straightline against other servers",
    "Every server has one CPU and one worker, the load another CPU, on loopback. Servers take turns in blocks whose \
     order is drawn by a seed; ratios are from pairs within blocks (Hodges–Lehmann, exact Wilcoxon interval at 95 %, \
     or all pairs where there are fewer than six). All send the same 132 bytes, but for what their `target.toml` says. \
     `epoll-limit` copies a fixed answer and parses next to nothing. Repeat with `cargo xtask bench server [ROW…]`.",
);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// CPU per request, 64 connections kept alive
    KeepAlive,
    /// CPU per request, 16 requests in flight on each connection
    Pipeline,
    /// CPU per request, HTTP/2 with 16 streams on each connection
    Http2,
    /// CPU per request, ten requests on each connection
    Closing,
    /// p99.9 at 70 % of the slower one's knee, 10 000 connections
    Latency,
    /// Memory per idle connection, and per handler that waits
    Memory,
    /// Memory while a body of 1 GiB comes
    Upload,
    /// The same handler on coroutines and on threads
    Models,
    /// p99.9 where half of the connections were all on one of two shards
    Uneven,
}

const ROWS: [Row; 9] = [
    Row::KeepAlive,
    Row::Pipeline,
    Row::Http2,
    Row::Closing,
    Row::Latency,
    Row::Memory,
    Row::Upload,
    Row::Models,
    Row::Uneven,
];

impl Row {
    fn name(self) -> &'static str {
        match self {
            Self::KeepAlive => "keep-alive",
            Self::Pipeline => "pipeline",
            Self::Http2 => "http2",
            Self::Closing => "closing",
            Self::Latency => "latency",
            Self::Memory => "memory",
            Self::Upload => "upload",
            Self::Models => "models",
            Self::Uneven => "uneven",
        }
    }

    fn peers(self, quick: bool) -> &'static [&'static str] {
        match (self, quick) {
            (Self::Http2, _) => &HTTP2_PEERS,
            (Self::Uneven, _) => &[],
            (_, true) => &QUICK_PEERS,
            (Self::Latency, false) => &LATENCY_PEERS,
            (_, false) => &PEERS,
        }
    }
}

/// Arguments of `bench server`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What is measured; everything where nothing is said
    #[arg(value_enum)]
    rows: Vec<Row>,
    /// Few peers, two blocks, windows of one second: to see that it works, not to be believed, and not written to the page
    #[arg(long)]
    quick: bool,
    /// Blocks
    #[arg(long)]
    blocks: Option<u32>,
    /// Length of a window in seconds, of the row `closing`; in the others servers take turns
    #[arg(long)]
    window_s: Option<u32>,
    /// Peers, as `whyslow targets list` names them
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// The program that measures [default: a release build of this workspace]
    #[arg(long)]
    program: Option<PathBuf>,
}

impl Args {
    fn flags(&self) -> String {
        let said = |flag: &str, value: Option<u32>| value.map(|value| format!(" --{flag} {value}"));
        let peers = (!self.peers.is_empty()).then(|| format!(" --peers {}", self.peers.join(",")));
        let flags = [peers, said("blocks", self.blocks), said("window-s", self.window_s)];
        flags.into_iter().flatten().collect()
    }
}

/// How much is measured.
#[derive(Clone)]
struct Scale {
    blocks: u32,
    window_s: u32,
    warmup_s: u32,
    /// Of the rows with many connections.
    connections: usize,
    upload_mib: u64,
    /// straightline first.
    arms: Vec<String>,
    /// What was said beside the rows, as it was said.
    flags: String,
    instrument: Instrument,
}

impl Scale {
    fn from_args(args: &Args, row: Row, instrument: &Instrument) -> Self {
        let quick = args.quick;
        let usual = || row.peers(quick).iter().map(|peer| (*peer).to_owned()).collect();
        let peers: Vec<String> = if args.peers.is_empty() { usual() } else { args.peers.clone() };
        Self {
            blocks: args.blocks.unwrap_or(if quick { 2 } else { 6 }),
            window_s: args.window_s.unwrap_or(if quick { 1 } else { 5 }),
            warmup_s: if quick { 1 } else { 2 },
            connections: if quick { 2_000 } else { 10_000 },
            upload_mib: if quick { 128 } else { 1024 },
            arms: std::iter::once(OURS.to_owned()).chain(peers).collect(),
            flags: args.flags(),
            instrument: instrument.clone(),
        }
    }

    /// What each section says of how its figures came about.
    fn method(&self, row: Row) -> String {
        format!("`cargo xtask bench server {}{}`, {}", row.name(), self.flags, super::page::today())
    }
}

/// Measures the rows, and writes each to the page when it is done.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    run_words(&[
        "cargo",
        "build",
        "--quiet",
        "--release",
        "--package",
        "straightline",
        "--example",
        "measured",
    ])?;
    let instrument = Instrument::new(args.program.as_deref())?;
    let cpus = Cpus::halves()?;
    let rows = if args.rows.is_empty() { ROWS.to_vec() } else { args.rows.clone() };
    for row in rows {
        println!("== {}", row.name());
        let scale = Scale::from_args(args, row, &instrument);
        instrument.build(&scale.arms[1..])?;
        let section = match row {
            Row::KeepAlive => compared::keep_alive(&scale, &cpus)?,
            Row::Pipeline => compared::pipeline(&scale, &cpus)?,
            Row::Http2 => compared::http2(&scale, &cpus)?,
            Row::Latency => compared::latency(&scale, &cpus)?,
            Row::Closing => closing::section(&scale, &cpus)?,
            Row::Memory => memory::section(&scale, &cpus)?,
            Row::Upload => upload::section(&scale, &cpus)?,
            Row::Models => models::section(&scale, &cpus)?,
            Row::Uneven => uneven::section(&scale)?,
        };
        println!("{section}");
        if !args.quick {
            println!("written: {}", PAGE.keep(row.name(), &section, &ROWS.map(Row::name))?.display());
        }
    }
    Ok(())
}
