//! Goroutines that wait more in the slower arm, told with the cause of its idle time: they have no threads, so that no wait of a thread says
//! where they are.

use model::plan::CauseId;
use model::record::WaitsFor;

use super::evidence::Evidence;
use super::gap::Pair;
use super::waits::wait;
use super::{RULED_OUT, Suspect, join};
use crate::attribution::seen::{Meanwhile, ParkedSeen, Seen};
use crate::facts::functions::brief;
use crate::facts::parked::ParkedAt;

/// Share of how much later the slower arm answers from which on goroutines that wait longer say why.
const WORTH: f64 = 0.25;
/// Share of those that wait most from which on others say what these wait for in the end.
const AS_MANY: f64 = 0.5;
/// Share of its CPUs that a server leaves idle, below which it is busy all the time.
const IDLE: f64 = 0.05;
/// Causes of idle time that goroutines say the place of.
const CAUSES: [CauseId; 6] = [
    CauseId::FewAtATime,
    CauseId::TimerWait,
    CauseId::Sleep,
    CauseId::LockContention,
    CauseId::BackendWait,
    CauseId::Stalls,
];

/// Tells where goroutines wait longer with the largest cause that this is the place of. A timer that ends waits is a sleep if goroutines
/// sleep; waits of threads for each other are waits for another service if goroutines wait for its answer; times in which nobody is answered
/// are of a lock if they wait for one. Where there is no such cause, what is left of the idle time is of what they wait for.
pub(super) fn tell(pair: &Pair, suspects: &mut Vec<Suspect>, left_ns: f64) {
    let Some((seen, share)) = longest(pair) else { return };
    let its = suspects.iter().enumerate().filter(|(_, one)| CAUSES.contains(&one.id) && one.idle_ns > 0.0);
    match its.max_by(|(_, a), (_, b)| a.idle_ns.total_cmp(&b.idle_ns)).map(|(place, _)| place) {
        Some(place) => {
            // Threads were seen to wait for this as far as they wait for anything; goroutines tell how much of an answer's time it is.
            if seen.waits_for == WaitsFor::Network {
                let all_ns = share * pair.idle_ns;
                let one = &mut suspects[place];
                one.idle_ns = all_ns.clamp(one.idle_ns, one.idle_ns + left_ns.max(0.0));
            }
            tell_with(&mut suspects[place], seen);
            let id = suspects[place].id;
            if suspects.iter().filter(|one| one.id == id).count() > 1 {
                let suspect = suspects.remove(place);
                join(suspects, suspect);
            }
        }
        None if left_ns > RULED_OUT * pair.idle_ns => {
            let id = match seen.waits_for {
                WaitsFor::Sleep => CauseId::Sleep,
                WaitsFor::Lock => CauseId::LockContention,
                WaitsFor::Network => CauseId::BackendWait,
                _ => return,
            };
            suspects.push(wait(id, left_ns * share, Seen::Parked(seen)));
        }
        None => {}
    }
}

fn tell_with(suspect: &mut Suspect, seen: ParkedSeen) {
    // In which function of the runtime a thread waits meanwhile says nothing; who answers it does.
    if suspect.id != CauseId::BackendWait {
        suspect.seen.retain(|seen| !matches!(seen, Seen::Waits(_)));
    }
    suspect.id = match (suspect.id, seen.waits_for) {
        (CauseId::TimerWait, WaitsFor::Sleep) => CauseId::Sleep,
        (CauseId::Stalls, WaitsFor::Lock) => CauseId::LockContention,
        // Their threads wait for whatever comes first.
        (CauseId::TimerWait | CauseId::Stalls | CauseId::LockContention, WaitsFor::Network) => {
            CauseId::BackendWait
        }
        (id, _) => id,
    };
    for one in &mut suspect.seen {
        match one {
            Seen::FewAtATime { functions, waits_for, .. } => {
                (*functions, *waits_for) = (Vec::new(), Some(seen.waits_for));
            }
            Seen::AllLate { functions, .. } => functions.clear(),
            Seen::Silences { meanwhile, .. } => *meanwhile = Meanwhile::Goroutines,
            _ => {}
        }
    }
    suspect.seen.push(Seen::Parked(seen));
}

/// Where goroutines wait longest that did not in the faster arm, and the share of what the slower one answers later.
fn longest(pair: &Pair) -> Option<(ParkedSeen, f64)> {
    let slow = pair.slow.parked.as_deref()?;
    let later_ns = pair.more(|arm| arm.response_ns);
    let grown: Vec<(&ParkedAt, f64)> = slow
        .iter()
        .filter(|one| one.is_asked)
        .map(|one| (one, more_ns(pair, one)))
        .filter(|(_, ns)| *ns > 0.0 && *ns >= WORTH * later_ns)
        .collect();
    let most_of = |these: &dyn Fn(&ParkedAt) -> bool| {
        let these = grown.iter().filter(|(one, _)| these(one));
        these.copied().max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let (most, most_ns) = most_of(&|_| true)?;
    // Who waits for another goroutine waits for what that one waits for.
    let ends = |one: &ParkedAt| matches!(one.waits_for, WaitsFor::Lock | WaitsFor::Sleep | WaitsFor::Network);
    let end = most_of(&ends).filter(|(_, ns)| !ends(most) && *ns >= AS_MANY * most_ns);
    let (one, ns) = end.unwrap_or((most, most_ns));
    let other = pair.fast.parked.as_deref().map(|fast| {
        let same = fast.iter().filter(|other| is_same(one, other));
        same.fold([0.0, 0.0], |[count, ns], other| [count + other.at_a_time, ns + other.ns])
    });
    let function = brief(&one.place.as_ref()?.name);
    let seen = ParkedSeen { waits_for: one.waits_for, function, at_a_time: one.at_a_time, ns: one.ns, other };
    Some((seen, if later_ns > 0.0 { (ns / later_ns).min(1.0) } else { 1.0 }))
}

/// Whether a server leaves next to nothing of its CPUs idle.
fn is_busy(arm: &Evidence) -> bool {
    arm.idle_ns < IDLE * (arm.cpu.total + arm.idle_ns)
}

/// Whether goroutines of two arms wait for the same in the same function.
fn is_same(one: &ParkedAt, other: &ParkedAt) -> bool {
    let name = |at: &ParkedAt| at.place.as_ref().map(|frame| frame.name.clone());
    (one.waits_for, one.answers, name(one)) == (other.waits_for, other.answers, name(other))
}

/// How much longer goroutines of a place wait for each request than in the faster arm, in nanoseconds, and no more than all of those like
/// them do: a function that only has another name waits no longer. Those that answer requests wait as a part of each. Others are there
/// whether anybody asks or not, so that only more of them wait longer.
fn more_ns(pair: &Pair, one: &ParkedAt) -> f64 {
    let figure = |at: &ParkedAt| if one.answers { at.ns } else { at.at_a_time };
    let sum = |arm: &Evidence, fits: &dyn Fn(&ParkedAt) -> bool| {
        let these = arm.parked.iter().flatten().filter(|at| fits(at));
        these.map(figure).sum::<f64>()
    };
    let more = |fits: &dyn Fn(&ParkedAt) -> bool| sum(pair.slow, fits) - sum(pair.fast, fits);
    let alike = |other: &ParkedAt| other.answers == one.answers && other.is_asked;
    let grown = match (&pair.fast.parked, one.answers) {
        (Some(_), _) => more(&|other| is_same(one, other)).min(more(&alike)),
        // Waits of a server that is busy all the time are not looked at: they are not what it has idle time for, for it has none.
        (None, true) if is_busy(pair.fast) => one.ns,
        // No request waits longer than until it is answered.
        (None, true) => one.ns - pair.fast.response_ns,
        (None, false) => 0.0,
    };
    if one.answers { grown } else { one.ns * grown / one.at_a_time.max(f64::MIN_POSITIVE) }
}
