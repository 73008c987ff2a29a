//! One comparison of the planted server with itself, and what it found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bursts::Bursts;
use crate::shell::{command, root};

/// A session to run.
pub(super) struct Session<'a> {
    pub(super) program: &'a str,
    /// What the second arm burns of its own CPU per request, in percent; none for the same server twice.
    pub(super) percent: Option<f64>,
    /// Work of both arms in each request beside that, in nanoseconds.
    pub(super) work_ns: u32,
    pub(super) blocks: Option<u32>,
    /// The usual design where no number of blocks is given.
    pub(super) looks: bool,
    /// Percentage of the time for which other load keeps every CPU busy.
    pub(super) bursts: Option<u8>,
    /// Requests per second, or `max`.
    pub(super) rate: &'a str,
    pub(super) number: u32,
}

/// What a session found of CPU per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) verdict: String,
    ratio: Option<f64>,
    ci_low: Option<f64>,
    ci_high: Option<f64>,
    /// The true ratio: 1, or what is planted.
    truth: f64,
    /// The same by what the servers say of themselves when they end, which scatters about as much as the interval is wide.
    #[serde(default)]
    account: Option<f64>,
    pub(super) paired_sd: f64,
    /// Blocks behind the interval.
    blocks: u64,
    /// Seconds from the command to its end: the diagnosis, too, where the same server is compared with itself.
    pub(super) took_s: f64,
    /// Causes that were named.
    #[serde(default)]
    pub(super) named: Vec<String>,
}

impl Found {
    /// Whether the interval covers the truth.
    pub(super) fn covers(&self) -> bool {
        self.ci_low.zip(self.ci_high).is_some_and(|(low, high)| low <= self.truth && self.truth <= high)
    }

    /// Half of the interval, of the ratio.
    pub(super) fn half_width(&self) -> Option<f64> {
        Some((self.ci_high? - self.ci_low?) / 2.0 / self.ratio?)
    }

    pub(super) fn line(&self) -> String {
        let (ratio, interval, account) = (number(self.ratio), self.interval(), number(self.account));
        format!("{} {ratio} {interval}, truth {:.4}, by their account {account}", self.verdict, self.truth)
    }

    pub(super) fn row(&self, index: usize) -> String {
        let (ratio, interval) = (number(self.ratio), self.interval());
        format!(
            "| {index} | {} | {ratio} | {interval} | {:.4} | {} | {:.2} % | {} | {:.0} s |\n",
            self.verdict,
            self.truth,
            number(self.account),
            self.paired_sd * 100.0,
            self.blocks,
            self.took_s
        )
    }

    fn interval(&self) -> String {
        format!("[{}, {}]", number(self.ci_low), number(self.ci_high))
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.4}"))
}

impl Session<'_> {
    /// Runs the comparison in a folder of its own below `folder`.
    pub(super) fn run(&self, folder: &Path) -> anyhow::Result<Found> {
        let dir = folder.join(format!("session-{}-{}", std::process::id(), self.number));
        let found = self.run_in(&dir);
        // The run is worth keeping only where it went wrong.
        if found.is_ok() {
            fs::remove_dir_all(&dir).context("cannot remove a session's run")?;
        }
        found
    }

    fn run_in(&self, dir: &Path) -> anyhow::Result<Found> {
        let blocks = self.blocks.map(|blocks| blocks.to_string());
        let mut words = match &blocks {
            None if self.looks => Vec::new(),
            None => vec!["--quick"],
            Some(blocks) => vec!["--blocks", blocks],
        };
        let seed = (1000 + self.number).to_string();
        words.extend(["--seed", &seed, "--rate", self.rate]);
        let others =
            self.bursts.map(|percent| Bursts::begin(f64::from(percent) / 100.0, u64::from(self.number)));
        let begun = Instant::now();
        let findings = compare(self, &words, dir)?;
        let took_s = begun.elapsed().as_secs_f64();
        drop(others);
        let row = cpu_row(&findings)?;
        let figure = |name: &str| row[name].as_f64();
        Ok(Found {
            verdict: row["verdict"].as_str().context("a comparison has a verdict")?.to_owned(),
            ratio: figure("ratio"),
            ci_low: figure("ci_low"),
            ci_high: figure("ci_high"),
            truth: 1.0 + self.percent.unwrap_or(0.0) / 100.0,
            account: self.percent.map(|_| account(&dir.join("logs"))).transpose()?,
            paired_sd: figure("paired_sd").unwrap_or(f64::NAN),
            blocks: row["blocks"].as_u64().unwrap_or(0),
            took_s,
            named: named(&findings),
        })
    }
}

fn compare(session: &Session<'_>, words: &[&str], dir: &Path) -> anyhow::Result<Value> {
    let planted = root().join("targets/.build/planted/plain/planted");
    let server = format!("{} --port {{port}} --work {}", planted.display(), session.work_ns);
    // The same code in both, so that they differ by the amount alone: the call of a plant that does nothing costs 1 %.
    let [base, arm] = [("base", 0.0), ("arm", 100.0)].map(|(name, times)| match session.percent {
        None => format!("{name}={server} --plant none"),
        Some(percent) => format!("{name}={server} --plant share --amount {}", (percent * times).round()),
    });
    let mut argv = vec![session.program, "compare", &base, &arm];
    argv.extend(["--path", "/plaintext", "--equal-rates", "none", "--format", "json"]);
    // Whether a cause is named where there is nothing to explain is asked; what explains a planted share is asked by `why`.
    argv.extend(session.percent.map(|_| "--no-why"));
    argv.push("--out");
    argv.push(dir.to_str().context("the workspace has a name that is not text")?);
    argv.extend(words);
    let output = command(&argv).output().context("cannot run whyslow")?;
    if !matches!(output.status.code(), Some(0 | 4 | 5)) {
        bail!("whyslow compare failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    serde_json::from_slice(&output.stdout).context("whyslow compare printed no JSON")
}

/// Causes that were not ruled out.
fn named(findings: &Value) -> Vec<String> {
    let causes = findings["causes"].as_array().into_iter().flatten();
    let named = causes.filter(|cause| cause["grade"] != "ruled_out").map(|cause| &cause["id"]);
    named.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn cpu_row(findings: &Value) -> anyhow::Result<&Value> {
    let rows = findings["comparisons"].as_array().context("findings have comparisons")?;
    rows.iter().find(|row| row["metric"] == "cpu_per_request").context("findings compare CPU per request")
}

/// The ratio by the servers' own accounts: of all CPU that each used to the requests that it answered, from its first
/// to its last; the median over the blocks.
fn account(logs: &Path) -> anyhow::Result<f64> {
    let mut cpu_ns_by_arm: BTreeMap<(String, String), f64> = BTreeMap::new();
    let mut files: Vec<_> = fs::read_dir(logs).context("a run has logs")?.filter_map(Result::ok).collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    for entry in files {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((round, arm)) = name.trim_end_matches(".log").rsplit_once('-') else { continue };
        let block = round.split('-').next().unwrap_or_default().to_owned();
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if let Some(cpu_ns) = text.lines().find_map(own_cpu_ns) {
            cpu_ns_by_arm.insert((arm.to_owned(), block), cpu_ns);
        }
    }
    let of = |arm: &str, block: &String| cpu_ns_by_arm.get(&(arm.to_owned(), block.clone())).copied();
    let blocks: BTreeSet<&String> = cpu_ns_by_arm.keys().map(|(_, block)| block).collect();
    let mut ratios: Vec<f64> =
        blocks.into_iter().filter_map(|block| Some(of("arm", block)? / of("base", block)?)).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = |index: usize| ratios.get(index).copied().context("no server told what it used");
    Ok((middle(ratios.len() / 2)? * middle(ratios.len().saturating_sub(1) / 2)?).sqrt())
}

/// CPU per request from the line that a planted server prints when it ends.
fn own_cpu_ns(line: &str) -> Option<f64> {
    let figure = |name: &str| -> Option<f64> {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    Some(figure("cpu_ns")? / figure("requests").filter(|requests| *requests > 0.0)?)
}
