//! What to run next: a reason, and the whole command, where the run tells its own.

use model::plan::{CauseId, Plan, Turns};
use model::record::{Manifest, RunStatus, without_values};

use crate::attribution::Attribution;
use crate::attribution::cause::{Cause, Grade};
use crate::attribution::tree::Place;
use crate::attribution::tree::gap_function::GapFunction;
use crate::attribution::why::is_side;
use crate::facts::arms::ArmFindings;
use crate::gates::{Gate, GateSays, Stalled};
use crate::verdicts::{Comparison, UndecidedBy, Verdict};

/// Commands whose flags are those of a comparison.
const COMPARING: [&str; 2] = ["compare", "ladder"];
/// Flags that say how many blocks there are, and whether a value follows them.
const OF_BLOCKS: [(&str, bool); 3] = [("--blocks", true), (QUICK, false), ("--rigorous", false)];
/// The flag that limits the time of a run, and so how long stacks are sampled.
const QUICK: &str = "--quick";
/// How many times as much of a block is proposed where no number of blocks decides.
const MORE: u32 = 4;

/// Share of the server's CPUs from which on those who take it are to be ended first.
const MUCH: f64 = 0.1;

/// Share of what a cause carries from which on a function holds as much.
const AS_MUCH: f64 = 0.75;

/// What to run next.
#[derive(Debug, Clone, PartialEq)]
pub struct Next {
    /// Why.
    pub reason: NextReason,
    /// The whole command, if the run's own command takes such flags.
    pub command: Option<String>,
}

/// Why to run something next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextReason {
    /// An arm failed.
    Failed {
        /// The arm.
        arm: String,
        /// How.
        error: String,
    },
    /// More blocks would decide.
    MoreBlocks {
        /// How many in all.
        blocks: u64,
        /// About how long they take, in minutes.
        minutes: f64,
        /// Who else took much of the server's CPUs meanwhile, and what share: without them fewer blocks would do.
        beside: Option<(&'static str, f64)>,
    },
    /// What disturbed the run keeps it open, whatever number of blocks there is.
    Quieter {
        /// The arm.
        arm: String,
        /// What moved it most.
        who: String,
        /// By how much all of it can have, as a relative difference.
        moved: f64,
    },
    /// An arm serves some connections and starves the others, so that its turns differ.
    FewerConnections {
        /// The arm.
        arm: String,
        /// How many connections it serves.
        served: u64,
        /// How many there were.
        of: u64,
    },
    /// The run was stopped before there was an interval.
    ToItsEnd,
    /// An interval takes more blocks than were asked for.
    TooFewBlocks {
        /// How many it takes.
        blocks: u64,
    },
    /// No allowed number of blocks would decide.
    More {
        /// Whether slices are to be more; else windows are to be longer.
        slices: bool,
        /// How many blocks it would take.
        blocks: u64,
    },
    /// A gate voids what decides.
    Gate(Box<Gate>),
    /// So few samples that each part of a gap may be chance, and only the sum of a side is named.
    TooFewSamples {
        /// The arm.
        arm: String,
        /// Of the baseline and of the arm.
        samples: [u64; 2],
        /// Whether the command takes more of them, as nothing limits the time of its diagnosis.
        longer: bool,
    },
    /// Services beside work more for the slower arm, which is named.
    Services(String),
    /// A cause.
    Cause {
        /// Which.
        id: CauseId,
        /// Where most of it is, of what has a place.
        place: Option<Place>,
        /// Whether that is a function which the slower arm alone runs, and under which there is as much as the cause carries.
        alone: bool,
        /// From where that function is called, where this is another package.
        called_from: Option<Place>,
        /// The slower arm.
        slower: String,
        /// What is to be done about it.
        advice: Advice,
    },
}

/// What to do about a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Mend what was proved.
    MendProved,
    /// Mend it: it cannot be taken away from outside.
    Mend,
    /// Take it away from both.
    TakeAway,
    /// Take it out by hand, because no change from outside does.
    TakeOut,
}

/// What to run next.
pub(crate) fn next(
    manifest: &Manifest,
    arms: &[ArmFindings],
    gates: &[Gate],
    comparisons: &[Comparison],
    attribution: &Attribution,
    block_s: Option<f64>,
) -> Option<Next> {
    // The same command would fail again.
    if let Some((arm, error)) = arms.iter().find_map(|arm| Some((&arm.name, arm.error.as_ref()?))) {
        let reason = NextReason::Failed { arm: arm.clone(), error: error.clone() };
        return Some(Next { reason, command: None });
    }
    let plan = &manifest.plan;
    let words = without_values(&manifest.command);
    let planned_s = plan.block_seconds() + manifest.fitted.late_s(plan);
    let again = Again { words: &words, plan, block_s: block_s.unwrap_or(planned_s) };
    let primary = || comparisons.iter().filter(|row| row.primary);
    let decided = |arm: &str| {
        primary().any(|row| row.arm == arm && matches!(row.verdict, Verdict::Slower | Verdict::Faster))
    };
    // An arm of which one metric was decided is slower or faster, whatever the other would tell.
    let open = primary().filter(|row| row.verdict == Verdict::Inconclusive && !decided(&row.arm));
    let open: Vec<&Comparison> = open.collect();
    if !open.is_empty() {
        let connections = manifest.fitted.connections.unwrap_or(plan.workload.job.connections);
        if let Some(next) = fewer_connections(gates, u64::from(connections), &again) {
            return Some(next);
        }
        let whole = manifest.status == RunStatus::Complete;
        return Some(undecided(&open, &again, whole, beside(gates)));
    }
    let voids = |gate: &&Gate| !gate.ok && gate.voids.iter().any(|metric| metric.is_primary());
    if let Some(gate) = gates.iter().find(voids) {
        // The same command would fail again.
        return Some(Next { reason: NextReason::Gate(Box::new(gate.clone())), command: None });
    }
    if let Some(cause) = attribution.causes.first().filter(|cause| cause.id == CauseId::ServiceBeside) {
        return Some(again.after(NextReason::Services(slower(cause).clone()), &[]));
    }
    let named = [Grade::BoundedBy, Grade::ConsistentWith, Grade::ConfirmedBy];
    let told = || attribution.causes.iter().filter(|cause| named.contains(&cause.grade));
    let Some(first) = told().find(|cause| !is_side(cause.id)) else {
        return too_few_samples(told().next()?, attribution, &again);
    };
    let (advice, added) = match (first.grade, plan.design.confirm) {
        (Grade::ConfirmedBy, _) => (Advice::MendProved, None),
        _ if !first.id.can_be_taken_away() => (Advice::Mend, None),
        (_, false) => (Advice::TakeAway, Some("--confirm".to_owned())),
        (_, true) => (Advice::TakeOut, None),
    };
    let found = gap_function(first, &attribution.gap_functions);
    let reason = NextReason::Cause {
        id: first.id,
        place: found.map_or_else(|| first.place.clone(), |found| Some(place(first, found))),
        alone: found.is_some_and(|found| found.grown_ns.is_none()),
        called_from: found.and_then(|found| found.called_from.clone()),
        slower: slower(first).clone(),
        advice,
    };
    // Only what can be taken away from outside is a command; the same one again would say the same.
    Some(match &added {
        Some(flag) => again.after(reason, std::slice::from_ref(flag)),
        None => Next { reason, command: None },
    })
}

/// That samples do not divide a gap: all that is named of it is a sum whose parts may each be chance.
fn too_few_samples(sum: &Cause, attribution: &Attribution, again: &Again) -> Option<Next> {
    let profile = attribution.profiles.iter().find(|profile| profile.arm == sum.arm)?;
    let longer = again.words.iter().any(|word| word == QUICK);
    let samples = [profile.baseline_samples, profile.arm_samples];
    let reason = NextReason::TooFewSamples { arm: sum.arm.clone(), samples, longer };
    Some(match longer {
        true => Again { words: &without(again.words, QUICK, false), ..*again }.after(reason, &[]),
        // The same command would sample as long.
        false => Next { reason, command: None },
    })
}

/// The function under which most of the gap is, where there is as much under it as the first cause carries, or that cause works for whatever
/// runs.
fn gap_function<'f>(first: &Cause, gap_functions: &'f [GapFunction]) -> Option<&'f GapFunction> {
    let works_for_it = matches!(first.id, CauseId::Compiling | CauseId::Gc);
    gap_functions.iter().find(|found| {
        found.arm == first.arm
            && found.slower == *slower(first)
            && (works_for_it || found.delta_ns.abs() >= AS_MUCH * first.ns_per_request.abs())
    })
}

/// That function, with its line if the cause has one in it.
fn place(first: &Cause, found: &GapFunction) -> Place {
    let known = first.place.clone().filter(|place| place.function == found.function);
    let function =
        || Place { function: found.function.clone(), file: found.file.clone(), line: None, commit: None };
    known.unwrap_or_else(function)
}

/// The arm that a cause makes slower.
fn slower(cause: &Cause) -> &String {
    if cause.ns_per_request < 0.0 { &cause.baseline } else { &cause.arm }
}

/// Who else took much of the server's CPUs in the turns of an arm, and what share at most.
fn beside(gates: &[Gate]) -> Option<(&'static str, f64)> {
    let taken = gates.iter().filter_map(|gate| match &gate.says {
        Some(GateSays::Disturbed { who, turns: [(_, below), (_, above)] }) => Some((*who, below.max(*above))),
        _ => None,
    });
    taken.filter(|(_, share)| *share >= MUCH).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// As many of `of` connections as an arm serves, where it starves the others.
fn fewer_connections(gates: &[Gate], of: u64, again: &Again) -> Option<Next> {
    gates.iter().find_map(|gate| {
        let Some(GateSays::Stalled { how: Stalled::Starved { .. }, .. }) = gate.says else { return None };
        // Jain's index is the share of the connections that are served, if these are served alike.
        let served = ((gate.value? * of as f64) as u64).max(1);
        let (true, Some(arm)) = (served < of && !gate.voids.is_empty(), gate.arm.clone()) else {
            return None;
        };
        let reason = NextReason::FewerConnections { arm, served, of };
        Some(again.after(reason, &["--connections".to_owned(), served.to_string()]))
    })
}

/// What decides rows that are still open; `whole` says that the run was not stopped.
fn undecided(open: &[&Comparison], again: &Again, whole: bool, beside: Option<(&'static str, f64)>) -> Next {
    let done = open.iter().map(|row| row.blocks).max().unwrap_or(0);
    let least = u64::from(plan_minimum());
    let nearest = nearest(open);
    let Some(needed) = nearest.iter().filter_map(|row| row.blocks_needed).max() else {
        if let Some(row) = nearest.iter().find(|row| row.undecided_by == Some(UndecidedBy::Disturbance)) {
            // The same command at the same time would leave it open again.
            return Next { reason: quieter(row), command: None };
        }
        return match whole {
            false => again.after(NextReason::ToItsEnd, &[]),
            true => again.with_blocks(NextReason::TooFewBlocks { blocks: least }, least),
        };
    };
    let needed = needed.max(least).max(u64::from(done) + 1);
    if needed <= u64::from(model::plan::MOST_BLOCKS) {
        let minutes = (needed as f64 * again.block_s / 60.0).ceil();
        return again.with_blocks(NextReason::MoreBlocks { blocks: needed, minutes, beside }, needed);
    }
    let (flag, value) = match again.plan.design.turns {
        Turns::Slices { .. } => {
            let cycles = again.plan.cycles(again.plan.turn());
            ("--cycles", (cycles * MORE).to_string())
        }
        Turns::Alone => {
            let longer = model::units::Span(again.plan.timing.window.0 * MORE);
            ("--window", longer.to_string())
        }
    };
    let slices = matches!(again.plan.design.turns, Turns::Slices { .. });
    again.after(NextReason::More { slices, blocks: needed }, &[flag.to_owned(), value])
}

/// Of each arm the row that the fewest blocks decide.
fn nearest<'a>(open: &[&'a Comparison]) -> Vec<&'a Comparison> {
    let mut nearest: Vec<&Comparison> = Vec::new();
    for row in open {
        match nearest.iter_mut().find(|known| known.arm == row.arm) {
            Some(known) if row.needs() < known.needs() => *known = row,
            Some(_) => {}
            None => nearest.push(row),
        }
    }
    nearest
}

fn quieter(row: &Comparison) -> NextReason {
    let most = row.disturbed_most_by().map_or_else(String::new, |source| source.what.clone());
    NextReason::Quieter { arm: row.arm.clone(), who: most, moved: row.bias.low.max(row.bias.high) }
}

/// Fewest blocks whose exact interval attains 95 %.
fn plan_minimum() -> u32 {
    stats::paired::min_pairs(0.95) as u32
}

/// The command of the run, to be run once more.
struct Again<'a> {
    words: &'a [String],
    plan: &'a Plan,
    /// Seconds that a block takes.
    block_s: f64,
}

impl Again<'_> {
    /// `reason`, and the command with `added` to it; the reason alone where the command takes no such flags.
    fn after(&self, reason: NextReason, added: &[String]) -> Next {
        if !self.words.get(1).is_some_and(|word| COMPARING.contains(&word.as_str())) {
            return Next { reason, command: None };
        }
        // The folder of the run is taken.
        let mut words = without(self.words, "--out", true);
        if let Some(flag) = added.first() {
            words = without(&words, flag, added.len() > 1);
        }
        // What follows a `--` is no flag.
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        words.splice(end..end, added.iter().cloned());
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        Next { reason, command: Some(words.join(" ")) }
    }

    /// The same with so many blocks, and otherwise the design of the run.
    fn with_blocks(&self, reason: NextReason, blocks: u64) -> Next {
        let added = vec!["--blocks".to_owned(), blocks.to_string()];
        let fewer =
            OF_BLOCKS.iter().fold(self.words.to_vec(), |words, (flag, value)| without(&words, flag, *value));
        Again { words: &fewer, ..*self }.after(reason, &added)
    }
}

/// Whether a word is this flag, with a value behind `=` or without.
fn is_flag(word: &str, flag: &str) -> bool {
    word.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

/// Words without a flag and its value; what follows a `--` stays.
fn without(words: &[String], flag: &str, value: bool) -> Vec<String> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let mut left: Vec<String> = Vec::new();
    let mut place = 0;
    while place < words.len() {
        if place < end && is_flag(&words[place], flag) {
            place += if value && words[place] == flag { 2 } else { 1 };
        } else {
            left.push(words[place].clone());
            place += 1;
        }
    }
    left
}

/// A word as a shell takes it: as it is where nothing in it has a meaning, else in single quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::cause::{Carries, CauseSays};

    #[test]
    fn the_function_is_named_that_holds_as_much_as_the_cause_or_that_the_cause_works_for() {
        let first = |id| Cause {
            id,
            grade: Grade::ConsistentWith,
            baseline: "main".to_owned(),
            arm: "pr".to_owned(),
            ns_per_request: 1000.0,
            share: None,
            place: None,
            text: String::new(),
            says: Some(CauseSays {
                tests: Vec::new(),
                of: None,
                seen: Vec::new(),
                carries: Carries::AtMost(0.0),
            }),
        };
        let function = |slower: &str, delta_ns| GapFunction {
            arm: "pr".to_owned(),
            slower: slower.to_owned(),
            function: "look_up".to_owned(),
            package: "shop".to_owned(),
            file: None,
            called_from: None,
            grown_ns: None,
            delta_ns,
            delta_se_ns: 1.0,
            share: 0.5,
        };
        for (id, slower, delta_ns, found) in [
            (CauseId::OwnCode, "pr", 800.0, true),
            (CauseId::OwnCode, "pr", 400.0, false),
            (CauseId::OwnCode, "main", 800.0, false),
            (CauseId::Compiling, "pr", 400.0, true),
        ] {
            let functions = [function(slower, delta_ns)];
            let told = gap_function(&first(id), &functions);
            assert_eq!(told.is_some(), found, "{id:?} {slower} {delta_ns}");
        }
    }
}
