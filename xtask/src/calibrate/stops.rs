//! Servers that stop for everybody at even times: by either design, how much slower are they found?

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use super::Args;
use crate::shell::{command, root, run};

/// Milliseconds from stop to stop. A stop takes a tenth of it.
const PERIODS_MS: [u32; 4] = [1000, 3000, 5000, 7000];
/// Rate of a server that stops for a tenth of the time, as a share of that of the same without stops.
const TRUTH: f64 = 0.9;
/// The page.
const PAGE: &str = "docs/benchmarks/calibrate-stops.md";

/// One comparison of the planted server with itself, of which one stops.
struct Found {
    period_ms: u32,
    alone: bool,
    ratio: f64,
    interval: [f64; 2],
    took_s: f64,
}

impl Found {
    fn row(&self) -> String {
        let [low, high] = self.interval;
        let covered = if low <= TRUTH && TRUTH <= high { "yes" } else { "no" };
        format!(
            "| every {} s | {} | {:.3} [{low:.3}, {high:.3}] | {covered} | {:.0} s |\n",
            f64::from(self.period_ms) / 1000.0,
            if self.alone { "one arm at a time" } else { "in turns" },
            self.ratio,
            self.took_s
        )
    }
}

/// Compares by both designs for each period, and writes the page.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    let program = args.program()?;
    run(&[&program, "targets", "build", "planted"])?;
    let folder = root().join("target/calibrate/stops");
    let mut text = format!(
        "# Servers that stop at even times\n\nThe planted server against itself, of which one stops for a tenth of the time \
         by the clock; rate at capacity, one session a row, `--quick`, without a diagnosis, {} ns of work in each request of either \
         server. The truth is {TRUTH}. Repeat with `cargo xtask calibrate stops`.\n\n| stops | design | ratio of rates | covers the truth | session |\n|---|---|---|---|--:|\n",
        args.work_ns()
    );
    for period_ms in PERIODS_MS {
        for alone in [false, true] {
            let found = session(&program, &folder, args.work_ns(), period_ms, alone)?;
            print!("{}", found.row());
            write!(text, "{}", found.row())?;
        }
    }
    fs::write(root().join(PAGE), text).with_context(|| format!("cannot write {PAGE}"))
}

fn session(program: &str, folder: &Path, work_ns: u32, period_ms: u32, alone: bool) -> anyhow::Result<Found> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("cannot remove an earlier session")?;
    }
    let planted = root().join("targets/.build/planted/plain/planted");
    let server = format!("{} --port {{port}} --work {work_ns}", planted.display());
    let (base, arm) = (
        format!("base={server} --plant none"),
        format!("arm={server} --plant clockstop --amount {period_ms}"),
    );
    let mut argv = vec![program, "compare", &base, &arm, "--path", "/plaintext", "--quick", "--no-why"];
    argv.extend(["--equal-rates", "none", "--format", "json", "--out"]);
    argv.push(folder.to_str().context("the workspace has a name that is not text")?);
    argv.extend(alone.then_some("--alone"));
    let begun = Instant::now();
    let output = command(&argv).output().context("cannot run whyslow")?;
    if !matches!(output.status.code(), Some(0 | 4 | 5)) {
        bail!("whyslow compare failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let findings: Value =
        serde_json::from_slice(&output.stdout).context("whyslow compare printed no JSON")?;
    let mut rows = findings["comparisons"].as_array().into_iter().flatten();
    let row = rows.find(|row| row["metric"] == "rate").context("findings compare rates")?;
    let figure = |name: &str| row[name].as_f64().with_context(|| format!("the rate has no {name}"));
    Ok(Found {
        period_ms,
        alone,
        ratio: figure("ratio")?,
        interval: [figure("ci_low")?, figure("ci_high")?],
        took_s: begun.elapsed().as_secs_f64(),
    })
}
