//! Estimate, interval and tests of paired differences.

use stats::{Error, Rng, paired, signed_rank};

use crate::fixture::{cases, close, list, number, numbers, r, scipy};

#[test]
fn estimates_and_intervals_agree_with_the_definition() {
    for case in cases(&scipy(), "paired") {
        let values = numbers(case, "values");
        for interval in cases(case, "intervals") {
            let ours = paired::estimate(&values, number(interval, "level"));
            if interval["low"].is_null() {
                assert!(matches!(ours, Err(Error::TooFew { .. })), "{interval}");
                continue;
            }
            let ours = ours.unwrap();
            close(ours.value, number(interval, "estimate"), 1e-14);
            close(ours.interval.low, number(interval, "low"), 1e-14);
            close(ours.interval.high, number(interval, "high"), 1e-14);
            close(ours.interval.level, number(interval, "attained"), 1e-14);
        }
    }
}

#[test]
fn estimates_intervals_and_p_values_agree_with_r() {
    let mut compared = 0;
    for case in cases(&r(), "paired") {
        let values = numbers(case, "values");
        close(paired::wilcoxon(&values).unwrap().p, number(case, "p"), 1e-12);
        // Where no interval attains the level R warns and gives the widest; we refuse.
        let level = number(case, "level");
        let ours = match paired::estimate(&values, level) {
            Ok(ours) => ours,
            Err(_) => paired::widest(&values).unwrap(),
        };
        close(ours.value, number(case, "estimate"), 1e-12);
        close(ours.interval.low, number(case, "low"), 1e-12);
        close(ours.interval.high, number(case, "high"), 1e-12);
        compared += 1;
    }
    assert!(compared >= 50, "only {compared} cases");
}

#[test]
fn p_values_agree_with_scipy() {
    let mut flips = 0;
    for case in cases(&scipy(), "paired") {
        let values = numbers(case, "values");
        close(paired::wilcoxon(&values).unwrap().p, number(case, "wilcoxon_p"), 1e-13);
        if let Some(p) = case["sign_flip_p"].as_f64() {
            let ours = paired::sign_flip(&values, &mut Rng::seeded(1)).unwrap();
            assert!(ours.exact);
            close(ours.p, p, 1e-12);
            flips += 1;
        }
    }
    assert!(flips >= 10, "only {flips} sign-flip cases");
}

#[test]
fn ties_and_zeros_keep_the_p_value_exact() {
    for case in cases(&scipy(), "tied") {
        let values = numbers(case, "values");
        let ours = paired::wilcoxon(&values).unwrap();
        close(ours.p, number(case, "wilcoxon_p"), 1e-14);
        assert_eq!(ours.zeros, values.iter().filter(|value| **value == 0.0).count());
        assert_eq!(ours.zeros + ours.ranked, values.len());
    }
}

#[test]
fn nothing_but_zeros_is_no_evidence() {
    let ours = paired::wilcoxon(&[0.0; 6]).unwrap();
    assert_eq!((ours.p, ours.zeros, ours.ranked), (1.0, 6, 0));
}

#[test]
fn the_null_distribution_agrees_with_r() {
    let theirs = list(&r()["distribution"]["p"]);
    let ours = signed_rank::distribution(10);
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(&theirs).for_each(|(ours, theirs)| close(*ours, *theirs, 1e-15));
}

#[test]
fn too_few_pairs_are_refused_with_the_number_needed() {
    let five = [0.01, 0.02, 0.03, 0.04, 0.05];
    assert_eq!(paired::estimate(&five, 0.95), Err(Error::TooFew { have: 5, need: 6 }));
    let widest = paired::widest(&five).unwrap();
    assert_eq!((widest.interval.low, widest.interval.high, widest.interval.level), (0.01, 0.05, 0.9375));
    for (level, need) in [(0.9375, 5), (0.95, 6), (0.96, 6), (0.99, 8), (0.5, 2)] {
        assert_eq!(paired::min_pairs(level), need, "at {level}");
        let values: Vec<f64> = (0..need).map(|value| value as f64).collect();
        assert!(paired::estimate(&values, level).is_ok(), "{need} pairs at {level}");
        assert!(paired::estimate(&values[1..], level).is_err(), "one pair fewer at {level}");
    }
}

#[test]
fn bad_input_is_refused() {
    assert_eq!(paired::log_ratios(&[1.0], &[]), Err(Error::Unequal { left: 1, right: 0 }));
    assert_eq!(paired::log_ratios(&[1.0, 0.0], &[1.0, 1.0]), Err(Error::BadValue { index: 1, value: 0.0 }));
    assert!(paired::estimate(&[f64::NAN; 10], 0.95).is_err());
    assert!(paired::estimate(&[0.0; 10], 1.0).is_err());
    assert!(paired::estimate(&[0.0; paired::MAX_PAIRS + 1], 0.95).is_err());
    assert!(paired::wilcoxon(&[]).is_err() && paired::sign_flip(&[], &mut Rng::seeded(1)).is_err());
    assert!(paired::widest(&[0.1]).is_err());
    assert_eq!(paired::hodges_lehmann(&[]), None);
}

#[test]
fn the_most_pairs_still_work() {
    let mut rng = Rng::seeded(11);
    let values: Vec<f64> = (0..paired::MAX_PAIRS).map(|_| rng.normal()).collect();
    let estimate = paired::estimate(&values, 0.95).unwrap();
    // For normal data the interval is about 1.96/√n wide on each side, 2 % wider for Wilcoxon's efficiency.
    close(estimate.interval.half_width(), 1.96 / (values.len() as f64).sqrt() * 1.023, 0.01);
    close(estimate.interval.level, 0.95, 1e-4);
}

#[test]
fn drawn_sign_flips_agree_with_all_of_them() {
    let mut rng = Rng::seeded(5);
    let few: Vec<f64> = (0..paired::MAX_ENUMERATED).map(|_| 0.4 + rng.normal()).collect();
    let exact = paired::sign_flip(&few, &mut rng).unwrap();
    // One more difference that is zero changes no sum, but forces random patterns.
    let drawn = paired::sign_flip(&[few.as_slice(), &[0.0]].concat(), &mut rng).unwrap();
    assert!(exact.exact && !drawn.exact);
    assert!(exact.p > 0.01 && exact.p < 0.5, "an informative p-value: {}", exact.p);
    close(drawn.p, exact.p, 0.01);
}

#[test]
fn a_drawn_p_value_is_never_zero() {
    let drawn = paired::sign_flip(&[1.0; 40], &mut Rng::seeded(5)).unwrap();
    assert_eq!((drawn.p, drawn.exact), (1.0 / f64::from(paired::DRAWS + 1), false));
}

#[test]
fn rounding_does_not_hide_equal_sums() {
    // In tenths the sums of many sign patterns are equal; in binary they differ in the last digit.
    let whole = [1.0, 2.0, 3.0, -3.0, 4.0, 5.0, -6.0, 7.0];
    let flip =
        |scale: f64| paired::sign_flip(&whole.map(|value| value * scale), &mut Rng::seeded(5)).unwrap().p;
    // Counted over all patterns in whole numbers.
    let expected = 88.0 / 256.0;
    assert_eq!([1.0, 0.1, 0.7].map(flip), [expected; 3]);
}
