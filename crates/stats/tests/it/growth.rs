//! How much a series grows: what is put in is found, and what only wanders is not.

use stats::Rng;
use stats::trend::growth;

/// Points of one series.
const POINTS: usize = 240;
/// Series of one kind.
const SERIES: u64 = 400;

/// `slope` a unit of time, noise of each point, and steps that stay.
fn series(seed: u64, slope: f64, noise: f64, step: f64) -> Vec<(f64, f64)> {
    let mut rng = Rng::seeded(seed);
    let mut wandered = 0.0;
    (0..POINTS)
        .map(|at| {
            wandered += step * rng.normal();
            (at as f64, slope * at as f64 + noise * rng.normal() + wandered)
        })
        .collect()
}

#[test]
fn the_interval_holds_the_slope_that_was_put_in() {
    for (slope, noise, step) in [(0.0, 1.0, 0.0), (0.3, 5.0, 0.0), (0.0, 0.0, 1.0), (2.0, 1.0, 1.0)] {
        let held = (0..SERIES).filter(|seed| {
            let estimate = growth(&series(*seed, slope, noise, step), 0.95, 0.0).unwrap();
            estimate.interval.contains(slope)
        });
        let share = held.count() as f64 / SERIES as f64;
        assert!(share > 0.92, "slope {slope}, noise {noise}, step {step}: {share}");
    }
    let estimate = growth(&series(1, 0.5, 1.0, 0.0), 0.95, 0.0).unwrap();
    assert!(estimate.interval.low > 0.45 && estimate.interval.high < 0.55, "{estimate:?}");
}

#[test]
fn what_does_not_move_has_no_growth_and_a_step_is_none() {
    let flat: Vec<(f64, f64)> = (0..POINTS).map(|at| (at as f64, 7.0)).collect();
    let estimate = growth(&flat, 0.95, 0.0).unwrap();
    assert_eq!((estimate.value, estimate.interval.low, estimate.interval.high), (0.0, 0.0, 0.0));
    let step: Vec<(f64, f64)> =
        (0..POINTS).map(|at| (at as f64, if at < 20 { 0.0 } else { 100.0 })).collect();
    assert!(growth(&step, 0.95, 0.0).unwrap().interval.contains(0.0));
    assert!(growth(&flat[..23], 0.95, 0.0).is_err());
    assert!(growth(&flat, 1.0, 0.0).is_err());
}

#[test]
fn readings_in_steps_are_never_surer_than_a_step() {
    // What grows by less than a step in all that time reads as flat; the parts lie 220 apart.
    for slope in [0.0, 0.9 / 240.0, -0.9 / 240.0] {
        let read: Vec<(f64, f64)> = (0..POINTS)
            .map(|at| (at as f64, (100.95 + slope * at as f64 - 0.9 * f64::from(slope > 0.0)).floor()))
            .collect();
        let estimate = growth(&read, 0.95, 1.0).unwrap();
        assert!(estimate.interval.contains(slope), "{slope}: {estimate:?}");
        assert!(estimate.interval.high - estimate.interval.low >= 2.0 / 220.0 - 1e-12, "{estimate:?}");
    }
}
