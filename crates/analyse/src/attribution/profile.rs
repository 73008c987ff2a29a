//! Where in the code: two profiles as nanoseconds per request, function by function, with their difference.

mod callers;
mod category;
mod system_calls;

use std::collections::BTreeMap;

use model::record::{Frame, PassKind, Profile, ProfileKind, SPINNING, Stack};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use category::Category;
pub(crate) use category::{
    asks_for_work, for_stack as work_of, is_built_in, is_lock, is_of_go, is_own, is_script, serves_anyone,
    without_width,
};

use crate::facts::Facts;
use crate::facts::functions::package;
use crate::facts::observed::{sampled, sampled_ns};
use crate::facts::passes::{PassFindings, used};

/// Functions that are put out at most, those with the largest difference first.
const MAX_FUNCTIONS: usize = 60;
/// Samples from which a function that the other arm never ran is said to be only here: with a Poisson mean of so many,
/// none at all is met once in 20 000.
const ONLY_SAMPLES: u64 = 10;

/// Self time of one function, package or category in both arms, in nanoseconds per request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileRow {
    /// Function, package or category.
    pub name: String,
    /// Of a function: its crate, package or library; empty otherwise.
    pub package: String,
    /// Of a function: what kind of work it is; empty otherwise.
    pub category: String,
    /// In the baseline.
    pub baseline_ns: f64,
    /// In the arm.
    pub arm_ns: f64,
    /// Arm minus baseline.
    pub difference_ns: f64,
    /// Standard error of the difference: samples are Poisson counts. Waits are timed, and have none.
    pub error_ns: f64,
    /// The arm that alone ran it, where that is so.
    pub only_in: Option<String>,
    /// Of a kind of work: the function of the program under which most of the difference is.
    #[serde(default)]
    pub under: Option<String>,
}

/// Two arms' profiles against each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileDifference {
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// Samples of the baseline.
    pub baseline_samples: u64,
    /// Samples of the arm.
    pub arm_samples: u64,
    /// By kind of work; all of them, so that they sum to CPU per request, or to its user time where the kernel was not
    /// sampled.
    pub categories: Vec<ProfileRow>,
    /// By crate, package or library, largest difference first.
    pub packages: Vec<ProfileRow>,
    /// By function, largest difference first; of many only the first 60 are put out.
    pub functions: Vec<ProfileRow>,
    /// By system call, with everything that the kernel did inside it, and page faults, largest difference first; empty
    /// where the kernel was not sampled.
    #[serde(default)]
    pub system_calls: Vec<ProfileRow>,
    /// What the reader must know, one sentence each.
    pub notes: Vec<String>,
}

impl ProfileDifference {
    /// As it is put out. Until then it is whole: small functions by the hundred may carry a gap together.
    pub(crate) fn shortened(mut self) -> Self {
        self.functions.truncate(MAX_FUNCTIONS);
        self
    }
}

/// The profiles of one arm, and the CPU time of a request that they divide: samples give shares, unscored as they are,
/// and the scored windows give the whole.
#[derive(Debug, Clone)]
pub struct ArmProfile<'a> {
    /// The arm.
    pub name: &'a str,
    /// Its profiles.
    pub profiles: Vec<&'a Profile>,
    /// What all samples together stand for, in nanoseconds per request.
    pub cpu_ns: f64,
}

/// Samples of one arm by key.
type Counts<K> = BTreeMap<K, u64>;

/// A function by name, package and kind of work.
type Function = (String, String, Category);

/// The profile of every arm against the baseline's, where it is used.
pub(crate) fn all(facts: &Facts) -> Vec<ProfileDifference> {
    let sheet = &facts.sheet;
    let of = |name: &str| {
        let arm = facts.arm(name)?;
        let (profiles, cpu) = (sampled(sheet.run, name), arm.cpu_ns_per_request?);
        let divides = used(&facts.passes, name, PassKind::Sampling).map(PassFindings::divides)?;
        let cpu_ns = sampled_ns(&profiles, cpu.total, cpu.user)? * divides;
        Some(ArmProfile { name: &arm.name, profiles, cpu_ns })
    };
    let Some(baseline) = of(sheet.baseline()) else { return Vec::new() };
    sheet.others().filter_map(|name| difference(&baseline, &of(name)?)).collect()
}

/// The difference between two arms; nothing where one of them has no samples, or none in the kernel and the other has.
#[must_use]
pub fn difference(baseline: &ArmProfile, arm: &ArmProfile) -> Option<ProfileDifference> {
    let has_kernel = |arm: &ArmProfile| arm.profiles.iter().any(|profile| profile.kernel);
    if has_kernel(baseline) != has_kernel(arm) {
        return None;
    }
    let (from, to) = (functions(&baseline.profiles), functions(&arm.profiles));
    let scales = [scale(&from, baseline.cpu_ns)?, scale(&to, arm.cpu_ns)?];
    let names = [baseline.name, arm.name];
    let calls = [baseline, arm].map(|arm| system_calls::counts(&arm.profiles));
    Some(compared(&Pair { from, to, calls, scales, names, drawn: is_drawn(arm) }, &[baseline, arm]))
}

/// The profile of one arm alone, as its difference from nothing: largest first.
#[must_use]
pub fn alone(arm: &ArmProfile) -> Option<ProfileDifference> {
    let to = functions(&arm.profiles);
    let scales = [0.0, scale(&to, arm.cpu_ns)?];
    let calls = [Counts::new(), system_calls::counts(&arm.profiles)];
    let pair = Pair { from: Counts::new(), to, calls, scales, names: ["", arm.name], drawn: is_drawn(arm) };
    Some(compared(&pair, &[arm]))
}

fn is_drawn(arm: &ArmProfile) -> bool {
    arm.profiles.iter().all(|profile| profile.kind == ProfileKind::Cpu)
}

/// Samples of both arms, and what one sample of each is worth.
struct Pair<'a> {
    from: Counts<Function>,
    to: Counts<Function>,
    /// By system call.
    calls: [Counts<String>; 2],
    scales: [f64; 2],
    names: [&'a str; 2],
    /// Whether samples are drawn by chance, and not timed.
    drawn: bool,
}

fn compared(pair: &Pair, arms: &[&ArmProfile]) -> ProfileDifference {
    let named = |name: &String| ProfileRow { name: name.clone(), ..ProfileRow::default() };
    let by =
        |key: fn(&Function) -> String| rows(&grouped(&pair.from, key), &grouped(&pair.to, key), pair, named);
    let functions = rows(&pair.from, &pair.to, pair, |(name, package, category)| ProfileRow {
        name: name.clone(),
        package: package.clone(),
        category: category.word().to_owned(),
        ..ProfileRow::default()
    });
    let mut categories = by(|(_, _, category)| category.word().to_owned());
    callers::name(&mut categories, arms, pair.scales);
    ProfileDifference {
        baseline: pair.names[0].to_owned(),
        arm: pair.names[1].to_owned(),
        baseline_samples: pair.from.values().sum(),
        arm_samples: pair.to.values().sum(),
        categories,
        packages: by(|(_, package, _)| package.clone()),
        functions,
        system_calls: rows(&pair.calls[0], &pair.calls[1], pair, named),
        notes: arms.iter().flat_map(|arm| notes(arm)).collect(),
    }
}

fn notes(arm: &ArmProfile) -> Vec<String> {
    let mut notes: Vec<&String> = arm.profiles.iter().flat_map(|profile| &profile.notes).collect();
    notes.sort();
    notes.dedup();
    notes.into_iter().map(|note| format!("{}: {note}", arm.name)).collect()
}

/// Nanoseconds per request that one sample stands for.
fn scale(counts: &Counts<Function>, cpu_ns: f64) -> Option<f64> {
    let samples: u64 = counts.values().sum();
    (samples > 0).then(|| cpu_ns / samples as f64)
}

fn functions(profiles: &[&Profile]) -> Counts<Function> {
    let mut counts = Counts::new();
    for profile in profiles {
        for stack in &profile.stacks {
            *counts.entry(function(profile, stack)).or_default() += stack.samples;
        }
    }
    counts
}

/// The innermost function of a stack, with the kind of work that its callers tell; of a wait, the function that chose to
/// wait, and not the scheduler that it asked.
fn function(profile: &Profile, stack: &Stack) -> Function {
    let waits = profile.kind == ProfileKind::OffCpu;
    let innermost = || profile.frames_of(stack).rev().skip_while(move |frame| waits && is_waiting(frame));
    let category = category::for_stack(innermost());
    let frames = || innermost().skip_while(|frame| frame.name == SPINNING);
    match frames().next() {
        // One address is not a function: what has no name is one row for its module.
        Some(frame) if !frame.resolved => {
            (format!("[{}]", frame.module.trim_matches(['[', ']'])), frame.module.clone(), category)
        }
        Some(frame) => (frame.name.clone(), package(frames()), category),
        None => ("[unknown]".to_owned(), String::new(), category),
    }
}

/// Whether it is one of the kernel's functions that give the CPU away, whoever asked.
fn is_waiting(frame: &Frame) -> bool {
    const NAMES: [&str; 3] = ["schedule", "__schedule", "io_schedule"];
    frame.kernel && NAMES.iter().any(|name| frame.name.starts_with(name))
}

fn grouped(counts: &Counts<Function>, key: fn(&Function) -> String) -> Counts<String> {
    let mut sums = Counts::new();
    for (function, samples) in counts {
        *sums.entry(key(function)).or_default() += samples;
    }
    sums
}

fn rows<K: Ord>(
    from: &Counts<K>,
    to: &Counts<K>,
    pair: &Pair,
    row: impl Fn(&K) -> ProfileRow,
) -> Vec<ProfileRow> {
    let extra = to.keys().filter(|key| !from.contains_key(key));
    let mut rows: Vec<ProfileRow> = from
        .keys()
        .chain(extra)
        .map(|key| {
            let counts = [from.get(key).copied().unwrap_or(0), to.get(key).copied().unwrap_or(0)];
            let ns = |arm: usize| counts[arm] as f64 * pair.scales[arm];
            let error = |arm: usize| (counts[arm] as f64).sqrt() * pair.scales[arm];
            let only = match counts {
                [0, here] if here >= ONLY_SAMPLES => Some(pair.names[1]),
                [here, 0] if here >= ONLY_SAMPLES => Some(pair.names[0]),
                _ => None,
            };
            ProfileRow {
                baseline_ns: ns(0),
                arm_ns: ns(1),
                difference_ns: ns(1) - ns(0),
                error_ns: if pair.drawn { error(0).hypot(error(1)) } else { 0.0 },
                // Beside nothing, everything would be only here.
                only_in: only.filter(|_| !pair.names[0].is_empty()).map(str::to_owned),
                ..row(key)
            }
        })
        .collect();
    rows.sort_by(|a, b| b.difference_ns.abs().total_cmp(&a.difference_ns.abs()));
    rows
}

#[cfg(test)]
mod tests;
