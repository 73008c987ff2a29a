//! Descriptive figures, distributions and trends.

use stats::{Error, descriptive, quantile, special, trend};

use crate::fixture::{cases, close, list, number, numbers, r, scipy};

#[test]
fn descriptive_figures_agree_with_numpy_and_r() {
    for case in cases(&scipy(), "descriptive") {
        let values = numbers(case, "values");
        close(descriptive::mean(&values).unwrap(), number(case, "mean"), 1e-14);
        close(descriptive::median(&values).unwrap(), number(case, "median"), 1e-15);
        close(descriptive::mad(&values).unwrap(), number(case, "mad"), 1e-14);
        assert_eq!(descriptive::sd(&values).is_none(), case["sd"].is_null());
        if let Some(sd) = descriptive::sd(&values) {
            close(sd, number(case, "sd"), 1e-14);
        }
        for pair in cases(case, "quantiles").iter().map(list) {
            close(descriptive::quantile(&values, pair[0]).unwrap(), pair[1], 1e-14);
        }
    }
    for case in cases(&r(), "descriptive") {
        let values = numbers(case, "values");
        close(descriptive::sd(&values).unwrap(), number(case, "sd"), 1e-13);
        // R rounds the factor to 1.4826.
        close(descriptive::mad(&values).unwrap(), number(case, "mad"), 1e-5);
        close(descriptive::quantile(&values, 0.9).unwrap(), number(case, "q90"), 1e-13);
    }
    assert!(descriptive::mean(&[]).is_none() && descriptive::median(&[]).is_none());
    assert!(descriptive::quantile(&[], 0.5).is_none() && descriptive::mad(&[]).is_none());
}

#[test]
fn observations_needed_are_whole() {
    for (q, n) in [(0.5, 200), (0.9, 1000), (0.99, 10_000), (0.999, 100_000), (0.9999, 1_000_000)] {
        assert_eq!(quantile::min_observations(q), n);
    }
}

#[test]
fn the_normal_distribution_agrees_with_scipy() {
    let fixture = scipy();
    for pair in cases(&fixture["normal"], "cdf").iter().map(list) {
        let ours = special::normal_cdf(pair[0]);
        assert!((ours / pair[1] - 1.0).abs() < 1e-9, "Φ({}) = {}, ours {ours}", pair[0], pair[1]);
        close(ours, pair[1], 1e-15);
    }
    for pair in cases(&fixture["normal"], "quantile").iter().map(list) {
        close(special::normal_quantile(pair[0]), pair[1], 1e-11);
    }
    // qt(0.975, n) and qt(0.995, n) of R.
    for (level, degrees, quantile) in [
        (0.95, 1, 12.706_205),
        (0.95, 2, 4.302_653),
        (0.95, 3, 3.182_446),
        (0.95, 5, 2.570_582),
        (0.99, 9, 3.249_836),
        (0.95, 29, 2.045_230),
    ] {
        close(special::student_within(level, degrees), quantile, 1e-4);
    }
    assert_eq!(special::normal_quantile(0.0), f64::NEG_INFINITY);
    assert_eq!(special::normal_quantile(1.0), f64::INFINITY);
}

#[test]
fn trends_agree_with_scipy_and_r() {
    for case in cases(&scipy(), "kendall") {
        let ours = trend::mann_kendall(&numbers(case, "values")).unwrap();
        close(ours.tau, number(case, "tau"), 1e-14);
        close(ours.p, number(case, "p"), 1e-12);
    }
    for case in cases(&r(), "tied_trend") {
        let ours = trend::mann_kendall(&numbers(case, "values")).unwrap();
        close(ours.p, number(case, "p"), 1e-12);
    }
    assert_eq!(trend::mann_kendall(&[2.0; 10]).unwrap().p, 1.0);
    assert_eq!(trend::mann_kendall(&[1.0, 2.0]), Err(Error::TooFew { have: 2, need: 3 }));
}
