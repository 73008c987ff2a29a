//! What the reader of a watched server must know beside its figures.

use model::record::{Profile, ProfileKind};

use super::{FEW_TICKS, WatchInput, WatchedWindow, coverage, requests, seconds};
use crate::facts::passes;

/// Connections opened, as a share of the segments counted, from which requests on connections that ended are missed.
const MANY_OPENED: f64 = 0.05;

/// What a note is made from.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchNote {
    /// Something could not be seen; this sentence comes from whoever looked.
    Unseen(String),
    /// Requests could not be counted.
    Uncounted(WhyUncounted),
    /// Each segment with data was taken for one request.
    BySegments,
    /// Too few clock ticks tell user from kernel time.
    FewTicks {
        /// How many there were.
        ticks: u64,
        /// How many are enough.
        enough: u64,
    },
    /// So many connections were opened that requests on those that ended are missing.
    ManyOpened(u64),
    /// A profile has nothing in it.
    NothingIn(ProfileKind),
    /// What it cost to take a profile.
    Cost {
        /// The profile.
        of: ProfileKind,
        /// How long it took, in seconds.
        seconds: f64,
        /// CPU time of a request in nanoseconds, before and meanwhile.
        cpu_ns: [f64; 2],
    },
    /// Samples stand for only a part of the CPU time.
    Partial {
        /// That part, 0 to 1.
        share: f64,
        /// Whether the profile divides it; otherwise the profile is not used.
        used: bool,
    },
}

/// Why requests could not be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyUncounted {
    /// The counter went from the first number to the second, which is lower.
    CounterFell([u64; 2]),
    /// The counter stayed at this number.
    CounterStood(u64),
    /// The sockets of the server cannot be seen.
    SocketsHidden,
    /// No segment with data came in.
    NoSegment,
}

/// Every note, in the order in which they are printed.
pub(super) fn notes(input: &WatchInput) -> Vec<WatchNote> {
    let mut notes: Vec<_> = input.notes.iter().cloned().map(WatchNote::Unseen).collect();
    notes.extend(doubts(&input.plain));
    notes.extend(input.profiles.iter().flat_map(|(profile, taken)| of_profile(&input.plain, profile, taken)));
    notes
}

/// What is doubtful about the ledger.
fn doubts(seen: &WatchedWindow) -> Vec<WatchNote> {
    let (requests, from) = requests(seen);
    let by_segments = from == Some("segments");
    let opened = seen.cpus.tcp.passive_opens;
    let mut doubts = Vec::new();
    if requests.is_none() {
        doubts.push(WatchNote::Uncounted(why_uncounted(seen)));
    } else if by_segments {
        doubts.push(WatchNote::BySegments);
    }
    if seen.ticks < FEW_TICKS {
        doubts.push(WatchNote::FewTicks { ticks: seen.ticks, enough: FEW_TICKS });
    }
    if by_segments && opened as f64 > MANY_OPENED * requests.unwrap_or(0) as f64 {
        doubts.push(WatchNote::ManyOpened(opened));
    }
    doubts
}

fn why_uncounted(seen: &WatchedWindow) -> WhyUncounted {
    match seen.counted {
        Some([before, now]) if now < before => WhyUncounted::CounterFell([before, now]),
        Some([_, now]) => WhyUncounted::CounterStood(now),
        None if seen.resources.sockets.is_none() => WhyUncounted::SocketsHidden,
        None => WhyUncounted::NoSegment,
    }
}

/// What taking one profile cost, and what it does not show.
fn of_profile(plain: &WatchedWindow, taken: &Profile, seen: &WatchedWindow) -> Vec<WatchNote> {
    let of = taken.kind;
    let cost_ns = |seen: &WatchedWindow| Some(seen.usage.cpu.total_ns as f64 / requests(seen).0? as f64);
    let share = coverage(taken, seen).filter(|_| of == ProfileKind::Cpu);
    let used = match passes::divides(share) {
        None => Some(false),
        Some(divides) => (divides < 1.0).then_some(true),
    };
    let mut notes = Vec::new();
    notes.extend((taken.samples == 0).then_some(WatchNote::NothingIn(of)));
    let costs = cost_ns(plain).zip(cost_ns(seen));
    notes.extend(costs.map(|(before, during)| WatchNote::Cost {
        of,
        seconds: seconds(seen),
        cpu_ns: [before, during],
    }));
    notes.extend(share.zip(used).map(|(share, used)| WatchNote::Partial { share, used }));
    notes
}
