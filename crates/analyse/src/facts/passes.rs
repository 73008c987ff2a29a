//! Diagnostic passes: how much watching slowed the server, and whether what was seen counts.

use model::record::{DiagnosticRecord, Pass, PassKind, Profile, Slice, UnitCosts, Usage, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::busy::FULL;
use super::metric::Metric;
use super::sheet::Sheet;

/// What was seen is rejected where the ratio of user to system time, or the switches per request, moved by more.
const MAX_MOVED: f64 = 0.10;
/// Standard errors of a movement that chance explains: a run has dozens of passes, and at two one in twenty would be
/// refused although nothing moved.
const CHANCE: f64 = 3.0;
/// Switches per request that hardly matter, however much their ratio moved.
const FEW_SWITCHES: f64 = 0.05;
/// Likewise the share of a request's CPU time that they cost.
const SMALL_SHARE: f64 = 0.02;
/// CPU per request while watched over that untouched, from which on, either way, another server was watched.
pub const MAX_SLOWDOWN: f64 = 1.2;
/// ln of the ratio of two rates that are as good as the same.
const SAME: f64 = 0.05;
/// All ways of watching.
const KINDS: [PassKind; 5] =
    [PassKind::Counting, PassKind::Sampling, PassKind::Waiting, PassKind::Waking, PassKind::Tracing];
/// CPU time that samples stand for over that which was used, below which they do not show where it went.
const MIN_COVERAGE: f64 = 0.5;
/// Share of the samples that may be lost: fewer are of all functions alike.
const MOST_LOST: f64 = 0.5;
/// From which on they stand for all of it: the kernel's own clocks differ by some percent.
const FULL_COVERAGE: f64 = 0.9;
/// Time between two samples by which the kernel splits user from system time.
const TICK_NS: f64 = 1e7;

/// Whether what was seen of `arm` in passes of this kind is used.
pub(crate) fn is_used(passes: &[PassFindings], arm: &str, kind: PassKind) -> bool {
    used(passes, arm, kind).is_some()
}

/// Whether a server is not shown to have answered faster or slower by more than a fifth while it was watched so.
pub(crate) fn answers_alike(sheet: &Sheet, arm: &str, kind: PassKind) -> bool {
    let of_arm = sheet.run.diagnostics.iter().filter(|record| record.arm == arm);
    let passes: Vec<&Pass> = of_arm.flat_map(|record| &record.passes).collect();
    of_neighbours(Metric::Rate, kind, &passes).is_some_and(|change| change.beyond().is_none())
}

/// The passes of this kind over `arm`, where what was seen in them is used.
pub(crate) fn used<'a>(passes: &'a [PassFindings], arm: &str, kind: PassKind) -> Option<&'a PassFindings> {
    passes.iter().find(|pass| pass.arm == arm && pass.kind == kind && pass.used)
}

/// How much one way of watching disturbed one arm, over all its diagnostic rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassFindings {
    /// The arm.
    pub arm: String,
    /// How it was watched.
    pub kind: PassKind,
    /// Rounds behind it.
    pub rounds: u32,
    /// Requests per second while watched.
    pub rate_per_s: f64,
    /// CPU per request while watched, over that while not watched; absent if the CPU time is not known.
    pub slowdown: Option<f64>,
    /// Rate while not watched, over that while watched.
    pub rate_slowdown: f64,
    /// Whether what was seen is used.
    pub used: bool,
    /// For sampling: the CPU time that the samples stand for, over the CPU time that was used.
    #[serde(default)]
    pub coverage: Option<f64>,
    /// One sentence.
    pub text: String,
    /// What could not be watched and what would allow it.
    pub missing: Vec<String>,
    /// What the sentence is made from, beside the figures above.
    #[serde(skip)]
    pub says: Option<PassSays>,
}

/// What the sentence on a way of watching is made from, beside how much it slowed the arm.
#[derive(Debug, Clone, PartialEq)]
pub struct PassSays {
    /// Share of the system calls that were counted, 0 to 1.
    pub counted_share: f64,
    /// Why what was seen is not used; nothing where it is.
    pub fault: Option<PassFault>,
    /// Arms that were faster than this one while not watched and slower while watched, or the other way round.
    pub turned: Vec<String>,
}

/// Why what was seen of a watched server is not used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PassFault {
    /// There is nothing to use.
    NothingSeen,
    /// Its samples stand for no more than this share of the CPU time, 0 to 1.
    FewSamples(f64),
    /// This share of its samples was lost, 0 to 1, so that those that are left need not be like them.
    LostSamples(f64),
    /// It answered so many times slower.
    AnsweredSlower(f64),
    /// A request took so many times the CPU time.
    CostlierRequests(f64),
    /// Context switches per request, untouched and watched.
    Switches([f64; 2]),
    /// User time per request in nanoseconds, untouched and watched.
    UserTime([f64; 2]),
    /// The ratio of user to system time, untouched and watched.
    UserToSystem([f64; 2]),
}

impl PassFindings {
    /// Share of the CPU time that a profile from this pass divides.
    pub(crate) fn divides(&self) -> f64 {
        divides(self.coverage).unwrap_or(1.0)
    }
}

/// Share of the CPU time that a profile divides whose samples stand for this share of it; nothing where it does not show
/// where the time went.
pub(crate) fn divides(coverage: Option<f64>) -> Option<f64> {
    match coverage {
        Some(share) if share < MIN_COVERAGE => None,
        Some(share) if share < FULL_COVERAGE => Some(share),
        _ => Some(1.0),
    }
}

/// Sums over the windows of one kind of pass.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    rounds: u32,
    requests: f64,
    window_ns: f64,
    user_ns: f64,
    system_ns: f64,
    switches: f64,
    /// Time of the server's CPUs.
    offered_ns: f64,
}

impl Sums {
    fn add(mut self, window: &Window) -> Self {
        let target = &window.target;
        self.rounds += 1;
        self.requests += window.load.requests as f64;
        self.window_ns += window.load.window_ns as f64;
        self.user_ns += target.cpu.user_ns as f64;
        self.system_ns += target.cpu.system_ns as f64;
        self.switches += (target.voluntary_switches + target.involuntary_switches) as f64;
        self.offered_ns += window.load.window_ns as f64 * f64::from(window.server_cpus.cpus.max(1));
        self
    }

    fn cpu_per_request(&self) -> f64 {
        (self.user_ns + self.system_ns) / self.requests
    }

    /// Whether the server was busy all the time, so that ticks find it as often in each mode as it is there. One that a
    /// timer wakes is found again and again in what it does first.
    fn is_full(&self) -> bool {
        self.user_ns + self.system_ns >= FULL * self.offered_ns
    }

    fn rate(&self) -> f64 {
        self.requests / self.window_ns
    }

    fn switches_per_request(&self) -> f64 {
        self.switches / self.requests
    }

    /// User time per request as a logarithm, and its variance: it is counted in ticks.
    fn user(&self) -> Option<(f64, f64)> {
        (self.user_ns > 0.0).then(|| ((self.user_ns / self.requests).ln(), TICK_NS / self.user_ns))
    }

    /// ln(user/system) and its variance: the split is a binomial sample at every tick.
    fn split(&self) -> Option<(f64, f64)> {
        let total = self.user_ns + self.system_ns;
        let (user, ticks) = (self.user_ns / total, total / TICK_NS);
        (self.user_ns > 0.0 && self.system_ns > 0.0)
            .then(|| ((self.user_ns / self.system_ns).ln(), 1.0 / (ticks * user * (1.0 - user))))
    }
}

/// A figure of a pass and its variance, of logarithms as of times.
type Figure = fn(&Sums) -> Option<(f64, f64)>;

/// Every kind of pass of every arm, against its untouched passes.
pub(crate) fn all(sheet: &Sheet) -> Vec<PassFindings> {
    let arms = sheet.plan().arms.iter();
    let mut found: Vec<PassFindings> = arms
        .flat_map(|arm| {
            let of_arm = sheet.run.diagnostics.iter().filter(|record| record.arm == arm.name);
            let passes: Vec<&Pass> = of_arm.flat_map(|record: &DiagnosticRecord| &record.passes).collect();
            KINDS.map(|kind| weighed(sheet, &arm.name, kind, &passes))
        })
        .flatten()
        .collect();
    note_what_turned(&mut found);
    found
}

/// Notes where watching slowed the faster arm so much more that the order of two turned around.
fn note_what_turned(found: &mut [PassFindings]) {
    for kind in KINDS {
        let of_kind: Vec<(usize, [f64; 2], String)> = found
            .iter()
            .enumerate()
            .filter(|(_, one)| one.kind == kind)
            .map(|(index, one)| {
                (index, [one.rate_per_s * one.rate_slowdown, one.rate_per_s], one.arm.clone())
            })
            .collect();
        for (place, (_, [plain, watched], arm)) in of_kind.iter().enumerate() {
            for (index, [other_plain, other_watched], _) in &of_kind[place + 1..] {
                if (plain - other_plain) * (watched - other_watched) < 0.0
                    && (plain / other_plain).ln().abs() > SAME
                    && (watched / other_watched).ln().abs() > SAME
                {
                    found[*index].says.iter_mut().for_each(|says| says.turned.push(arm.clone()));
                }
            }
        }
    }
}

fn weighed(sheet: &Sheet, arm: &str, kind: PassKind, passes: &[&Pass]) -> Option<PassFindings> {
    let of = |kind: PassKind| passes.iter().filter(move |pass| pass.kind == kind);
    let sums = |kind| of(kind).fold(Sums::default(), |sums, pass| sums.add(&pass.window));
    let (mut plain, watched) = (sums(PassKind::Untouched), sums(kind));
    if plain.requests == 0.0 {
        // Without an untouched pass of its own, the scored windows are what watching is weighed against.
        plain = sheet.windows(arm, sheet.main).into_iter().fold(plain, Sums::add);
    }
    if plain.requests == 0.0 || watched.requests == 0.0 {
        return None;
    }
    let whole = Change { ratio: watched.cpu_per_request() / plain.cpu_per_request(), chance: 0.0 };
    let slowdown = Some(of_neighbours(Metric::CpuPerRequest, kind, passes).unwrap_or(whole))
        .filter(|change| change.ratio > 0.0);
    let rate_slowdown = plain.rate() / watched.rate();
    let cheap = |costs: UnitCosts| SMALL_SHARE * plain.cpu_per_request() / costs.context_switch_ns.max(1.0);
    let few_switches = FEW_SWITCHES.max(sheet.run.host.unit_costs.map_or(0.0, cheap));
    let untouched = of(PassKind::Untouched).map(|pass| &pass.window).chain(sheet.windows(arm, sheet.main));
    let untouched: Vec<Sums> = untouched.map(|window| Sums::default().add(window)).collect();
    let by_chance = |figure: Figure| {
        let each = untouched.iter().filter_map(|window| Some(figure(window)?.0));
        by_chance(each, plain.rounds, watched.rounds)
    };
    let few_switches = few_switches.max(by_chance(|sums| Some((sums.switches_per_request(), 0.0))));
    let coverage = coverage(of(kind).copied());
    let fault = if of(kind).all(saw_nothing) {
        Some(PassFault::NothingSeen)
    } else if let Some(share) = lost(of(kind).copied()).filter(|share| *share > MOST_LOST) {
        Some(PassFault::LostSamples(share))
    } else if let Some(share) = coverage.filter(|share| divides(Some(*share)).is_none()) {
        Some(PassFault::FewSamples(share))
    } else {
        fault(kind, &plain, &watched, slowdown, few_switches, by_chance)
    };
    let shares = of(kind).filter_map(|pass| pass.counts.as_ref()).map(|counts| counts.counted_share);
    let says = PassSays { counted_share: shares.fold(1.0, f64::min), fault, turned: Vec::new() };
    let mut missing: Vec<String> = of(kind).flat_map(|pass| pass.missing.clone()).collect();
    missing.sort();
    missing.dedup();
    Some(PassFindings {
        arm: arm.to_owned(),
        kind,
        rounds: watched.rounds,
        rate_per_s: watched.rate() * 1e9,
        slowdown: slowdown.map(|change| change.ratio),
        rate_slowdown,
        used: says.fault.is_none(),
        coverage,
        text: String::new(),
        missing,
        says: Some(says),
    })
}

/// How a figure of a server changed while it was watched.
#[derive(Debug, Clone, Copy)]
struct Change {
    /// The figure while watched over that untouched.
    ratio: f64,
    /// How far its logarithm may be from 0 by chance.
    chance: f64,
}

impl Change {
    /// The ratio where chance alone does not explain that it is so far from 1 that another server was watched.
    fn beyond(self) -> Option<f64> {
        (self.ratio.ln().abs() - self.chance > MAX_SLOWDOWN.ln()).then_some(self.ratio)
    }
}

/// A figure in slices watched in this way over that in the ones before them, in which nothing was watched: the Hodges–Lehmann
/// median over such neighbours. Several of them may have one neighbour: as many are taken to be independent as there are of the fewer.
fn of_neighbours(metric: Metric, kind: PassKind, passes: &[&Pass]) -> Option<Change> {
    let slices = |kind| {
        let of_kind = passes.iter().filter(move |pass| pass.kind == kind);
        of_kind.flat_map(|pass| &pass.window.slices).collect::<Vec<&Slice>>()
    };
    let (plain, watched) = (slices(PassKind::Untouched), slices(kind));
    let ratio = |slice: &&Slice| {
        let before = plain.iter().filter(|plain| plain.turn < slice.turn).max_by_key(|plain| plain.turn)?;
        Some((metric.of_slice(slice)? / metric.of_slice(before)?).ln())
    };
    let ratios: Vec<f64> = watched.iter().filter_map(ratio).collect();
    let value = stats::cycles::BlockValue::from_cycles(&ratios).ok()?.value;
    let (spread, independent) = (stats::descriptive::sd(&ratios), plain.len().min(ratios.len()) as f64);
    Some(Change { ratio: value.exp(), chance: CHANCE * spread.unwrap_or(0.0) / independent.sqrt() })
}

/// Whether a pass was refused what it came for.
fn saw_nothing(pass: &&Pass) -> bool {
    match pass.kind {
        PassKind::Sampling | PassKind::Waiting => pass.profile.is_none(),
        PassKind::Waking => pass.waits.is_none(),
        PassKind::Counting | PassKind::Tracing => {
            pass.counts.as_ref().is_none_or(|counts| counts.events.is_empty() && counts.syscalls.is_empty())
        }
        PassKind::Beside => pass.services.is_empty(),
        PassKind::Untouched => false,
    }
}

/// Share of the CPU time that the samples stand for; nothing where none were taken. A thread is sampled once it has run for
/// a whole period, and the kernel begins anew with every thread: those that live shorter are never seen.
fn coverage<'a>(passes: impl Iterator<Item = &'a Pass>) -> Option<f64> {
    let (mut sampled_ns, mut used_ns) = (0.0, 0.0);
    for pass in passes.filter(|pass| pass.kind == PassKind::Sampling) {
        let Some(profile) = pass.profile.as_ref().filter(|profile| profile.wall_ns > 0) else { continue };
        let (sampled, used) = stands_for(profile, &pass.window.target);
        sampled_ns += sampled;
        used_ns += used;
    }
    (used_ns > 0.0).then(|| sampled_ns / used_ns)
}

/// Share of all samples that nobody read in time; nothing where none were taken.
fn lost<'a>(passes: impl Iterator<Item = &'a Pass>) -> Option<f64> {
    let profiles: Vec<&Profile> = passes.filter_map(|pass| pass.profile.as_ref()).collect();
    let sum = |count: fn(&Profile) -> u64| profiles.iter().map(|profile| count(profile)).sum::<u64>();
    let (read, lost) = (sum(|profile| profile.samples), sum(|profile| profile.lost));
    (read + lost > 0).then(|| lost as f64 / (read + lost) as f64)
}

/// CPU time that the samples of a profile stand for, and what was used meanwhile, in nanoseconds.
pub(crate) fn stands_for(profile: &Profile, target: &Usage) -> (f64, f64) {
    let used = if profile.kernel { target.cpu.total_ns } else { target.cpu.user_ns };
    // Those that the kernel dropped are of all functions alike.
    let sampled_ns = (profile.samples + profile.lost) as f64 * profile.period_ns as f64;
    (sampled_ns, used as f64 * profile.wall_ns as f64 / target.wall_ns.max(1) as f64)
}

/// How far apart a figure of two servers is by chance, so many windows of each, where it differs as here between windows that
/// nobody watched.
fn by_chance(untouched: impl Iterator<Item = f64>, ours: u32, theirs: u32) -> f64 {
    let figures: Vec<f64> = untouched.filter(|figure| figure.is_finite()).collect();
    let spread = stats::descriptive::sd(&figures).unwrap_or(0.0);
    CHANCE * spread * (1.0 / f64::from(ours.max(1)) + 1.0 / f64::from(theirs.max(1))).sqrt()
}

/// Whether a watched server switched more or less often than the one that was scored.
fn switched(plain: &Sums, watched: &Sums, few: f64) -> Option<PassFault> {
    let (from, to) = (plain.switches_per_request(), watched.switches_per_request());
    let much = (to - from).abs() > few.max(MAX_MOVED * from);
    much.then_some(PassFault::Switches([from, to]))
}

/// Where waits are told it is no matter what that costs the CPU, as long as as many requests are answered: they wait for the
/// same things.
fn slowed(plain: &Sums, watched: &Sums) -> Option<PassFault> {
    let ratio = plain.rate() / watched.rate();
    (ratio.ln().abs() > MAX_SLOWDOWN.ln()).then_some(PassFault::AnsweredSlower(ratio))
}

/// Why a watched server is not the one that was scored; `by_chance` says how far a figure moves by itself.
fn fault(
    kind: PassKind,
    plain: &Sums,
    watched: &Sums,
    cost: Option<Change>,
    few_switches: f64,
    by_chance: impl Fn(Figure) -> f64,
) -> Option<PassFault> {
    if kind == PassKind::Tracing {
        return None;
    }
    if kind == PassKind::Waking {
        return slowed(plain, watched).or_else(|| switched(plain, watched, few_switches));
    }
    if let Some(ratio) = cost.and_then(Change::beyond) {
        return Some(PassFault::CostlierRequests(ratio));
    }
    if let Some(fault) = switched(plain, watched, few_switches) {
        return Some(fault);
    }
    if kind == PassKind::Counting && !plain.is_full() {
        return None;
    }
    // What counting costs is paid in the kernel, and it is counts that are used: user time must not have moved.
    let (moved_as, figure): (fn([f64; 2]) -> PassFault, Figure) = match kind {
        PassKind::Counting => (PassFault::UserTime, Sums::user),
        _ => (PassFault::UserToSystem, Sums::split),
    };
    let ((before, variance), (after, more)) = figure(plain).zip(figure(watched))?;
    // Ticks are a sample; and a server whose threads queue for each other has more than one state to be found in.
    let chance = (CHANCE * (variance + more).sqrt()).max(by_chance(figure));
    let moved = (after - before).abs() - chance;
    (moved > MAX_MOVED.ln_1p()).then(|| moved_as([before.exp(), after.exp()]))
}

#[cfg(test)]
mod tests {
    use model::plan::Condition;

    use super::*;

    /// Turns of one server with these CPU times per request, in microseconds.
    fn turns(first: u32, costs_us: &[u64]) -> Vec<Slice> {
        let turn = |(index, cost): (u32, &u64)| Slice {
            turn: first + 2 * index,
            length_ns: 50_000_000,
            requests: 100,
            cpu_ns: cost * 100_000,
            ..Slice::default()
        };
        (0..).zip(costs_us).map(turn).collect()
    }

    fn change(plain: &[u64], watched: &[u64]) -> Change {
        let pass = |kind, slices| Pass::new(kind, Window { slices, ..Window::empty(Condition::Capacity) });
        let plain = pass(PassKind::Untouched, turns(0, plain));
        let watched = pass(PassKind::Sampling, turns(1, watched));
        of_neighbours(Metric::CpuPerRequest, PassKind::Sampling, &[&plain, &watched]).unwrap()
    }

    #[test]
    fn a_server_is_another_one_only_where_neighbouring_turns_agree_that_it_is() {
        let steady = change(&[50, 51, 50, 49], &[65, 66, 65, 64]);
        assert!(steady.beyond().is_some_and(|ratio| (ratio - 1.3).abs() < 0.01), "{steady:?}");
        // The host was as often twice as slow, with and without an observer.
        let unsteady = change(&[45, 75, 43, 46, 72], &[85, 63, 47, 80, 82]);
        assert!(unsteady.ratio > MAX_SLOWDOWN && unsteady.beyond().is_none(), "{unsteady:?}");
        assert!(change(&[50, 51, 50, 49], &[55, 56, 55, 54]).beyond().is_none());
    }
}
