//! Looks, families of tests, verdicts, noise, and the small checks.

use stats::looks::{self, blocks_needed};
use stats::noise::Noise;
use stats::verdict::{HigherIs, Question, Verdict, decide};
use stats::{Bias, Error, Estimate, Interval, holm, little, paired};

use crate::fixture::{cases, close, numbers, r, scipy};

const CPU: Question = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };

fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
    let interval = Interval { low: low.ln(), high: high.ln(), level: 0.95 };
    Estimate { value: ratio.ln(), interval, n: 10 }
}

#[test]
fn verdicts_follow_the_rules() {
    use Verdict::{Equal, Faster, Inconclusive, Slower};
    const ROWS: [(&str, [f64; 3], Verdict); 11] = [
        ("clearly more", [1.03, 1.05, 1.07], Slower),
        ("clearly less", [0.93, 0.95, 0.97], Faster),
        ("seen, and no less than what is named, though inside ±δ", [1.001, 1.0026, 1.005], Slower),
        ("seen, and less than what is named", [1.001, 1.002, 1.003], Equal),
        ("seen, less than what is named, reaching beyond δ", [1.0001, 1.002, 1.03], Inconclusive),
        ("touches 1", [1.0, 1.015, 1.03], Inconclusive),
        ("inside ±δ", [0.99, 1.0, 1.01], Equal),
        ("reaches δ above", [0.99, 1.0, 1.0201], Inconclusive),
        ("reaches δ below", [0.9799, 1.0, 1.01], Inconclusive),
        ("wide", [0.9, 1.0, 1.1], Inconclusive),
        ("far above", [1.3, 1.5, 1.7], Slower),
    ];
    for (what, [low, ratio, high], expected) in ROWS {
        assert_eq!(decide(&estimate(low, ratio, high), &CPU), expected, "{what}");
    }
    let rate = Question { higher_is: HigherIs::Better, ..CPU };
    assert_eq!(decide(&estimate(1.03, 1.05, 1.07), &rate), Faster, "a higher rate is faster");
    assert_eq!(
        [Faster, Slower, Equal, Inconclusive].map(Verdict::word).join(" "),
        "faster slower equal inconclusive"
    );
}

#[test]
fn adjusted_p_values_agree_with_the_definition_and_with_r() {
    for case in cases(&scipy(), "holm").iter().chain(cases(&r(), "holm")) {
        let ours = holm::adjusted(&numbers(case, "p")).unwrap();
        let theirs = numbers(case, "adjusted");
        assert_eq!(ours.len(), theirs.len());
        ours.iter().zip(theirs).for_each(|(ours, theirs)| close(*ours, theirs, 1e-12));
    }
    assert!(holm::adjusted(&[0.5, 1.5]).is_err() && holm::adjusted(&[f64::NAN]).is_err());
}

#[test]
fn family_decisions_step_down_and_stop() {
    let decisions = holm::decide(&[0.04, 0.012, 0.2, 0.03], 0.95).unwrap();
    let rejected: Vec<bool> = decisions.iter().map(|decision| decision.rejected).collect();
    assert_eq!(rejected, [false, true, false, false], "0.03 · 3 > 0.05, so 0.04 falls with it");
    let ranks: Vec<usize> = decisions.iter().map(|decision| decision.rank).collect();
    assert_eq!(ranks, [3, 1, 4, 2]);
    // All from the first that stands on are judged at its step.
    let second = 1.0 - 0.05 / 3.0;
    for (decision, level) in decisions.iter().zip([second, 0.9875, second, second]) {
        close(decision.level, level, 1e-15);
    }
    assert!(holm::decide(&[], 0.95).unwrap().is_empty());
}

#[test]
fn blocks_needed_follow_the_formula() {
    for (sd, delta, needed) in [(0.02, 0.02, 8), (0.04, 0.02, 32), (0.03, 0.02, 18), (0.0, 0.02, 6)] {
        assert_eq!(blocks_needed(sd, delta), Ok(needed), "sd {sd}");
    }
    assert!(blocks_needed(0.02, 0.0).is_err() && blocks_needed(f64::NAN, 0.02).is_err());
}

#[test]
fn looks_follow_each_other_and_end() {
    let after = |blocks| (looks::next(blocks, 24), looks::level(blocks));
    let [first, second, last] = looks::LEVELS;
    for (blocks, expected) in [
        (0, (Some(8), first)),
        (8, (Some(14), first)),
        (13, (Some(14), first)),
        (14, (Some(24), second)),
        (24, (None, last)),
        (30, (None, last)),
    ] {
        assert_eq!(after(blocks), expected, "after {blocks} blocks");
    }
    assert_eq!((looks::next(8, 14), looks::next(8, 13), looks::next(8, 8)), (Some(14), None, None));
    // Every look can be taken at its level: no interval falls back on the widest.
    for (blocks, level) in looks::LOOKS.into_iter().zip(looks::LEVELS) {
        assert!(paired::min_pairs(level) <= blocks, "{level} after {blocks}");
    }
}

#[test]
fn a_run_ends_with_a_difference_or_where_the_least_one_is_excluded() {
    use Verdict::{Equal, Faster, Inconclusive, Slower};
    const ROWS: [(&str, Verdict, [f64; 2], bool); 7] = [
        ("slower", Slower, [1.001, 1.05], true),
        ("faster", Faster, [0.95, 0.999], true),
        ("open", Inconclusive, [0.97, 1.03], false),
        ("inside ±2 · least", Equal, [0.996, 1.004], true),
        ("reaches 2 · least above", Equal, [0.999, 1.0051], false),
        ("reaches 2 · least below", Equal, [0.9949, 1.001], false),
        ("inside ±δ only", Equal, [0.985, 1.015], false),
    ];
    for (what, verdict, [low, high], ends) in ROWS {
        assert_eq!(looks::ends(verdict, &Interval { low, high, level: 0.968 }, &CPU), ends, "{what}");
    }
}

#[test]
fn a_bias_widens_the_interval_and_the_verdict_heeds_it() {
    use Verdict::{Equal, Inconclusive, Slower};
    let bias = |low, high| Bias { low, high };
    const NAN: f64 = f64::NAN;
    for (what, seen, bias, expected) in [
        ("nothing", [1.03, 1.05, 1.07], Bias::default(), Slower),
        ("less than what lies between 1 and the interval", [1.03, 1.05, 1.07], bias(0.029, 0.5), Slower),
        (
            "as much: the widened interval touches 1",
            [1.03, 1.05, 1.07],
            bias(1.03_f64.ln(), 0.0),
            Inconclusive,
        ),
        ("more", [1.03, 1.05, 1.07], bias(0.03, 0.0), Inconclusive),
        ("only on the side away from 1", [0.93, 0.95, 0.97], bias(0.9, 0.03), Verdict::Faster),
        ("equal that is left", [0.995, 1.0, 1.005], bias(0.01, 0.01), Equal),
        ("equal that is lost below", [0.995, 1.0, 1.005], bias(0.02, 0.0), Inconclusive),
        ("equal that is lost above", [0.995, 1.0, 1.005], bias(0.0, 0.02), Inconclusive),
        ("below zero: an interval is never narrowed", [0.999, 1.05, 1.1], bias(-0.1, -0.1), Inconclusive),
        ("not a number: without bound", [1.03, 1.05, 1.07], bias(NAN, 0.0), Inconclusive),
        ("unbounded", [1.03, 1.05, 1.07], bias(f64::INFINITY, 0.0), Inconclusive),
    ] {
        let [low, ratio, high] = seen;
        assert_eq!(decide(&estimate(low, ratio, high).widened(bias), &CPU), expected, "{what}");
    }
    let seen = estimate(1.03, 1.05, 1.07);
    let widened = seen.widened(bias(0.02, 0.01));
    close(widened.interval.low, 1.03_f64.ln() - 0.02, 1e-15);
    close(widened.interval.high, 1.07_f64.ln() + 0.01, 1e-15);
    assert_eq!((widened.value, widened.n, widened.interval.level), (seen.value, seen.n, 0.95));
}

#[test]
fn the_noise_floor_is_half_the_interval() {
    let quiet = [-0.004, 0.003, -0.002, 0.001, 0.004, -0.003, 0.002, -0.001];
    let noise = Noise::of_pairs(&quiet, 0.95).unwrap();
    close(noise.floor, (noise.estimate.interval.half_width()).exp() - 1.0, 1e-15);
    assert!(noise.floor > 0.001 && noise.floor < 0.004, "{noise:?}");
    assert!(!noise.position_effect());
    let slightly = quiet.map(|difference| difference + 0.0005);
    assert!(!Noise::of_pairs(&slightly, 0.95).unwrap().position_effect(), "within the noise");
    let shifted = quiet.map(|difference| difference + 0.02);
    assert!(Noise::of_pairs(&shifted, 0.95).unwrap().position_effect());
    assert!(Noise::of_pairs(&quiet[..4], 0.95).is_err());
}

#[test]
fn littles_law_has_no_residual_where_it_holds() {
    close(little::residual(20_000.0, 0.0032, 64.0), 0.0, 1e-12);
    close(little::residual(20_000.0, 0.0040, 64.0), 0.25, 1e-12);
    assert!(!little::residual(1.0, 1.0, 0.0).is_finite());
}

#[test]
fn errors_say_what_is_wrong() {
    for (error, text) in [
        (Error::TooFew { have: 5, need: 6 }, "5 observations, at least 6 are needed"),
        (Error::TooMany { have: 9, most: 8 }, "9 observations, at most 8 are accepted"),
        (Error::Unequal { left: 1, right: 2 }, "1 values on one side, 2 on the other"),
        (Error::BadValue { index: 3, value: -1.0 }, "value -1 at position 3 cannot be used"),
        (Error::OutOfRange { name: "level", value: 2.0 }, "level = 2 is out of range"),
        (Error::Degenerate, "the observations do not determine the answer"),
    ] {
        assert_eq!(error.to_string(), text);
    }
}
