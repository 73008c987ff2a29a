//! Where most of a cause is: a few places, each as narrow as most of it allows.

use std::collections::BTreeMap;

use super::gap::Pair;
use crate::attribution::seen::LeafSeen;
use crate::attribution::tree::gap_nodes::asked;
use crate::attribution::tree::place::{Leaf, SMALL_ONES};
use crate::attribution::tree::{AttributionRow, LeafCount};
use crate::facts::functions::brief;

/// Places that are named at most.
const MOST: usize = 3;
/// Share of what is named first below which another is not.
const WORTH: f64 = 0.2;
/// Share of what a package does from which on one function of it is named in its place.
const HALF: f64 = 0.5;
/// Functions of a package that are named where none holds so much, and of those that asked for it; each of these asked for this share.
const FUNCTIONS: usize = 2;
const ASKED: f64 = 0.2;

/// A leaf with its row.
type Grown<'a> = &'a (Leaf, AttributionRow);

/// The places in which most of these leaves are that grew, those of most first.
pub(super) fn examples(pair: &Pair, leaves: &[Grown]) -> Vec<LeafSeen> {
    let mut packages: BTreeMap<(&str, &str), Vec<Grown>> = BTreeMap::new();
    // Leaves that look alike are one example.
    let mut found: Vec<(LeafSeen, f64)> = Vec::new();
    for one in leaves {
        match &one.0 {
            Leaf::Program { work, package, .. } if !package.is_empty() => {
                packages.entry((work.word(), package.as_str())).or_default().push(*one);
            }
            _ => add(&mut found, example(pair, one), grown(pair, one)),
        }
    }
    for ((work, package), leaves) in packages {
        let ns: f64 = leaves.iter().map(|one| grown(pair, one)).sum();
        found.push((of_package(pair, work, package, &leaves, ns), ns));
    }
    // Of those that grew by as much, the order is that of their names.
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.name().cmp(&b.0.name())));
    let first_ns = found.first().map_or(0.0, |(_, ns)| *ns);
    let worth = found.into_iter().filter(|(_, ns)| *ns > 0.0 && *ns >= WORTH * first_ns);
    worth.take(MOST).map(|(example, _)| example).collect()
}

fn grown(pair: &Pair, leaf: Grown) -> f64 {
    pair.sign * leaf.1.delta_ns
}

fn add(found: &mut Vec<(LeafSeen, f64)>, example: LeafSeen, ns: f64) {
    match found.iter_mut().find(|(other, _)| *other == example) {
        Some((_, sum)) => *sum += ns,
        None => found.push((example, ns)),
    }
}

/// A package: its function where one holds most of it, else those that grew most.
fn of_package(pair: &Pair, work: &str, package: &str, leaves: &[Grown], whole_ns: f64) -> LeafSeen {
    let mut functions: BTreeMap<&str, (f64, Vec<Grown>)> = BTreeMap::new();
    for one in leaves {
        if let Leaf::Program { function, .. } = &one.0 {
            let entry = functions.entry(function).or_default();
            entry.0 += grown(pair, one);
            entry.1.push(one);
        }
    }
    let mut functions: Vec<(&str, (f64, Vec<Grown>))> = functions.into_iter().collect();
    functions.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let holds = |name: &str, ns: f64| name != SMALL_ONES && ns >= HALF * whole_ns;
    if let Some((_, (_, lines))) = functions.iter().find(|(name, (ns, _))| holds(name, *ns)) {
        let most = lines.iter().max_by(|a, b| grown(pair, a).total_cmp(&grown(pair, b)));
        if let Some(most) = most {
            return example(pair, most);
        }
    }
    let named = functions.iter().filter(|(name, (ns, _))| *name != SMALL_ONES && *ns > 0.0);
    let functions: Vec<String> = named.take(FUNCTIONS).map(|(name, _)| (*name).to_owned()).collect();
    let asked = asked(leaves.iter().map(|one| &one.1), pair.sign);
    let most = asked.into_iter().take(FUNCTIONS).filter(|(_, ns)| *ns >= ASKED * whole_ns);
    let via = most.map(|(name, _)| name.to_owned()).filter(|name| !functions.contains(name)).collect();
    LeafSeen::Package { work: work.to_owned(), package: package.to_owned(), functions, via }
}

/// One leaf, with how often it was done and who asked for it; of a function with all that it calls, that function alone.
fn example(pair: &Pair, (leaf, row): Grown) -> LeafSeen {
    if let Leaf::Under { package, function, mostly } = leaf {
        let (function, package, mostly) = (function.clone(), package.clone(), mostly.clone());
        return LeafSeen::Under { function, package, mostly };
    }
    let slower_first = |count: LeafCount| match pair.sign > 0.0 {
        true => [count.arm, count.baseline],
        false => [count.baseline, count.arm],
    };
    let last = row.path.last();
    let via = row.via.as_ref().filter(|via| Some(*via) != last && !row.path.contains(via));
    let within = row.within.as_ref().map(|within| brief(within)).filter(|within| Some(within) != last);
    LeafSeen::Leaf {
        path: row.path[1..].to_vec(),
        count: row.count.map(slower_first),
        within,
        via: via.cloned(),
        changed: row.changed,
        caller: row.caller.clone(),
    }
}
