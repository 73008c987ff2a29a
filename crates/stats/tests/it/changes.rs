//! Change points, stationarity of a window, and the end of a warm-up.

use stats::stationarity::{relative_slope, stationarity, steady};
use stats::{Error, Rng, changepoint};

use crate::fixture::{cases, close, number, numbers, scipy, whole};

fn noisy(rng: &mut Rng, levels: &[(usize, f64)], sd: f64) -> Vec<f64> {
    let each = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
    each.map(|level| level + sd * rng.normal()).collect()
}

#[test]
fn the_split_statistic_agrees_with_scipy() {
    for case in cases(&scipy(), "energy") {
        let change = changepoint::strongest(&numbers(case, "values"), &mut Rng::seeded(1)).unwrap().unwrap();
        assert_eq!(change.index as u64, whole(case, "index"));
        close(change.statistic, number(case, "statistic"), 1e-12);
    }
}

#[test]
fn planted_changes_are_found_where_they_are() {
    const TRIALS: u64 = 15;
    let (mut found, mut extra) = (0, 0);
    for seed in 0..TRIALS {
        let mut rng = Rng::seeded(seed);
        let values = noisy(&mut rng, &[(20, 100.0), (15, 104.0), (20, 98.0)], 1.0);
        let changes = changepoint::detect(&values, 3, 0.01, &mut rng).unwrap();
        let near = |place: usize| changes.iter().any(|change| change.index.abs_diff(place) <= 1);
        found += u32::from(near(20)) + u32::from(near(35));
        extra += changes.len().saturating_sub(2);
    }
    assert!(found >= 29, "{found} of 30 found");
    // Three quiet segments, each tested at 1 %: 0.45 expected, more than 3 once in 800.
    assert!(extra <= 3, "{extra} that were not planted");
}

#[test]
fn a_change_of_spread_is_found() {
    let mut rng = Rng::seeded(2);
    let mut values = noisy(&mut rng, &[(30, 100.0)], 0.5);
    values.extend(noisy(&mut rng, &[(30, 100.0)], 8.0));
    let changes = changepoint::detect(&values, 5, 0.01, &mut rng).unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].index.abs_diff(30) <= 3, "{changes:?}");
}

#[test]
fn segments_keep_their_least_length() {
    let values = [&[1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0][..], &[50.0; 2]].concat();
    let at = |min_segment: usize| {
        let changes = changepoint::detect(&values, min_segment, 0.05, &mut Rng::seeded(1)).unwrap();
        changes.iter().map(|change| change.index).collect::<Vec<_>>()
    };
    assert_eq!(at(2), [10]);
    assert!(at(3).iter().all(|index| *index <= 9), "{:?}", at(3));
}

#[test]
fn noise_alone_seldom_changes() {
    let false_alarms = (0..200).filter(|seed| {
        let mut rng = Rng::seeded(*seed);
        let values = noisy(&mut rng, &[(12, 100.0)], 1.0);
        changepoint::strongest(&values, &mut rng).unwrap().unwrap().p <= 0.05
    });
    // Binomial(200, 0.05) exceeds 20 once in 600.
    let count = false_alarms.count();
    assert!((1..=20).contains(&count), "{count} of 200");
}

#[test]
fn short_constant_and_bad_series() {
    let mut rng = Rng::seeded(1);
    assert_eq!(changepoint::strongest(&[1.0, 2.0, 3.0], &mut rng).unwrap(), None);
    assert_eq!(changepoint::strongest(&[5.0; 12], &mut rng).unwrap().unwrap().p, 1.0);
    assert!(changepoint::detect(&[], 3, 0.05, &mut rng).unwrap().is_empty());
    assert!(matches!(
        changepoint::strongest(&[0.0, f64::NAN], &mut rng),
        Err(Error::BadValue { index: 1, .. })
    ));
    let long = vec![0.0; changepoint::MAX_VALUES + 1];
    assert!(matches!(changepoint::strongest(&long, &mut rng), Err(Error::TooMany { .. })));
}

#[test]
fn windows_that_drift_or_jump_are_not_stationary() {
    let held = |levels: &[(usize, f64)]| {
        let holds = |seed: &u64| {
            let mut rng = Rng::seeded(*seed);
            let parts = noisy(&mut rng, levels, 1.0);
            stationarity(&parts, &mut rng).unwrap().holds()
        };
        (0..50).filter(holds).count()
    };
    let drift: Vec<(usize, f64)> = (0..10).map(|part| (1, 100.0 + f64::from(part))).collect();
    let (steady, drifting, jumping) = (held(&[(10, 100.0)]), held(&drift), held(&[(5, 100.0), (5, 105.0)]));
    assert!(steady >= 44, "{steady} of 50 steady windows hold");
    assert!(drifting <= 2, "{drifting} of 50 drifting windows hold");
    assert!(jumping <= 1, "{jumping} of 50 jumping windows hold");
}

#[test]
fn slopes_are_relative_to_the_mean() {
    close(relative_slope(&[98.0, 99.0, 100.0, 101.0, 102.0]).unwrap(), 0.01, 1e-12);
    close(relative_slope(&[4.0, 2.0]).unwrap(), -2.0 / 3.0, 1e-12);
    assert_eq!(
        (relative_slope(&[1.0]), relative_slope(&[]), relative_slope(&[-1.0, 1.0])),
        (None, None, None)
    );
}

#[test]
fn a_warm_up_ends_when_five_seconds_agree() {
    const ROWS: [(&str, &[f64], bool); 8] = [
        ("too short", &[100.0, 100.0, 100.0, 100.0], false),
        ("flat", &[100.0, 100.2, 99.9, 100.1, 100.0], true),
        ("rising", &[80.0, 88.0, 94.0, 97.0, 100.0], false),
        ("rose, then flat", &[20.0, 50.0, 80.0, 100.0, 100.2, 99.9, 100.1, 100.0], true),
        ("step of 5 % within five seconds", &[100.0, 100.1, 100.0, 105.1, 105.0], false),
        (
            "small step three seconds ago",
            &[100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 100.0, 101.5, 101.6, 101.4],
            false,
        ),
        (
            "same step, five seconds ago",
            &[100.0, 100.1, 99.9, 100.0, 100.1, 101.5, 101.6, 101.4, 101.5, 101.6],
            true,
        ),
        ("silent", &[0.0; 6], false),
    ];
    for (what, rates, expected) in ROWS {
        assert_eq!(steady(rates, &mut Rng::seeded(8)), expected, "{what}");
    }
}
