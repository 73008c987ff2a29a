//! What must hold for any input: symmetries and identities, on seeded random samples.

use stats::verdict::{HigherIs, Question, Verdict, decide};
use stats::{Rng, paired, signed_rank};

const SAMPLES: u64 = 200;

/// Random samples of 6 to 25 values, some of them rounded so that there are ties.
fn samples() -> impl Iterator<Item = (u64, Vec<f64>)> {
    (0..SAMPLES).map(|seed| {
        let mut rng = Rng::seeded(seed);
        let n = 6 + rng.below(20) as usize;
        let round = if rng.coin() { 1.0 } else { 1e9 };
        (seed, (0..n).map(|_| (rng.normal() * 3.0 * round).round() / round + 0.5).collect())
    })
}

fn mapped(values: &[f64], map: impl Fn(f64) -> f64) -> Vec<f64> {
    values.iter().map(|value| map(*value)).collect()
}

#[test]
fn the_distribution_counts_every_sign_pattern_once() {
    for n in 1..=40 {
        let counts: Vec<f64> =
            signed_rank::distribution(n).iter().map(|p| p * 2_f64.powi(n as i32)).collect();
        assert_eq!(counts.len(), n * (n + 1) / 2 + 1);
        assert!(counts.iter().all(|count| count.fract() == 0.0 && *count >= 0.0), "whole counts for {n}");
        assert_eq!(counts.iter().sum::<f64>(), 2_f64.powi(n as i32), "all patterns for {n}");
        assert!(counts.iter().eq(counts.iter().rev()), "symmetric for {n}");
    }
}

#[test]
fn estimates_move_and_stretch_with_the_data() {
    for (seed, values) in samples() {
        let base = paired::estimate(&values, 0.9).unwrap();
        let moved = paired::estimate(&mapped(&values, |value| 4.0 * value + 8.0), 0.9).unwrap();
        for (ours, expected) in [
            (moved.value, 4.0 * base.value + 8.0),
            (moved.interval.low, 4.0 * base.interval.low + 8.0),
            (moved.interval.high, 4.0 * base.interval.high + 8.0),
        ] {
            assert!((ours - expected).abs() < 1e-9, "seed {seed}: {ours} for {expected}");
        }
    }
}

#[test]
fn exchanging_the_arms_mirrors_everything() {
    for (seed, values) in samples() {
        let negated = mapped(&values, |value| -value);
        let (there, back) =
            (paired::estimate(&values, 0.9).unwrap(), paired::estimate(&negated, 0.9).unwrap());
        assert_eq!((there.value, there.interval.low), (-back.value, -back.interval.high), "seed {seed}");
        assert_eq!(
            paired::wilcoxon(&values).unwrap().p,
            paired::wilcoxon(&negated).unwrap().p,
            "seed {seed}"
        );
        if values.len() <= 15 {
            let flip = |values: &[f64]| paired::sign_flip(values, &mut Rng::seeded(1)).unwrap().p;
            assert_eq!(flip(&values), flip(&negated), "seed {seed}");
        }
    }
}

#[test]
fn a_wider_level_contains_a_narrower_one() {
    for (seed, values) in samples() {
        let (narrow, wide) =
            (paired::estimate(&values, 0.8).unwrap(), paired::estimate(&values, 0.95).unwrap());
        assert!(
            wide.interval.low <= narrow.interval.low && narrow.interval.high <= wide.interval.high,
            "seed {seed}"
        );
        assert!(narrow.interval.contains(narrow.value), "seed {seed}");
        assert!(wide.interval.level >= 0.95 && narrow.interval.level >= 0.8, "seed {seed}");
    }
}

#[test]
fn interval_and_test_agree() {
    for (seed, values) in samples() {
        let distinct = mapped(&values, |value| value + value.abs().sqrt() * 1e-3);
        let estimate = paired::estimate(&distinct, 0.9).unwrap();
        let test = paired::wilcoxon(&distinct).unwrap();
        let tied = paired::walsh_averages(&distinct).contains(&0.0);
        if !tied && test.zeros == 0 {
            let rejects = test.p <= 1.0 - estimate.interval.level + 1e-9;
            let doubtful = has_ties(&distinct);
            assert!(doubtful || rejects != estimate.interval.contains(0.0), "seed {seed}");
        }
    }
}

fn has_ties(values: &[f64]) -> bool {
    let mut magnitudes = mapped(values, f64::abs);
    magnitudes.sort_by(f64::total_cmp);
    magnitudes.windows(2).any(|pair| pair[0] == pair[1])
}

#[test]
fn verdicts_name_the_same_arm_whichever_way_the_metric_counts() {
    for (seed, values) in samples() {
        let small = mapped(&values, |value| value / 100.0);
        let estimate = paired::estimate(&small, 0.9).unwrap();
        let cost = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };
        let rate = Question { higher_is: HigherIs::Better, ..cost };
        let mirrored = match decide(&estimate, &cost) {
            Verdict::Slower => Verdict::Faster,
            Verdict::Faster => Verdict::Slower,
            other => other,
        };
        assert_eq!(decide(&estimate, &rate), mirrored, "seed {seed}");
    }
}
