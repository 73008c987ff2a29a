//! Change points.

use stats::{Error, Rng, changepoint};

use crate::fixture::{cases, close, number, numbers, scipy, whole};

fn noisy(rng: &mut Rng, levels: &[(usize, f64)], sd: f64) -> Vec<f64> {
    let each = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
    each.map(|level| level + sd * rng.normal()).collect()
}

#[test]
fn the_split_statistic_agrees_with_scipy() {
    for case in cases(&scipy(), "energy") {
        // With nearly any split let through, the first search still takes the strongest.
        let found = changepoint::detect(&numbers(case, "values"), 2, 0.999, &mut Rng::seeded(1)).unwrap();
        let change = found.iter().find(|change| change.index as u64 == whole(case, "index")).unwrap();
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
        !changepoint::detect(&values, 2, 0.05, &mut rng).unwrap().is_empty()
    });
    // Binomial(200, 0.05) exceeds 20 once in 600.
    let count = false_alarms.count();
    assert!((1..=20).contains(&count), "{count} of 200");
}

#[test]
fn short_constant_and_bad_series() {
    let detect = |values: &[f64]| changepoint::detect(values, 2, 0.999, &mut Rng::seeded(1));
    assert!(detect(&[]).unwrap().is_empty());
    assert!(detect(&[1.0, 2.0, 3.0]).unwrap().is_empty(), "no split leaves two values on either side");
    assert!(detect(&[5.0; 12]).unwrap().is_empty());
    assert!(matches!(detect(&[0.0, f64::NAN]), Err(Error::BadValue { index: 1, .. })));
    assert!(matches!(detect(&vec![0.0; changepoint::MAX_VALUES + 1]), Err(Error::TooMany { .. })));
}
