//! What one arm waits for and how its responses are spread, from its own rounds without another to compare it with.

use model::plan::CauseId;
use model::record::Window;

use super::calls::{FILE_LOCKS, FUTEX, SLEEPS, SYNCS};
use super::observed::{self, Blocked};
use super::passes::PassFindings;
use super::shape::{self, Clue, ResponsePeak, ResponseShape, Shape};
use super::sheet::Sheet;
use super::stalls::{self, Stalls};

/// Pauses of one length from which on they are a habit.
const FEW_PAUSES: usize = 3;
/// What threads without a CPU wait for, each with the system calls that are made for it.
const KINDS: [(Blocked, &[&str]); 4] = [
    (Blocked::Disk, &SYNCS),
    (Blocked::Sleep, &SLEEPS),
    (Blocked::Lock, &FUTEX),
    (Blocked::FileLock, &FILE_LOCKS),
];

/// One kind of waiting of one arm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// What for.
    pub(crate) what: Blocked,
    /// Threads that waited so at a time on average; absent where waits were not timed.
    pub(crate) threads: Option<f64>,
    /// Calls that wait so, per request; absent where calls were not counted by name.
    pub(crate) calls: Option<f64>,
    /// How long one of them takes on average in nanoseconds, where both are known. By Little's law: threads at a time over
    /// calls a second.
    each_ns: Option<f64>,
}

impl Wait {
    /// As something that a peak of the responses may coincide with. A call on a futex may as well wake another thread, so
    /// that a single wait for a lock has no known length.
    fn clue(&self) -> Option<Clue> {
        let id = match self.what {
            Blocked::Sleep => CauseId::Sleep,
            Blocked::Disk => CauseId::SyncWrites,
            Blocked::Lock | Blocked::FileLock => return None,
        };
        Some(Clue { id, each_ns: self.each_ns? })
    }
}

/// What is known of one arm by itself.
pub(crate) struct Alone {
    /// What its threads wait for.
    pub(crate) waits: Vec<Wait>,
    /// How its responses are spread, at each condition at which that was kept.
    pub(crate) shapes: Vec<ResponseShape>,
    /// When it answers nobody.
    pub(crate) stalls: Option<Stalls>,
    /// The longest share of the time of its responses at the main condition that is spent in stalls of one length, and
    /// the peak that they make.
    pub(crate) longest_peak: Option<(f64, ResponsePeak)>,
}

/// Pauses of a collector as something that peaks of the responses may coincide with: those of about one length together,
/// for a collector has short ones and long ones.
fn collections(mut pauses_ns: Vec<u64>) -> Vec<Clue> {
    pauses_ns.sort_unstable();
    let alike = pauses_ns.chunk_by(|shorter, longer| *longer as f64 <= *shorter as f64 * shape::AS_LONG);
    let clue = |pauses: &[u64]| {
        let each_ns = pauses.iter().sum::<u64>() as f64 / pauses.len() as f64;
        Clue { id: CauseId::Gc, each_ns }
    };
    alike.filter(|pauses| pauses.len() >= FEW_PAUSES).map(clue).collect()
}

/// What is known of `arm` by itself.
pub(crate) fn alone(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Alone {
    let waits = waits(sheet, arm, passes);
    let logs = observed::machine_logs(sheet, arm, passes);
    let pauses = logs.iter().flat_map(|(_, log)| log.collections_ns.iter().copied()).collect();
    let clues: Vec<Clue> = waits.iter().filter_map(Wait::clue).chain(collections(pauses)).collect();
    let conditions = 0..sheet.plan().workload.conditions.len();
    let shape_of = |index| shape::response_shape(&sheet.windows(arm, index), sheet.describe(index), &clues);
    let shapes = conditions.filter_map(shape_of).collect();
    let in_passes = stalls::stalls_in_passes(sheet, arm, passes);
    let stalls = in_passes.or_else(|| sheet.stops(arm).map(Stalls::unwatched));
    Alone { waits, shapes, stalls, longest_peak: longest_peak(&sheet.windows(arm, sheet.main), &clues) }
}

/// Of the peaks that coincide with something, the one in which most of the time is spent.
fn longest_peak(windows: &[&Window], clues: &[Clue]) -> Option<(f64, ResponsePeak)> {
    let shape = Shape::from_windows(windows);
    let peaks = shape::response_shape(windows, String::new(), clues)?.peaks.into_iter();
    let stalls = peaks.filter(|peak| peak.coincides_with.is_some());
    let timed = stalls.map(|peak| (shape.share_of_time(peak.range_ns[0], peak.range_ns[1]), peak));
    timed.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn waits(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Vec<Wait> {
    let timed = observed::waiting(sheet, arm, passes);
    let threads = (!timed.is_empty())
        .then(|| observed::blocked(&timed.iter().map(|(_, profile)| *profile).collect::<Vec<_>>()));
    let counted = observed::counted(sheet, arm, passes).filter(|counted| !counted.syscalls.is_empty());
    let rate_per_s = rate_per_s(timed.iter().map(|(window, _)| *window));
    let wait = |(what, names): (Blocked, &[&str])| {
        let threads = threads.as_ref().map(|threads| threads.get(&what).copied().unwrap_or(0.0));
        let calls = counted
            .as_ref()
            .map(|counted| names.iter().filter_map(|name| counted.syscalls.get(*name)).sum::<f64>());
        let each_ns = threads.zip(calls).map(|(threads, calls)| threads * 1e9 / (calls * rate_per_s));
        Wait { what, threads, calls, each_ns: each_ns.filter(|ns| ns.is_finite() && *ns > 0.0) }
    };
    KINDS.into_iter().map(wait).collect()
}

fn rate_per_s<'a>(windows: impl Iterator<Item = &'a Window>) -> f64 {
    let [requests, ns] = windows.fold([0.0, 0.0], |[requests, ns], window| {
        [requests + window.load.requests as f64, ns + window.load.window_ns as f64]
    });
    requests * 1e9 / ns
}
