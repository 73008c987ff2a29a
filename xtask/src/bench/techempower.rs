//! straightline against other frameworks in TechEmpower's tests: the comparisons of a case, each a row of the page.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;
use model::plan::{CaseComparison, CaseFile};
use model::record::{Run, Window};

use super::blocks::Blocks;
use super::page::{Page, figure, table, today};
use super::target::Cpus;
use super::whyslow::Instrument;
use crate::shell::root;

const CASE: &str = "cases/techempower.toml";
/// The service beside the servers, as their targets call it.
const DATABASE: &str = "db";
const CONNECTIONS: &str = "64";

const PAGE: Page = Page::new(
    "techempower",
    "TechEmpower's tests",
    "What [the case `techempower`](../../cases/techempower.toml) asks, on one machine. The server has one CPU, which PostgreSQL 15 \
     shares with it, and one worker; the load has another CPU, on loopback. So a rate is that of server and database together, and \
     the CPU time of a request is the server's alone. Servers take turns in blocks whose order is drawn by a seed; ratios are from \
     pairs within blocks (Hodges–Lehmann, exact Wilcoxon interval at 95 %). Bar: in each test less CPU time for a request than every \
     peer, and at least its rate.\n\nThe targets in Rust have one connection to the database for each worker, which all its requests \
     use at once (straightline by `Pool::shared`); those in Go have a pool of 16. On a pool with a connection for each handler at a \
     time a query costs straightline a write and a read of its own. No peer is tuned further than its target says: allocators, \
     link-time optimisation and CPU-specific code are left as they come. Repeat with `cargo xtask bench techempower [TEST…]`.",
);

/// Arguments of `bench techempower`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Tests as the case names them; all where nothing is said
    tests: Vec<String>,
    /// Blocks
    #[arg(long, default_value_t = 8)]
    blocks: u32,
    /// Peers as the case names them; all of a test where nothing is said
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// Show the figures, and leave the page as it is
    #[arg(long)]
    dry: bool,
    /// The program that measures [default: a release build of this workspace]
    #[arg(long)]
    program: Option<PathBuf>,
}

impl Args {
    /// What was said, as it is said again.
    fn words(&self, test: &str) -> String {
        let peers =
            if self.peers.is_empty() { String::new() } else { format!(" --peers {}", self.peers.join(",")) };
        format!("cargo xtask bench techempower {test} --blocks {}{peers}", self.blocks)
    }
}

/// Measures the tests, and writes each to the page when it is done.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let text = fs::read_to_string(root().join(CASE)).with_context(|| format!("cannot read {CASE}"))?;
    let case: CaseFile = toml::from_str(&text).with_context(|| format!("{CASE} does not read"))?;
    let known: Vec<&str> = case.comparisons.iter().map(|test| test.id.as_str()).collect();
    for test in &args.tests {
        ensure!(known.contains(&test.as_str()), "there is no test {test}: {}", known.join(", "));
    }
    let (instrument, cpus) = (Instrument::new(args.program.as_deref())?, Cpus::halves()?);
    let asked = |test: &&CaseComparison| args.tests.is_empty() || args.tests.contains(&test.id);
    for test in case.comparisons.iter().filter(asked) {
        println!("== {}", test.id);
        let arms = arms_of(test, &args.peers);
        instrument.build(&arms)?;
        let run =
            instrument.compare(&arms, &words(args, test, &arms, &cpus), &PAGE.folder().join(&test.id))?;
        let section = section(args, test, &arms, &run);
        println!("{section}");
        if !args.dry {
            println!("written: {}", PAGE.keep(&test.id, &section, &known)?.display());
        }
    }
    Ok(())
}

/// straightline, which the case names first, and the peers that are asked for.
fn arms_of(test: &CaseComparison, peers: &[String]) -> Vec<String> {
    let asked = |(at, arm): &(usize, &String)| *at == 0 || peers.is_empty() || peers.contains(arm);
    test.arms.iter().enumerate().filter(asked).map(|(_, arm)| arm.clone()).collect()
}

fn words(args: &Args, test: &CaseComparison, arms: &[String], cpus: &Cpus) -> Vec<String> {
    let pipeline = test.pipeline.unwrap_or(1).to_string();
    [
        ("--path", test.path.as_deref().unwrap_or("/plaintext")),
        ("--connections", CONNECTIONS),
        ("--pipeline", &pipeline),
        ("--equal-rates", "none"),
        ("--blocks", &args.blocks.to_string()),
        ("--warmup", "500ms"),
        ("--warmup-cap", "1s"),
        ("--server-cpus", &cpus.server),
        ("--load-cpus", &cpus.load),
        ("--baseline", &arms[0]),
        ("--seed", "20261126"),
    ]
    .into_iter()
    .flat_map(|(name, value)| [name.to_owned(), value.to_owned()])
    .collect()
}

/// Nanoseconds for each request, in microseconds.
fn per_request(window: &Window, ns: u64) -> Option<f64> {
    (window.load.requests > 0).then(|| ns as f64 / 1e3 / window.load.requests as f64)
}

fn section(args: &Args, test: &CaseComparison, arms: &[String], run: &Run) -> String {
    let first = |of: fn(&Window) -> Option<f64>| Blocks::of_run(run, |windows| of(windows.first()?));
    let cpu = first(|window| per_request(window, window.target.cpu.total_ns));
    let database = first(|window| per_request(window, *window.services.get(DATABASE)?));
    let rate = first(|window| Some(window.load.rate_per_s));
    let ours = &arms[0];
    let rows: Vec<Vec<String>> = arms
        .iter()
        .map(|arm| {
            vec![
                arm.trim_start_matches("techempower-").split('@').next().unwrap_or(arm).to_owned(),
                cpu.count(arm).to_string(),
                figure(cpu.median(arm), 2),
                cpu.ratio(arm, ours),
                figure(database.median(arm), 2),
                figure(rate.median(arm), 0),
                rate.ratio(ours, arm),
            ]
        })
        .collect();
    let head = [
        "server",
        "n",
        "CPU µs a request",
        "it / straightline",
        "PostgreSQL's CPU µs",
        "requests/s",
        "straightline / it, rate",
    ];
    format!(
        "## `{}`: {}\n\n`{}`, {}; medians of n blocks of fresh servers that take turns, {CONNECTIONS} connections, closed loop.\n\n{}",
        test.id,
        test.question,
        args.words(&test.id),
        today(),
        table(&head, &rows)
    )
}
