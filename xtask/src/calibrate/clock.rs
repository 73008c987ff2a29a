//! Two accounts of the same CPU time: user and system time as the scheduler charges them, and the task clock that is read
//! at every switch of the server's CPUs.

use std::fs;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use stats::descriptive;

use super::watched::{self, Server};
use super::{Args, observer, read};
use crate::shell::root;

/// Servers that use their CPU in different ways: one thread that never waits long, two that switch for each request, one
/// that writes files, four that queue for a lock.
const PLANTS: [&str; 4] = ["none", "handoff", "accesslog", "mutex"];
/// Switches in a second from which on the cost of one can be measured.
const FEW: f64 = 1000.0;
/// Where results are kept between calls.
const RESULTS: &str = "target/calibrate/clock.ndjson";

/// How far user plus system time was from the task clock in windows of one server: as a ratio, and per switch.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Agreement {
    plant: String,
    windows: usize,
    least: f64,
    median: f64,
    most: f64,
    /// Switches in a second, median.
    switches_per_s: f64,
    /// Nanoseconds of the difference for each switch, median.
    each_ns: f64,
}

/// One window.
struct WindowFigures {
    ratio: f64,
    switches_per_s: f64,
    each_ns: f64,
}

/// Compares the two accounts and writes the page anew.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    watched::build()?;
    let mut all = Vec::new();
    for plant in PLANTS {
        let server = Server::start(plant)?;
        let windows: Vec<WindowFigures> = (0..args.runs())
            .map(|_| parse_window(&server.window(Some("clock"))?.observed))
            .collect::<anyhow::Result<_>>()?;
        let at = |share, of: fn(&WindowFigures) -> f64| {
            let figures: Vec<f64> = windows.iter().map(of).collect();
            descriptive::quantile(&figures, share).context("one window at least (--runs)")
        };
        all.push(Agreement {
            plant: plant.to_owned(),
            windows: windows.len(),
            least: at(0.0, |seen| seen.ratio)?,
            median: at(0.5, |seen| seen.ratio)?,
            most: at(1.0, |seen| seen.ratio)?,
            switches_per_s: at(0.5, |seen| seen.switches_per_s)?,
            each_ns: at(0.5, |seen| seen.each_ns)?,
        });
    }
    let lines: Vec<String> = all.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    fs::create_dir_all(root().join("target/calibrate"))?;
    fs::write(root().join(RESULTS), lines.join("\n") + "\n")?;
    observer::write_page()
}

/// Reads what the observer printed of one window.
fn parse_window(output: &str) -> anyhow::Result<WindowFigures> {
    let figures: Vec<f64> = output.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [user, system, task_clock, switches] = figures[..] else { bail!("the observer told no times") };
    let both = user + system;
    Ok(WindowFigures {
        ratio: both / task_clock,
        switches_per_s: switches / watched::WATCHED_S,
        each_ns: (both - task_clock) / switches,
    })
}

/// What the page says of it; nothing where it was not measured.
pub(super) fn section() -> anyhow::Result<String> {
    let all: Vec<Agreement> = read(&root().join(RESULTS))?;
    let rows: Vec<String> = all
        .iter()
        .map(|one| {
            let Agreement { plant, windows, least, median, most, switches_per_s, each_ns } = one;
            // A few dozen switches show nothing.
            let each = if *switches_per_s < FEW { "–".to_owned() } else { format!("{each_ns:.0}") };
            format!(
                "| planted@{plant} | {windows} | {median:.4} | {least:.4} | {most:.4} | {switches_per_s:.0} | {each} |\n"
            )
        })
        .collect();
    if rows.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "\n## Two accounts of the same CPU time\n\n`cargo xtask calibrate clock`: user plus system time by `/proc` over the task \
         clock, both read in the same order at both ends of a window under the same load, and counted as in a comparison. They are to agree \
         within 2 %. The task clock is read by BPF wherever a CPU goes from one thread to another, and so has the switches \
         in it, as the scheduler's account has; that of perf events, which is stopped for each switch, was 7 % short for `handoff` and 31 % for \
         `mutex` (2026-11-24), and is used only where BPF is refused, of servers that seldom switch. A thread's time begins there with its waking, as it does for the scheduler \
         (docs/decisions/0018).\n\n| server | windows | median | least | most | switches/s | ns apart per switch |\n\
         |---|--:|--:|--:|--:|--:|--:|\n{}",
        rows.concat()
    ))
}
