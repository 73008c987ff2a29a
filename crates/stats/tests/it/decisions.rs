//! Looks, families of tests, verdicts, noise, and the small checks.

use stats::looks::{Look, blocks_needed};
use stats::noise::Noise;
use stats::verdict::{HigherIs, Question, Verdict, decide};
use stats::{Error, Estimate, Interval, fairness, holm, little, poisson};

use crate::fixture::{cases, close, numbers, r, scipy};

fn estimate(low: f64, ratio: f64, high: f64) -> Estimate {
    let interval = Interval { low: low.ln(), high: high.ln(), level: 0.95 };
    Estimate { value: ratio.ln(), interval, n: 10 }
}

#[test]
fn verdicts_follow_the_rules() {
    use Verdict::{Equal, Faster, Inconclusive, Slower};
    const ROWS: [(&str, [f64; 3], Option<f64>, Verdict); 14] = [
        ("clearly more", [1.03, 1.05, 1.07], None, Slower),
        ("clearly less", [0.93, 0.95, 0.97], None, Faster),
        ("more, known floor", [1.03, 1.05, 1.07], Some(0.01), Slower),
        ("seen and at half of δ: named, though inside ±δ", [1.005, 1.0101, 1.015], None, Slower),
        ("seen but under half of δ", [1.001, 1.005, 1.009], None, Equal),
        ("seen, under half of δ, reaching beyond δ", [1.001, 1.009, 1.03], None, Inconclusive),
        ("touches 1", [1.0, 1.015, 1.03], None, Inconclusive),
        ("inside ±δ", [0.99, 1.0, 1.01], None, Equal),
        ("reaches δ above", [0.99, 1.0, 1.0201], None, Inconclusive),
        ("reaches δ below", [0.9799, 1.0, 1.01], None, Inconclusive),
        ("wide", [0.9, 1.0, 1.1], None, Inconclusive),
        ("floor above δ: equal cannot be said", [0.99, 1.0, 1.01], Some(0.03), Inconclusive),
        ("floor above δ and above the estimate", [1.01, 1.02, 1.03], Some(0.03), Inconclusive),
        ("far above a high floor", [1.3, 1.5, 1.7], Some(0.03), Slower),
    ];
    for (what, [low, ratio, high], floor, expected) in ROWS {
        let question = Question { delta: 0.02, floor, higher_is: HigherIs::Worse };
        assert_eq!(decide(&estimate(low, ratio, high), &question), expected, "{what}");
    }
    let rate = Question { delta: 0.02, floor: None, higher_is: HigherIs::Better };
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
fn blocks_needed_follow_the_formula_and_its_cap() {
    for (sd, delta, uncapped, planned) in
        [(0.02, 0.02, 8, 8), (0.04, 0.02, 32, 30), (0.03, 0.02, 18, 18), (0.0, 0.02, 0, 0)]
    {
        let needed = blocks_needed(sd, delta).unwrap();
        assert_eq!((needed.uncapped, needed.planned), (uncapped, planned), "sd {sd}");
    }
    assert!(blocks_needed(0.02, 0.0).is_err() && blocks_needed(f64::NAN, 0.02).is_err());
}

#[test]
fn looks_decide_or_say_how_far_to_go_on() {
    let question = Question { delta: 0.02, floor: None, higher_is: HigherIs::Worse };
    let spread = |centre: f64, sd: f64| -> Vec<f64> {
        // Ten fixed steps with mean 0 and standard deviation 1.
        [-1.5, -1.1, -0.8, -0.4, -0.1, 0.1, 0.4, 0.8, 1.1, 1.5].map(|step| centre + sd * step).to_vec()
    };
    let clear = Look::First.take(&spread(0.1, 0.02), &question).unwrap();
    assert_eq!((clear.verdict, clear.extend_to()), (Verdict::Slower, None));
    assert!(clear.estimate.interval.level >= 0.99);
    let open = Look::First.take(&spread(0.01, 0.03), &question).unwrap();
    assert_eq!(open.verdict, Verdict::Inconclusive);
    assert_eq!(open.extend_to(), Some(open.needed.planned));
    assert!((15..=20).contains(&open.needed.planned), "{:?}", open.needed);
    let quiet = Look::First.take(&spread(0.015, 0.015), &question).unwrap();
    assert_eq!(
        (quiet.verdict, quiet.extend_to()),
        (Verdict::Inconclusive, Some(10)),
        "the last look at once"
    );
    let last = Look::Last.take(&spread(0.01, 0.03), &question).unwrap();
    assert_eq!(
        (last.verdict, last.extend_to()),
        (Verdict::Inconclusive, None),
        "nothing follows the last look"
    );
    assert_eq!(Look::First.take(&[0.1; 7], &question), Err(Error::TooFew { have: 7, need: 8 }));
}

#[test]
fn a_family_member_is_looked_at_at_its_own_level() {
    let question = Question { delta: 0.02, floor: None, higher_is: HigherIs::Worse };
    let differences: Vec<f64> = (0..12).map(|step| 0.03 + f64::from(step) / 1000.0).collect();
    let level = holm::levels(Look::Only.level(), 2)[0];
    let finding = Look::Only.take_at(level, &differences, &question).unwrap();
    assert!(finding.estimate.interval.level >= 0.975);
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
