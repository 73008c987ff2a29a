//! What limits an arm: why it does not serve twice as much.

mod limit;

use std::collections::BTreeMap;

use model::plan::{CauseId, Condition, GateId};
use model::record::{GENERATOR_BUSY, Link, Window};

use crate::attribution::Attribution;
use crate::facts::busy::{
    FULL, IDLE, REFUSED, backlog_per_s, busiest_thread, busy_cores, refused, sent_again, set_busy,
    with_interrupts,
};
use crate::facts::observed::Blocked;
use crate::facts::sheet::Sheet;
use crate::facts::{Alone, Facts, Wait};
use crate::gates::{self, Gate};
pub use limit::{Like, Limit};

/// Ready threads that wait this much of the time they run are short of CPU.
const MANY_WAITING: f64 = 0.20;
/// Share of its CPUs that the server and whatever else ran there used, from which on one kept the other from running.
const CROWDED: f64 = 0.9;
/// Segments sent again per request that show: each may take a fifth of a second, and as many cost what [`REFUSED`] do.
/// Source: Linux, include/net/tcp.h, TCP_RTO_MIN (HZ/5).
const RETRANSMITTED: f64 = 0.0025;
/// Fewer threads than this waiting at a time tell nothing.
const FEW_THREADS: f64 = 0.1;
/// Threads that wait for something, over those that run, from which on the wait is long.
const LONG: f64 = 0.5;
/// A call that waits is what requests wait for where this many of them make it; a thread of its own may make fewer.
const MANY_CALLS: f64 = 0.5;
/// Share of the time of all responses that is spent in stalls of one length where those are the limit; likewise of busy CPUs that
/// services beside use.
const MOST: f64 = 0.5;

/// What is known of one arm at the main condition, as medians over its windows; shares are 0 to 1.
struct ArmMedians<'a> {
    /// CPUs of the server's set that the arm itself used, and how many there are.
    busy: f64,
    cpus: f64,
    /// Share of the set that the arm itself used, that it used with the interrupts there, and that anything used.
    own: f64,
    server: f64,
    /// Share of the time in which it answers anybody.
    answering: f64,
    set: f64,
    /// Share of it that services beside used.
    beside: f64,
    /// Share of the time in which its busiest thread ran.
    thread: f64,
    /// Time that ready threads waited for a CPU over the time that they ran.
    waiting: f64,
    /// Share of the time in which the generator's busiest thread ran.
    generator: f64,
    /// Connections refused, and segments sent again, for each request.
    refused: f64,
    resent: f64,
    /// Share of what the link carries that was sent, where that is too much.
    link: Option<f64>,
    /// The link, where it is one between two machines, and the mean response in nanoseconds.
    between: Option<Link>,
    response_ns: f64,
    alone: &'a Alone,
}

/// Looks for one limit: what it is, where it holds.
type Look = fn(&ArmMedians) -> Option<Limit>;

/// All limits that are known, in the order in which they are looked for: the first that holds is named.
const LIMITS: [Look; 15] = [
    own_cpu,
    stops,
    one_thread,
    beside,
    others,
    run_queue,
    acknowledgements,
    blocked,
    accept_queue,
    between,
    retransmits,
    round_trip,
    generator,
    link,
    stalls,
];

/// What limits each arm, decided once.
pub(crate) struct Limits(pub(crate) BTreeMap<String, Limit>);

impl Limits {
    /// What is known to limit each arm: what its gap was found to be, where it waits; else the first of [`LIMITS`], or what it was seen to wait for.
    pub(crate) fn from_facts(facts: &Facts, gates: &[Gate], attribution: &Attribution) -> Self {
        let named =
            |(arm, alone): (&str, &Alone)| Some((arm.to_owned(), first(&facts.sheet, arm, gates, alone)?));
        let waits = attribution.waits.iter();
        let waits = waits.map(|(arm, seen)| (arm.clone(), Limit::Wait(seen.clone())));
        let mut limits: BTreeMap<String, Limit> = facts.each_alone().filter_map(named).chain(waits).collect();
        for (arm, seen) in &attribution.own_waits {
            if let Some(limit @ Limit::Unknown(_)) = limits.get_mut(arm) {
                *limit = Limit::Wait(vec![seen.clone()]);
            }
        }
        Self(limits)
    }
}

/// The first limit that holds for `arm`: "unknown" where none does, nothing where no window counts.
fn first(sheet: &Sheet, arm: &str, gates: &[Gate], alone: &Alone) -> Option<Limit> {
    let seen = ArmMedians::for_arm(sheet, arm, gates, alone)?;
    let capacity = sheet.plan().workload.conditions[sheet.main] == Condition::Capacity;
    // Above the knee the server is at its limit in an open loop too.
    let overloaded = sheet.median(arm, sheet.main, backlog_per_s).is_some();
    if !capacity && !overloaded {
        return Some(Limit::Rate);
    }
    let known = LIMITS.iter().find_map(|look| look(&seen));
    Some(known.unwrap_or(Limit::Unknown(seen.own)))
}

impl<'a> ArmMedians<'a> {
    fn for_arm(sheet: &Sheet, arm: &str, gates: &[Gate], alone: &'a Alone) -> Option<Self> {
        let median =
            |figure: fn(&Window) -> f64| sheet.median(arm, sheet.main, |window| Some(figure(window)));
        let (busy, cpus) = (median(busy_cores)?, median(|window| f64::from(window.server_cpus.cpus))?);
        Some(Self {
            busy,
            cpus,
            own: busy / cpus.max(1.0),
            server: median(with_interrupts)?,
            answering: sheet.answering(arm),
            set: median(|window| set_busy(&window.server_cpus))?,
            beside: median(|window| {
                let used: u64 = window.services.values().sum();
                used as f64 / window.target.wall_ns.max(1) as f64 / f64::from(window.server_cpus.cpus.max(1))
            })?,
            thread: median(busiest_thread)?,
            waiting: median(|window| {
                window.target.run_wait_ns as f64 / window.target.cpu.total_ns.max(1) as f64
            })?,
            generator: median(|window| window.load.busiest_thread)?,
            refused: median(|window| per_request(window, refused(window)))?,
            resent: median(|window| per_request(window, sent_again(window)))?,
            link: gates::failed(gates, GateId::Wire, arm).and_then(|gate| gate.value),
            between: sheet.run.host.link,
            response_ns: median(|window| window.load.response_ns.mean)?,
            alone,
        })
    }

    /// Whether requests come to the server as fast as it takes them: where they do not, its threads wait for work.
    fn is_kept_busy(&self) -> bool {
        self.refused < REFUSED && self.generator < GENERATOR_BUSY
    }
}

fn own_cpu(seen: &ArmMedians) -> Option<Limit> {
    (seen.server >= FULL).then_some(Limit::OwnCpu { busy: seen.server, cpus: seen.cpus })
}

/// CPUs that are full but for the time in which nobody is answered, and which nobody else has then.
fn stops(seen: &ArmMedians) -> Option<Limit> {
    let full = seen.answering < 1.0 && seen.server / seen.answering >= FULL && seen.set < FULL;
    full.then_some(Limit::Stops { busy: seen.server, share: 1.0 - seen.answering })
}

/// CPUs that are full, with services beside for the most part.
fn beside(seen: &ArmMedians) -> Option<Limit> {
    let most = seen.set >= FULL && seen.beside >= MOST * seen.set;
    most.then_some(Limit::ServicesBeside { beside: seen.beside, server: seen.server })
}

/// CPUs that are full, and not of the server.
fn others(seen: &ArmMedians) -> Option<Limit> {
    (seen.set >= FULL).then_some(Limit::OtherProcesses { set: seen.set, server: seen.server })
}

fn one_thread(seen: &ArmMedians) -> Option<Limit> {
    let limit = Limit::OneThread { busy: seen.thread, used: seen.busy, cpus: seen.cpus };
    (seen.thread >= FULL).then_some(limit)
}

fn run_queue(seen: &ArmMedians) -> Option<Limit> {
    // Where CPUs idle in between, many threads were ready at the same time, and nothing more.
    let waits = seen.waiting > MANY_WAITING && seen.own > 0.5 && seen.set >= CROWDED;
    waits.then_some(Limit::RunQueue(seen.waiting))
}

/// Stalls of which the kernel itself counts what they come from: where threads wait meanwhile, they wait for work.
fn acknowledgements(seen: &ArmMedians) -> Option<Limit> {
    let (_, peak) = seen.alone.longest_peak.as_ref().filter(|_| seen.own < IDLE)?;
    (peak.coincides_with == Some(CauseId::DelayedAck)).then(|| stalls(seen))?
}

/// What threads are blocked in while CPUs are idle. Whoever waits for a lock waits for what its holder waits for, so that a
/// disk comes first; else it is what most threads wait for.
fn blocked(seen: &ArmMedians) -> Option<Limit> {
    if seen.own >= IDLE || !seen.is_kept_busy() {
        return None;
    }
    let long = seen.alone.waits.iter().filter(|wait| is_long(wait, seen.busy));
    let weight =
        |wait: &&Wait| if wait.what == Blocked::Disk { f64::INFINITY } else { wait.threads.unwrap_or(0.0) };
    // Of two that weigh the same, the later one would win: what comes first is more certain.
    let most = long.rev().max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
    // A file may be opened so that every write to it waits, without a call that says so.
    let calls = most.calls.filter(|count| *count >= MANY_CALLS);
    Some(Limit::Blocked { busy: seen.own, what: most.what, calls, threads: most.threads })
}

/// Whether an arm that keeps so many CPUs busy waits long in this way. Threads of a pool wait for work as others wait for
/// a lock, and some thread of its own may sleep: only who waits for the disk need not call for each request.
fn is_long(wait: &Wait, busy: f64) -> bool {
    let called = wait.calls.is_some_and(|calls| calls >= MANY_CALLS);
    match wait.threads {
        Some(threads) => threads >= FEW_THREADS.max(LONG * busy) && (called || wait.what == Blocked::Disk),
        None => called,
    }
}

fn accept_queue(seen: &ArmMedians) -> Option<Limit> {
    (seen.refused >= REFUSED).then_some(Limit::AcceptQueue)
}

fn retransmits(seen: &ArmMedians) -> Option<Limit> {
    (seen.resent >= RETRANSMITTED).then_some(Limit::Retransmits(seen.resent))
}

fn generator(seen: &ArmMedians) -> Option<Limit> {
    let limit = Limit::Generator { busy: seen.generator, server: seen.own };
    (seen.generator >= GENERATOR_BUSY).then_some(limit)
}

fn between(seen: &ArmMedians) -> Option<Limit> {
    let (carried, link) = seen.link.zip(seen.between)?;
    Some(Limit::LinkBetween { carried, bytes_per_s: link.bytes_per_s })
}

/// Responses that are for the most part the way there and back: whoever asks waits, and not for the server.
fn round_trip(seen: &ArmMedians) -> Option<Limit> {
    let round_trip_ns = seen.between?.round_trip_ns as f64;
    let limit = Limit::RoundTrip { round_trip_ns, response_ns: seen.response_ns };
    (round_trip_ns >= MOST * seen.response_ns).then_some(limit)
}

fn link(seen: &ArmMedians) -> Option<Limit> {
    seen.link.map(Limit::Link)
}

/// Responses that all take the same extra time.
fn stalls(seen: &ArmMedians) -> Option<Limit> {
    let (share, peak) = seen.alone.longest_peak.as_ref().filter(|(share, _)| *share >= MOST)?;
    let like = match peak.coincides_with? {
        CauseId::DelayedAck => Like::DelayedAcks,
        CauseId::Sleep => Like::Sleeps,
        CauseId::Gc => Like::Pauses,
        _ => Like::ForcedWrites,
    };
    Some(Limit::Stalls { at_ns: peak.at_ns, like, of_responses: peak.share, of_time: *share })
}

fn per_request(window: &Window, count: u64) -> f64 {
    count as f64 / window.load.requests.max(1) as f64
}
