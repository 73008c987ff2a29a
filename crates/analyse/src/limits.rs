//! What limits an arm: why it does not serve twice as much.

use std::collections::BTreeMap;

use model::plan::{CauseId, Condition};
use model::record::{Link, Window};

use crate::attribution::Attribution;
use crate::facts::busy::{
    FULL, GENERATOR_BUSY, IDLE, REFUSED, backlog_per_s, busiest_thread, busy_cores, refused, set_busy,
    with_interrupts,
};
use crate::facts::observed::Blocked;
use crate::facts::sheet::Sheet;
use crate::facts::words::percent;
use crate::facts::{Alone, Facts, Wait};
use crate::gates::{self, Gate};

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

/// A limit in words, where it holds.
type Limit = fn(&ArmMedians) -> Option<String>;

/// All limits that are known, in the order in which they are looked for: the first that holds is named.
const LIMITS: [Limit; 14] = [
    own_cpu,
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
pub(crate) struct Limits(BTreeMap<String, String>);

impl Limits {
    /// What is known to limit each arm: what its gap was found to be, where it waits; else the first of [`LIMITS`].
    pub(crate) fn from_facts(facts: &Facts, gates: &[Gate], attribution: &Attribution) -> Self {
        let named =
            |(arm, alone): (&str, &Alone)| Some((arm.to_owned(), first(&facts.sheet, arm, gates, alone)?));
        let waits = attribution.waits.iter();
        let waits = waits.map(|(arm, evidence)| (arm.clone(), format!("a wait, not its CPU: {evidence}")));
        Self(facts.each_alone().filter_map(named).chain(waits).collect())
    }

    /// What limits `arm`, in words.
    pub(crate) fn on(&self, arm: &str) -> Option<String> {
        self.0.get(arm).cloned()
    }
}

/// The first limit that holds for `arm`, in words: "unknown" where none does, nothing where no window counts.
fn first(sheet: &Sheet, arm: &str, gates: &[Gate], alone: &Alone) -> Option<String> {
    let seen = ArmMedians::for_arm(sheet, arm, gates, alone)?;
    let capacity = sheet.plan().workload.conditions[sheet.main] == Condition::Capacity;
    // Above the knee the server is at its limit in an open loop too.
    let overloaded = sheet.median(arm, sheet.main, backlog_per_s).is_some();
    if !capacity && !overloaded {
        return Some("the rate asked for".to_owned());
    }
    let unknown = || format!("not its CPU ({} busy): a wait of its own, unknown", percent(seen.own));
    Some(LIMITS.iter().find_map(|limit| limit(&seen)).unwrap_or_else(unknown))
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
            refused: median(|window| per_request(window, refused(&window.server_cpus.tcp)))?,
            resent: median(|window| per_request(window, window.server_cpus.tcp.retransmits))?,
            link: gates::failed(gates, "wire", arm).and_then(|gate| gate.value),
            between: sheet.run.host.link,
            response_ns: median(|window| window.load.response_ns.mean)?,
            alone,
        })
    }

    /// Whether requests come to the server as fast as it takes them: where they do not, its threads wait for work.
    fn asked(&self) -> bool {
        self.refused < REFUSED && self.generator < GENERATOR_BUSY
    }
}

fn own_cpu(seen: &ArmMedians) -> Option<String> {
    (seen.server >= FULL).then(|| format!("its CPU ({} of {} busy)", percent(seen.server), seen.cpus))
}

/// CPUs that are full, with services beside for the most part.
fn beside(seen: &ArmMedians) -> Option<String> {
    let most = seen.set >= FULL && seen.beside >= MOST * seen.set;
    most.then(|| {
        let (beside, server) = (percent(seen.beside), percent(seen.server));
        format!("services beside on its CPUs ({beside} busy with them, {server} by itself)")
    })
}

/// CPUs that are full, and not of the server.
fn others(seen: &ArmMedians) -> Option<String> {
    let whole = || format!("{} busy, {} by itself", percent(seen.set), percent(seen.server));
    (seen.set >= FULL).then(|| format!("other processes on its CPUs ({})", whole()))
}

fn one_thread(seen: &ArmMedians) -> Option<String> {
    let used = || format!("{:.2} of {} CPUs used", seen.busy, seen.cpus);
    (seen.thread >= FULL).then(|| format!("one thread ({} busy, {})", percent(seen.thread), used()))
}

fn run_queue(seen: &ArmMedians) -> Option<String> {
    // Where CPUs idle in between, many threads were ready at the same time, and nothing more.
    (seen.waiting > MANY_WAITING && seen.own > 0.5 && seen.set >= CROWDED)
        .then(|| format!("waiting for a CPU ({} of its run time)", percent(seen.waiting)))
}

/// Stalls of which the kernel itself counts what they come from: where threads wait meanwhile, they wait for work.
fn acknowledgements(seen: &ArmMedians) -> Option<String> {
    let (_, peak) = seen.alone.longest_peak.as_ref().filter(|_| seen.own < IDLE)?;
    (peak.coincides_with == Some(CauseId::DelayedAck)).then(|| stalls(seen))?
}

/// What threads are blocked in while CPUs are idle. Whoever waits for a lock waits for what its holder waits for, so that a
/// disk comes first; else it is what most threads wait for.
fn blocked(seen: &ArmMedians) -> Option<String> {
    if seen.own >= IDLE || !seen.asked() {
        return None;
    }
    let long = seen.alone.waits.iter().filter(|wait| is_long(wait, seen.busy));
    let weight =
        |wait: &&Wait| if wait.what == Blocked::Disk { f64::INFINITY } else { wait.threads.unwrap_or(0.0) };
    // Of two that weigh the same, the later one would win: what comes first is more certain.
    let most = long.rev().max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
    let what = match most.what {
        Blocked::Disk => "the disk",
        Blocked::Sleep => "a time to pass",
        Blocked::Lock => "each other",
    };
    let calls = match most.what {
        Blocked::Disk => "writes forced to it",
        Blocked::Sleep => "sleeps",
        Blocked::Lock => "futex calls",
    };
    // A file may be opened so that every write to it waits, without a call that says so.
    let calls =
        most.calls.filter(|count| *count >= MANY_CALLS).map(|count| format!("{count:.2} {calls} a request"));
    let threads = most.threads.map(|threads| format!("{threads:.1} threads at a time"));
    let figures: Vec<String> = calls.into_iter().chain(threads).collect();
    Some(format!(
        "a wait, not its CPU ({} busy): its threads wait for {what} ({})",
        percent(seen.own),
        figures.join(", ")
    ))
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

fn accept_queue(seen: &ArmMedians) -> Option<String> {
    (seen.refused >= REFUSED).then(|| "its accept queue (connections were refused)".to_owned())
}

fn retransmits(seen: &ArmMedians) -> Option<String> {
    (seen.resent >= RETRANSMITTED).then(|| {
        format!(
            "segments that are lost and sent again ({:.4} a request; each may take a fifth of a second)",
            seen.resent
        )
    })
}

fn generator(seen: &ArmMedians) -> Option<String> {
    (seen.generator >= GENERATOR_BUSY).then(|| {
        format!("the generator ({} busy; the server {})", percent(seen.generator), percent(seen.own))
    })
}

fn between(seen: &ArmMedians) -> Option<String> {
    let (carried, link) = seen.link.zip(seen.between)?;
    let most = link.bytes_per_s / 1e6;
    Some(format!(
        "the link between the machines ({} of the {most:.1} MB/s that it carries)",
        percent(carried)
    ))
}

/// Responses that are for the most part the way there and back: whoever asks waits, and not for the server.
fn round_trip(seen: &ArmMedians) -> Option<String> {
    let link = seen.between.filter(|link| link.round_trip_ns as f64 >= MOST * seen.response_ns)?;
    Some(format!(
        "the way between the machines ({} there and back, of a mean response of {}): more --connections would ask for more",
        model::units::format_ns(link.round_trip_ns as f64),
        model::units::format_ns(seen.response_ns)
    ))
}

fn link(seen: &ArmMedians) -> Option<String> {
    seen.link.map(|carried| format!("the link ({} of what loopback carries here)", percent(carried)))
}

/// Responses that all take the same extra time.
fn stalls(seen: &ArmMedians) -> Option<String> {
    let (share, peak) = seen.alone.longest_peak.as_ref().filter(|(share, _)| *share >= MOST)?;
    let what = match peak.coincides_with? {
        CauseId::DelayedAck => {
            "acknowledgements that are delayed (set TCP_NODELAY, or write the answer at once)"
        }
        CauseId::Sleep => "sleeps",
        CauseId::Gc => "pauses in which memory is collected",
        _ => "writes forced to the disk",
    };
    Some(format!(
        "stalls of {}, as long as {what} ({} of the responses, {} of their time)",
        model::units::format_ns(peak.at_ns),
        percent(peak.share),
        percent(*share)
    ))
}

fn per_request(window: &Window, count: u64) -> f64 {
    count as f64 / window.load.requests.max(1) as f64
}
