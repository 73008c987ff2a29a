//! Suspects that make a server wait, by what was seen to end the waits of its threads: each interval is one suspect's.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::{EndedBy, Frame};

use super::evidence::Evidence;
use super::gap::Pair;
use super::waits::{few_at_a_time, kernel_time_of_syncs, wait};
use super::{Suspect, rank};
use crate::attribution::seen::{EndedWaits, Seen};
use crate::attribution::tree::Place;
use crate::attribution::waits::place;
use crate::facts::functions::brief;
use crate::facts::waits::Waited;

/// A wait that fewer than one in a hundred requests meets explains no gap between means: it holds all up now and then.
const RARE: f64 = 0.01;

/// Share of the slower arm's idle time up to which that of the other one need not have been seen: its waits are no more than that.
const DWARFED: f64 = 0.1;

/// A cause with this share of the slower arm's waits has the whole gap, whatever the other arm waits for.
const ALL: f64 = 0.9;

/// Share of the time of an arm's threads without a CPU from which on a cause is what it waits for.
const MOST: f64 = 0.5;

/// Whether enough was seen of what ended waits: of the slower arm, and of the other unless that one is full or hardly waits beside it, or all
/// of the slower one's waits are of one cause.
pub(super) fn are_recorded(pair: &Pair) -> bool {
    let hardly_waits = pair.fast.full || pair.fast.idle_ns <= DWARFED * pair.slow.idle_ns;
    !pair.slow.waited.is_empty()
        && (!pair.fast.waited.is_empty() || hardly_waits || have_one_cause(pair.slow))
}

fn have_one_cause(arm: &Evidence) -> bool {
    let causes = by_cause(arm);
    let times = || causes.values().map(|[ns, _]| *ns);
    times().fold(0.0, f64::max) >= ALL * times().sum::<f64>() && occupied(&arm.waited) >= ALL
}

/// The cause that a wait is of; nothing where there was no work, or a CPU was waited for.
fn cause_of(one: &Waited) -> Option<CauseId> {
    if one.is_without_work() {
        return None;
    }
    Some(match one.ended_by {
        EndedBy::Disk => CauseId::SyncWrites,
        EndedBy::Timer if one.is_sleep => CauseId::Sleep,
        // Its loop, or a thread of its pool, has nothing to do until the next of the requests that it has is done.
        EndedBy::Timer | EndedBy::Thread if one.of_service => return None,
        EndedBy::Timer => CauseId::TimerWait,
        // A thread without work is let go on as one in a lock is.
        EndedBy::Lock | EndedBy::Thread if one.begun_before => return None,
        // Whether it is a lock, a pipe or an event: another thread of the server lets it go on.
        EndedBy::Lock | EndedBy::Thread => CauseId::LockContention,
        EndedBy::Service => CauseId::BackendWait,
        EndedBy::Child => CauseId::ChildProcesses,
        _ => return None,
    })
}

/// Waits of the threads of an arm by cause: nanoseconds and how many of each request.
fn by_cause(arm: &Evidence) -> BTreeMap<CauseId, [f64; 2]> {
    let mut sums: BTreeMap<CauseId, [f64; 2]> = BTreeMap::new();
    for one in &arm.waited {
        if let Some(cause) = cause_of(one) {
            let [ns, count] = sums.entry(cause).or_default();
            (*ns, *count) = (*ns + one.ns, *count + one.count);
        }
    }
    // Each interval once: who waits for a service waits for what that one waits for.
    if let Some([ns, _]) = sums.get_mut(&CauseId::BackendWait) {
        *ns = (*ns - by_cause_in_services(arm).values().sum::<f64>()).max(0.0);
    }
    sums.retain(|_, [_, count]| *count >= RARE);
    sums
}

/// How many waits of each request were seen to be of a cause; nothing where what ends waits was not seen.
pub(super) fn seen_of(arm: &Evidence, cause: CauseId) -> Option<f64> {
    let count = || by_cause(arm).get(&cause).map_or(0.0, |[_, count]| *count);
    (!arm.waited.is_empty()).then(count)
}

/// In which function a request of the arm waits longest for what has a cause, if it is there for at least so many nanoseconds.
pub(super) fn waits_most(arm: &Evidence, least_ns: f64) -> Option<String> {
    let mut places: BTreeMap<String, f64> = BTreeMap::new();
    for one in arm.waited.iter().filter(|one| cause_of(one).is_some()) {
        if let Some(frame) = &one.waited_in {
            *places.entry(brief(&frame.name)).or_default() += one.ns;
        }
    }
    let (function, ns) = places.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (ns >= least_ns).then_some(function)
}

/// What each cause has of the idle time: in proportion to how much longer threads waited for it.
pub(super) fn suspects(pair: &Pair) -> Vec<Suspect> {
    if !are_recorded(pair) {
        return Vec::new();
    }
    let both = [pair.slow, pair.fast].map(by_cause);
    let of = |cause: &CauseId| both.each_ref().map(|arm| arm.get(cause).map_or(0.0, |[ns, _]| *ns));
    let more = |cause: &CauseId| {
        let [slow, fast] = of(cause);
        (*cause, (slow - fast).max(0.0))
    };
    let mut grown: BTreeMap<CauseId, f64> = both[0].keys().map(more).collect();
    give_to_calls(pair, &mut grown);
    let all: f64 = grown.values().sum();
    let weight = weight(pair, all);
    let share_ns = |ns: f64| pair.idle_ns * weight * ns / all.max(f64::MIN_POSITIVE);
    // Whoever waits for a disk has work; threads that have none hide it where they are many.
    let of_disk = grown.get(&CauseId::SyncWrites).copied().unwrap_or(0.0);
    let of_disk_ns = share_ns(of_disk).max(of_disk.min(pair.idle_ns));
    let suspect = |(cause, ns): (CauseId, f64)| {
        let idle_ns = match cause {
            CauseId::SyncWrites => of_disk_ns,
            _ => share_ns(ns).min(pair.idle_ns - of_disk_ns),
        };
        let ns = if cause == CauseId::SyncWrites { kernel_time_of_syncs(pair) } else { 0.0 };
        let runs = runs(pair).filter(|_| cause == CauseId::TimerWait);
        let waited = if cause == CauseId::BackendCalls { for_answers(pair.slow) } else { cause };
        let other_ns = (!pair.fast.waited.is_empty()).then(|| of(&waited)[1]);
        let waits = (idle_ns > 0.0).then(|| most(pair.slow, waited))??;
        let seen = Seen::Waits(EndedWaits { runs, ns: of(&waited)[0], other_ns, ..waits });
        Some(Suspect { ns, ..wait(cause, idle_ns, seen) })
    };
    let suspects: Vec<Suspect> = grown.into_iter().filter_map(suspect).collect();
    match few_at_a_time(pair).pop() {
        Some(turn) if suspects.iter().any(|one| one.id == CauseId::TimerWait) => with_turn(suspects, turn),
        _ => suspects,
    }
}

/// The same where requests wait for a turn: the loop sleeps until the next timer of those who have theirs. What all others wait for is
/// theirs, and so is what no other cause carries.
fn with_turn(mut suspects: Vec<Suspect>, turn: Suspect) -> Vec<Suspect> {
    let others = suspects.iter().filter(|one| one.id != CauseId::TimerWait);
    let idle_ns = turn.idle_ns - others.map(|one| one.idle_ns).sum::<f64>();
    for one in &mut suspects {
        if one.id == CauseId::TimerWait {
            *one = Suspect { idle_ns: idle_ns.max(one.idle_ns), ..turn.clone() };
        }
    }
    suspects
}

/// Moves the part of longer waits for services that comes of asking them more often to the cause of that name.
fn give_to_calls(pair: &Pair, grown: &mut BTreeMap<CauseId, f64>) {
    let share = share_of_more_calls(pair);
    let of_services = [pair.slow, pair.fast].map(by_cause_in_services);
    let mut given = 0.0;
    for (cause, ns) in grown.iter_mut() {
        let [slow, fast] = of_services.each_ref().map(|arm| arm.get(cause).copied().unwrap_or(0.0));
        let part = match cause {
            CauseId::BackendWait => *ns,
            _ => (slow - fast).clamp(0.0, *ns),
        };
        *ns -= share * part;
        given += share * part;
    }
    if given > 0.0 {
        grown.insert(CauseId::BackendCalls, given);
    }
}

/// The share of a longer wait for services that comes of asking them more often, not of later answers; 0 where the faster arm's waits were not
/// seen.
fn share_of_more_calls(pair: &Pair) -> f64 {
    if !rank::asks_more(pair) || pair.fast.waited.is_empty() {
        return 0.0;
    }
    let [slow, fast] = [pair.slow, pair.fast].map(|arm| (arm.asked.unwrap_or(0.0), for_services(arm)));
    let each = |(asked, ns): (f64, f64)| if asked > 0.0 { ns / asked } else { slow.1 / slow.0 };
    let more = (slow.0 - fast.0) * (each(slow) + each(fast)) / 2.0;
    if slow.1 > fast.1 { (more / (slow.1 - fast.1)).clamp(0.0, 1.0) } else { 0.0 }
}

/// How long a request of the arm waits for services: the server's threads for answers, or the services' own threads if these wait longer.
fn for_services(arm: &Evidence) -> f64 {
    let of_server = arm.waited.iter().filter(|one| !one.of_service);
    let for_them = of_server.filter(|one| cause_of(one) == Some(CauseId::BackendWait));
    for_them.map(|one| one.ns).sum::<f64>().max(by_cause_in_services(arm).values().sum())
}

/// The cause that waits for services were seen as: for their answers, or, where only the services' own waits were seen, the longest of these.
fn for_answers(arm: &Evidence) -> CauseId {
    let waits = |cause: CauseId| arm.waited.iter().any(|one| cause_of(one) == Some(cause));
    let longest = || by_cause_in_services(arm).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match waits(CauseId::BackendWait) {
        true => CauseId::BackendWait,
        false => longest().map_or(CauseId::BackendWait, |(cause, _)| cause),
    }
}

/// Waits of the threads of services that the arm began, by cause, in nanoseconds per request.
fn by_cause_in_services(arm: &Evidence) -> BTreeMap<CauseId, f64> {
    let mut sums: BTreeMap<CauseId, f64> = BTreeMap::new();
    for one in arm.waited.iter().filter(|one| one.of_service) {
        if let Some(cause) = cause_of(one) {
            *sums.entry(cause).or_default() += one.ns;
        }
    }
    sums
}

/// How much of the idle time waits of so long a request can be behind. They are behind all of it where the threads do hardly
/// anything else, whoever then stands in line; or where a request is answered later by as much, by Little's law.
fn weight(pair: &Pair, more_ns: f64) -> f64 {
    let later_ns = pair.more(|arm| arm.response_ns);
    let of_response = if later_ns > 0.0 { more_ns / later_ns } else { 0.0 };
    occupied(&pair.slow.waited).max(of_response).clamp(0.0, 1.0)
}

/// Waits in one place, in nanoseconds per request.
#[derive(Default)]
struct AtPlace {
    /// All whose end was seen, and those of them that are of a cause.
    ended_ns: f64,
    caused_ns: f64,
    unfinished_ns: f64,
}

/// Share of the waits that are of a cause. One that had not ended when watching did is as the others in its place.
fn occupied(waited: &[Waited]) -> f64 {
    let mut places: BTreeMap<Option<&str>, AtPlace> = BTreeMap::new();
    // A thread that is ready and not yet on an idle CPU comes from a wait: that time is of the waits, as they are.
    for one in waited.iter().filter(|one| one.ended_by != EndedBy::Cpu && !one.of_service) {
        let place = places.entry(one.waited_in.as_ref().map(|frame| frame.name.as_str())).or_default();
        match one.ended_by {
            EndedBy::Unfinished => place.unfinished_ns += one.ns,
            _ => place.ended_ns += one.ns,
        }
        if cause_of(one).is_some() {
            place.caused_ns += one.ns;
        }
    }
    let all_ns: f64 = places.values().map(|place| place.ended_ns + place.unfinished_ns).sum();
    let with_unfinished = |place: &AtPlace| {
        place.caused_ns * (1.0 + place.unfinished_ns / place.ended_ns.max(f64::MIN_POSITIVE))
    };
    let caused_ns: f64 = places.values().filter(|place| place.caused_ns > 0.0).map(with_unfinished).sum();
    caused_ns / all_ns.max(f64::MIN_POSITIVE)
}

/// Who ended waits, where the thread waited, and where the one that ended it was.
type Ended = (Option<String>, Option<String>, Option<String>);

/// What an arm by itself waits for, where that is most of what its threads do without a CPU.
pub(super) fn of_one(arm: &Evidence) -> Option<Seen> {
    let causes = by_cause(arm);
    let all: f64 = causes.values().map(|[ns, _]| *ns).sum();
    let (cause, [ns, _]) = causes.into_iter().max_by(|a, b| a.1[0].total_cmp(&b.1[0]))?;
    let is_most = occupied(&arm.waited) * ns >= MOST * all;
    Some(Seen::Waits(EndedWaits { ns, ..most(arm, cause).filter(|_| is_most)? }))
}

/// What most of an arm's waits of a cause are, who ended them and where. Threads of a pool are one: which of them it was is chance.
fn most(arm: &Evidence, cause: CauseId) -> Option<EndedWaits> {
    let at = |frame: &Option<Frame>| frame.as_ref().map(|frame| brief(&frame.name));
    let these = || arm.waited.iter().filter(|one| cause_of(one) == Some(cause));
    let by = |one: &Waited| {
        let name = one.by.as_deref()?;
        Some(if one.ended_by == EndedBy::Service { name.to_owned() } else { without_number(name) })
    };
    let ended = |one: &Waited| -> Ended { (by(one), at(&one.waited_in), at(&one.woken_from)) };
    let mut places: BTreeMap<Ended, f64> = BTreeMap::new();
    these().for_each(|one| *places.entry(ended(one)).or_default() += one.ns);
    let (most, ns) = places.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let at_place = || these().filter(|one| ended(one) == most);
    let longest = at_place().max_by(|a, b| a.ns.total_cmp(&b.ns))?;
    let is_one = at_place().all(|one| one.by == longest.by);
    let (stem, waited_in, woken_from) = most.clone();
    Some(EndedWaits {
        cause,
        ended_by: longest.ended_by,
        by: if is_one { longest.by.clone() } else { stem },
        waited_in,
        woken_from,
        behind: longest.behind.filter(|_| cause == CauseId::LockContention),
        runs: None,
        ns,
        other_ns: None,
    })
}

/// What the timers of the slower one run most, over those of the other.
fn runs(pair: &Pair) -> Option<Place> {
    let more = |frame: &Frame, ns: f64| {
        // The same function may stand in another line.
        let same = |other: &Frame| (&other.name, &other.file) == (&frame.name, &frame.file);
        let other: f64 = pair.fast.timers.iter().filter(|(other, _)| same(other)).map(|(_, ns)| ns).sum();
        ns - other
    };
    let grown = pair.slow.timers.iter().map(|(frame, ns)| (frame, more(frame, *ns)));
    let (most, _) = grown.filter(|(_, ns)| *ns > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(place(most))
}

/// The name of a thread without the number at its end, by which those of a pool differ.
fn without_number(name: &str) -> String {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if stem.len() < name.len() && !stem.is_empty() { format!("{stem}*") } else { name.to_owned() }
}
