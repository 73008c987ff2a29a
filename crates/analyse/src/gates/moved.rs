//! CPUs that the hypervisor moved: within a window, or between the rounds of one block.

use record::{DiagnosticRecord, RoundRecord, Run, VoidReason, Window};

/// The way between server and generator changed by more than this factor. The CPUs of one machine that were seen near
/// each other and far apart were 130 ns and 390 to 560 ns from each other; a request cost 1.7 µs and 4.3 to 5.4 µs.
const MAX_CHANGE: f64 = 1.5;

/// What is said of a window within which the way between server and generator changed.
pub(super) fn within(window: &Window) -> Option<VoidReason> {
    let [before, after] = window.cpu_distance_ns?;
    changed(before, after).then(|| {
        reason(format!(
            "the hypervisor moved a CPU: from server to generator and back took {before:.0} ns before and {after:.0} \
             ns after"
        ))
    })
}

/// Which of the rounds of one block met another way between server and generator than the newest of them did, and what
/// is said of each. They cannot be a pair; the newest is the likeliest to find its like.
#[must_use]
pub fn moved_since(rounds: &[&RoundRecord]) -> Vec<(usize, VoidReason)> {
    let newest = rounds.iter().max_by_key(|record| record.started_unix_ms);
    let Some(now) = newest.and_then(|record| distance(record)) else { return Vec::new() };
    let other = |(index, record): (usize, &&RoundRecord)| {
        let before = distance(record).filter(|before| changed(*before, now))?;
        let text = format!(
            "the hypervisor moved a CPU: from server to generator and back took {before:.0} ns, and {now:.0} ns in \
             the round beside it"
        );
        Some((index, reason(text)))
    };
    rounds.iter().enumerate().filter_map(other).collect()
}

/// Whether a diagnostic round met another way between server and generator than the scored rounds of `run` mostly did,
/// so that what is seen in it does not explain what was measured in them.
#[must_use]
pub fn strayed(run: &Run, record: &DiagnosticRecord) -> bool {
    let scored: Vec<f64> = run.rounds.iter().filter_map(distance).collect();
    let Some(usual) = stats::descriptive::median(&scored) else { return false };
    let passes = record.passes.iter().filter_map(|pass| pass.window.cpu_distance_ns);
    passes.flatten().any(|distance| changed(distance, usual))
}

fn reason(text: String) -> VoidReason {
    VoidReason { gate: "host".to_owned(), text, moved: true }
}

/// The mean over all that was measured in a round; of runs of before it was, there is none.
fn distance(record: &RoundRecord) -> Option<f64> {
    let all: Vec<f64> = record.windows.iter().filter_map(|window| window.cpu_distance_ns).flatten().collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

fn changed(one: f64, other: f64) -> bool {
    one.max(other) > MAX_CHANGE * one.min(other)
}
