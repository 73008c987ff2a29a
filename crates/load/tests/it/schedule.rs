//! Arrival times against what their formulas say.

use load::schedule::{Arrival, Intensity, Part, Schedule, Step};

const ALONE: Part = Part { part: 0, parts: 1 };

fn first(intensity: Intensity, arrival: Arrival, part: Part, count: usize) -> Vec<u64> {
    Schedule::new(intensity, arrival, 42, part).take(count).collect()
}

#[test]
fn constant_arrivals_are_evenly_spaced_and_do_not_drift() {
    let instants = first(Intensity::Flat { per_s: 3.0 }, Arrival::Constant, ALONE, 3_000_001);
    assert_eq!(instants[..4], [0, 333_333_333, 666_666_666, 1_000_000_000]);
    assert_eq!(instants[3_000_000], 1_000_000 * 1_000_000_000);
}

#[test]
fn parts_together_are_the_whole_and_share_nothing() {
    for arrival in [Arrival::Constant, Arrival::Poisson] {
        let rate = Intensity::Flat { per_s: 10_000.0 };
        let whole = first(rate.clone(), arrival, ALONE, 600);
        for parts in [2u64, 3, 5] {
            let split: Vec<Vec<u64>> = (0..parts)
                .map(|part| first(rate.clone(), arrival, Part { part, parts }, 600 / parts as usize))
                .collect();
            for (k, instant) in whole.iter().enumerate() {
                let (part, nth) = (k % parts as usize, k / parts as usize);
                assert_eq!(split[part][nth], *instant, "{arrival:?}: arrival {k} of {parts} parts");
            }
        }
    }
}

/// Kolmogorov's distribution: the probability of a distance as large as this one. Source: Marsaglia, Tsang, Wang,
/// "Evaluating Kolmogorov's Distribution", 2003, equation 1 (the limit, good from some hundreds of values on).
fn kolmogorov_p(distance: f64, count: usize) -> f64 {
    let x = distance * (count as f64).sqrt();
    let term = |k: i32| (-2.0 * f64::from(k * k) * x * x).exp() * if k % 2 == 1 { 1.0 } else { -1.0 };
    2.0 * (1..100).map(term).sum::<f64>()
}

fn exponential_distance(mut gaps: Vec<f64>, mean: f64) -> f64 {
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let far = |(rank, gap): (usize, &f64)| {
        let expected = 1.0 - (-gap / mean).exp();
        (expected - rank as f64 / count).abs().max((expected - (rank + 1) as f64 / count).abs())
    };
    gaps.iter().enumerate().map(far).fold(0.0, f64::max)
}

#[test]
fn poisson_gaps_are_exponential() {
    for seed in [1, 2, 3] {
        let rate = Intensity::Flat { per_s: 50_000.0 };
        let instants: Vec<u64> = Schedule::new(rate, Arrival::Poisson, seed, ALONE).take(100_001).collect();
        let gaps = instants.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let p = kolmogorov_p(exponential_distance(gaps, 20_000.0), 100_000);
        assert!(p > 0.01, "seed {seed}: p = {p}");
        // The same test must see a rate that is 2 % off.
        let gaps = instants.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * 1.02).collect();
        let p = kolmogorov_p(exponential_distance(gaps, 20_000.0), 100_000);
        assert!(p < 0.01, "seed {seed}, 2 % off: p = {p}");
    }
}

#[test]
fn ramps_and_steps_reach_their_counts_where_calculus_says() {
    let ramp = Intensity::Ramp { from_per_s: 0.0, to_per_s: 100.0, over_s: 10.0 };
    let down = Intensity::Ramp { from_per_s: 100.0, to_per_s: 0.0, over_s: 10.0 };
    let steps = Intensity::Steps(vec![
        Step { per_s: 10.0, for_s: 2.0 },
        Step { per_s: 0.0, for_s: 3.0 },
        Step { per_s: 40.0, for_s: 1.0 },
    ]);
    let cases = [
        (&ramp, 0.0, Some(0.0)),
        (&ramp, 125.0, Some(5.0)),
        (&ramp, 500.0, Some(10.0)),
        (&ramp, 600.0, Some(11.0)),
        (&down, 375.0, Some(5.0)),
        (&down, 500.0, Some(10.0)),
        (&down, 501.0, None),
        (&steps, 5.0, Some(0.5)),
        (&steps, 20.0, Some(5.0)),
        (&steps, 60.0, Some(6.0)),
        (&steps, 100.0, Some(7.0)),
    ];
    for (intensity, count, wanted) in cases {
        let found = intensity.instant_s(count);
        let near = match (found, wanted) {
            (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-9,
            (found, wanted) => found == wanted,
        };
        assert!(near, "{intensity:?} reaches {count} at {found:?}, not {wanted:?}");
        if let Some(seconds) = wanted {
            assert!((intensity.due_by(seconds) - count).abs() < 1e-9, "{intensity:?} by {seconds}");
        }
    }
}

#[test]
fn arrivals_of_a_ramp_never_go_back() {
    let ramp = Intensity::Ramp { from_per_s: 10.0, to_per_s: 5_000.0, over_s: 1.0 };
    for arrival in [Arrival::Constant, Arrival::Poisson] {
        let instants = first(ramp.clone(), arrival, ALONE, 10_000);
        assert!(instants.is_sorted(), "{arrival:?}");
    }
}

#[test]
fn a_warm_up_has_requests_where_the_window_begins_without() {
    let ramp = |from_per_s| Intensity::Ramp { from_per_s, to_per_s: 300.0, over_s: 10.0 };
    assert_eq!((ramp(0.0).warmup_per_s(), ramp(20.0).warmup_per_s()), (150.0, 20.0));
    let steps = [0.0, 70.0, 90.0].map(|per_s| Step { per_s, for_s: 5.0 });
    assert_eq!(Intensity::Steps(steps.to_vec()).warmup_per_s(), 70.0);
}
