//! Samples into leaves, with where they came from.

use std::collections::BTreeMap;

use model::record::{Profile, Stack};

use super::place::{Leaf, at_work, interpreted, leaf, on_by_name, via};
use super::table::On;
use super::{Time, merge, spread};

/// Samples of each profile in each leaf, and where they came from.
pub(super) type Gathered<'a> = BTreeMap<Leaf, (Vec<u64>, Time<'a>)>;

/// Every sample of these profiles in its leaf.
pub(super) fn gather<'a>(profiles: &[&'a Profile]) -> Gathered<'a> {
    let mut gathered = Gathered::new();
    for (place, profile) in profiles.iter().enumerate() {
        let mut works: BTreeMap<&str, u64> = BTreeMap::new();
        // So many counts as one sample stands for.
        let mut put = |stack: &'a Stack, samples: u64, weight: f64| {
            let entry = gathered.entry(leaf(profile, stack)).or_default();
            entry.0.resize(profiles.len(), 0);
            entry.0[place] += samples;
            entry.1.draws.by_chance += samples as f64 * weight;
            tell(&mut entry.1, profile, stack, samples);
        };
        for stack in &profile.stacks {
            match at_work(profile, stack) {
                Some(interpreter) => *works.entry(interpreter.module).or_default() += stack.samples,
                None => put(stack, stack.samples, 1.0),
            }
        }
        for (module, interpreted) in works {
            let (stacks, weight) = divided(profile, module, interpreted);
            stacks.into_iter().for_each(|(stack, samples)| put(stack, samples, weight));
        }
    }
    gathered
}

/// Notes where samples of a leaf came from.
fn tell<'a>(time: &mut Time<'a>, profile: &'a Profile, stack: &'a Stack, samples: u64) {
    let innermost = profile.frames_of(stack).next_back();
    time.own = time.own.or(innermost);
    if let Some(frame) = innermost.filter(|frame| frame.kernel) {
        *time.within.entry(&frame.name).or_default() += samples;
    }
    time.samples += samples;
    if let Some(frame) = spread::caller(profile, stack) {
        time.callers.entry(&frame.name).or_insert((0, frame)).0 += samples;
    }
    if let Some(frame) = via(profile, stack) {
        let from = time.via.entry(&frame.name).or_default();
        from.0 += samples;
        from.1 = from.1.or(Some(frame));
    }
}

/// The stacks of what an interpreter ran, with so many samples of the interpreter at work divided among them: no sample is lost
/// and none is told twice. Beside it, how many of these samples one stack stands for: that stacks were few makes what they tell less exact.
fn divided<'a>(profile: &'a Profile, module: &'a str, samples: u64) -> (Vec<(&'a Stack, u64)>, f64) {
    let all: u64 = interpreted(profile, module).map(|stack| stack.samples).sum();
    let (mut passed, mut given) = (0, 0);
    let mut divided = Vec::new();
    for stack in interpreted(profile, module) {
        passed += stack.samples;
        let due = (u128::from(samples) * u128::from(passed) / u128::from(all.max(1))) as u64;
        divided.push((stack, due - given));
        given = due;
    }
    (divided, (samples as f64 / all.max(1) as f64).max(1.0))
}

/// Calls of which a stack ended before it told what they are on are on what most of the same call are on.
pub(super) fn settled(gathered: Gathered<'_>) -> Gathered<'_> {
    let mut most: BTreeMap<String, BTreeMap<On, u64>> = BTreeMap::new();
    for (leaf, (counts, _)) in &gathered {
        if let Leaf::Call { call, on: Some(on), .. } = leaf {
            *most.entry(call.clone()).or_default().entry(*on).or_default() += counts.iter().sum::<u64>();
        }
    }
    let mut settled = Gathered::new();
    for (leaf, (counts, time)) in gathered {
        let leaf = match leaf {
            Leaf::Call { call, on: None, does } => {
                let seen = most.get(&call).and_then(|ons| ons.iter().max_by_key(|(_, samples)| **samples));
                let on = seen.map(|(on, _)| *on).or_else(|| on_by_name(&call));
                Leaf::Call { call, on, does }
            }
            told => told,
        };
        let entry = settled.entry(leaf).or_default();
        entry.0.resize(counts.len(), 0);
        entry.0.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        merge(&mut entry.1, time);
    }
    settled
}
