//! How a quick run's time is split between starts and cycles.

use std::time::Duration;

use model::plan::{Blocks, Condition, Plan, Split, Turns, WarmupClass};
use model::units::Span;

use crate::plan::support::plan;

const SHORT: Span = Span(Duration::from_millis(50));
const SHORTEST: Span = Span(Duration::from_millis(20));
const LONG: Span = Span(Duration::from_millis(200));

/// Two native servers that are steady at once, compared quickly under so many conditions.
fn quick(conditions: usize) -> Plan {
    let mut plan = plan(1, &["main", "pr"]);
    plan.design.blocks = Blocks::Fitted { fewest: 8, most: 32 };
    plan.design.turns = Turns::Slices { cycles: None, slice: None };
    (plan.timing.warmup, plan.timing.warmup_jit) = (Span(Duration::from_millis(150)), Span::from_secs(2));
    let more = std::iter::repeat_n(Condition::ShareOfSlowest { percent: 25 }, conditions - 1);
    plan.workload.conditions = std::iter::once(Condition::Capacity).chain(more).collect();
    plan
}

fn seconds(split: Split) -> f64 {
    f64::from(split.blocks) * split.block_s
}

#[test]
fn cheap_starts_make_many_short_blocks_that_fit_into_the_time() {
    for (conditions, begin_s, [least, most]) in [(1, 0.5, [22, 32]), (2, 0.5, [19, 24]), (2, 0.9, [12, 18])] {
        let split = quick(conditions).split(begin_s, SHORTEST, Some(SHORT)).unwrap();
        assert!((least..=most).contains(&split.blocks), "{begin_s} s: {split:?}");
        assert!(
            (10..=20).contains(&split.cycles) && split.cycles.is_multiple_of(2),
            "{begin_s} s: {split:?}"
        );
        assert!(seconds(split) <= 40.0, "{begin_s} s: {split:?}");
    }
}

#[test]
fn dear_starts_make_few_blocks_and_never_fewer_than_an_interval_needs() {
    let mut jit = quick(2);
    jit.arms[1].warmup = WarmupClass::Jit;
    let long = |plan: &Plan, begin_s| plan.split(begin_s, LONG, Some(LONG)).unwrap();
    assert_eq!(long(&jit, 8.0).blocks, 8);
    let minute = long(&jit, 60.0);
    assert_eq!(minute.blocks, 8, "a server that takes half a minute to start");
    assert!(minute.cycles >= 12, "what was dear to begin is used: {minute:?}");
    let slow = quick(2).split(0.5, Span::from_secs(2), Some(SHORT)).unwrap();
    assert_eq!((slow.blocks, slow.cycles), (8, 2), "a server that answers fifty times a second");
    assert_eq!(
        quick(2).split(0.5, quick(2).timing.window, None).map(|split| (split.blocks, split.cycles)),
        Some((8, 1)),
        "alone"
    );
    let held = quick(2).split(0.5, Span::from_secs(7), None).unwrap();
    assert!(
        (held.blocks, held.cycles) == (8, 1) && held.block_s > 14.0,
        "alone, in windows that hold a stop: {held:?}"
    );
}

#[test]
fn dearer_starts_ask_for_longer_blocks() {
    let cycles = |begin_s| quick(2).split(begin_s, SHORT, Some(SHORT)).unwrap().cycles;
    assert!(cycles(0.5) < cycles(1.5), "{} and {}", cycles(0.5), cycles(1.5));
}

#[test]
fn longer_turns_need_fewer_of_them() {
    let cycles = |turn| quick(2).split(1.0, turn, Some(turn)).unwrap().cycles;
    assert!(cycles(SHORTEST) > cycles(SHORT) && cycles(SHORT) > cycles(LONG));
    // A usual run has as many as take as long.
    let mut usual = quick(2);
    usual.design.blocks = Blocks::Fixed { blocks: 8 };
    assert_eq!([SHORTEST, SHORT, LONG].map(|slice| usual.cycles(slice)), [46, 24, 6]);
}

#[test]
fn only_a_quick_run_is_split_and_its_later_conditions_have_fewer_cycles() {
    let mut plan = quick(2);
    assert_eq!([0, 1].map(|index| plan.cycles_under(index, 6)), [6, 4]);
    assert!(plan.usual_blocks() >= 16, "{}", plan.usual_blocks());
    plan.design.blocks = Blocks::Fixed { blocks: 9 };
    assert_eq!(plan.split(0.1, SHORT, Some(SHORT)), None);
    assert_eq!([0, 1].map(|index| plan.cycles_under(index, 6)), [6, 6]);
    assert_eq!((plan.usual_blocks(), plan.cycles(SHORT)), (9, 24));
}

#[test]
fn blocks_end_in_time_but_never_before_an_interval_has_enough() {
    let plan = quick(2);
    assert_eq!(plan.whole_s(), Some(55.0));
    let goes_on = |done, with_next_s| plan.has_time(done, with_next_s, 4.0, 12.0);
    // 38 s are for blocks.
    assert!(goes_on(15, 37.9) && !goes_on(8, 38.1));
    assert!(goes_on(7, 300.0), "fewer than eight say nothing");
    assert!(!plan.has_time(10, 27.0, 20.0, 14.0), "pilots that took long leave less");
    let mut three = quick(2);
    three.arms.push(three.arms[1].clone());
    assert!(three.has_time(16, 50.0, 4.0, 18.0) && three.whole_s() == Some(74.0));
    let mut looks = quick(2);
    looks.design.blocks = Blocks::Looks { first: 8, max: 24 };
    assert!(looks.has_time(20, 1000.0, 4.0, 12.0) && looks.whole_s().is_none(), "no quick run");
}

#[test]
fn connections_that_overflow_a_listen_queue_take_their_time_in_every_block() {
    let seconds = |connections| {
        let mut plan = quick(1);
        plan.workload.job.connections = connections;
        // Of so many cycles: without a number the plan would make more of each block that takes longer to begin.
        plan.design.turns = Turns::Slices { cycles: Some(4), slice: Some(SHORT) };
        plan.design.blocks = Blocks::Fixed { blocks: 8 };
        plan.block_seconds()
    };
    assert!((seconds(1024) - seconds(64)).abs() < 1e-9);
    // Of each of two arms 10 000.
    assert!((seconds(11_024) - seconds(64) - 20.0).abs() < 1e-9, "{} {}", seconds(11_024), seconds(64));
}
