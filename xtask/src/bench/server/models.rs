//! The same handler on coroutines and on a thread for each connection.

use std::fs;

use anyhow::Context;
use model::record::Window;

use super::super::blocks::Blocks;
use super::super::page::{figure, table};
use super::super::target::{Cpus, Server};
use super::super::whyslow;
use super::compared::micros;
use super::memory::{per_connection, raise_descriptors};
use super::{PAGE, Row, Scale};
use crate::shell::root;

/// Connections and waiting handlers of which memory is reckoned: so many threads are still no trouble.
const COUNT: usize = 1_000;
/// Where the table stands in the guide as well.
const GUIDE: &str = "docs/straightline.md";
const BEGIN: &str = "<!-- models: begin -->\n";
const END: &str = "<!-- models: end -->";

pub(super) fn section(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    raise_descriptors();
    let arms = [whyslow::measured("on-coroutines", ""), whyslow::measured("on-threads", "threads")];
    let words = [
        ("--path", "/plaintext".to_owned()),
        ("--blocks", scale.blocks.to_string()),
        ("--warmup", format!("{}s", scale.warmup_s)),
        ("--warmup-cap", format!("{}s", scale.warmup_s)),
        ("--equal-rates", "50".to_owned()),
        ("--server-cpus", cpus.server.clone()),
        ("--load-cpus", cpus.load.clone()),
        ("--seed", "20261120".to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flat_map(|(name, value)| [name.to_owned(), value]).collect();
    let run = scale.instrument.compare(&arms, &words, &PAGE.folder().join("models"))?;
    let at = |index: usize, of: fn(&Window) -> Option<f64>| {
        Blocks::of_run(&run, move |windows| of(windows.get(index)?))
    };
    let cpu = at(0, |window| Some(window.target.cpu.total_ns as f64 / window.load.requests.max(1) as f64));
    let capacity = at(0, |window| Some(window.load.rate_per_s));
    let (p50, p99) = (at(1, |w| micros(w.load.response_ns.p50)), at(1, |w| micros(w.load.response_ns.p99)));
    let p99_9 = at(1, |window| micros(window.load.response_ns.p99_9));
    let mut rows = Vec::new();
    for (arm, threads) in [("on-coroutines", false), ("on-threads", true)] {
        rows.push(vec![
            arm.replace("on-", ""),
            cpu.count(arm).to_string(),
            figure(capacity.median(arm), 0),
            figure(cpu.median(arm), 0),
            figure(p50.median(arm), 0),
            figure(p99.median(arm), 0),
            figure(p99_9.median(arm), 0),
            figure(Some(memory(threads, "/plaintext", cpus)?), 0),
            figure(Some(memory(threads, "/wait", cpus)?), 0),
        ]);
    }
    let head =
        ["model", "n", "requests/s", "CPU ns", "p50 µs", "p99 µs", "p99.9 µs", "idle bytes", "waiting bytes"];
    let text = format!(
        "{}; medians of n blocks of servers that take turns, 64 connections: requests per second and server CPU per request in a \
         closed loop, latency at half the slower one's rate; anonymous memory per idle connection and per waiting \
         handler, of {COUNT}.\n\n{}",
        scale.method(Row::Models),
        table(&head, &rows)
    );
    into_guide(&text)?;
    Ok(format!("## The same handler on coroutines and on threads\n\n{text}"))
}

fn memory(threads: bool, path: &str, cpus: &Cpus) -> anyhow::Result<f64> {
    let server = Server::measured(threads, cpus)?;
    cpus.on_load(|| per_connection(&server, path, COUNT))
}

/// Puts the table into the guide, between its marks.
fn into_guide(text: &str) -> anyhow::Result<()> {
    let file = root().join(GUIDE);
    let guide = fs::read_to_string(&file).with_context(|| format!("cannot read {GUIDE}"))?;
    let (before, rest) = guide.split_once(BEGIN).with_context(|| format!("{GUIDE} has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{GUIDE} has no {END}"))?;
    fs::write(&file, format!("{before}{BEGIN}\n{text}\n{END}{after}"))
        .with_context(|| format!("cannot write {GUIDE}"))
}
