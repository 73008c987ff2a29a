//! A run in progress as server-sent events: how many blocks are done, and what the pairs so far say.
//!
//! Source: HTML Living Standard, section 9.2.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use analyse::Comparison;
use model::record::{RunDir, RunStatus};
use serde_json::{Value, json};
use straightline::{Done, Request, Response};

use crate::history::Stamp;

/// Time between two looks at the run's directory: a round takes longer.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks without news after which a comment is sent, so that a reader who left is noticed.
const SILENT_LOOKS: u32 = 15;

/// Whether the run goes on, as far as its directory tells.
pub(super) fn is_running(run: &Path) -> bool {
    let status = RunDir::open(run).read_manifest().map(|manifest| manifest.status);
    matches!(status, Ok(RunStatus::Running)) && Stamp::read(run).is_recent()
}

/// Sends an event for each change until the run or the reader ends.
pub(super) fn send(run: &Path, request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    let mut stream = response
        .header("Content-Type", "text/event-stream")?
        .header("Cache-Control", "no-store")?
        .header("X-Content-Type-Options", "nosniff")?
        .start()?;
    let (mut seen, mut silent) = (None, 0);
    while request.deadline().is_none() && !request.client_gone() {
        // Asked before the run is read: what ends meanwhile is sent in the next turn.
        let running = is_running(run);
        let stamp = Stamp::read(run);
        if seen != Some(stamp) || !running {
            (seen, silent) = (Some(stamp), 0);
            write!(stream, "event: progress\ndata: {}\n\n", progress(run))?;
            stream.flush()?;
        }
        if !running {
            break;
        }
        silent += 1;
        if silent % SILENT_LOOKS == 0 {
            stream.write_all(b":\n\n")?;
            stream.flush()?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    stream.end()
}

fn progress(path: &Path) -> Value {
    let Ok(run) = RunDir::open(path).read() else { return json!({ "status": "unreadable" }) };
    let findings = analyse::analyse(&run);
    let blocks = findings.comparisons.iter().map(|row| row.blocks).max().unwrap_or(0);
    let planned = run.manifest.fitted.blocks(&run.manifest.plan).max(blocks);
    let primary = || findings.comparisons.iter().filter(|row| row.primary);
    json!({
        "status": status(path, run.manifest.status), "blocks": blocks, "planned": planned, "rounds": run.rounds.len(),
        "lines": primary().map(line).collect::<Vec<_>>(), "courses": primary().map(course).collect::<Vec<_>>(),
    })
}

/// How the interval of a comparison narrowed so far.
fn course(row: &Comparison) -> Value {
    json!({
        "arm": row.arm, "baseline": row.baseline, "metric": row.metric, "delta": row.delta,
        "points": analyse::course(row),
    })
}

fn status(path: &Path, status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running if Stamp::read(path).is_recent() => "running",
        RunStatus::Running | RunStatus::Partial => "partial",
        RunStatus::Complete => "complete",
    }
}

fn line(row: &Comparison) -> String {
    let (arm, baseline, metric, pairs) = (&row.arm, &row.baseline, row.metric.label(), row.blocks);
    match (row.ratio, row.ci_low, row.ci_high, row.level) {
        (Some(ratio), Some(low), Some(high), Some(level)) => format!(
            "{arm} over {baseline}, {metric}: {ratio:.3} [{low:.3}, {high:.3}] at {:.1} % after {pairs} pairs",
            level * 100.0
        ),
        _ => format!("{arm} over {baseline}, {metric}: {pairs} pairs"),
    }
}
