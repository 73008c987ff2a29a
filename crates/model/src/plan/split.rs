//! How the time of a quick run is split between starts and cycles.
//!
//! A block costs S seconds to begin (start, warm-up, stop of every arm) and C for each cycle. Its value varies by V from start to start
//! and by W/n from n cycles; of T seconds T/(S + n·C) blocks come. The square of the interval's width goes with
//! (S + n·C)·(V + W/n)/T, which is least where n = √(W/V · S/C): dear starts ask for longer blocks, cheap ones for more of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Blocks, Plan, SHORTEST_SLICE, WarmupClass};
use crate::units::Span;

/// Seconds of all blocks for each arm at most.
const ARM_S: f64 = 19.0;
/// Seconds from the first pilot to the end of the diagnosis: for each arm, and beside that. For two arms that is
/// 55 s: the rest of a minute is for what comes before and after, and for a diagnosis that takes longer than expected.
const WHOLE_S: [f64; 2] = [19.0, 17.0];
/// Variance of the ratio of one cycle of the shortest slices, rare disturbed ones included, over that between two starts of the same servers:
/// about 10 on a quiet host and 200 on a noisy one. With 30 the interval is at most 7 % wider than it could be on either. For longer slices
/// it is smaller in proportion. Source: `docs/benchmarks/experiment.md`, starts and cycles.
const CYCLE_OVER_START: f64 = 30.0;
/// Fewest cycles of slices of the usual length: the middle of four passes over one in which something disturbed.
const FEWEST: u32 = 4;
/// The same where slices are longer.
const FEWEST_LONG: u32 = 2;
/// Most cycles: more hardly narrow anything.
const MOST: u32 = 24;
/// Turns that show whether a server is steady, of a native one and of one that compiles as it runs.
const STEADY_TURNS: [f64; 2] = [3.0, 6.0];

/// What an arm takes in a block beside warm-up and turns: start, readiness, stop. For estimates, before a pilot has told.
pub const START_S: f64 = 0.1;
/// Connections that are opened in no time worth telling: more of them overflow a listen queue, and clients try again after 1, 3 and 7 s.
const AT_ONCE: u32 = 1024;
/// Of those beyond, so many are opened in a second. Seen: 10 000 connections to servers of five languages took 8 to 10 s.
const OPENED_PER_S: f64 = 1000.0;
/// What a turn takes beside its length: readings at both edges, and the lead before it. For estimates.
pub const TURN_OVERHEAD_S: f64 = 0.012;

/// So many blocks, and so many cycles in each under the first condition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Blocks.
    pub blocks: u32,
    /// Slices of each arm in a block.
    pub cycles: u32,
    /// Seconds that a block should take.
    pub block_s: f64,
}

impl Plan {
    /// The best split of a quick run's time where a block takes `begin_s` seconds beside its cycles (start, warm-up and stop of all arms)
    /// and a turn is as long as `turn`. `usual` is a slice of arms that are fast enough for it; without it arms run alone, for one turn a
    /// block. Nothing of another run. An even number of cycles lets each arm come first as often as last.
    #[must_use]
    pub fn split(&self, begin_s: f64, turn: Span, usual: Option<Span>) -> Option<Split> {
        let Blocks::Fitted { fewest, most } = self.design.blocks else { return None };
        let time_s = ARM_S * self.arms.len() as f64;
        let split = |cycles: u32| {
            let block_s = self.seconds_of(begin_s, cycles, turn);
            let blocks = ((time_s / block_s) as u32).clamp(fewest, most);
            (Split { blocks, cycles, block_s }, f64::from(blocks) * block_s <= time_s)
        };
        let (least, most_cycles) = match usual {
            None => (1, 1),
            Some(usual) if turn <= usual => (FEWEST, MOST),
            Some(_) => (FEWEST_LONG, MOST),
        };
        let all: Vec<(Split, bool)> = (least..=most_cycles).step_by(2).map(split).collect();
        let some_fit = all.iter().any(|(_, fits)| *fits);
        let worst = |(split, fits): &(Split, bool)| match (some_fit, fits) {
            (true, true) => split.variance(turn),
            (true, false) => f64::INFINITY,
            // The fewest blocks take longer in any case: that time is spent as well as can be.
            (false, _) => split.variance(turn) * split.block_s,
        };
        all.into_iter().min_by(|a, b| worst(a).total_cmp(&worst(b))).map(|(split, _)| split)
    }

    /// Seconds that all of a quick run may take, from the first pilot to the end of the diagnosis; nothing of another run.
    #[must_use]
    pub fn whole_s(&self) -> Option<f64> {
        let [arm_s, beside_s] = WHOLE_S;
        self.is_quick().then_some(beside_s + arm_s * self.arms.len() as f64)
    }

    /// Whether a quick run goes on to another block after `done` of them, where all take `with_next_s` seconds with it, after pilots of
    /// `pilots_s`, and the diagnosis will take `diagnosis_s`: there are never fewer than an interval needs, and then as many as end in time. This
    /// depends on nothing that is compared.
    #[must_use]
    pub fn has_time(&self, done: u32, with_next_s: f64, pilots_s: f64, diagnosis_s: f64) -> bool {
        let (Blocks::Fitted { fewest, .. }, Some(whole_s)) = (self.design.blocks, self.whole_s()) else {
            return true;
        };
        let blocks_s = (ARM_S * self.arms.len() as f64).min(whole_s - pilots_s - diagnosis_s);
        done < fewest || with_next_s <= blocks_s
    }

    /// Seconds of a block of so many cycles under the first condition, of turns of this length.
    pub(super) fn seconds_of(&self, begin_s: f64, cycles: u32, turn: Span) -> f64 {
        let conditions = 0..self.workload.conditions.len();
        let turns = f64::from(conditions.map(|index| self.cycles_under(index, cycles)).sum::<u32>());
        begin_s + self.arms.len() as f64 * turns * turn_s(turn)
    }

    /// Seconds from the begin of a block to its first cycle, and after its last, before a pilot has told.
    pub(super) fn begin_s(&self) -> f64 {
        let begin_s = |class| START_S + self.opening_s() + self.warming_s(class, self.usual_slice());
        self.arms.iter().map(|arm| begin_s(arm.warmup)).sum()
    }

    /// Seconds in which the connections to one arm are opened. For estimates.
    #[must_use]
    pub fn opening_s(&self) -> f64 {
        f64::from(self.workload.job.connections.saturating_sub(AT_ONCE)) / OPENED_PER_S
    }

    /// Seconds in which an arm of this class is warm at the soonest, loaded in turns of one slice each.
    #[must_use]
    pub fn warming_s(&self, class: WarmupClass, slice: Span) -> f64 {
        let [least, _] = self.timing.warmup_of(class);
        let least = least.0.as_secs_f64() / slice.0.as_secs_f64();
        least.ceil().max(STEADY_TURNS[usize::from(class == WarmupClass::Jit)]) * turn_s(slice)
    }
}

/// Seconds that a turn of this length takes in all.
pub(super) fn turn_s(span: Span) -> f64 {
    span.0.as_secs_f64() + TURN_OVERHEAD_S
}

impl Split {
    /// What the square of the interval's width goes with.
    fn variance(self, turn: Span) -> f64 {
        let shortest_in_turn = turn.0.as_secs_f64() / SHORTEST_SLICE.0.as_secs_f64();
        let cycle_over_start = CYCLE_OVER_START / shortest_in_turn;
        (1.0 + cycle_over_start / f64::from(self.cycles)) / f64::from(self.blocks)
    }
}
