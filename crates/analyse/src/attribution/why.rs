//! Why one arm is slower: evidence per request, the gap to be explained, suspects from a table of detectors, and what
//! each can carry.
//!
//! A detector sees counts, times and profiles of both arms, never a name. It says how many nanoseconds per request its
//! suspect can carry; whoever can carry less than a tenth of the gap is ruled out.

mod code;
mod confirm;
mod counts;
mod cpu;
mod evidence;
mod examples;
mod gap;
mod ledger;
mod parked;
mod rank;
mod rest;
mod sides;
mod waits;
mod wakers;

pub use ledger::LedgerLine;
pub use rest::RestOfGap;
pub(crate) use sides::is_side;

use model::plan::CauseId;
use model::record::Run;

use super::cause::{Carries, Cause, CauseSays, Grade};
use super::seen::Seen;
use super::tree::AttributionRow;
use super::tree::gap_function::GapFunction;
use super::tree::place::Leaf;
use crate::facts::Facts;
use crate::facts::observed::SURE;
use crate::gates::Gate;
use crate::verdicts::Comparison;

use evidence::Evidence;
use gap::Pair;

/// Below this share of the gap a suspect is not named, and ruled out where the gap's interval does not leave it more.
const RULED_OUT: f64 = 0.10;

/// Parts that are named of a side whose parts are unsure.
const EXAMPLES_OF_UNSURE: usize = 2;

/// So many times as much as all that is named, a function that one arm alone runs is told before it.
const MORE_THAN_NAMED: f64 = 2.0;

/// Standard errors that a small suspect may be larger by and is still small.
const TWICE: f64 = 2.0;

/// What a detector says.
#[derive(Clone)]
pub(crate) struct Suspect {
    /// Stable name of the cause.
    id: CauseId,
    /// How well this kind of evidence supports it; what carries too little is ruled out instead.
    grade: Grade,
    /// CPU time that it can carry, in nanoseconds per request of the slower arm.
    ns: f64,
    /// Standard error of that, where it was sampled.
    error_ns: f64,
    /// Idle time that it can carry.
    idle_ns: f64,
    /// What was seen, the slower arm first.
    seen: Vec<Seen>,
    /// Whether it is said when it is ruled out: what people would suspect first.
    usual: bool,
}

/// Looks at two arms for one kind of cause.
type Detector = fn(&Pair) -> Vec<Suspect>;

/// What counts say of the kernel's work: where it was not sampled, what each can carry; where it was, what each is.
const COUNTED: [Detector; 8] = [
    counts::small_writes,
    counts::file_writes,
    counts::extra_syscalls,
    counts::new_connections,
    counts::backend_calls,
    counts::context_switches,
    counts::thread_handoff,
    counts::kernel_memory,
];

/// What is known of the program's own time where it was not sampled.
const UNSAMPLED: [Detector; 4] = [code::gc, code::interpreter, code::child_processes, code::short_threads];

/// What a server may wait for, by precedence: an interval that one of them claims is not claimed by those after it, and those
/// of one row share it.
const WAITS: [&[Detector]; 7] = [
    &[waits::services_beside],
    &[waits::listen_backlog, waits::accept_queue],
    &[waits::delayed_ack],
    &[code::gc],
    &[waits::sync_writes],
    &[waits::sleeps, waits::lock_contention, waits::backend_wait],
    &[waits::one_thread],
];

/// The same where it was seen what ended each wait: nothing of it is guessed from counts. What a client waits for comes first, as
/// the server then waits for the client.
const SEEN: [&[Detector]; 5] = [
    &[waits::listen_backlog, waits::accept_queue],
    &[waits::delayed_ack],
    &[code::gc],
    &[wakers::suspects],
    &[waits::one_thread],
];

/// What is looked for, one after the other, where none of these has most of the idle time.
const OTHERWISE_SEEN: [Detector; 2] = [waits::idle_stalls, waits::few_at_a_time];

/// What is looked for, one after the other, where none of these says what a server waits for.
const OTHERWISE: [Detector; 3] = [waits::idle_stalls, waits::few_at_a_time, waits::timer_wait];

impl Suspect {
    /// All that it can carry.
    fn all_ns(&self) -> f64 {
        self.ns + self.idle_ns
    }

    /// Adds what was seen of it, too, before the rest.
    fn see(&mut self, seen: Vec<Seen>) {
        self.seen.splice(0..0, seen);
    }

    /// Whether it is more than chance makes of samples.
    fn is_sure(&self) -> bool {
        self.all_ns().abs() > SURE * self.error_ns
    }
}

/// The one suspect that most detectors have.
fn one(suspect: Suspect) -> Vec<Suspect> {
    vec![suspect]
}

/// Everything that explains the run.
#[derive(Default)]
pub(crate) struct Why {
    pub(crate) causes: Vec<Cause>,
    pub(crate) ledger: Vec<LedgerLine>,
    /// What arms wait for whose CPUs are idle: name, and what was seen.
    pub(crate) waits: Vec<(String, Vec<Seen>)>,
    /// What each arm waits for most, whatever the others do.
    pub(crate) own_waits: Vec<(String, Seen)>,
    /// The cause of each arm that is said before those that carry more, where there is one.
    pub(crate) first: Vec<(String, CauseId)>,
    /// The cause to which each leaf of each arm's tree belongs.
    pub(crate) belongs: Vec<(String, Vec<(Leaf, CauseId)>)>,
    /// User and system time of each arm that no cause carries, arm minus baseline.
    pub(crate) residues: Vec<(String, [f64; 2])>,
    /// What no cause carries of each arm's gap.
    pub(crate) rests: Vec<RestOfGap>,
    /// Arms whose gap is of CPU time alone.
    pub(crate) in_cpu: Vec<String>,
}

/// What is concluded before causes are looked for.
pub(crate) struct Material<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) gates: &'a [Gate],
    pub(crate) comparisons: &'a [Comparison],
    pub(crate) tree: &'a [(Leaf, AttributionRow)],
    pub(crate) gap_functions: &'a [GapFunction],
}

/// Looks for causes of every difference that was shown.
pub(crate) fn explain(material: &Material) -> Why {
    let sheet = &material.facts.sheet;
    let gathered: Vec<Evidence> =
        sheet.plan().arms.iter().filter_map(|arm| Evidence::for_arm(&arm.name, material)).collect();
    let find = |name: &str| gathered.iter().find(|evidence| evidence.name == name);
    let own_wait = |arm: &Evidence| Some((arm.name.clone(), wakers::of_one(arm)?));
    let mut why = Why { own_waits: gathered.iter().filter_map(own_wait).collect(), ..Why::default() };
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
    why.in_cpu.extend((!pair.counts_idle()).then(|| pair.arm.to_owned()));
    why.ledger.extend(ledger::lines(pair));
    let suspects = suspects(pair);
    let looked = suspects.iter().any(|one| one.usual || is_named(pair, one));
    let (known, unsure) =
        suspects.into_iter().partition(|one| is_named(pair, one) || is_ruled_out(pair, one));
    let (mut suspects, mut unsure): (Vec<Suspect>, Vec<Suspect>) = (known, unsure);
    for one in &mut unsure {
        if let Some(part) = cpu::sure_part(pair, one).filter(|part| is_named(pair, part)) {
            one.ns -= part.ns;
            suspects.push(part);
        }
    }
    suspects.sort_by(|a, b| b.all_ns().abs().total_cmp(&a.all_ns().abs()));
    let mut told = sides::of_unsure(pair, &unsure);
    let only = only_there(pair, &suspects, &told.sides);
    if only.is_some() {
        suspects.retain(|one| one.id != CauseId::OwnCode);
    }
    told.sides.extend(only);
    why.rests.extend(looked.then(|| rest::rest(pair, &suspects, &unsure, &told)));
    suspects.extend(told.sides);
    if let Some(wait) = waited_for(pair, &suspects) {
        why.waits.push((pair.slow.name.clone(), wait.seen.clone()));
    }
    why.first.extend(rank::said_first(pair, &suspects).map(|id| (pair.arm.to_owned(), id)));
    rank::tell_calls(pair, &mut suspects);
    why.belongs.push((pair.arm.to_owned(), cpu::belongs(pair)));
    why.residues.push((pair.arm.to_owned(), residue(pair, &suspects)));
    let mut causes: Vec<Cause> = suspects.into_iter().map(|one| cause(pair, one)).collect();
    confirm::put_to_the_test(pair, interventions, &mut causes);
    why.causes.extend(causes);
}

/// The function that one arm alone runs, where that says more than all that is named: its work is of kinds that are small or unsure.
fn only_there(pair: &Pair, suspects: &[Suspect], sides: &[Suspect]) -> Option<Suspect> {
    let named = || suspects.iter().chain(sides).filter(|one| one.all_ns() > 0.0 && is_named(pair, one));
    let named_ns: f64 = named().map(Suspect::all_ns).sum();
    let is_told = named().any(|one| one.id == CauseId::OwnCode);
    code::only_there(pair).filter(|only| !is_told && only.ns >= MORE_THAN_NAMED * named_ns)
}

/// What the slower arm waits for: the first cause where most of the gap is idle time, else the first that is a wait, if its CPUs are not full.
fn waited_for<'a>(pair: &Pair, suspects: &'a [Suspect]) -> Option<&'a Suspect> {
    if pair.waits() {
        return suspects.first().filter(|first| is_named(pair, first));
    }
    let is_wait = |one: &&Suspect| one.idle_ns > one.ns.abs() && is_named(pair, one);
    suspects.iter().find(is_wait).filter(|_| !pair.slow.full)
}

/// Whether a suspect is said to be a cause, of the gap or of what makes it smaller. One that was measured is where it may be a tenth
/// by the interval of the gap: it is sure how large it is, and only the gap is not.
fn is_named(pair: &Pair, suspect: &Suspect) -> bool {
    let share = pair.share(suspect.all_ns()).abs();
    let is_measured = suspect.error_ns > 0.0 && pair.share_at_most(suspect.all_ns().abs()) >= RULED_OUT;
    let least = if sides::is_side(suspect.id) || is_measured { sides::LEAST } else { RULED_OUT };
    share >= least && suspect.is_sure()
}

/// Whether it is known to be too small to matter: what people would suspect first, and what was measured well enough.
fn is_ruled_out(pair: &Pair, suspect: &Suspect) -> bool {
    let is_small = |ns: f64| pair.share_at_most(ns) < RULED_OUT;
    let ns = suspect.all_ns().abs();
    let known = suspect.usual
        || (suspect.error_ns > 0.0 && (suspect.is_sure() || is_small(ns + TWICE * suspect.error_ns)));
    known && is_small(ns)
}

/// User and system time that no suspect carries, arm minus baseline.
fn residue(pair: &Pair, suspects: &[Suspect]) -> [f64; 2] {
    let of_side = |user: bool, delta_ns: f64| match pair.is_sampled(user) {
        true => {
            let rest = pair.tree.iter().filter(|(leaf, _)| *leaf == Leaf::NotSampled { user });
            rest.map(|(_, row)| row.delta_ns).sum()
        }
        false => {
            let these = suspects.iter().filter(|one| code::is_of_program(one.id) == user);
            delta_ns - pair.sign * these.map(|one| one.ns).sum::<f64>()
        }
    };
    let delta = |of: fn(&Evidence) -> f64| pair.sign * pair.more(of);
    let user = of_side(true, delta(|arm| arm.cpu.user));
    [user, of_side(false, delta(|arm| arm.cpu.total - arm.cpu.user))]
}

/// All suspects of a pair, those that carry most first.
fn suspects(pair: &Pair) -> Vec<Suspect> {
    let mut suspects = of_cpu(pair);
    for one in of_idle(pair) {
        join(&mut suspects, one);
    }
    suspects.sort_by(|a, b| b.all_ns().abs().total_cmp(&a.all_ns().abs()));
    suspects
}

/// What the CPU time is of: by the tree where it was sampled, else bounded by counts.
fn of_cpu(pair: &Pair) -> Vec<Suspect> {
    let counted: Vec<Suspect> = COUNTED.iter().flat_map(|detect| detect(pair)).collect();
    let (user, kernel) = (pair.is_sampled(true), pair.is_sampled(false));
    let mut suspects = Vec::new();
    if user {
        suspects.extend(cpu::claims(pair, true));
    } else {
        let cpu = |one: Suspect| Suspect { idle_ns: 0.0, ..one };
        suspects.extend(UNSAMPLED.iter().flat_map(|detect| detect(pair)).map(cpu));
    }
    if kernel {
        cpu::claims(pair, false).into_iter().for_each(|one| join(&mut suspects, one));
        counted.into_iter().for_each(|one| tell(&mut suspects, one));
    } else {
        bounded(pair, counted).into_iter().for_each(|one| bound(&mut suspects, one));
    }
    if user {
        cpu::of_those_that_ended(pair, &mut suspects);
    }
    suspects
}

/// What counts bound, the largest first, and together no more than the kernel's time and the program's grew by.
fn bounded(pair: &Pair, mut counted: Vec<Suspect>) -> Vec<Suspect> {
    let grown = |of: fn(&Evidence) -> f64| pair.more(of).max(0.0);
    // What a call costs the program around it is told by samples, where there are any.
    let user = if pair.is_sampled(true) { 0.0 } else { grown(|arm| arm.cpu.user) };
    let mut left = user + grown(|arm| arm.cpu.total - arm.cpu.user);
    counted.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    for one in &mut counted {
        one.ns = one.ns.min(left);
        left -= one.ns.max(0.0);
    }
    counted
}

/// Adds what is of the same cause, and what it says.
fn join(suspects: &mut Vec<Suspect>, other: Suspect) {
    let Some(same) = suspects.iter_mut().find(|one| one.id == other.id) else {
        suspects.push(other);
        return;
    };
    match other.idle_ns > 0.0 {
        // How often it asks says more than what it then waits for.
        true if other.id == CauseId::BackendCalls => same.seen.extend(other.seen),
        true => same.seen = other.seen,
        false if other.ns.abs() > same.ns.abs() => same.see(other.seen),
        false => {}
    }
    same.ns += other.ns;
    same.idle_ns += other.idle_ns;
    same.error_ns = same.error_ns.hypot(other.error_ns);
}

/// Adds what counts bound to what was measured of the same cause: of the whole there is then a bound.
fn bound(suspects: &mut Vec<Suspect>, counted: Suspect) {
    let (id, grade, usual) = (counted.id, counted.grade, counted.usual);
    join(suspects, counted);
    if let Some(same) = suspects.iter_mut().find(|one| one.id == id) {
        (same.grade, same.usual) = (grade, usual);
    }
}

/// Adds what was counted of a suspect that was measured; one of which nothing was measured carries nothing.
fn tell(suspects: &mut Vec<Suspect>, counted: Suspect) {
    match suspects.iter_mut().find(|one| one.id == counted.id) {
        Some(same) => {
            same.see(counted.seen);
            same.usual = counted.usual;
        }
        None => suspects.push(Suspect { ns: 0.0, ..counted }),
    }
}

/// What is waited for, each interval by one.
fn of_idle(pair: &Pair) -> Vec<Suspect> {
    let mut left = pair.idle_ns;
    let mut found: Vec<Suspect> = Vec::new();
    let seen = wakers::are_recorded(pair);
    let (first, otherwise): (&[&[Detector]], &[Detector]) =
        if seen { (&SEEN, &OTHERWISE_SEEN) } else { (&WAITS, &OTHERWISE) };
    for detectors in first {
        let mut these: Vec<Suspect> = detectors.iter().flat_map(|detect| detect(pair)).collect();
        these.iter_mut().for_each(|one| one.idle_ns = one.idle_ns.max(0.0));
        let asked: f64 = these.iter().map(|one| one.idle_ns).sum();
        let part = if asked > left { left / asked } else { 1.0 };
        for one in &mut these {
            one.idle_ns *= part;
            // What the kernel does for it is in the tree.
            one.ns = if pair.is_sampled(false) || one.id == CauseId::Gc { 0.0 } else { one.ns };
        }
        left -= these.iter().map(|one| one.idle_ns).sum::<f64>();
        found.extend(these.into_iter().filter(|one| one.all_ns() > 0.0));
    }
    for detect in otherwise {
        if pair.counts_idle() && found.iter().all(|one| one.idle_ns < pair.idle_ns / 2.0) {
            let more = detect(pair).into_iter();
            let more: Vec<Suspect> =
                more.map(|one| Suspect { idle_ns: one.idle_ns.min(left), ..one }).collect();
            left -= more.iter().map(|one| one.idle_ns).sum::<f64>();
            found.extend(more);
        }
    }
    parked::tell(pair, &mut found, left);
    found
}

fn cause(pair: &Pair, suspect: Suspect) -> Cause {
    let (ns, share) = (suspect.all_ns(), pair.share(suspect.all_ns()));
    let ruled_out = !is_named(pair, &suspect);
    let carries = match () {
        () if ruled_out => Carries::AtMost(pair.share_at_most(ns.abs())),
        () if share < 0.0 => Carries::Against(-ns),
        () => part_of_gap(pair, suspect.grade, ns),
    };
    Cause {
        id: suspect.id,
        grade: if ruled_out { Grade::RuledOut } else { suspect.grade },
        baseline: pair.baseline.to_owned(),
        arm: pair.arm.to_owned(),
        ns_per_request: ns * pair.sign,
        share: Some(share),
        place: None,
        text: String::new(),
        says: Some(CauseSays {
            tests: Vec::new(),
            of: whose(pair.sign, pair.slow),
            seen: suspect.seen,
            carries,
        }),
    }
}

/// How much of the gap it is; no share of it where other parts of the opposite sign leave less than it.
fn part_of_gap(pair: &Pair, grade: Grade, ns: f64) -> Carries {
    /// Share from which on it is more than the gap, and not the gap by a rounding.
    const MORE: f64 = 1.05;
    let share = pair.share(ns);
    match share > MORE {
        true => Carries::MoreThanGap { grade, ns, gap_ns: pair.total_ns() },
        false => Carries::Part { grade, ns, share: share.min(1.0) },
    }
}

/// What was seen is of the slower server, and a cause is told of the arm: where that is the faster one, whose it is must be
/// said.
fn whose(sign: f64, slow: &Evidence) -> Option<String> {
    (sign < 0.0).then(|| slow.name.clone())
}
