//! The value of a block from its cycles.

use stats::Error;
use stats::cycles::{BlockValue, MAX_CYCLES};

use crate::fixture::{cases, close, number, numbers, scipy};

#[test]
fn values_spreads_and_trends_agree_with_scipy() {
    for case in cases(&scipy(), "cycles") {
        let values = numbers(case, "values");
        let ours = BlockValue::from_cycles(&values).unwrap();
        close(ours.value, number(case, "value"), 1e-14);
        close(ours.spread, number(case, "spread"), 1e-14);
        close(ours.trend, number(case, "trend"), 1e-12);
        assert_eq!(ours.n, values.len());
    }
}

#[test]
fn a_few_cycles_have_a_value_but_no_trend() {
    let one = BlockValue { value: 0.03, spread: 0.0, n: 1, trend: 1.0 };
    assert_eq!(BlockValue::from_cycles(&[0.03]), Ok(one));
    let two = BlockValue::from_cycles(&[0.02, 0.04]).unwrap();
    assert_eq!((two.value, two.n, two.trend), (0.03, 2, 1.0));
    // Half of the distance between the two, times 1 / Φ⁻¹(3/4).
    close(two.spread, 0.01 * 1.482_602_218_505_602, 1e-15);
    // Three in order are one of six orders, and the reverse is as extreme.
    close(BlockValue::from_cycles(&[0.01, 0.02, 0.03]).unwrap().trend, 2.0 / 6.0, 1e-15);
}

#[test]
fn a_steady_rise_over_the_cycles_is_seen() {
    let rising: Vec<f64> = (0..6).map(|cycle| 0.01 * f64::from(cycle)).collect();
    // All 15 pairs rise: the one order of 720, and its reverse.
    close(BlockValue::from_cycles(&rising).unwrap().trend, 2.0 / 720.0, 1e-15);
}

#[test]
fn a_pair_that_straddles_a_jump_hardly_moves_the_value() {
    let quiet = [0.010, 0.012, 0.009, 0.011, 0.010, 0.012];
    let mut struck = quiet;
    struck[3] = 0.7;
    let (before, after) =
        (BlockValue::from_cycles(&quiet).unwrap(), BlockValue::from_cycles(&struck).unwrap());
    assert!((after.value - before.value).abs() < 0.001, "{before:?} {after:?}");
    assert!(after.spread < 0.003, "{after:?}");
}

#[test]
fn bad_cycles_are_refused() {
    assert_eq!(BlockValue::from_cycles(&[]), Err(Error::TooFew { have: 0, need: 1 }));
    assert!(matches!(BlockValue::from_cycles(&[0.1, f64::NAN]), Err(Error::BadValue { index: 1, .. })));
    assert!(matches!(BlockValue::from_cycles(&[f64::INFINITY]), Err(Error::BadValue { index: 0, .. })));
    let most = MAX_CYCLES;
    assert_eq!(BlockValue::from_cycles(&vec![0.0; most + 1]), Err(Error::TooMany { have: most + 1, most }));
    assert_eq!(BlockValue::from_cycles(&vec![0.0; most]).unwrap().n, most);
}
