//! Two accounts of the same CPU time: user and system time as `/proc` tells them, and the task clock of perf events.

use std::fs;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use stats::descriptive;

use super::watched::{self, Server};
use super::{Args, observer, read};
use crate::shell::root;

/// Servers that use their CPU in different ways: one thread that never waits long, two that switch for each request, one
/// that writes files, four that queue for a lock.
const PLANTS: [&str; 4] = ["none", "handoff", "accesslog", "mutex"];
/// Where results are kept between calls.
const RESULTS: &str = "target/calibrate/clock.ndjson";

/// How far user plus system time was from the task clock, as a ratio, in windows of one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Agreement {
    plant: String,
    windows: usize,
    least: f64,
    median: f64,
    most: f64,
}

/// Compares the two accounts and writes the page anew.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    watched::build()?;
    let mut all = Vec::new();
    for plant in PLANTS {
        let server = Server::start(plant)?;
        let ratios: Vec<f64> = (0..args.runs())
            .map(|_| ratio(&server.window(Some("clock"))?.told))
            .collect::<anyhow::Result<_>>()?;
        let at = |share| descriptive::quantile(&ratios, share).context("one window at least (--runs)");
        all.push(Agreement {
            plant: plant.to_owned(),
            windows: ratios.len(),
            least: at(0.0)?,
            median: at(0.5)?,
            most: at(1.0)?,
        });
    }
    let lines: Vec<String> = all.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    fs::create_dir_all(root().join("target/calibrate"))?;
    fs::write(root().join(RESULTS), lines.join("\n") + "\n")?;
    observer::write_page()
}

/// User plus system time over the task clock.
fn ratio(told: &str) -> anyhow::Result<f64> {
    let times: Vec<f64> = told.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [user, system, task_clock] = times[..] else { anyhow::bail!("the observer told no times") };
    Ok((user + system) / task_clock)
}

/// What the page says of it; nothing where it was not measured.
pub(super) fn section() -> anyhow::Result<String> {
    let all: Vec<Agreement> = read(&root().join(RESULTS))?;
    let rows: Vec<String> = all
        .iter()
        .map(|one| {
            let Agreement { plant, windows, least, median, most } = one;
            format!("| planted@{plant} | {windows} | {median:.4} | {least:.4} | {most:.4} |\n")
        })
        .collect();
    if rows.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "\n## Two accounts of the same CPU time\n\n`cargo xtask calibrate clock`: user plus system time by `/proc` over the task \
         clock of perf events, both read in the same order at both ends of a window under the same load, with nothing \
         else attached. They are to agree within 2 %.\n\n| server | windows | median | least | most |\n|---|--:|--:|--:|--:|\n{}",
        rows.concat()
    ))
}
