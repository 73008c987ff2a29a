//! Under which function of the program the work of one kind is: a library is seldom the reason, but who calls it.

use std::collections::{BTreeMap, BTreeSet};

use model::record::{Profile, Stack};

use super::{ArmProfile, ProfileRow, function};
use crate::facts::functions::EVERYWHERE;
use crate::facts::observed::SURE;

/// Share of a difference that is most of it.
const MOST: f64 = 2.0 / 3.0;

/// Nanoseconds per request under each function: of one kind of work or of all, in both arms.
type Under<'a> = BTreeMap<&'a str, [f64; 2]>;

/// Gives the kinds of work that differ between two arms the function under which most of the difference is: that with the least
/// time under it in the faster arm, and of those that are new the outermost.
pub(super) fn name(categories: &mut [ProfileRow], arms: &[&ArmProfile], scales: [f64; 2]) {
    if arms.len() < scales.len() {
        return;
    }
    let (mut all, mut by_kind) = (Under::new(), BTreeMap::<&str, Under>::new());
    let mut depth = BTreeMap::<&str, usize>::new();
    for (place, profile) in arms
        .iter()
        .enumerate()
        .flat_map(|(place, arm)| arm.profiles.iter().map(move |profile| (place, *profile)))
    {
        for stack in &profile.stacks {
            let ns = stack.samples as f64 * scales[place];
            let kind = by_kind.entry(function(profile, stack).2.word()).or_default();
            for (at, name) in functions_of(profile, stack) {
                let outermost = depth.entry(name).or_insert(at);
                *outermost = at.min(*outermost);
                all.entry(name).or_default()[place] += ns;
                kind.entry(name).or_default()[place] += ns;
            }
        }
    }
    let wholes = [0, 1].map(|arm| all_of(categories, arm));
    for row in categories.iter_mut().filter(|row| row.difference_ns.abs() > SURE * row.error_ns) {
        let faster = usize::from(row.difference_ns < 0.0);
        let most = |ns: &[f64; 2]| (ns[1] - ns[0]) / row.difference_ns >= MOST;
        let under = by_kind.get(row.name.as_str()).into_iter().flatten();
        row.under = under
            .filter(|(name, ns)| most(ns) && all[*name][faster] < EVERYWHERE * wholes[faster])
            .map(|(name, _)| *name)
            .min_by(|a, b| {
                let least = all[*a][faster].total_cmp(&all[*b][faster]);
                least.then_with(|| depth[*a].cmp(&depth[*b]))
            })
            .map(str::to_owned);
    }
}

fn all_of(categories: &[ProfileRow], arm: usize) -> f64 {
    categories.iter().map(|row| [row.baseline_ns, row.arm_ns][arm]).sum()
}

/// The program's functions on a stack, each once, with their places from the outermost.
fn functions_of<'a>(profile: &'a Profile, stack: &'a Stack) -> BTreeMap<usize, &'a str> {
    let mut seen = BTreeSet::new();
    let frames = profile.frames_of(stack).enumerate();
    let own = frames.filter(|(_, frame)| frame.resolved && !frame.kernel);
    own.map(|(at, frame)| (at, frame.name.as_str())).filter(|(_, name)| seen.insert(*name)).collect()
}
