//! CPU time of a request as a tree, each sample in exactly one leaf, so that the leaves sum to it.
//!
//! Samples tell how the program's time and the kernel's divide; how much there is of either is measured where nobody watches.
//! What no sample stands for is a leaf of its own.

pub(crate) mod calls;
pub(crate) mod drawn;
pub(crate) mod gap_function;
pub(crate) mod gap_nodes;
mod gather;
pub(crate) mod place;
mod sides;
mod spread;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub use place::SMALL_ONES;
pub use table::DONE_ALIKE;

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::{Frame, Profile, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::facts::changes::{Change, Changes, Side, within};
use crate::facts::functions::brief;
use crate::facts::observed;
use calls::Calls;
use drawn::{Drawn, Draws};
use gap_function::{GapFunction, gap_function};
use gather::{gather, settled};
use place::{Leaf, named};
use sides::{paired, pooled, samples};

/// Share of a request's CPU time below which, in both arms, leaves of one kind are one.
const SMALL: f64 = 0.001;
/// Share of the other arm's CPU time up to which an arm need not have been sampled for the other to be told.
const DWARFED: f64 = 0.1;
/// Share of the system calls that must be counted by name for one without a name not to have been made.
const ALL_NAMED: f64 = 0.98;

/// A place in the source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Function.
    pub function: String,
    /// Source file, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line there, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The commit that last changed it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Place {
    /// The function of a frame, with its line. A line in the assembler of a C library is none that anybody looks for.
    pub(crate) fn of(frame: &Frame, function: String) -> Self {
        let is_assembler = frame.file.as_ref().is_some_and(|file| file.ends_with(".S"));
        let (file, line) = if is_assembler { (None, None) } else { (frame.file.clone(), frame.line) };
        Self { function, file, line, commit: None }
    }
}

/// How often something was done for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LeafCount {
    /// In the baseline.
    pub baseline: f64,
    /// In the arm.
    pub arm: f64,
}

/// One leaf of the tree in both arms, in nanoseconds per request; all leaves of an arm sum to its CPU per request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttributionRow {
    /// The arm, against the baseline.
    pub arm: String,
    /// Names of the nodes from `user` or `kernel` down to the leaf.
    pub path: Vec<String>,
    /// In the baseline.
    pub baseline_ns: f64,
    /// In the arm.
    pub arm_ns: f64,
    /// Arm minus baseline.
    pub delta_ns: f64,
    /// Standard error of that.
    pub delta_se_ns: f64,
    /// How often what the leaf is part of was done: switches, page faults, calls of its
    /// system call; absent where that was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<LeafCount>,
    /// Part of the change that is because it was done more often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_ns: Option<f64>,
    /// Part of the change that is because it took longer each time; both parts sum to the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dearer_ns: Option<f64>,
    /// Where it is, or where the program's own code asked for it.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The function of the program's own code from which most of it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Of the kernel's time, the function in which most of it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The cause to which it belongs, where the gap was explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<CauseId>,
    /// What happened to its place between both arms, where they are revisions of one repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Change>,
    /// Where that is the same code: the changed line that calls it, of the caller nearest to it that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Place>,
    /// What its error was worked out from.
    #[serde(skip)]
    pub(crate) drawn: Drawn,
}

/// What the tree of one arm is made from.
pub(crate) struct Samples<'a> {
    /// Profiles of CPU time.
    pub(crate) profiles: Vec<&'a Profile>,
    /// User and system time of a request, in nanoseconds.
    pub(crate) cpu_ns: [f64; 2],
    /// Standard errors of both.
    pub(crate) cpu_se_ns: [f64; 2],
    /// Share of them that the samples stand for, 0 to 1.
    pub(crate) divides: f64,
}

/// How often a request does what is counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    /// System calls by name; absent where none were counted.
    pub(crate) calls: Option<BTreeMap<String, f64>>,
    /// Whether a call without a name was not made.
    pub(crate) all_calls: bool,
    /// Page faults.
    pub(crate) faults: Option<f64>,
    /// Context switches of both kinds.
    pub(crate) switches: Option<f64>,
}

/// CPU time of one leaf.
#[derive(Debug, Clone, Default)]
pub(crate) struct Time<'a> {
    /// Nanoseconds per request.
    pub(crate) ns: f64,
    /// What its error comes from.
    draws: Draws,
    /// Own functions that it came from, with samples.
    via: BTreeMap<&'a str, (u64, Option<&'a Frame>)>,
    /// Functions that asked for it, with samples.
    callers: BTreeMap<&'a str, (u64, &'a Frame)>,
    /// All samples.
    samples: u64,
    /// The function itself.
    own: Option<&'a Frame>,
    /// The kernel's innermost functions, with samples.
    within: BTreeMap<&'a str, u64>,
}

impl Time<'_> {
    /// Square of its standard error.
    fn variance(&self) -> f64 {
        self.draws.variance()
    }

    /// The functions that asked for it, with their shares of it.
    fn shares(&self) -> impl Iterator<Item = (&str, f64)> {
        let all = self.samples.max(1) as f64;
        self.callers.iter().map(move |(name, (samples, _))| (*name, *samples as f64 / all))
    }
}

/// The tree of one arm.
pub(crate) type Tree<'a> = BTreeMap<Leaf, Time<'a>>;

/// The tree of an arm: every sample in one leaf, and a leaf for what no sample stands for.
pub(crate) fn tree<'a>(samples: &Samples<'a>) -> Tree<'a> {
    let gathered = settled(gather(&samples.profiles));
    let mut tree = Tree::new();
    for (user, side) in [(true, 0), (false, 1)] {
        let (cpu_ns, se_ns) = (samples.cpu_ns[side], samples.cpu_se_ns[side]);
        let of_side = || gathered.iter().filter(move |(leaf, _)| leaf.is_user() == user);
        let mut wholes = vec![0.0; samples.profiles.len()];
        for (_, (counts, _)) in of_side() {
            wholes.iter_mut().zip(counts).for_each(|(whole, count)| *whole += *count as f64);
        }
        let all: f64 = wholes.iter().sum();
        let divided_ns = if all > 0.0 { cpu_ns * samples.divides } else { 0.0 };
        for (leaf, (counts, time)) in of_side() {
            let counts: Vec<f64> = counts.iter().map(|count| *count as f64).collect();
            let ns = divided_ns * counts.iter().sum::<f64>() / all.max(1.0);
            let with_side_ns = ns / cpu_ns.max(f64::MIN_POSITIVE) * se_ns;
            let by_chance = time.draws.by_chance;
            let draws = Draws { counts, wholes: wholes.clone(), by_chance, divided_ns, with_side_ns };
            tree.insert(leaf.clone(), Time { ns, draws, ..time.clone() });
        }
        if cpu_ns > divided_ns {
            let ns = cpu_ns - divided_ns;
            let draws = Draws { with_side_ns: ns / cpu_ns * se_ns, ..Draws::default() };
            tree.insert(Leaf::NotSampled { user }, Time { ns, draws, ..Time::default() });
        }
    }
    tree
}

fn merge<'a>(into: &mut Time<'a>, other: Time<'a>) {
    into.ns += other.ns;
    into.draws.add(&other.draws);
    into.own = into.own.or(other.own);
    into.samples += other.samples;
    for (name, (samples, frame)) in other.callers {
        into.callers.entry(name).or_insert((0, frame)).0 += samples;
    }
    for (name, samples) in other.within {
        *into.within.entry(name).or_default() += samples;
    }
    for (name, (samples, frame)) in other.via {
        let entry = into.via.entry(name).or_default();
        *entry = (entry.0 + samples, entry.1.or(frame));
    }
}

/// Both arms leaf by leaf, largest change first.
pub(crate) fn rows(arm: &str, trees: [Tree<'_>; 2], done: [&Done; 2]) -> Vec<(Leaf, AttributionRow)> {
    rows_of(arm, spread::by_caller(trees), done)
}

/// A server that is compared with none, leaf by leaf, largest first. `cpu_ns` is its user and system time; where the kernel was sampled,
/// samples divide their sum between both.
pub(crate) fn of_one(name: &str, profile: &Profile, cpu_ns: [f64; 2], divides: f64) -> Vec<AttributionRow> {
    let cpu_ns = if profile.kernel { sides::by_samples(profile, cpu_ns.iter().sum()) } else { cpu_ns };
    let one = tree(&Samples { profiles: vec![profile], cpu_ns, cpu_se_ns: [0.0; 2], divides });
    let done = Done::default();
    rows_of(name, [Tree::new(), one], [&done, &done]).into_iter().map(|(_, row)| row).collect()
}

fn rows_of(arm: &str, trees: [Tree<'_>; 2], done: [&Done; 2]) -> Vec<(Leaf, AttributionRow)> {
    // Small functions are one leaf of their package, and small packages one of their kind of work.
    let trees = together(together(trees));
    let [from, to] = &trees;
    let leaves: std::collections::BTreeSet<&Leaf> = from.keys().chain(to.keys()).collect();
    let within = trees.each_ref().map(Within::new);
    let mut rows: Vec<(Leaf, AttributionRow)> = leaves
        .into_iter()
        .map(|leaf| {
            let times = [from.get(leaf), to.get(leaf)];
            let counted = |arm: usize| count(leaf, done[arm], times[arm], &within[arm]);
            (leaf.clone(), row(arm, leaf, times, counted(0).zip(counted(1))))
        })
        .collect();
    rows.sort_by(|a, b| b.1.delta_ns.abs().total_cmp(&a.1.delta_ns.abs()));
    rows
}

/// Leaves that are small in both arms, together with others of their kind.
fn together(trees: [Tree<'_>; 2]) -> [Tree<'_>; 2] {
    let whole: f64 = trees.iter().map(|tree| tree.values().map(|time| time.ns).sum()).fold(0.0, f64::max);
    let ns = |tree: &Tree, leaf: &Leaf| tree.get(leaf).map_or(0.0, |time| time.ns);
    let is_small: Vec<Leaf> = trees
        .iter()
        .flat_map(|tree| tree.keys())
        .filter(|leaf| trees.iter().all(|tree| ns(tree, leaf) < SMALL * whole))
        .cloned()
        .collect();
    let is_small: std::collections::BTreeSet<Leaf> = is_small.into_iter().collect();
    trees.map(|tree| {
        let mut folded = Tree::new();
        for (leaf, time) in tree {
            let leaf = if is_small.contains(&leaf) { leaf.small() } else { leaf };
            merge(folded.entry(leaf).or_default(), time);
        }
        folded
    })
}

fn row(arm: &str, leaf: &Leaf, times: [Option<&Time>; 2], counts: Option<(f64, f64)>) -> AttributionRow {
    let [from, to] = times.map(|time| time.map_or(0.0, |time| time.ns));
    let variance: f64 = times.iter().flatten().map(|time| time.variance()).sum();
    let parts = counts.and_then(|(n1, n2)| parts([n1, n2], [from, to]));
    let larger = if to >= from { times[1].or(times[0]) } else { times[0].or(times[1]) };
    let asked = larger.and_then(|time| time.via.values().max_by_key(|(samples, _)| *samples)?.1);
    let own = larger
        .and_then(|time| time.own)
        .filter(|_| matches!(leaf, Leaf::Program { .. } | Leaf::Under { .. }));
    AttributionRow {
        arm: arm.to_owned(),
        path: leaf.path(),
        baseline_ns: from,
        arm_ns: to,
        delta_ns: to - from,
        delta_se_ns: variance.sqrt(),
        count: counts.map(|(baseline, arm)| LeafCount { baseline, arm }),
        more_ns: parts.map(|parts| parts[0]),
        dearer_ns: parts.map(|parts| parts[1]),
        place: own.or(asked).map(place_of),
        via: match leaf {
            Leaf::Under { function, .. } => Some(function.clone()),
            _ => asked.map(|frame| brief(&frame.name)),
        },
        within: larger.and_then(|time| {
            time.within.iter().max_by_key(|(_, samples)| **samples).map(|(name, _)| (*name).to_owned())
        }),
        cause: None,
        changed: None,
        caller: None,
        drawn: Drawn(times.map(|time| time.map(|time| time.draws.clone()))),
    }
}

fn place_of(frame: &Frame) -> Place {
    Place::of(frame, named(frame))
}

/// CPU time of what is counted as a whole, in nanoseconds a request of one arm.
struct Within<'a> {
    switches_ns: f64,
    calls: Calls<'a>,
}

impl<'a> Within<'a> {
    fn new(tree: &'a Tree<'_>) -> Self {
        let leaves = || tree.iter().map(|(leaf, time)| (leaf, time.ns));
        let switches_ns = leaves().filter(|(leaf, _)| leaf.is_switch()).map(|(_, ns)| ns).sum();
        Self { switches_ns, calls: Calls::new(leaves()) }
    }
}

/// How often what a leaf is part of is done for a request. Switches are counted of the whole server: they are those of one leaf where
/// it has most of the time of all switches, or where there are hardly any. A system call is counted by its name, whatever it is on: the
/// count is that of a leaf where all of it is on one kind of object.
fn count(leaf: &Leaf, done: &Done, time: Option<&Time>, within: &Within) -> Option<f64> {
    /// Share of the time of all switches.
    const MOST: f64 = 0.75;
    /// Switches of a request.
    const HARDLY_ANY: f64 = 0.01;
    match leaf {
        _ if leaf.is_switch() => {
            let has_most = time.map_or(0.0, |time| time.ns) >= MOST * within.switches_ns;
            done.switches.filter(|count| has_most || *count < HARDLY_ANY)
        }
        Leaf::Call { call, on, .. } => {
            let is_all = within.calls.all_or_none(call, *on) == Some(true);
            let calls = done.calls.as_ref().filter(|_| is_all)?;
            calls.get(call).copied().or_else(|| done.all_calls.then_some(0.0))
        }
        Leaf::Fault { .. } => done.faults,
        _ => None,
    }
}

/// A change in what is done so often and takes so long, as the part that is more of it and the part that is dearer each:
/// Δ = Δn (c₁ + c₂)/2 + Δc (n₁ + n₂)/2. Where one arm shows no time or no count, what one of it costs there is not known, and it
/// is the other's. Nothing where it is never counted.
pub(crate) fn parts([n1, n2]: [f64; 2], [from, to]: [f64; 2]) -> Option<[f64; 2]> {
    let cost = |n: f64, ns: f64| (n > 0.0 && ns > 0.0).then(|| ns / n);
    if n1 <= 0.0 && n2 <= 0.0 {
        return None;
    }
    let each = match (cost(n1, from), cost(n2, to)) {
        (Some(c1), Some(c2)) => (c1 + c2) / 2.0,
        (one, other) => one.or(other).unwrap_or(0.0),
    };
    let more = (n2 - n1) * each;
    Some([more, to - from - more])
}

/// The rows of every arm against the baseline; nothing of an arm whose CPU time is not known.
pub(crate) fn all(facts: &Facts) -> Vec<(Leaf, AttributionRow)> {
    let sheet = &facts.sheet;
    let of = |name: &str| Some((samples(facts, name)?, done(facts, name)));
    let Some((baseline, baseline_done)) = of(sheet.baseline()) else { return Vec::new() };
    let arms = sheet.others().filter_map(|name| Some((name, of(name)?)));
    let trees = arms.flat_map(|(name, (arm, done))| {
        // A leaf of one arm has nothing to stand beside where the other was not sampled.
        let both = pooled(paired(facts, name, alike([&baseline, &arm])));
        let trees = [tree(&both[0]), tree(&both[1])];
        let told = sheet.run.manifest.changes.iter().find(|change| change.arm == name);
        let Some(changes) = told.map(|change| Changes::parse(&change.diff)) else {
            return rows(name, trees, [&baseline_done, &done]);
        };
        let checkouts = [(sheet.baseline(), &baseline), (name, &arm)];
        let changes = changes.in_checkouts(checkouts.map(|(name, arm)| checkout(facts, name, arm)));
        let [from, to] = trees;
        let of_before = |file: &str, line| changes.moved(file, line);
        let of_after = |file: &str, line| Some((changes.named(Side::After, file), line));
        let trees = [with_lines(from, of_before), with_lines(to, of_after)];
        let rows = rows(name, trees, [&baseline_done, &done]);
        let marked = |row| within_checkout(marked(row, &changes, [&baseline, &arm]), &changes);
        rows.into_iter().map(|(leaf, row)| (leaf, marked(row))).collect()
    });
    trees.collect()
}

/// Of every arm, the function seen on one side alone under which most of its gap is, where there is one.
pub(crate) fn gap_functions(facts: &Facts) -> Vec<GapFunction> {
    let baseline = facts.sheet.baseline();
    let Some(from) = samples(facts, baseline) else { return Vec::new() };
    let found = |name| gap_function([baseline, name], [&from, &samples(facts, name)?]);
    facts.sheet.others().filter_map(found).collect()
}

/// The folder that the files of an arm lay in, where the names of its functions' files tell it: a build may leave it out of them, or
/// have written another one.
fn checkout(facts: &Facts, name: &str, arm: &Samples) -> Option<String> {
    let planned = facts.sheet.plan().arms.iter().find(|one| one.name == name)?;
    let folder = &planned.source.revision()?.checkout;
    let mut files =
        arm.profiles.iter().flat_map(|profile| &profile.frames).filter_map(|frame| frame.file.as_ref());
    files.any(|file| !file.starts_with('/') || within(folder, file).is_some()).then(|| folder.clone())
}

/// A tree with other files and lines, such as those at which the baseline's code stands in the arm's files; what is gone has none.
fn with_lines<'a>(tree: Tree<'a>, at: impl Fn(&str, u32) -> Option<(String, u32)>) -> Tree<'a> {
    let mut moved = Tree::new();
    for (leaf, time) in tree {
        let leaf = match leaf {
            Leaf::Program { work, package, function, line: Some((file, line)) } => {
                Leaf::Program { work, package, function, line: at(&file, line) }
            }
            other => other,
        };
        merge(moved.entry(leaf).or_default(), time);
    }
    moved
}

/// A row with what happened to its place, which is of the arm that spends more there.
fn marked(mut row: AttributionRow, changes: &Changes, arms: [&Samples; 2]) -> AttributionRow {
    let side = if row.arm_ns >= row.baseline_ns { Side::After } else { Side::Before };
    row.changed = row.place.as_ref().and_then(|place| changed_at(changes, side, place));
    if row.changed == Some(Change::None) {
        let function = row.place.as_ref().map(|place| place.function.as_str());
        row.caller = function.and_then(|name| changed_caller(name, changes, side, arms[side as usize]));
    }
    row
}

fn changed_at(changes: &Changes, side: Side, place: &Place) -> Option<Change> {
    let (file, line) = place.file.as_deref().zip(place.line)?;
    Some(changes.change_at(side, file, line))
}

/// The changed line from which most samples of `function` were called, if these are at least half of all of it.
fn changed_caller(function: &str, changes: &Changes, side: Side, arm: &Samples) -> Option<Place> {
    let mut by: BTreeMap<(String, Option<u32>), (u64, Place)> = BTreeMap::new();
    let mut all = 0;
    for profile in &arm.profiles {
        let places: Vec<Place> = profile.frames.iter().map(place_of).collect();
        let is_changed: Vec<bool> =
            places.iter().map(|place| changed_at(changes, side, place) == Some(Change::Line)).collect();
        for stack in &profile.stacks {
            let is_it =
                |frame: &u32| places.get(*frame as usize).is_some_and(|place| place.function == function);
            let Some(at) = stack.frames.iter().rposition(is_it) else { continue };
            all += stack.samples;
            let mut callers = stack.frames[..at].iter().rev().map(|frame| *frame as usize);
            if let Some(caller) = callers.find(|frame| is_changed.get(*frame) == Some(&true)) {
                let caller = &places[caller];
                let entry = by.entry((caller.function.clone(), caller.line)).or_insert((0, caller.clone()));
                entry.0 += stack.samples;
            }
        }
    }
    let (samples, caller) = by.into_values().max_by_key(|(samples, _)| *samples)?;
    (2 * samples >= all).then_some(caller)
}

/// A row whose files are named from the arm's checkout on, and not from the cache that this is in.
fn within_checkout(mut row: AttributionRow, changes: &Changes) -> AttributionRow {
    let side = if row.arm_ns >= row.baseline_ns { Side::After } else { Side::Before };
    for place in [&mut row.place, &mut row.caller].into_iter().flatten() {
        place.file = place.file.as_ref().map(|file| changes.named(side, file));
    }
    row
}

/// Both arms' samples, without those whose kind the other has not, unless the other uses hardly any CPU time: what was not sampled
/// of it can be no more than that.
fn alike<'a>(arms: [&Samples<'a>; 2]) -> [Samples<'a>; 2] {
    let kernel = arms.map(|arm| arm.profiles.iter().any(|profile| profile.kernel));
    let sampled = arms.iter().all(|arm| !arm.profiles.is_empty()) && kernel[0] == kernel[1];
    let whole_ns = arms.map(|arm| arm.cpu_ns.iter().sum::<f64>());
    [0, 1].map(|index| {
        let (arm, other) = (arms[index], 1 - index);
        let beside_little = arms[other].profiles.is_empty() && whole_ns[other] <= DWARFED * whole_ns[index];
        let profiles = if sampled || beside_little { arm.profiles.clone() } else { Vec::new() };
        Samples { profiles, ..*arm }
    })
}

/// What was counted of an arm.
fn done(facts: &Facts, name: &str) -> Done {
    let sheet = &facts.sheet;
    let counted =
        observed::counted(sheet, name, &facts.passes).filter(|counted| !counted.syscalls.is_empty());
    let named: f64 = counted.iter().flat_map(|counted| counted.syscalls.values()).sum();
    let all = counted.as_ref().and_then(|counted| counted.events.get("syscalls").copied());
    let pooled = |count: fn(&Window) -> u64| sheet.pooled(name, sheet.main, count);
    Done {
        all_calls: all.is_none_or(|all| named >= ALL_NAMED * all),
        calls: counted.map(|counted| counted.syscalls),
        faults: pooled(|window| window.target.minor_faults),
        switches: pooled(|window| window.target.voluntary_switches + window.target.involuntary_switches),
    }
}
