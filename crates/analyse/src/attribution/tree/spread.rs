//! Work of many kinds that one function asks for. Kind by kind it is a little of everything; under its function it is one thing.

use std::collections::BTreeMap;

use model::record::{Frame, Profile, Stack};

use super::place::Leaf;
use super::table::POLLED_NS;
use super::{Time, Tree, merge};
use crate::attribution::profile::{Category, serves_anyone};
use crate::facts::functions::{EVERYWHERE, brief, package_of};
use crate::facts::observed::SURE;

/// Share of the change in CPU time that a function must ask for to be told by itself.
const LEAST: f64 = 0.05;
/// Packages whose names say nothing of what is done.
const NAMELESS: [&str; 3] = ["", "core", "std"];
/// Share of that which one package other than its own must do to be told.
const MOSTLY: f64 = 0.5;
/// Share of what a function asks for that is done by one means from which on that is told, with the function beside it.
const ONE_KIND: f64 = 0.7;

/// What one function asks for.
#[derive(Default)]
struct Asked<'a> {
    /// In both arms, nanoseconds per request.
    ns: [f64; 2],
    variance: f64,
    /// The change in what may be waiting: reading clocks, taking locks.
    waiting: f64,
    /// The change by what is done.
    done: BTreeMap<(Category, &'a str), f64>,
    /// The same by whose code does it.
    packages: BTreeMap<&'a str, f64>,
    /// The function.
    frame: Option<&'a Frame>,
}

impl Asked<'_> {
    fn delta(&self) -> f64 {
        self.ns[1] - self.ns[0]
    }

    /// Whether nothing that is done holds most of the change; "runtime and server library" tells nothing by itself.
    fn is_spread(&self) -> bool {
        let holds = |ns: f64| ns / self.delta() >= ONE_KIND;
        !self.done.iter().any(|((work, _), ns)| *work != Category::Runtime && holds(*ns))
    }
}

impl Asked<'_> {
    /// The package that does most of it, where that is not the function's own.
    fn mostly(&self) -> Option<String> {
        let own = self.frame.map(package_of);
        let (package, _) = self.packages.iter().find(|(_, ns)| **ns / self.delta() >= MOSTLY)?;
        let tells = !NAMELESS.contains(package) && own.as_deref() != Some(*package);
        tells.then(|| (*package).to_owned())
    }
}

/// What a leaf of the program does: its kind of work; where that tells only whose code it is, its function.
fn what(leaf: &Leaf) -> Option<(Category, &str)> {
    match leaf {
        Leaf::Program { work: work @ (Category::Handler | Category::Runtime), function, .. } => {
            Some((*work, function))
        }
        // Who allocates pays the collector.
        Leaf::Program { work: Category::Gc, .. } => Some((Category::Allocation, "")),
        Leaf::Program { work, .. } => Some((*work, "")),
        _ => None,
    }
}

/// The innermost function of a stack that serves no one else: who asked for what the stack does.
pub(super) fn caller<'a>(profile: &'a Profile, stack: &'a Stack) -> Option<&'a Frame> {
    let tells =
        |frame: &&Frame| !frame.kernel && frame.resolved && !frame.name.is_empty() && !serves_anyone(frame);
    profile.frames_of(stack).rev().find(tells)
}

/// Both trees, with the program's work under those functions whose change is spread over kinds. Every sample stays in one leaf.
pub(super) fn by_caller(trees: [Tree<'_>; 2]) -> [Tree<'_>; 2] {
    let taken = spread_functions(&trees);
    if taken.is_empty() { trees } else { trees.map(|tree| under(tree, &taken)) }
}

/// Those functions, each with who does most of what it asks for.
fn spread_functions(trees: &[Tree<'_>; 2]) -> BTreeMap<String, Option<String>> {
    let whole = |tree: &Tree, user: bool| -> f64 {
        tree.iter().filter(|(leaf, _)| !user || leaf.is_user()).map(|(_, time)| time.ns).sum()
    };
    let gap = whole(&trees[1], false) - whole(&trees[0], false);
    let program = [whole(&trees[0], true), whole(&trees[1], true)];
    let mut asked: BTreeMap<&str, Asked<'_>> = BTreeMap::new();
    for (arm, tree) in trees.iter().enumerate() {
        for (leaf, time) in tree {
            let Some(done) = what(leaf) else { continue };
            for (name, share) in time.shares() {
                let entry = asked.entry(name).or_default();
                entry.ns[arm] += share * time.ns;
                entry.variance += share * time.variance();
                let delta = [-1.0, 1.0][arm] * share * time.ns;
                *entry.done.entry(done).or_default() += delta;
                if let Leaf::Program { package, .. } = leaf {
                    *entry.packages.entry(package).or_default() += delta;
                }
                entry.frame = entry.frame.or_else(|| time.callers.get(name).map(|(_, frame)| *frame));
                if matches!(done.0, Category::Lock | Category::Date | Category::Polling) {
                    entry.waiting += delta;
                }
            }
        }
    }
    let tells = |one: &Asked| {
        one.delta() / gap >= LEAST
            && one.delta().abs() > SURE * one.variance.sqrt()
            && (0..2).any(|arm| one.ns[arm] < EVERYWHERE * program[arm])
            && one.waiting.abs() < POLLED_NS
            && one.is_spread()
    };
    let told = asked.into_iter().filter(|(_, one)| tells(one));
    told.map(|(name, one)| (name.to_owned(), one.mostly())).collect()
}

/// The tree, with what these functions ask for moved under them.
fn under<'a>(tree: Tree<'a>, taken: &BTreeMap<String, Option<String>>) -> Tree<'a> {
    let mut moved = Tree::new();
    for (leaf, time) in tree {
        if what(&leaf).is_none() {
            merge(moved.entry(leaf).or_default(), time);
            continue;
        }
        let mut left = time.clone();
        let callers =
            time.callers.iter().filter_map(|(name, caller)| Some((name, caller, taken.get(*name)?)));
        for (name, (samples, frame), mostly) in callers {
            let share = *samples as f64 / time.samples.max(1) as f64;
            let part = Time {
                ns: share * time.ns,
                draws: time.draws.part(share),
                samples: *samples,
                own: Some(*frame),
                ..Time::default()
            };
            left.ns -= part.ns;
            left.samples -= samples;
            left.callers.remove(name);
            let (package, function, mostly) = (package_of(frame), brief(name), mostly.clone());
            merge(moved.entry(Leaf::Under { package, function, mostly }).or_default(), part);
        }
        if left.samples > 0 {
            left.draws = time.draws.part(left.samples as f64 / time.samples.max(1) as f64);
            merge(moved.entry(leaf).or_default(), left);
        }
    }
    moved
}
