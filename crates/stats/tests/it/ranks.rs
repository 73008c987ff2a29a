//! Order statistics, ranks, trends and goodness of fit.

use stats::{Error, descriptive, effective, ks, quantile, special, stationarity};

use crate::fixture::{cases, close, list, number, numbers, r, scipy, whole};

#[test]
fn descriptive_figures_agree_with_numpy_and_r() {
    for case in cases(&scipy(), "descriptive") {
        let values = numbers(case, "values");
        close(descriptive::mean(&values).unwrap(), number(case, "mean"), 1e-14);
        close(descriptive::median(&values).unwrap(), number(case, "median"), 1e-15);
        close(descriptive::mad(&values).unwrap(), number(case, "mad"), 1e-14);
        assert_eq!(descriptive::midranks(&values), numbers(case, "midranks"));
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
fn quantile_ranks_agree_with_scipy() {
    let (mut found, mut refused) = (0, 0);
    for case in cases(&scipy(), "quantile_ranks") {
        let ours = quantile::interval_ranks(whole(case, "n"), number(case, "q"), number(case, "level"));
        if case["low"].is_null() {
            assert!(matches!(ours, Err(Error::TooFew { .. })), "{case}");
            refused += 1;
            continue;
        }
        let ours = ours.unwrap();
        assert_eq!((ours.low, ours.high), (whole(case, "low"), whole(case, "high")), "{case}");
        close(ours.level, number(case, "attained"), 1e-9);
        found += 1;
    }
    assert!(found > 50 && refused > 10, "{found} found, {refused} refused");
}

#[test]
fn quantile_ranks_agree_with_r() {
    for case in cases(&r(), "ranks") {
        let ours =
            quantile::interval_ranks(whole(case, "n"), number(case, "q"), number(case, "level")).unwrap();
        assert_eq!((ours.low, ours.high), (whole(case, "low"), whole(case, "high")), "{case}");
    }
}

#[test]
fn a_quantile_is_refused_until_its_extremes_enclose_it() {
    for (q, level) in [(0.5, 0.95), (0.9, 0.95), (0.99, 0.99), (0.25, 0.9)] {
        let Err(Error::TooFew { need, .. }) = quantile::interval_ranks(1, q, level) else {
            panic!("1 is too few")
        };
        assert!(quantile::interval_ranks(need as u64, q, level).is_ok(), "{need} for {q}");
        assert!(quantile::interval_ranks(need as u64 - 1, q, level).is_err(), "{need} for {q}");
    }
}

#[test]
fn observations_needed_and_ranks_are_whole() {
    for (q, n) in [(0.5, 200), (0.9, 1000), (0.99, 10_000), (0.999, 100_000), (0.9999, 1_000_000)] {
        assert_eq!(quantile::min_observations(q), n);
        assert_eq!(quantile::rank(n, q), n - 100, "exactly 100 lie beyond {q}");
    }
    assert_eq!(quantile::rank(100, 0.07), 7, "0.07 · 100 is a little above 7 in binary");
    assert_eq!((quantile::rank(10, 0.0), quantile::rank(10, 1.0), quantile::rank(10, 0.05)), (1, 10, 1));
}

#[test]
fn thinning_widens() {
    let full = quantile::interval_ranks(10_000, 0.9, 0.95).unwrap();
    let thin = quantile::thinned_ranks(10_000, 2500, 0.9, 0.95).unwrap();
    assert!(thin.low < full.low && thin.high > full.high);
    // A quarter of the observations: twice the width.
    close((thin.high - thin.low) as f64 / (full.high - full.low) as f64, 2.0, 0.05);
    assert_eq!(quantile::thinned_ranks(100, 500, 0.5, 0.95), quantile::interval_ranks(100, 0.5, 0.95));
    assert!(quantile::thinned_ranks(100, 0, 0.5, 0.95).is_err());
    let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
    let interval = quantile::interval(&sorted, 0.5, 0.95).unwrap();
    assert_eq!((interval.low, interval.high), (40.0, 61.0));
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
        let ours = stationarity::mann_kendall(&numbers(case, "values")).unwrap();
        close(ours.tau, number(case, "tau"), 1e-14);
        close(ours.p, number(case, "p"), 1e-12);
    }
    for case in cases(&r(), "tied_trend") {
        let ours = stationarity::mann_kendall(&numbers(case, "values")).unwrap();
        close(ours.p, number(case, "p"), 1e-12);
    }
    assert_eq!(stationarity::mann_kendall(&[2.0; 10]).unwrap().p, 1.0);
}

#[test]
fn autocorrelation_agrees_with_scipy() {
    for case in cases(&scipy(), "spearman") {
        close(effective::lag1_spearman(&numbers(case, "values")).unwrap(), number(case, "lag1"), 1e-13);
    }
    assert_eq!(effective::lag1_spearman(&[1.0; 10]), Err(Error::Degenerate));
    assert!(effective::lag1_spearman(&[1.0, 2.0]).is_err());
}

#[test]
fn correlated_neighbours_count_for_less() {
    for (lag1, expected) in [(0.0, 1000), (0.5, 333), (0.9, 52), (1.0, 1), (-0.5, 1000)] {
        assert_eq!(effective::effective_count(1000, lag1), expected, "at {lag1}");
    }
}

#[test]
fn goodness_of_fit_agrees_with_scipy() {
    for case in cases(&scipy(), "ks") {
        let ours = ks::exponential(&numbers(case, "gaps"), number(case, "mean")).unwrap();
        close(ours.distance, number(case, "distance"), 1e-12);
        close(ours.p, number(case, "p"), 0.01);
    }
    assert!(ks::exponential(&[1.0; ks::MIN_GAPS - 1], 1.0).is_err());
    assert!(ks::exponential(&[1.0; ks::MIN_GAPS], 0.0).is_err());
}
