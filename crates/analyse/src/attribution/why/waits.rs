//! Suspects that make a server wait: its CPUs are idle although it is asked. What they can carry is the idle time, each
//! interval of it once.

use super::evidence::Evidence;
use super::gap::Pair;
use super::{Suspect, one};
use crate::attribution::cause::{Cause, Grade};
use crate::facts::beside::ServiceGap;
use crate::facts::busy::REFUSED;
use crate::facts::calls::{ALL_READS, BEGIN_THREADS, FUTEX, SLEEPS, SYNCS, WRITES};
use crate::facts::observed::Blocked;
use crate::facts::shape::DELAYED_ACK_NS;
use crate::facts::stalls::{RUNS, WAITS, activity_words};
use crate::facts::words::percent;
use model::plan::CauseId;
use model::units::format_ns;

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

pub(super) fn wait(id: CauseId, ns: f64, evidence: String) -> Suspect {
    Suspect { id, grade: Grade::ConsistentWith, ns: 0.0, error_ns: 0.0, idle_ns: ns, evidence, usual: false }
}

/// Idle time that is not explained by connections that were not yet accepted.
fn idle_after_accept(pair: &Pair) -> f64 {
    pair.idle_ns * (1.0 - pair.slow.waiting_to_be_accepted)
}

/// Where in its code the slow arm waits, where that was seen.
fn place(pair: &Pair) -> String {
    let names = pair.slow.waits_in.join(", ");
    if names.is_empty() { names } else { format!(" (in {names})") }
}

/// A kind of wait that a server makes a call for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sleep,
    Sync,
    Lock,
    Backend,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Sleep, Self::Sync, Self::Lock, Self::Backend];

    fn calls(self) -> &'static [&'static str] {
        match self {
            Self::Sleep => &SLEEPS,
            Self::Sync => &SYNCS,
            Self::Lock => &FUTEX,
            Self::Backend => &ALL_READS,
        }
    }

    /// What its threads are seen to wait for; what comes from elsewhere looks like the next request.
    fn blocked(self) -> Option<Blocked> {
        match self {
            Self::Sleep => Some(Blocked::Sleep),
            Self::Sync => Some(Blocked::Disk),
            Self::Lock => Some(Blocked::Lock),
            Self::Backend => None,
        }
    }

    /// How many more of a request's waits are of this kind: at most 1, and 0 below what shows. Where calls were not
    /// counted, what its threads are seen to wait for tells.
    fn more_waits(self, pair: &Pair) -> f64 {
        let counted = |names: &[&str]| pair.more_calls(names).map(|(more, _)| more);
        let more = |names: &[&str]| counted(names).unwrap_or(0.0);
        let calls = match self {
            // Whoever waits for an answer has asked; reading twice where nothing has come yet is no wait.
            Self::Backend => more(&ALL_READS).min(more(&WRITES)),
            // A file may be opened so that every write to it waits.
            Self::Sync if most_blocked(pair) == Some(Blocked::Disk) => 1.0,
            _ => counted(self.calls()).unwrap_or_else(|| {
                let seen = self.blocked().is_some() && most_blocked(pair) == self.blocked();
                f64::from(u8::from(seen))
            }),
        };
        let seen = match self.blocked() {
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
    let all = [Blocked::Sleep, Blocked::Disk, Blocked::Lock].into_iter();
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
    let counted = pair.more_calls(&SYNCS);
    let evidence = match counted {
        None => format!("writes that wait for the disk{}", place(pair)),
        Some((_, [slow, _])) if slow < RARE => {
            format!(
                "writes that wait for the disk{}, though none asks for it: is a file opened so?",
                place(pair)
            )
        }
        Some((_, [slow, fast])) => {
            format!("writes forced to the disk{}: {slow:.2} a request against {fast:.2}", place(pair))
        }
    };
    one(Suspect { ns: kernel_time_of_syncs(pair), ..wait(CauseId::SyncWrites, ns, evidence) })
}

/// What the kernel works more where each request has something written to the disk: that it has it written. Where the kernel was
/// sampled, the tree tells better.
pub(super) fn kernel_time_of_syncs(pair: &Pair) -> f64 {
    let more = pair.more_calls(&SYNCS).map_or(0.0, |(more, _)| more.clamp(0.0, 1.0));
    pair.more(|evidence| evidence.cpu.system).max(0.0) * more
}

/// Idle time in calls of which the slow arm makes more, said as "WHAT: 2.00 CALLS a request" where they were counted.
fn waits_in_calls(pair: &Pair, kind: Kind, id: CauseId, what: &str, calls: &str) -> Vec<Suspect> {
    let Some(ns) = kind.carries(pair) else { return Vec::new() };
    let counted = pair.more_calls(kind.calls()).map_or_else(String::new, |(_, [slow, fast])| {
        format!(": {slow:.2}{calls} a request against {fast:.2}")
    });
    one(wait(id, ns, format!("{what}{}{counted}, while its CPUs are idle", place(pair))))
}

/// Sleeps of a fixed time, with the switches that they make.
pub(super) fn sleeps(pair: &Pair) -> Vec<Suspect> {
    let mut found = waits_in_calls(pair, Kind::Sleep, CauseId::Sleep, "sleeps", "");
    let switching_ns = super::counts::switching(pair) * share_of_switches(pair);
    found.iter_mut().for_each(|suspect| suspect.ns += switching_ns);
    found
}

/// Threads that wait for each other while CPUs are idle.
pub(super) fn lock_contention(pair: &Pair) -> Vec<Suspect> {
    waits_in_calls(
        pair,
        Kind::Lock,
        CauseId::LockContention,
        "threads waiting for each other",
        " futex calls",
    )
}

/// Reads beside those of the requests: an answer of a data base, or of another service, that is waited for.
pub(super) fn backend_wait(pair: &Pair) -> Vec<Suspect> {
    waits_in_calls(pair, Kind::Backend, CauseId::BackendWait, "waiting for what it reads elsewhere", " reads")
}

/// Connections that wait to be accepted: by Little's law, their share is the share of the time spent there.
pub(super) fn accept_queue(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.waiting_to_be_accepted);
    if slow <= fast || pair.slow.accepted < RARE {
        return Vec::new();
    }
    let evidence = format!(
        "{} of the connections wait to be accepted, against {}: one acceptor is too slow",
        percent(slow),
        percent(fast)
    );
    one(wait(CauseId::AcceptQueue, pair.idle_ns * slow, evidence))
}

/// Connections that are refused because the queue of those to be accepted is full.
pub(super) fn listen_backlog(pair: &Pair) -> Vec<Suspect> {
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.refused);
    if slow - fast < REFUSED {
        return Vec::new();
    }
    let evidence = format!(
        "connections dropped because the listen queue was full: {slow:.4} a request against {fast:.4}; each client tries \
         again after a second"
    );
    one(wait(CauseId::ListenBacklog, idle_after_accept(pair), evidence))
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
        text: format!(
            "{}connections dropped because the listen queue was full: {:.4} a request against {:.4}; each client tries again \
             after a second: {} a request, which neither its rate nor its CPU time shows",
            if sign < 0.0 { format!("in {}, ", slow.name) } else { String::new() },
            slow.refused,
            fast.refused,
            format_ns(waited_ns)
        ),
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
    let evidence: Vec<String> = gaps.iter().map(|gap| gap.evidence(pair.sign > 0.0)).collect();
    let ns = gaps.iter().map(|gap| more(gap)).sum();
    one(Suspect { grade: Grade::AccountsFor, ..wait(CauseId::ServiceBeside, ns, evidence.join("; ")) })
}

/// Work that only one thread does: it is full while other CPUs are idle.
pub(super) fn one_thread(pair: &Pair) -> Vec<Suspect> {
    if !pair.slow.one_thread_full || pair.fast.one_thread_full {
        return Vec::new();
    }
    let cores = |evidence: &Evidence| evidence.busy_cores;
    let evidence = format!(
        "one thread is full while other CPUs are idle: {:.2} CPUs busy, against {:.2}",
        cores(pair.slow),
        cores(pair.fast)
    );
    one(wait(CauseId::OneThread, pair.idle_ns, evidence))
}

/// Answers whose second part waits until the first is acknowledged (Nagle), which the client delays by 40 ms.
pub(super) fn delayed_ack(pair: &Pair) -> Vec<Suspect> {
    let [from, to] = DELAYED_ACK_NS;
    let shares = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_time(from, to));
    let [slow, fast] = [pair.slow, pair.fast].map(|evidence| evidence.shape.share_of_requests(from, to));
    if slow < RARE || shares[0] <= shares[1] {
        return Vec::new();
    }
    let apart = |(share, ns): &(f64, f64)| {
        format!("; {} of its answers come in pieces, {} apart", percent(*share), format_ns(*ns))
    };
    let pieces =
        pair.slow.pieces.as_ref().filter(|(share, _)| *share >= RARE).map_or_else(String::new, apart);
    let evidence = format!(
        "{} of the answers take 40 ms, against {}: the server's TCP waits for an acknowledgement that the client's delays \
         (set TCP_NODELAY, or write the answer at once); {:.2} delayed acknowledgements a request against {:.2}{pieces}",
        percent(slow),
        percent(fast),
        pair.slow.delayed_acks,
        pair.fast.delayed_acks
    );
    one(wait(CauseId::DelayedAck, pair.idle_ns * (shares[0] - shares[1]), evidence))
}

/// Share of the response at capacity below which that without hurry is told from it.
const UNHURRIED: f64 = 0.5;

/// Whether requests wait for each other, by how much sooner they are answered when there are few of them; nothing where that
/// was not measured.
fn queues(slow: &Evidence) -> Option<bool> {
    Some(slow.unhurried_ns? < UNHURRIED * slow.response_ns)
}

/// A server that leaves its CPUs idle and yet lets requests wait, each of which it would answer soon, takes few at a time: a
/// pool of connections or threads, a semaphore. How many, is Little's law: its rate times the response without hurry.
pub(super) fn few_at_a_time(pair: &Pair) -> Vec<Suspect> {
    let waits_for_others = queues(pair.slow) == Some(true) && unhurried_late(pair).is_none();
    let Some(unhurried_ns) = pair.slow.unhurried_ns.filter(|_| waits_for_others) else { return Vec::new() };
    let in_flight = pair.slow.in_flight;
    let evidence = format!(
        "serving about {:.1} of the {in_flight:.0} requests under way at a time{}: at the equal rate it answers in {}, at \
         capacity in {}, while its CPUs are idle (a pool or a limit with few places)",
        in_flight * unhurried_ns / pair.slow.response_ns,
        place(pair),
        format_ns(unhurried_ns),
        format_ns(pair.slow.response_ns),
    );
    one(wait(CauseId::FewAtATime, idle_after_accept(pair), evidence))
}

/// By what it shows that all requests wait, and not only those that meet something now and then.
pub(super) fn all_late(pair: &Pair) -> Option<String> {
    let quickest = |evidence: &Evidence| evidence.shape.quantile_ns(QUICK).map(|ns| ns as f64);
    later(pair, quickest, "even the quickest twentieth of the answers").or_else(|| unhurried_late(pair))
}

/// The same of answers that wait for no others: what each of them waits for is its own.
fn unhurried_late(pair: &Pair) -> Option<String> {
    later(pair, |arm| arm.unhurried_ns, "at the equal rate, where nothing hurries, half of the answers")
}

/// Where these answers are later than the other arm's by at least half of what all are at capacity on average: how late.
fn later(pair: &Pair, these: impl Fn(&Evidence) -> Option<f64>, what: &str) -> Option<String> {
    let (slow, fast) = these(pair.slow).zip(these(pair.fast))?;
    let is_late = slow > fast && slow - fast >= pair.more(|evidence| evidence.response_ns) / 2.0;
    is_late.then(|| format!("{what} take {}, against {}", format_ns(slow), format_ns(fast)))
}

/// Where no call that waits is counted and all answers are late, a time has to pass: a timer of an event loop makes no
/// system call of its own.
pub(super) fn timer_wait(pair: &Pair) -> Vec<Suspect> {
    let Some(late) = all_late(pair) else { return Vec::new() };
    let what = match queues(pair.slow) {
        Some(_) => "waiting for a time to pass",
        None => "waiting for a time to pass, or for a turn (an equal rate would tell)",
    };
    let evidence = format!(
        "{what}{}: {late}, while its CPUs are idle and {}",
        place(pair),
        match pair.more_calls(&SLEEPS) {
            Some(_) => "no call that waits is counted",
            None => "its calls were not counted",
        }
    );
    one(wait(CauseId::TimerWait, idle_after_accept(pair), evidence))
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
    // Without privilege nobody sees what threads wait in.
    let meanwhile = activity(WAITS).map_or_else(|| "waits for something unseen".to_owned(), activity_words);
    let offered_ns = pair.slow.cpu.total + pair.slow.idle_ns;
    one(Suspect {
        id: CauseId::Stalls,
        grade: Grade::ConsistentWith,
        ns: 0.0,
        error_ns: 0.0,
        idle_ns: (pair.more(share) * offered_ns).clamp(0.0, pair.idle_ns),
        evidence: format!(
            "answers nobody for {} at a time ({} of the time against {}), while it {}",
            format_ns(stalled.mean_ns),
            percent(share(pair.slow)),
            percent(share(pair.fast)),
            meanwhile
        ),
        usual: false,
    })
}
