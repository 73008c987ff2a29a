//! CPUs that the hypervisor moved: within a window, or between the rounds of one block.

use record::{DiagnosticRecord, RoundRecord, Run, VoidReason, Window};
use stats::descriptive::median;

/// The way between server and generator is another if it differs by more than this factor, and by more than
/// [`MIN_CHANGE_NS`]. The CPUs of one machine were seen 70 to 120 ns from each other, where a request cost 1.7 µs, and 390
/// to 560 ns, where it cost 4.3 to 5.4 µs.
const MAX_CHANGE: f64 = 1.9;
/// See [`MAX_CHANGE`]: the costs at 70 and at 120 ns were the same.
const MIN_CHANGE_NS: f64 = 100.0;
/// Samples in a row that show another way: one alone may have been interrupted.
const IN_A_ROW: usize = 2;

/// What is said of a window within which the way between server and generator changed.
pub(super) fn within(window: &Window) -> Option<VoidReason> {
    let samples = &window.cpu_distances_ns;
    let usual = median(samples)?;
    let other = samples.windows(IN_A_ROW).find(|row| row.iter().all(|ns| changed(*ns, usual)))?;
    Some(reason(format!(
        "the hypervisor moved a CPU within the window: from server to generator and back took {usual:.0} ns, and \
         {:.0} ns for a while",
        other[0]
    )))
}

/// Which of the rounds of one block met another way between server and generator than the newest of them did, and what
/// is said of each. They cannot be a pair; the newest is the likeliest to find its like.
#[must_use]
pub fn moved_since(rounds: &[&RoundRecord]) -> Vec<(usize, VoidReason)> {
    let newest = rounds.iter().max_by_key(|record| record.started_unix_ms);
    let Some(now) = newest.and_then(|record| distance(&record.windows)) else { return Vec::new() };
    let other = |(index, record): (usize, &&RoundRecord)| {
        let before = distance(&record.windows).filter(|before| changed(*before, now))?;
        let text = format!(
            "the hypervisor moved a CPU: from server to generator and back took {before:.0} ns, and {now:.0} ns in \
             the round beside it"
        );
        Some((index, reason(text)))
    };
    rounds.iter().enumerate().filter_map(other).collect()
}

/// Whether two rounds met another way between server and generator. Where it was not measured, they did not.
pub(crate) fn is_moved(one: &RoundRecord, other: &RoundRecord) -> bool {
    let ways = distance(&one.windows).zip(distance(&other.windows));
    ways.is_some_and(|(one, other)| changed(one, other))
}

/// Whether a diagnostic round met another way between server and generator than the scored rounds of `run` mostly did,
/// so that what is seen in it does not explain what was measured in them.
#[must_use]
pub fn strayed(run: &Run, record: &DiagnosticRecord) -> bool {
    let scored: Vec<f64> = run.rounds.iter().filter_map(|record| distance(&record.windows)).collect();
    let Some(usual) = median(&scored) else { return false };
    let passes = record.passes.iter().filter_map(|pass| distance([&pass.window]));
    passes.into_iter().any(|distance| changed(distance, usual))
        || record.passes.iter().any(|pass| within(&pass.window).is_some())
}

fn reason(text: String) -> VoidReason {
    VoidReason { gate: "host".to_owned(), text, moved: true }
}

/// The usual way in some windows; where it was not measured, there is none.
fn distance<'a>(windows: impl IntoIterator<Item = &'a Window>) -> Option<f64> {
    let all: Vec<f64> =
        windows.into_iter().flat_map(|window| window.cpu_distances_ns.iter().copied()).collect();
    median(&all)
}

fn changed(one: f64, other: f64) -> bool {
    let (low, high) = (one.min(other), one.max(other));
    high > MAX_CHANGE * low && high - low > MIN_CHANGE_NS
}
