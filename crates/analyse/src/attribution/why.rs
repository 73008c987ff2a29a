//! Why one arm is slower: evidence per request, the gap to be explained, suspects from a table of detectors, and what
//! each can carry.
//!
//! A detector sees counts, times and profiles of both arms, never a name. It says how many nanoseconds per request its
//! suspect can carry; whoever can carry less than a tenth of the gap is ruled out.

mod code;
mod confirm;
mod counts;
mod evidence;
mod gap;
mod ledger;
mod waits;

pub use ledger::LedgerLine;

use model::plan::CauseId;
use model::record::Run;

use super::cause::{Cause, Grade};
use super::profile::ProfileDifference;
use crate::facts::Facts;
use crate::facts::words::percent;
use crate::gates::Gate;
use crate::verdicts::Comparison;

use evidence::Evidence;
use gap::Pair;

/// Below this share of the gap a suspect is not named, and ruled out where the gap's interval does not leave it more.
const RULED_OUT: f64 = 0.10;

/// What a detector says.
pub(crate) struct Suspect {
    /// Stable name of the cause.
    id: CauseId,
    /// How well this kind of evidence supports it; what carries too little is ruled out instead.
    grade: Grade,
    /// What it can carry, in nanoseconds per request of the slower arm.
    ns: f64,
    /// The evidence in words, the slower arm first.
    evidence: String,
    /// Whether it is said when it is ruled out: what people would suspect first.
    usual: bool,
}

/// Looks at two arms for one kind of cause.
type Detector = fn(&Pair) -> Vec<Suspect>;

/// Every kind of cause that is looked for. Adding one is one row here, and one planted server.
const DETECTORS: [Detector; 28] = [
    counts::small_writes,
    counts::file_writes,
    counts::extra_syscalls,
    counts::costlier_calls,
    counts::new_connections,
    counts::backend_calls,
    counts::readiness,
    counts::context_switches,
    counts::thread_handoff,
    counts::kernel_memory,
    waits::sync_writes,
    waits::sleeps,
    waits::lock_contention,
    waits::accept_queue,
    waits::listen_backlog,
    waits::delayed_ack,
    waits::backend_wait,
    waits::one_thread,
    code::gc,
    code::interpreter,
    code::copying,
    code::comparing,
    code::allocation,
    code::busy_wait,
    code::child_processes,
    code::short_threads,
    code::own_code,
    code::other_work,
];

/// What is looked for, one after the other, where none of these says what a server waits for.
const OTHERWISE: [Detector; 3] = [waits::idle_stalls, waits::few_at_a_time, waits::timer_wait];

/// The one suspect that most detectors have.
fn one(suspect: Suspect) -> Vec<Suspect> {
    vec![suspect]
}

/// Everything that explains the run.
#[derive(Default)]
pub(crate) struct Why {
    pub(crate) causes: Vec<Cause>,
    pub(crate) ledger: Vec<LedgerLine>,
    /// What arms wait for whose CPUs are idle: name and evidence.
    pub(crate) waits: Vec<(String, String)>,
    /// Share of each arm's gap that no cause can carry.
    pub(crate) unattributed: Vec<(String, f64)>,
}

/// What is concluded before causes are looked for.
pub(crate) struct Material<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) gates: &'a [Gate],
    pub(crate) comparisons: &'a [Comparison],
    pub(crate) profiles: &'a [ProfileDifference],
}

/// Looks for causes of every difference that was shown.
pub(crate) fn explain(material: &Material) -> Why {
    let sheet = &material.facts.sheet;
    let gathered: Vec<Evidence> =
        sheet.plan().arms.iter().filter_map(|arm| Evidence::of(&arm.name, material)).collect();
    let find = |name: &str| gathered.iter().find(|evidence| evidence.name == name);
    let mut why = Why::default();
    let Some(baseline) = find(sheet.baseline()) else { return why };
    for arm in sheet.others().filter_map(find) {
        if let Some(pair) = Pair::new(baseline, arm, material) {
            explain_pair(&sheet.run.interventions, &pair, &mut why);
        }
        let told = |cause: &Cause| cause.arm == arm.name && cause.id == CauseId::ListenBacklog;
        if !why.causes.iter().any(told) {
            why.causes.extend(waits::refusals(baseline, arm));
        }
    }
    why
}

fn explain_pair(interventions: &[Run], pair: &Pair, why: &mut Why) {
    why.ledger.extend(ledger::lines(pair));
    let mut suspects = suspects(pair);
    let carried: f64 = suspects.iter().map(|one| pair.share(one.ns).clamp(0.0, 1.0)).sum();
    let looked = suspects.iter().any(|one| one.usual || is_named(pair, one));
    // What is too small to be said is known all the same.
    suspects.retain(|one| is_named(pair, one) || (one.usual && pair.share_at_most(one.ns) < RULED_OUT));
    if looked {
        why.unattributed.push((pair.arm.to_owned(), (1.0 - carried).max(0.0)));
    }
    if let Some(first) = suspects.first().filter(|first| pair.waits() && is_named(pair, first)) {
        why.waits.push((pair.slow.name.clone(), first.evidence.clone()));
    }
    let mut causes: Vec<Cause> = suspects.into_iter().map(|one| cause(pair, one)).collect();
    confirm::put_to_the_test(pair, interventions, &mut causes);
    why.causes.extend(causes);
}

/// Whether a suspect is said to be a cause.
fn is_named(pair: &Pair, suspect: &Suspect) -> bool {
    pair.share(suspect.ns) >= RULED_OUT
}

/// All suspects of a pair, those that carry most first.
fn suspects(pair: &Pair) -> Vec<Suspect> {
    let mut suspects: Vec<Suspect> = DETECTORS.iter().flat_map(|detect| detect(pair)).collect();
    // The kernel's work by its kind says less than what it was asked for.
    let carried: f64 = suspects.iter().map(|one| one.ns.max(0.0)).sum();
    if carried < pair.total_ns() / 2.0 {
        suspects.extend(code::kernel_work(pair));
    }
    for detect in OTHERWISE {
        if pair.counts_idle() && suspects.iter().all(|one| one.ns < pair.idle_ns / 2.0) {
            suspects.extend(detect(pair));
        }
    }
    suspects.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    suspects
}

fn cause(pair: &Pair, suspect: Suspect) -> Cause {
    let share = pair.share(suspect.ns);
    let ruled_out = !is_named(pair, &suspect);
    let can = match (ruled_out, suspect.grade) {
        (true, _) => {
            format!("can carry at most {} of the gap", percent(pair.share_at_most(suspect.ns).max(0.0)))
        }
        (false, Grade::ConsistentWith) => {
            format!(
                "consistent with {} of the gap ({})",
                percent(share.min(1.0)),
                model::units::format_ns(suspect.ns)
            )
        }
        (false, _) => {
            format!(
                "can carry {} of the gap ({})",
                percent(share.min(1.0)),
                model::units::format_ns(suspect.ns)
            )
        }
    };
    Cause {
        id: suspect.id,
        grade: if ruled_out { Grade::RuledOut } else { suspect.grade },
        baseline: pair.baseline.to_owned(),
        arm: pair.arm.to_owned(),
        ns_per_request: suspect.ns * pair.sign,
        share: Some(share),
        text: format!("{}{}: {can}", whose(pair), suspect.evidence),
    }
}

/// Evidence is of the slower server, and a cause is told of the arm: where that is the faster one, whose it is must be
/// said.
fn whose(pair: &Pair) -> String {
    if pair.sign < 0.0 { format!("in {}, ", pair.slow.name) } else { String::new() }
}
