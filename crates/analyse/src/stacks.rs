//! The stacks of every arm that was sampled, as a flame graph draws them.

use std::collections::{BTreeMap, BTreeSet};

use model::record::{Frame, PassKind, Profile, Run, Stack};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::functions::package_of;
use crate::facts::observed::{sampled, sampled_ns};
use crate::findings::Findings;

/// Stacks kept of each arm, most frequent first: a page of four arms stays under 2 MB, and what is left out is one box.
const MAX_STACKS: usize = 1500;
/// What stacks that are left out are called.
const RARE: &str = "(rare stacks)";

/// Stacks of one arm over all its sampling passes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmStacks {
    /// Arm.
    pub arm: String,
    /// Samples.
    pub samples: u64,
    /// What one sample stands for, in nanoseconds per request. All samples together make up the CPU time per request of the
    /// scored windows, or its user time if the kernel was not sampled.
    pub ns_per_request_of_sample: f64,
    /// Whether callers are known; if not, only the innermost function of each stack can be trusted.
    pub callers: bool,
    /// What the reader must know, one sentence each.
    pub notes: Vec<String>,
    /// Every function met.
    pub frames: Vec<Frame>,
    /// Crates, packages and libraries of those functions, each once.
    #[serde(default)]
    pub packages: Vec<String>,
    /// The package of each function, as an index into `packages`.
    #[serde(default)]
    pub package_of: Vec<u32>,
    /// Stacks, most frequent first.
    pub stacks: Vec<Stack>,
}

/// Stacks of every arm whose sampling passes `findings` uses.
#[must_use]
pub fn stacks(run: &Run, findings: &Findings) -> Vec<ArmStacks> {
    let used = |arm: &str| {
        let mut passes = findings.passes.iter().filter(|pass| pass.arm == arm);
        passes.any(|pass| pass.kind == PassKind::Sampling && pass.used)
    };
    let arms = findings.arms.iter().filter(|arm| used(&arm.name));
    arms.filter_map(|arm| {
        let (cpu, profiles) = (arm.cpu_ns_per_request?, sampled(run, &arm.name));
        merged(&arm.name, sampled_ns(&profiles, cpu.total, cpu.user)?, &profiles)
    })
    .collect()
}

fn merged(arm: &str, cpu_ns: f64, profiles: &[&Profile]) -> Option<ArmStacks> {
    // A flame graph has a box for each function, not for each of its lines.
    let mut counts: BTreeMap<Vec<Frame>, u64> = BTreeMap::new();
    for profile in profiles {
        for stack in &profile.stacks {
            let functions = profile.frames_of(stack).map(Frame::without_place);
            *counts.entry(functions.collect()).or_default() += stack.samples;
        }
    }
    let samples: u64 = counts.values().sum();
    let mut ordered: Vec<(Vec<Frame>, u64)> = counts.into_iter().collect();
    // The sort is stable: of equally frequent stacks the same ones are kept each time.
    ordered.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let rare: u64 = ordered.iter().skip(MAX_STACKS).map(|(_, samples)| samples).sum();
    ordered.truncate(MAX_STACKS);
    let rest = Frame { name: RARE.to_owned(), resolved: true, ..Frame::default() };
    if rare > 0 {
        ordered.push((vec![rest], rare));
    }
    let (frames, stacks) = indexed(&ordered);
    let (packages, package_of) = packages(&frames);
    let mut notes: Vec<String> = profiles.iter().flat_map(|profile| profile.notes.clone()).collect();
    notes.sort_unstable();
    notes.dedup();
    (samples > 0).then(|| ArmStacks {
        arm: arm.to_owned(),
        samples,
        ns_per_request_of_sample: cpu_ns / samples as f64,
        callers: profiles.iter().all(|profile| profile.callers),
        notes,
        frames,
        packages,
        package_of,
        stacks,
    })
}

/// Each package once, and that of every frame by its place.
fn packages(frames: &[Frame]) -> (Vec<String>, Vec<u32>) {
    let named: Vec<String> = frames.iter().map(package_of).collect();
    let distinct: Vec<String> = named.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let place = |name: &String| distinct.binary_search(name).expect("every name is among them") as u32;
    let places = named.iter().map(place).collect();
    (distinct, places)
}

/// Each function once, and stacks by its place.
fn indexed(ordered: &[(Vec<Frame>, u64)]) -> (Vec<Frame>, Vec<Stack>) {
    let (mut frames, mut places) = (Vec::new(), BTreeMap::new());
    let mut place = |frame: &Frame| {
        *places.entry(frame.clone()).or_insert_with(|| {
            frames.push(frame.clone());
            frames.len() as u32 - 1
        })
    };
    let stacks = ordered
        .iter()
        .map(|(stack, samples)| Stack { frames: stack.iter().map(&mut place).collect(), samples: *samples })
        .collect();
    (frames, stacks)
}
