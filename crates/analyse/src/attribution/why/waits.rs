//! Suspects that make a server wait: its CPUs are idle although it is asked. What they can carry is the idle time, each
//! interval of it once.

use super::evidence::Evidence;
use super::gap::Pair;
use super::{Suspect, one, wakers, whose};
use crate::attribution::cause::{Carries, Cause, CauseSays, Grade};
use crate::attribution::seen::{Both, DiskCalls, Late, Meanwhile, Seen};
use crate::facts::beside::ServiceGap;
use crate::facts::busy::REFUSED;
use crate::facts::calls::{ALL_READS, BEGIN_THREADS, FILE_LOCKS, FUTEX, SLEEPS, SYNCS, WRITES};
use crate::facts::observed::Blocked;
use crate::facts::shape::{ACKNOWLEDGED, DELAYED_ACK_NS};
use crate::facts::stalls::{RUNS, WAITS};
use model::plan::CauseId;

/// How long the client of a refused connection waits until it tries again (RFC 6298: one second).
const RETRY_NS: f64 = 1e9;
/// The quickest answers: if these are late, all are.
const QUICK: f64 = 0.05;
/// A wait that fewer than one in a hundred requests meets explains no gap between means.
const RARE: f64 = 0.01;
/// A wait that this many of the requests meet may be all that they wait for.
const MANY: f64 = 0.5;
/// Fewer threads than this waiting at a time tell nothing.
const FEW_THREADS: f64 = 0.1;

pub(super) fn wait(id: CauseId, ns: f64, seen: Seen) -> Suspect {
    let seen = vec![seen];
    Suspect { id, grade: Grade::ConsistentWith, ns: 0.0, error_ns: 0.0, idle_ns: ns, seen, usual: false }
}

/// Idle time that is not explained by connections that were not yet accepted.
fn idle_after_accept(pair: &Pair) -> f64 {
    pair.idle_ns * (1.0 - pair.slow.waiting_to_be_accepted)
}

/// Where in its code the slow arm waits, where that was seen.
fn functions(pair: &Pair) -> Vec<String> {
    pair.slow.waits_in.clone()
}

/// A kind of wait that a server makes a call for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sleep,
    Sync,
    Lock,
    FileLock,
    Backend,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Sleep, Self::Sync, Self::Lock, Self::FileLock, Self::Backend];

    fn calls(self) -> &'static [&'static str] {
        match self {
            Self::Sleep => &SLEEPS,
            Self::Sync => &SYNCS,
            Self::Lock => &FUTEX,
            Self::FileLock => &FILE_LOCKS,
            Self::Backend => &ALL_READS,
        }
    }

    /// What its threads are seen to wait for; what comes from elsewhere looks like the next request.
    fn blocked(self) -> Option<Blocked> {
        match self {
            Self::Sleep => Some(Blocked::Sleep),
            Self::Sync => Some(Blocked::Disk),
            Self::Lock => Some(Blocked::Lock),
            Self::FileLock => Some(Blocked::FileLock),
            Self::Backend => None,
        }
    }

    fn cause(self) -> CauseId {
        match self {
            Self::Sleep => CauseId::Sleep,
            Self::Sync => CauseId::SyncWrites,
            Self::Lock | Self::FileLock => CauseId::LockContention,
            Self::Backend => CauseId::BackendWait,
        }
    }

    /// How many more of a request's waits are of this kind: at most 1, and 0 below what shows. Where calls were not
    /// counted, what its threads are seen to wait for tells. Of an arm of which it was seen what ends its waits, though not of the other,
    /// none is of a kind that was not among them: a runtime that sleeps in a futex waits for no lock.
    fn more_waits(self, pair: &Pair) -> f64 {
        let ended = wakers::seen_of(pair.slow, self.cause());
        if ended == Some(0.0) {
            return 0.0;
        }
        let counted = |names: &[&str]| pair.more_calls(names).map(|(more, _)| more);
        let more = |names: &[&str]| counted(names).unwrap_or(0.0);
        let calls = match self {
            // Whoever waits for an answer has asked; reading twice where nothing has come yet is no wait.
            Self::Backend => more(&ALL_READS).min(more(&WRITES)),
            Self::Sleep if ended.is_some() && more(&SLEEPS) < RARE => more(&FUTEX),
            // A file may be opened so that every write to it waits, and a lock that is free is asked for as one is that is not.
            Self::Sync | Self::FileLock if most_blocked(pair) == self.blocked() => 1.0,
            Self::FileLock => 0.0,
            _ => counted(self.calls()).unwrap_or_else(|| {
                let seen = self.blocked().is_some() && most_blocked(pair) == self.blocked();
                f64::from(u8::from(seen))
            }),
        };
        let seen = match self.blocked() {
            _ if ended.is_some() => 1.0,
            // Whoever waits for a lock waits for what its holder waits for.
            Some(Blocked::Disk) if more_blocked(pair, Blocked::Disk) >= FEW_THREADS => 1.0,
            Some(blocked) => grown(pair, blocked),
            None => 1.0,
        };
        if calls < RARE { 0.0 } else { calls.min(1.0) * seen }
    }

    /// The idle time that it can carry: all of it, or in proportion where few requests meet it, or meet another kind
    /// more often.
    fn carries(self, pair: &Pair) -> Option<f64> {
        let most = Self::ALL.map(|kind| kind.more_waits(pair)).into_iter().fold(MANY, f64::max);
        let met = self.more_waits(pair);
        (met > 0.0).then(|| idle_after_accept(pair) * met / most)
    }
}

/// The share of the additional context switches that sleeps and waits for a disk make: whoever waits leaves the CPU, and
/// one who waits for a disk is woken for every step on the way.
pub(super) fn share_of_switches(pair: &Pair) -> f64 {
    let more = pair.more(Evidence::all_switches);
    if more <= 0.0 {
        return 0.0;
    }
    if Kind::Sync.more_waits(pair) >= MANY { 1.0 } else { (Kind::Sleep.more_waits(pair) / more).min(1.0) }
}

/// The share of them that threads and processes make which the slow arm begins: each is switched to, and away from at its
/// end.
pub(super) fn share_of_begun(pair: &Pair) -> f64 {
    const SWITCHES: f64 = 2.0;
    let more = pair.more(Evidence::all_switches);
    let begun = pair.more_calls(&BEGIN_THREADS).map_or(0.0, |(more, _)| more.max(0.0));
    if more <= 0.0 { 0.0 } else { (SWITCHES * begun / more).min(1.0) }
}

/// How many more threads wait for this at a time.
fn more_blocked(pair: &Pair, blocked: Blocked) -> f64 {
    pair.more(|evidence| evidence.blocked.get(&blocked).copied().unwrap_or(0.0))
}

/// What most more threads wait for, where that shows.
fn most_blocked(pair: &Pair) -> Option<Blocked> {
    let all = [Blocked::Sleep, Blocked::Disk, Blocked::Lock, Blocked::FileLock].into_iter();
    all.max_by(|a, b| more_blocked(pair, *a).total_cmp(&more_blocked(pair, *b)))
        .filter(|most| more_blocked(pair, *most) >= FEW_THREADS)
}

/// How many more threads wait for this, over those that wait for what most more wait for; 1 where no more are seen to
/// wait, as threads of a pool wait for work where others would wait for a lock.
fn grown(pair: &Pair, blocked: Blocked) -> f64 {
    match most_blocked(pair) {
        Some(most) => (more_blocked(pair, blocked) / more_blocked(pair, most)).clamp(0.0, 1.0),
        // A runtime's own idle threads were told from the others, and so others would have been seen.
        None if pair.slow.knows_idle_threads => 0.0,
        None => 1.0,
    }
}

/// Writes that are forced to the disk. The kernel's work for them is theirs too.
pub(super) fn sync_writes(pair: &Pair) -> Vec<Suspect> {
    let Some(ns) = Kind::Sync.carries(pair) else { return Vec::new() };
    let calls = match pair.more_calls(&SYNCS) {
        None => DiskCalls::Unknown,
        Some((_, [slow, _])) if slow < RARE => DiskCalls::None,
        Some((_, counted)) => DiskCalls::Counted(counted),
    };
    let seen = Seen::DiskWrites { functions: functions(pair), calls };
    one(Suspect { ns: kernel_time_of_syncs(pair), ..wait(CauseId::SyncWrites, ns, seen) })
}

/// What the kernel works more where each request has something written to the disk: that it has it written. Where the kernel was
/// sampled, the tree tells better.
pub(super) fn kernel_time_of_syncs(pair: &Pair) -> f64 {
    let more = pair.more_calls(&SYNCS).map_or(0.0, |(more, _)| more.clamp(0.0, 1.0));
    pair.more(|evidence| evidence.cpu.system).max(0.0) * more
}

/// Idle time in calls of which the slow arm makes more.
fn waits_in_calls(pair: &Pair, kind: Kind) -> Vec<Suspect> {
    let Some(ns) = kind.carries(pair) else { return Vec::new() };
    // Sleeps of a runtime need no call that is named so.
    let calls = pair.more_calls(kind.calls()).map(|(_, counted)| counted).filter(|[slow, _]| *slow >= RARE);
    let seen = Seen::WaitsInCalls { what: kind.blocked(), functions: functions(pair), calls };
    one(wait(kind.cause(), ns, seen))
}

/// Sleeps of a fixed time, with the switches that they make.
pub(super) fn sleeps(pair: &Pair) -> Vec<Suspect> {
    let mut found = waits_in_calls(pair, Kind::Sleep);
    let switching_ns = super::counts::switching(pair) * share_of_switches(pair);
    found.iter_mut().for_each(|suspect| suspect.ns += switching_ns);
    found
}

/// Threads that wait for each other while CPUs are idle.
pub(super) fn lock_contention(pair: &Pair) -> Vec<Suspect> {
    [Kind::Lock, Kind::FileLock].into_iter().flat_map(|kind| waits_in_calls(pair, kind)).collect()
}

/// Reads beside those of the requests: an answer of a data base, or of another service, that is waited for.
pub(super) fn backend_wait(pair: &Pair) -> Vec<Suspect> {
    waits_in_calls(pair, Kind::Backend)
}

/// Connections that wait to be accepted: by Little's law, their share is the share of the time spent there.
pub(super) fn accept_queue(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.waiting_to_be_accepted);
    if slow <= fast || pair.slow.accepted < RARE {
        return Vec::new();
    }
    one(wait(CauseId::AcceptQueue, pair.idle_ns * slow, Seen::NotAccepted([slow, fast])))
}

/// Connections that are refused because the queue of those to be accepted is full.
pub(super) fn listen_backlog(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.refused);
    if slow - fast < REFUSED {
        return Vec::new();
    }
    one(wait(CauseId::ListenBacklog, idle_after_accept(pair), Seen::Refused([slow, fast])))
}

/// The same where the server is no slower for it: other clients keep it as busy as ever, and those that were refused wait.
pub(super) fn refusals(baseline: &Evidence, arm: &Evidence) -> Option<Cause> {
    let (sign, slow, fast) =
        if arm.refused >= baseline.refused { (1.0, arm, baseline) } else { (-1.0, baseline, arm) };
    let waited_ns = slow.refused * RETRY_NS;
    (slow.refused >= REFUSED && slow.refused > 2.0 * fast.refused).then(|| Cause {
        id: CauseId::ListenBacklog,
        grade: Grade::ConsistentWith,
        baseline: baseline.name.clone(),
        arm: arm.name.clone(),
        ns_per_request: sign * waited_ns,
        share: None,
        place: None,
        text: String::new(),
        says: Some(CauseSays {
            tests: Vec::new(),
            of: whose(sign, slow),
            seen: vec![Seen::Refused([slow.refused, fast.refused])],
            carries: Carries::Unshown(waited_ns),
        }),
    })
}

/// What services beside do meanwhile, which have the server's CPUs: that is time in which the server itself has nothing to do.
pub(super) fn services_beside(pair: &Pair) -> Vec<Suspect> {
    let more = |gap: &ServiceGap| pair.sign * gap.delta_ns();
    let mut gaps: Vec<&ServiceGap> = pair.services.clone();
    gaps.retain(|gap| gap.is_sure() && more(gap) > 0.0);
    if gaps.is_empty() {
        return Vec::new();
    }
    gaps.sort_by(|a, b| more(b).total_cmp(&more(a)));
    let seen = gaps.iter().map(|gap| service(pair, gap)).collect();
    one(Suspect {
        id: CauseId::ServiceBeside,
        grade: Grade::AccountsFor,
        ns: 0.0,
        error_ns: 0.0,
        idle_ns: gaps.iter().map(|gap| more(gap)).sum(),
        seen,
        usual: false,
    })
}

/// What a service uses for the two.
fn service(pair: &Pair, gap: &ServiceGap) -> Seen {
    let both = [gap.arm_ns, gap.baseline_ns];
    let ns = if pair.sign > 0.0 { both } else { [both[1], both[0]] };
    Seen::Service { service: gap.service.clone(), ns, place: gap.place() }
}

/// Work that only one thread does: it is full while other CPUs are idle.
pub(super) fn one_thread(pair: &Pair) -> Vec<Suspect> {
    if !pair.slow.one_thread_full || pair.fast.one_thread_full {
        return Vec::new();
    }
    let seen = Seen::OneThread([pair.slow.busy_cores, pair.fast.busy_cores]);
    one(wait(CauseId::OneThread, pair.idle_ns, seen))
}

/// Share of the answers that take as long as an acknowledgement is delayed, from which on others like them are no accident.
const LIKE_THEM: f64 = 0.25;

/// Whether this share of the answers takes as long as an acknowledgement is delayed because requests wait in line. Then none does where
/// few ask, and answers come whole; of one that waits for an acknowledgement the first part has come before. The server's own
/// connections are silent for so long meanwhile, and acknowledgements on them are delayed.
fn waits_in_line(slow: &Evidence, answers: f64) -> bool {
    let [from, to] = DELAYED_ACK_NS;
    let unhurried = slow.unhurried_shape.as_ref().map(|shape| shape.share_of_requests(from, to));
    let in_pieces = slow.pieces.is_some_and(|(share, _)| share >= LIKE_THEM * answers);
    !in_pieces && unhurried.is_some_and(|share| share < LIKE_THEM * answers)
}

/// Answers whose second part waits until the first is acknowledged (Nagle), which the client delays by 40 ms.
pub(super) fn delayed_ack(pair: &Pair) -> Vec<Suspect> {
    let [from, to] = DELAYED_ACK_NS;
    let shares = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_time(from, to));
    let answers = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_requests(from, to));
    // A timer of the program can take as long: the kernel counts acknowledgements that were delayed.
    let acknowledged = pair.slow.delayed_acks >= ACKNOWLEDGED * answers[0];
    if answers[0] < RARE || shares[0] <= shares[1] || !acknowledged || waits_in_line(pair.slow, answers[0]) {
        return Vec::new();
    }
    let seen = Seen::DelayedAcks {
        answers,
        acks: [pair.slow.delayed_acks, pair.fast.delayed_acks],
        pieces: pair.slow.pieces.filter(|(share, _)| *share >= RARE),
    };
    one(wait(CauseId::DelayedAck, pair.idle_ns * (shares[0] - shares[1]), seen))
}

/// Share of the response at capacity below which that without hurry is told from it.
const UNHURRIED: f64 = 0.5;

/// Whether requests wait for each other, by how much sooner they are answered when there are few of them; nothing where that
/// was not measured.
fn queues(slow: &Evidence) -> Option<bool> {
    Some(slow.unhurried_ns? < UNHURRIED * slow.response_ns)
}

/// A server that leaves its CPUs idle and yet lets requests wait, each of which it would answer soon, takes few at a time: a
/// pool of connections or threads, a semaphore. How many, is Little's law: its rate times the response without a wait.
pub(super) fn few_at_a_time(pair: &Pair) -> Vec<Suspect> {
    let waits_for_others = queues(pair.slow) == Some(true) && unhurried_late(pair).is_none();
    let Some(unhurried_ns) = pair.slow.unhurried_ns.filter(|_| waits_for_others) else { return Vec::new() };
    let (in_flight, response_ns) = (pair.slow.in_flight, pair.slow.response_ns);
    // Under load an answer takes as long as in the other arm, if that has CPUs to spare and lets nobody wait for a turn.
    let takes_ns = match queues(pair.fast) {
        Some(false) if !pair.fast.full => pair.fast.response_ns.clamp(unhurried_ns, response_ns),
        _ => unhurried_ns,
    };
    let quickest_ns = pair.slow.unhurried_shape.as_ref().and_then(|shape| shape.percentile_ns(QUICK));
    let served = [quickest_ns.map_or(takes_ns, |ns| ns.min(takes_ns)), takes_ns];
    let seen = Seen::FewAtATime {
        served: served.map(|ns| in_flight * ns / response_ns),
        in_flight,
        functions: match functions(pair) {
            none if none.is_empty() => wakers::waits_most(pair.slow, takes_ns / 2.0).into_iter().collect(),
            some => some,
        },
        waits_for: None,
        unhurried_ns,
        response_ns,
    };
    one(wait(CauseId::FewAtATime, idle_after_accept(pair), seen))
}

/// By what it shows that all requests wait, and not only those that meet something now and then.
pub(super) fn all_late(pair: &Pair) -> Option<Late> {
    let quickest = |evidence: &Evidence| evidence.shape.quantile_ns(QUICK).map(|ns| ns as f64);
    later(pair, quickest).map(Late::Quickest).or_else(|| unhurried_late(pair))
}

/// The same of answers that wait for no others: what each of them waits for is its own.
fn unhurried_late(pair: &Pair) -> Option<Late> {
    later(pair, |arm| arm.unhurried_ns).map(Late::Unhurried)
}

/// Where these answers are later than the other arm's by at least half of what all are at capacity on average: how late.
fn later(pair: &Pair, these: impl Fn(&Evidence) -> Option<f64>) -> Option<Both> {
    let (slow, fast) = these(pair.slow).zip(these(pair.fast))?;
    let is_late = slow > fast && slow - fast >= pair.more(|evidence| evidence.response_ns) / 2.0;
    is_late.then_some([slow, fast])
}

/// Where no call that waits is counted and all answers are late, a time has to pass: a timer of an event loop makes no
/// system call of its own.
pub(super) fn timer_wait(pair: &Pair) -> Vec<Suspect> {
    let Some(late) = all_late(pair) else { return Vec::new() };
    let seen = Seen::AllLate {
        or_turn: queues(pair.slow).is_none(),
        functions: functions(pair),
        late,
        counted: pair.more_calls(&SLEEPS).is_some(),
    };
    one(wait(CauseId::TimerWait, idle_after_accept(pair), seen))
}

/// Times in which the slow arm answers nobody and its CPUs are idle: whatever it waits for then holds up all requests.
pub(super) fn idle_stalls(pair: &Pair) -> Vec<Suspect> {
    let share = |evidence: &Evidence| evidence.stalled.as_ref().map_or(0.0, |stalled| stalled.share);
    let Some(stalled) = &pair.slow.stalled else { return Vec::new() };
    let activity = |does| stalled.activities.iter().find(|activity| activity.does == does);
    // Where each request waits, nobody is answered whenever all do at the same time.
    if activity(RUNS).is_some() || all_late(pair).is_some() {
        return Vec::new();
    }
    let offered_ns = pair.slow.cpu.total + pair.slow.idle_ns;
    let idle_ns = (pair.more(share) * offered_ns).clamp(0.0, pair.idle_ns);
    let seen = Seen::Silences {
        mean_ns: stalled.mean_ns,
        shares: [share(pair.slow), share(pair.fast)],
        meanwhile: activity(WAITS).cloned().map_or(Meanwhile::Unseen, Meanwhile::Threads),
    };
    one(wait(CauseId::Stalls, idle_ns, seen))
}
