//! Stalls: times in which a server answered nobody, and what it did then that it does not do otherwise.

use std::collections::{BTreeMap, BTreeSet};

use model::record::{Frame, PassKind, Profile, Stack, Stops};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::functions::brief;
use super::observed;
use super::passes::PassFindings;
use super::sheet::Sheet;

/// How much longer than the mean time between two answers a silence is to be a stall. Of answers that come at random times
/// one pause in five hundred million is as long.
const FAR: f64 = 20.0;
/// Share of the watched time from which on stalls are reported: below, they are the latency tail's.
const MIN_SHARE: f64 = 0.02;
/// How many more threads at a time must be at something during stalls than at other times for it to be named.
const APART: f64 = 0.25;
/// Functions that are nearly as much apart as the one that is most: they call each other.
const NEARLY: f64 = 0.8;
/// Times as many threads at it during stalls as at other times from which on it is a stall's own.
const OWN: f64 = 4.0;
/// Fewest samples during stalls that tell what is done.
const FEW_SAMPLES: u64 = 20;
/// Functions of a chain of calls that are named, the innermost ones.
const NAMED: usize = 3;

/// What a stall shows in: samples of CPU time, or waits.
pub(crate) const RUNS: &str = "runs";
pub(crate) const WAITS: &str = "waits";

/// Times in which an arm answered nobody although requests waited, seen in passes that watch what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// How long one is on average, in nanoseconds.
    pub mean_ns: f64,
    /// Share of the watched time, 0 to 1.
    pub share: f64,
    /// Time that was watched, in nanoseconds.
    pub watched_ns: u64,
    /// What it does then far more than at other times; empty if that was not seen.
    pub activities: Vec<StallActivity>,
    /// Whether all this is of the first block, in which nobody watches what a server does.
    #[serde(default)]
    pub unwatched: bool,
    /// One sentence.
    pub text: String,
}

/// What a server does during stalls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallActivity {
    /// `runs` (seen in samples of CPU time) or `waits` (seen in the time that its threads spend without a CPU).
    pub does: String,
    /// The functions in which it does, each called by the one before.
    pub functions: Vec<String>,
    /// Threads that are at a time in the first of them, on average.
    pub threads: f64,
    /// The same at other times.
    pub threads_otherwise: f64,
}

impl Stalls {
    /// Those of the first block, in which nobody watched what the server does.
    pub(crate) fn unwatched(stops: Stops) -> Self {
        Self {
            count: stops.count,
            mean_ns: stops.stopped_ns as f64 / stops.count.max(1) as f64,
            share: stops.share(),
            watched_ns: stops.watched_ns,
            activities: Vec::new(),
            unwatched: true,
            text: String::new(),
        }
    }
}

/// Returns the times without an answer that are stalls: far longer than the mean time between two `answers` of the window.
#[must_use]
pub fn stalls(silences_ns: &[[u64; 2]], window_ns: u64, answers: u64) -> Vec<[u64; 2]> {
    let between_ns = window_ns as f64 / answers as f64;
    // Where nothing was answered there is no time between answers.
    let far = |[begin, end]: &&[u64; 2]| end.saturating_sub(*begin) as f64 >= FAR * between_ns;
    silences_ns.iter().filter(far).copied().collect()
}

/// How an arm stalls in the passes that look at what it does; nothing where it hardly does.
pub(crate) fn stalls_in_passes(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Stalls> {
    let of_kind = |kind| observed::profiles(sheet, arm, passes, kind);
    let (sampled, waiting) = (of_kind(PassKind::Sampling), of_kind(PassKind::Waiting));
    let all: Vec<&Profile> = sampled.iter().chain(&waiting).copied().collect();
    let watched_ns: u64 = all.iter().map(|profile| profile.wall_ns).sum();
    let lengths_ns: Vec<u64> = all.iter().flat_map(|profile| profile.stalls_ns.iter().copied()).collect();
    let stalled_ns: u64 = lengths_ns.iter().sum();
    let share = stalled_ns as f64 / watched_ns as f64;
    // Nothing watched is nothing seen.
    if share.is_nan() || share < MIN_SHARE {
        return None;
    }
    let activities: Vec<StallActivity> =
        [activity(RUNS, &sampled), activity(WAITS, &waiting)].into_iter().flatten().collect();
    let count = lengths_ns.len() as u64;
    let mean_ns = stalled_ns as f64 / count as f64;
    Some(Stalls { count, mean_ns, share, watched_ns, activities, unwatched: false, text: String::new() })
}

/// One function in all stacks.
#[derive(Debug, Default)]
struct FunctionTime {
    /// Time in it during stalls and at other times, in nanoseconds.
    ns: [f64; 2],
    /// How far from the outermost function, over the time during stalls.
    depth: f64,
}

/// What is done during stalls far more than at other times, if anything.
fn activity(does: &str, profiles: &[&Profile]) -> Option<StallActivity> {
    let stalled: u64 = profiles.iter().flat_map(|profile| &profile.stalled).map(|stack| stack.samples).sum();
    if stalled < FEW_SAMPLES {
        return None;
    }
    let stalled_ns: u64 = profiles.iter().flat_map(|profile| &profile.stalls_ns).sum();
    let watched_ns: u64 = profiles.iter().map(|profile| profile.wall_ns).sum();
    let time_ns = [stalled_ns, watched_ns.saturating_sub(stalled_ns)].map(|ns| ns as f64);
    let threads = |seen: &FunctionTime| [seen.ns[0] / time_ns[0], seen.ns[1] / time_ns[1]];
    let apart = |seen: &FunctionTime| threads(seen)[0] - threads(seen)[1];
    let functions = functions(profiles);
    let most = functions.values().map(apart).max_by(f64::total_cmp).filter(|most| *most >= APART)?;
    let mut chain: Vec<(&Frame, FunctionTime)> =
        functions.into_iter().filter(|(_, seen)| apart(seen) >= NEARLY * most).collect();
    // What other threads do all the time, and what the kernel does for it, say less than who asked for it.
    prefer(&mut chain, |_, seen| threads(seen)[0] >= OWN * threads(seen)[1]);
    prefer(&mut chain, |frame, _| !frame.kernel);
    chain.sort_by(|(_, a), (_, b)| (a.depth / a.ns[0]).total_cmp(&(b.depth / b.ns[0])));
    let named = chain.split_off(chain.len().saturating_sub(NAMED));
    let [at_a_time, otherwise] = named.first().map(|(_, seen)| threads(seen))?;
    let functions = named.iter().map(|(frame, _)| brief(&frame.name)).collect();
    Some(StallActivity { does: does.to_owned(), functions, threads: at_a_time, threads_otherwise: otherwise })
}

/// Leaves those that are so, where any are.
fn prefer(chain: &mut Vec<(&Frame, FunctionTime)>, is_so: impl Fn(&Frame, &FunctionTime) -> bool) {
    if chain.iter().any(|(frame, seen)| is_so(frame, seen)) {
        chain.retain(|(frame, seen)| is_so(frame, seen));
    }
}

fn functions<'a>(profiles: &[&'a Profile]) -> BTreeMap<&'a Frame, FunctionTime> {
    let mut functions: BTreeMap<&Frame, FunctionTime> = BTreeMap::new();
    for profile in profiles {
        let ns = |stack: &Stack| stack.samples as f64 * profile.period_ns as f64;
        for stack in &profile.stacks {
            let frames: BTreeSet<&Frame> = profile.frames_of(stack).collect();
            frames.into_iter().for_each(|frame| functions.entry(frame).or_default().ns[1] += ns(stack));
        }
        for stack in &profile.stalled {
            let mut counted = BTreeSet::new();
            for (depth, frame) in
                profile.frames_of(stack).enumerate().filter(|(_, frame)| counted.insert(*frame))
            {
                let seen = functions.entry(frame).or_default();
                // It is among all stacks, too.
                seen.ns = [seen.ns[0] + ns(stack), seen.ns[1] - ns(stack)];
                seen.depth += depth as f64 * ns(stack);
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of folded stacks: samples in all, and during two stalls of 50 ms.
    fn profile(stacks: &[(&str, u64, u64)]) -> Profile {
        let mut profile = Profile { wall_ns: 1_000_000_000, period_ns: 1_000_000, ..Profile::default() };
        profile.stalls_ns = vec![50_000_000; 2];
        for (folded, all, stalled) in stacks {
            let first = profile.frames.len() as u32;
            let frame = |name: &str| Frame {
                name: name.to_owned(),
                module: "server".to_owned(),
                resolved: true,
                ..Frame::default()
            };
            profile.frames.extend(folded.split(';').map(frame));
            let frames: Vec<u32> = (first..profile.frames.len() as u32).collect();
            profile.stacks.push(Stack { frames: frames.clone(), samples: *all });
            profile.stalled.push(Stack { frames, samples: *stalled });
        }
        profile
    }

    #[test]
    fn a_silence_far_longer_than_between_two_answers_is_a_stall() {
        assert_eq!(stalls(&[[0, 19_999], [50_000, 70_000]], 1_000_000, 1000), [[50_000, 70_000]]);
        assert_eq!(stalls(&[[0, 1_000_000]], 1_000_000, 0), [] as [[u64; 2]; 0]);
    }

    #[test]
    fn what_is_done_during_stalls_and_not_otherwise_is_named_with_its_callers() {
        let seen = profile(&[
            ("main;serve;send", 880, 5),
            ("main;tick;save;write", 95, 90),
            ("main;tick;other", 25, 5),
        ]);
        let found = activity(RUNS, &[&seen]).unwrap();
        assert_eq!(found.functions, ["tick", "save", "write"]);
        assert_eq!(
            (found.does.as_str(), found.functions.join(" > ").as_str()),
            (RUNS, "tick > save > write")
        );
        let threads = [found.threads, found.threads_otherwise].map(|threads| format!("{threads:.2}"));
        assert_eq!(threads, ["0.95", "0.03"]);
    }

    #[test]
    fn what_is_done_all_the_time_is_not_what_a_stall_comes_from() {
        let steady = profile(&[("main;serve;send", 900, 90), ("main;log", 100, 10)]);
        assert_eq!(activity(RUNS, &[&steady]), None);
        let few = profile(&[("main;serve;send", 900, 0), ("main;save", 19, 19)]);
        assert_eq!(activity(RUNS, &[&few]), None);
    }
}
