//! What watching a server costs it: the same server under the same load, watched and not, in turn.

use std::fs;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::watched::{self, Server, WINDOW_S};
use super::{Args, Question, clock};
use crate::shell::root;

/// Level of the interval.
const LEVEL: f64 = 0.95;
/// Where results are kept between calls.
const RESULTS: &str = "target/calibrate/observer.ndjson";
const PAGE: &str = "docs/benchmarks/observer.md";

/// What one way of watching cost.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cost {
    mode: String,
    pairs: usize,
    /// Watched over unwatched: estimate, low, high.
    cpu: [f64; 3],
    rate: [f64; 3],
}

/// Runs the pairs and writes the page anew.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    watched::build()?;
    let server = Server::start("none")?;
    server.window(None)?;
    let mode = mode(args.question)?;
    let (mut cpu, mut rate) = (Vec::new(), Vec::new());
    for pair in 0..args.runs() {
        // Watched first as often as last.
        let order = if pair % 2 == 0 { [None, Some(mode)] } else { [Some(mode), None] };
        let windows = [server.window(order[0])?, server.window(order[1])?];
        let [plain, watched] = if pair % 2 == 0 { [0, 1] } else { [1, 0] }.map(|place| &windows[place]);
        cpu.push((watched.cpu_ns_per_request / plain.cpu_ns_per_request).ln());
        rate.push((watched.rate_per_s / plain.rate_per_s).ln());
        println!("{}/{}: CPU x{:.4}, rate x{:.4}", pair + 1, args.runs(), exp(&cpu), exp(&rate));
    }
    let cost = Cost { mode: mode.to_owned(), pairs: cpu.len(), cpu: interval(&cpu)?, rate: interval(&rate)? };
    let mut all = read()?;
    all.retain(|other| other.mode != cost.mode);
    all.push(cost);
    all.sort_by(|a, b| a.mode.cmp(&b.mode));
    write(&all)
}

fn mode(question: Question) -> anyhow::Result<&'static str> {
    match question {
        Question::Tier0 => Ok("tier0"),
        Question::Tier1 => Ok("tier1"),
        Question::Tier1Software => Ok("tier1-software"),
        Question::Tier2 => Ok("tier2"),
        Question::Tier3 => Ok("tier3"),
        Question::Strace => Ok("strace"),
        _ => bail!("{question:?} is no way of watching"),
    }
}

fn exp(logs: &[f64]) -> f64 {
    logs.last().copied().unwrap_or(f64::NAN).exp()
}

fn interval(logs: &[f64]) -> anyhow::Result<[f64; 3]> {
    let found = stats::paired::estimate(logs, LEVEL).context("more pairs are needed (--runs)")?;
    Ok([found.value.exp(), found.interval.low.exp(), found.interval.high.exp()])
}

fn read() -> anyhow::Result<Vec<Cost>> {
    let Ok(text) = fs::read_to_string(root().join(RESULTS)) else { return Ok(Vec::new()) };
    text.lines().map(|line| serde_json::from_str(line).context("an earlier result does not read")).collect()
}

fn write(all: &[Cost]) -> anyhow::Result<()> {
    let lines: Vec<String> = all.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    fs::create_dir_all(root().join("target/calibrate"))?;
    fs::write(root().join(RESULTS), lines.join("\n") + "\n")?;
    write_page()
}

/// Writes the page from what is kept of all calibrations that it shows.
pub(super) fn write_page() -> anyhow::Result<()> {
    let text = page(&read()?) + &clock::section()?;
    print!("{text}");
    fs::create_dir_all(root().join("docs/benchmarks"))?;
    fs::write(root().join(PAGE), text).context("cannot write the page")
}

fn page(all: &[Cost]) -> String {
    let mut text = format!(
        "# What watching costs the server\n\n`cargo xtask calibrate tier0` (likewise `tier1`, `tier2`, `tier3`, `strace`): the \
         planted C server without a plant on CPU 0, generator (closed loop, 64 connections) and observer on CPU 1, windows \
         of {WINDOW_S} s in pairs, watched and not, in alternating order. Ratio watched / unwatched: Hodges–Lehmann, exact \
         Wilcoxon interval at {:.0} %. What it may cost: tier 0 0.5 %, tier 1 1 % of CPU per request; what costs more is \
         never in a scored window. While system calls are counted, each call of every thread goes the kernel's slow way in and \
         out: that is nearly all that tier 1 costs, and why it counts in slices (docs/decisions/0016).\n\n| watched by | pairs | CPU per request | rate |\n|---|--:|--:|--:|\n",
        LEVEL * 100.0
    );
    let ratio = |[value, low, high]: [f64; 3]| format!("{value:.4} [{low:.4}, {high:.4}]");
    for cost in all {
        let name = match cost.mode.as_str() {
            "tier0" => "tier 0: all readings, once a second",
            "tier1" => "tier 1: counting events and system calls",
            "tier1-software" => "of these, what needs no tracepoint: task clock, switches, faults",
            "tier2" => "tier 2: stacks at 997 Hz",
            "tier3" => "tier 3: a stack at every switch",
            "strace" => "`strace -c -f`, for comparison",
            other => other,
        };
        text.push_str(&format!("| {name} | {} | {} | {} |\n", cost.pairs, ratio(cost.cpu), ratio(cost.rate)));
    }
    text
}
