//! Looks, families of tests, verdicts, noise, and the small checks.

use stats::cycles::BlockValue;
use stats::looks::{self, blocks_needed};
use stats::noise::Noise;
use stats::verdict::{Bias, HigherIs, Question, Verdict, decide};
use stats::{Error, Estimate, Interval, fairness, holm, little, paired, poisson};

use crate::fixture::{cases, close, numbers, r, scipy};

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
        let question = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };
        assert_eq!(decide(&estimate(low, ratio, high), &question), expected, "{what}");
    }
    let rate = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Better };
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
    for (decision, level) in decisions.iter().zip([0.975, 0.9875, 0.95, 1.0 - 0.05 / 3.0]) {
        close(decision.level, level, 1e-15);
    }
    assert!(holm::decide(&[], 0.95).unwrap().is_empty());
}

#[test]
fn blocks_needed_follow_the_formula() {
    for (sd, delta, needed) in [(0.02, 0.02, 8), (0.04, 0.02, 32), (0.03, 0.02, 18), (0.0, 0.02, 0)] {
        assert_eq!(blocks_needed(sd, delta), Ok(needed), "sd {sd}");
    }
    assert!(blocks_needed(0.02, 0.0).is_err() && blocks_needed(f64::NAN, 0.02).is_err());
}

#[test]
fn looks_follow_each_other_and_end() {
    let after = |blocks| (looks::next(blocks, 24), looks::level(blocks));
    assert_eq!(after(0), (Some(6), 0.968));
    assert_eq!(after(6), (Some(12), 0.968));
    assert_eq!(after(12), (Some(24), 0.984));
    assert_eq!(after(24), (None, 0.985));
    assert_eq!((looks::next(6, 6), looks::level(30)), (None, 0.985));
    // What six pairs attain is enough for the first.
    assert!(paired::estimate(&[0.01; 6], looks::LEVELS[0]).is_ok());
}

#[test]
fn a_bias_widens_the_interval_and_the_verdict_heeds_it() {
    let question = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };
    let seen = estimate(1.03, 1.05, 1.07);
    let widened = seen.widened(Bias { low: 0.02, high: 0.01 });
    close(widened.interval.low, 1.03_f64.ln() - 0.02, 1e-15);
    close(widened.interval.high, 1.07_f64.ln() + 0.01, 1e-15);
    assert_eq!((widened.value, widened.n), (seen.value, seen.n));
    assert_eq!(decide(&widened, &question), Verdict::Slower);
    assert_eq!(decide(&seen.widened(Bias { low: 0.03, high: 0.0 }), &question), Verdict::Inconclusive);
}

#[test]
fn the_value_of_a_block_is_the_median_over_its_cycles() {
    let even = BlockValue::of(&[0.01, 0.02, 0.03]).unwrap();
    assert_eq!((even.value, even.n), (0.02, 3));
    close(even.spread, 1.4826 * 0.01, 1e-15);
    let straddled = BlockValue::of(&[0.01, 0.02, 0.03, 0.02, 0.7]).unwrap();
    assert!((0.02..0.03).contains(&straddled.value), "{straddled:?}");
    assert!(BlockValue::of(&[]).is_err());
}

#[test]
fn the_noise_floor_is_half_the_interval() {
    let quiet = [-0.004, 0.003, -0.002, 0.001, 0.004, -0.003, 0.002, -0.001];
    let noise = Noise::of_pairs(&quiet, 0.95).unwrap();
    close(noise.floor, (noise.estimate.interval.half_width()).exp() - 1.0, 1e-15);
    assert!(noise.floor > 0.001 && noise.floor < 0.004, "{noise:?}");
    assert!(!noise.position_effect() && noise.resolves(0.02) && !noise.resolves(0.0005));
    let slightly = quiet.map(|difference| difference + 0.0005);
    assert!(!Noise::of_pairs(&slightly, 0.95).unwrap().position_effect(), "within the noise");
    let shifted = quiet.map(|difference| difference + 0.02);
    assert!(Noise::of_pairs(&shifted, 0.95).unwrap().position_effect());
    assert!(Noise::of_pairs(&quiet[..4], 0.95).is_err());
}

#[test]
fn fairness_little_and_poisson_are_what_they_say() {
    close(fairness::jain(&[5.0; 8]).unwrap(), 1.0, 1e-15);
    close(fairness::jain(&[1.0, 0.0, 0.0, 0.0]).unwrap(), 0.25, 1e-15);
    close(fairness::jain(&[1.0, 2.0, 3.0]).unwrap(), 36.0 / 42.0, 1e-15);
    assert_eq!((fairness::jain(&[]), fairness::jain(&[0.0])), (None, None));
    close(little::residual(20_000.0, 0.0032, 64.0), 0.0, 1e-12);
    close(little::residual(20_000.0, 0.0040, 64.0), 0.25, 1e-12);
    assert!(!little::residual(1.0, 1.0, 0.0).is_finite());
    assert_eq!((poisson::standard_error(400), poisson::relative_error(400)), (20.0, 0.05));
    assert_eq!(poisson::relative_error(0), f64::INFINITY);
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
