//! CPUs that the hypervisor moved: within a window, or between the rounds of one block.

use model::record::{DiagnosticRecord, RoundRecord, Run, VoidReason, Window};
use stats::descriptive::median;

/// The way is another, whatever else is known, if it differs by more than this factor, and by more than
/// [`FAR_NS`]: two CPUs of one core are 80 to 120 ns from each other, of different ones 360 to 560.
const FAR: f64 = 1.9;
/// See [`FAR`].
const FAR_NS: f64 = 100.0;
/// Samples from which their median is good for smaller changes, too.
const ENOUGH: usize = 8;
/// The usual way is another if it differs by more than this factor, by more than [`NEAR_NS`], and by more than
/// [`ERRORS`]. What a request costs follows it closely: from 428 to 473 ns, 12.2 to 12.9 µs.
const NEAR: f64 = 1.07;
/// See [`NEAR`]: between 82 and 92 ns costs are the same.
const NEAR_NS: f64 = 20.0;
/// Standard errors of the difference of two medians.
const ERRORS: f64 = 4.0;
/// One sample of many was on another way if it differs from the usual by more than this factor, and by more than
/// [`SAMPLE_NS`]: on one and the same way they stay within 12 %.
const SAMPLE: f64 = 1.25;
/// See [`SAMPLE`].
const SAMPLE_NS: f64 = 50.0;
/// Share of the samples that may be on another way: costs twice as high for as long would show by as much.
const SAMPLES_AWAY: f64 = 0.05;

/// What is said of a window within which the way between server and generator changed.
pub(crate) fn within(window: &Window) -> Option<VoidReason> {
    let samples = &window.cpu_distances_ns;
    let usual = Way::of(samples)?;
    let (factor, ns) = if samples.len() < ENOUGH { (FAR, FAR_NS) } else { (SAMPLE, SAMPLE_NS) };
    let away: Vec<f64> = samples.iter().copied().filter(|&at| differs(at, usual.ns, factor, ns)).collect();
    let elsewhere =
        (away.len() as f64 > SAMPLES_AWAY * samples.len() as f64).then(|| median(&away)).flatten();
    let (first, second) = samples.split_at(samples.len() / 2);
    let drifted = || Way::of(first).zip(Way::of(second)).filter(|(first, second)| first.is_not(second));
    let (before, after) = match elsewhere {
        Some(other) => (usual.ns, other),
        None => drifted().map(|(first, second)| (first.ns, second.ns))?,
    };
    Some(reason(format!(
        "the hypervisor moved a CPU within the window: from server to generator and back took {before:.0} ns, and \
         {after:.0} ns for a while"
    )))
}

/// Which of the rounds of one block met another way between server and generator than the newest of them did, and what
/// is said of each. They cannot be a pair; the newest is the likeliest to find its like.
#[must_use]
pub fn moved_since(rounds: &[&RoundRecord]) -> Vec<(usize, VoidReason)> {
    let newest = rounds.iter().max_by_key(|record| record.started_unix_ms);
    let Some(now) = newest.and_then(|record| Way::met_in(&record.windows)) else { return Vec::new() };
    let other = |(index, record): (usize, &&RoundRecord)| {
        let before = Way::met_in(&record.windows).filter(|before| before.is_not(&now))?;
        let text = format!(
            "the hypervisor moved a CPU: from server to generator and back took {:.0} ns, and {:.0} ns in the round \
             beside it",
            before.ns, now.ns
        );
        Some((index, reason(text)))
    };
    rounds.iter().enumerate().filter_map(other).collect()
}

/// Whether two windows met another way between server and generator, by their samples of it in nanoseconds.
#[must_use]
pub fn moved_between(one: &[f64], other: &[f64]) -> bool {
    are_apart(Way::of(one), Way::of(other))
}

/// Whether two rounds met another way between server and generator. Where it was not measured, they did not.
pub(crate) fn is_moved(one: &RoundRecord, other: &RoundRecord) -> bool {
    are_apart(Way::met_in(&one.windows), Way::met_in(&other.windows))
}

fn are_apart(one: Option<Way>, other: Option<Way>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one.is_not(&other))
}

/// Whether a diagnostic round met quite another way between server and generator than the scored rounds of `run` mostly
/// did, so that what is seen in it does not explain what was measured in them.
#[must_use]
pub fn strayed(run: &Run, record: &DiagnosticRecord) -> bool {
    let scored: Vec<f64> =
        run.rounds.iter().filter_map(|record| Way::met_in(&record.windows)).map(|way| way.ns).collect();
    let Some(usual) = median(&scored) else { return false };
    let ways = record.passes.iter().filter_map(|pass| Way::of(&pass.window.cpu_distances_ns));
    ways.into_iter().any(|way| differs(way.ns, usual, FAR, FAR_NS))
        || record.passes.iter().any(|pass| within(&pass.window).is_some())
}

/// The usual way from the server's CPU to the generator's and back.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// The median of its samples.
    ns: f64,
    /// The standard error of that, as their spread tells it.
    error_ns: f64,
    samples: usize,
}

impl Way {
    fn of(samples: &[f64]) -> Option<Self> {
        let ns = median(samples)?;
        let spread: Vec<f64> = samples.iter().map(|sample| (sample - ns).abs()).collect();
        // Of samples from a normal distribution: its deviation, and the error of their median.
        let error_ns = 1.483 * 1.253 * median(&spread)? / (samples.len() as f64).sqrt();
        Some(Self { ns, error_ns, samples: samples.len() })
    }

    /// In some windows; where it was not measured, there is none.
    fn met_in(windows: &[Window]) -> Option<Self> {
        let all: Vec<f64> =
            windows.iter().flat_map(|window| window.cpu_distances_ns.iter().copied()).collect();
        Self::of(&all)
    }

    fn is_not(&self, other: &Self) -> bool {
        let errors_ns = ERRORS * self.error_ns.hypot(other.error_ns);
        differs(self.ns, other.ns, FAR, FAR_NS)
            || (self.samples.min(other.samples) >= ENOUGH
                && differs(self.ns, other.ns, NEAR, NEAR_NS.max(errors_ns)))
    }
}

/// Whether two times differ by more than a factor and by more than so many nanoseconds.
fn differs(one: f64, other: f64, factor: f64, ns: f64) -> bool {
    let (low, high) = (one.min(other), one.max(other));
    high > factor * low && high - low > ns
}

fn reason(text: String) -> VoidReason {
    VoidReason { gate: "host".to_owned(), text, moved: true }
}
