//! How many turns a diagnosis has, of each kind and how long, and when a server is warm enough for them.

use std::time::Duration;

use analyse::Standing;
use model::plan::{Plan, START_S, TURN_OVERHEAD_S, Timing, WarmupClass};
use model::record::Fitted;
use model::units::Span;

use super::super::block::{self, turn};

/// Turns in which stacks are sampled: of a busy CPU 200 samples each.
pub(super) const SAMPLED: u32 = 10;
/// The same of turns that are longer, at least; and of those in which calls are counted.
pub(super) const FEWEST_LONG: u32 = 4;
/// The least difference, as a share of CPU per request, that so many samples divide well: a part of a tenth of it is then three standard
/// errors.
pub(super) const DIVIDED: f64 = 0.3;
/// Most turns in which stacks of all arms together are sampled where a difference is smaller.
pub(super) const MOST_SAMPLED: u32 = 120;
/// Turns in which anything else is watched: counts per request hardly differ between two.
pub(super) const WATCHED: u32 = 3;
/// Turns in which system calls are counted: of a busy server only in slices of each.
pub(super) const COUNTED: u32 = 5;
/// Watched turns from one turn without watching to the next, at least.
pub(super) const PLAIN_EVERY: u32 = 3;
/// Turns without watching beside those of one kind, at most: more say nothing more of what watching costs.
pub(super) const MOST_PLAIN: u32 = 8;
/// How long a native server is warmed: no figure is scored. One that compiles while it runs is warmed up as for its scored turns, or
/// what is watched is how it becomes warm.
pub(super) const WARM: Duration = Duration::from_millis(600);

/// What it takes to find the names of what was sampled in one arm. For estimates.
pub(super) const NAMES_S: f64 = 1.5;

/// Shortest turn of any: of a slice there would be too few samples.
pub(super) const WATCHED_TURN: Duration = Duration::from_millis(200);
/// Longest turn of an arm alone: counts need no more, and stacks have several.
pub(super) const LONGEST: Duration = Duration::from_secs(1);

/// Seconds that the diagnosis of all arms takes, as they were fitted.
pub(in crate::compare) fn seconds(plan: &Plan, fitted: &Fitted) -> f64 {
    if !plan.design.why {
        return 0.0;
    }
    let length = turn(fitted).clamp(WATCHED_TURN, LONGEST);
    let with_plain = |turns| f64::from(turns + plain_turns(turns));
    // A server that waits has some turns more; an estimate need not know which do.
    let warm_up = (WARM.as_secs_f64() / length.as_secs_f64()).ceil();
    let turns = warm_up + 1.0 + with_plain(as_long(SAMPLED, length)) + with_plain(as_long(COUNTED, length));
    let compiling = (0..plan.arms.len()).map(|arm| fitted.warming_of(plan, arm).class);
    let compiling = compiling.filter(|class| *class == WarmupClass::Jit);
    let warming: f64 = compiling.map(|class| plan.warming_s(class, plan.usual_slice())).sum();
    let begin_s = START_S + plan.opening_s() + NAMES_S;
    warming + plan.arms.len() as f64 * (begin_s + turns * (length.as_secs_f64() + TURN_OVERHEAD_S))
}

/// Turns in which stacks are sampled: more for a small difference, since errors fall with the root of the number of samples, where
/// there are `spare_s` seconds left for them beside those of the shortest diagnosis. A few where there were too few blocks for an interval:
/// there is no difference to divide.
pub(in crate::compare) fn sampled_turns(standings: &[Standing], spare_s: f64) -> u32 {
    if standings.is_empty() {
        return FEWEST_LONG;
    }
    let shown = standings.iter().filter(|arm| arm.low > 1.0 || arm.high < 1.0);
    let smallest = shown.map(|arm| arm.ratio.ln().abs()).fold(DIVIDED, f64::min);
    let arms = u32::try_from(standings.len() + 1).unwrap_or(u32::MAX);
    let wanted = f64::from(SAMPLED) * (DIVIDED / smallest).powi(2);
    let one_s = f64::from(arms) * (WATCHED_TURN.as_secs_f64() + TURN_OVERHEAD_S);
    let in_time = f64::from(SAMPLED) + spare_s.max(0.0) / one_s;
    (wanted.ceil().min(in_time) as u32).min(MOST_SAMPLED / arms).max(SAMPLED)
}

/// Turns of so long that take together as long as `turns` of the shortest, or a few.
pub(super) fn as_long(turns: u32, length: Duration) -> u32 {
    let needed = f64::from(turns) * WATCHED_TURN.as_secs_f64() / length.as_secs_f64();
    (needed.ceil() as u32).clamp(FEWEST_LONG.min(turns), turns)
}

/// How long the servers are warmed up.
pub(super) fn warming(timing: &Timing) -> Timing {
    let [_, longest_jit] = timing.warmup_of(WarmupClass::Jit);
    Timing { warmup: Span(WARM), warmup_cap: Span(WARM), warmup_cap_jit: Some(longest_jit), ..*timing }
}

/// For how long requests are sent in one turn of that.
pub(super) fn warm_up_turn(fitted: &Fitted) -> Duration {
    block::warm_up_turn(fitted).clamp(WATCHED_TURN, LONGEST)
}

/// Watched turns from one turn without watching to the next, where there are so many of one kind.
pub(super) fn plain_every(turns: u32) -> u32 {
    turns.div_ceil(MOST_PLAIN).max(PLAIN_EVERY)
}

/// Turns without watching beside so many of one kind.
pub(super) fn plain_turns(turns: u32) -> u32 {
    turns.div_ceil(plain_every(turns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(ratio: f64) -> Standing {
        Standing { arm: "b".to_owned(), ratio, low: ratio - 0.01, high: ratio + 0.01 }
    }

    #[test]
    fn a_small_difference_that_was_shown_is_sampled_longer() {
        let in_time = |ratios: &[f64], spare_s| {
            let standings: Vec<Standing> = ratios.iter().map(|ratio| standing(*ratio)).collect();
            sampled_turns(&standings, spare_s)
        };
        let turns = |ratios: &[f64]| in_time(ratios, f64::INFINITY);
        assert_eq!((turns(&[]), turns(&[2.0])), (FEWEST_LONG, SAMPLED));
        // Not shown: one is inside the interval.
        assert_eq!(turns(&[1.005]), SAMPLED);
        assert_eq!((turns(&[1.3]), turns(&[1.2]), turns(&[1.05]), turns(&[0.95])), (14, 28, 60, 60));
        // All arms together are not sampled for minutes.
        assert_eq!(turns(&[2.0, 1.05, 3.0, 4.0]), 24);
        // Nor longer than there is time: of two arms 0.44 s for each more.
        assert_eq!((in_time(&[1.05], 8.9), in_time(&[1.05], -20.0)), (30, SAMPLED));
    }

    #[test]
    fn longer_turns_are_fewer_and_bring_as_many_samples() {
        for (ms, turns) in [(200, 10), (500, 4), (1000, 4), (250, 8)] {
            assert_eq!(as_long(SAMPLED, Duration::from_millis(ms)), turns, "{ms} ms");
        }
    }

    #[test]
    fn turns_without_watching_stand_beside_all_that_are_watched_and_are_not_many() {
        for (watched, plain) in [(1, 1), (3, 1), (5, 2), (10, 4), (24, 8), (60, 8)] {
            assert_eq!(plain_turns(watched), plain, "{watched}");
        }
    }

    #[test]
    fn what_compiles_is_warmed_up_as_for_scored_turns_and_what_does_not_for_a_moment() {
        let seconds = Span::from_secs;
        let timing = Timing {
            window: seconds(1),
            warmup: seconds(1),
            warmup_jit: seconds(1),
            warmup_cap: seconds(6),
            warmup_cap_jit: None,
            ready_limit: seconds(1),
        };
        let warming = warming(&timing);
        assert_eq!(warming.warmup_of(WarmupClass::Native), [Span(WARM); 2]);
        assert_eq!(warming.warmup_of(WarmupClass::Jit), [seconds(1), seconds(6)]);
    }
}
