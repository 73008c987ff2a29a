//! Bootstrap intervals of derived figures and the scalability law.

use stats::usl::{Point, Usl};
use stats::{Error, Rng, bootstrap, descriptive, usl};

use crate::fixture::{cases, close, number, numbers, scipy};

fn statistic(name: &str) -> fn(&[f64]) -> Option<f64> {
    if name == "mean" { descriptive::mean } else { descriptive::sd }
}

#[test]
fn bootstrap_intervals_agree_with_scipy() {
    for case in cases(&scipy(), "bootstrap") {
        let values = numbers(case, "values");
        let of = statistic(case["statistic"].as_str().unwrap());
        let over = |sample: &[&f64]| of(&sample.iter().map(|value| **value).collect::<Vec<_>>()).unwrap();
        let ours = bootstrap::bca(&values, over, 0.95, bootstrap::RESAMPLES, &mut Rng::seeded(4)).unwrap();
        let (low, high) = (number(case, "low"), number(case, "high"));
        assert_eq!(ours.value, of(&values).unwrap());
        // Both are random; SciPy drew twenty times as many.
        close(ours.interval.low, low, 0.03 * (high - low));
        close(ours.interval.high, high, 0.05 * (high - low));
    }
}

#[test]
fn bootstrap_draws_whole_blocks() {
    // The two figures of a block belong together: their ratio is 2 in every resample.
    let blocks: Vec<(f64, f64)> = (1..=12).map(|block| (f64::from(block), 2.0 * f64::from(block))).collect();
    let ratio = |sample: &[&(f64, f64)]| {
        sample.iter().map(|block| block.1).sum::<f64>() / sample.iter().map(|block| block.0).sum::<f64>()
    };
    let ours = bootstrap::bca(&blocks, ratio, 0.95, 500, &mut Rng::seeded(4)).unwrap();
    assert_eq!((ours.value, ours.interval.low, ours.interval.high), (2.0, 2.0, 2.0));
}

#[test]
fn an_interval_stays_finite_when_all_resamples_lie_on_one_side() {
    let blocks: Vec<u32> = (0..30).collect();
    let distinct = |sample: &[&u32]| sample.iter().collect::<std::collections::BTreeSet<_>>().len() as f64;
    let ours = bootstrap::bca(&blocks, distinct, 0.95, 300, &mut Rng::seeded(4)).unwrap();
    assert_eq!(ours.value, 30.0);
    assert!(ours.interval.low < ours.interval.high && ours.interval.high < 30.0, "{ours:?}");
}

#[test]
fn bootstrap_refuses_what_it_cannot_answer() {
    let mut rng = Rng::seeded(4);
    let mean = |sample: &[&f64]| sample.iter().copied().sum::<f64>() / sample.len() as f64;
    assert!(bootstrap::bca(&[1.0, 2.0], mean, 0.95, 100, &mut rng).is_err());
    assert!(bootstrap::bca(&[1.0, 2.0, 3.0], mean, 0.95, 0, &mut rng).is_err());
    assert_eq!(bootstrap::bca(&[1.0; 3], |_| f64::NAN, 0.95, 10, &mut rng), Err(Error::Degenerate));
}

fn points(n: &[f64], throughput: &[f64]) -> Vec<Point> {
    n.iter().zip(throughput).map(|(n, throughput)| Point { n: *n, throughput: *throughput }).collect()
}

#[test]
fn the_scalability_law_agrees_with_scipy() {
    for case in cases(&scipy(), "usl") {
        let ours = usl::fit(&points(&numbers(case, "n"), &numbers(case, "throughput"))).unwrap();
        close(ours.lambda, number(case, "lambda"), 1e-9);
        close(ours.sigma, number(case, "sigma"), 1e-9);
        close(ours.kappa, number(case, "kappa"), 1e-9);
    }
}

#[test]
fn a_fit_knows_its_peak_and_when_it_is_none() {
    let law = Usl { lambda: 100.0, sigma: 0.05, kappa: 0.002, worst_error: 0.0 };
    let n = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    let exact = usl::fit(&points(&n, &n.map(|n| law.throughput(n)))).unwrap();
    assert!(exact.fits() && exact.worst_error < 1e-12);
    close(exact.peak().unwrap(), (0.95_f64 / 0.002).sqrt(), 1e-9);
    let linear = usl::fit(&points(&n, &n.map(|n| 10.0 * n))).unwrap();
    assert!(linear.fits() && linear.sigma < 1e-9, "{linear:?}");
    let sawtooth = usl::fit(&points(&n, &[100.0, 50.0, 300.0, 80.0, 900.0, 100.0])).unwrap();
    assert!(!sawtooth.fits(), "{sawtooth:?}");
    let superlinear = usl::fit(&points(&n, &n.map(|n| 10.0 * n * n))).unwrap();
    assert!(!superlinear.fits() && superlinear.peak().is_none(), "{superlinear:?}");
}

#[test]
fn a_fit_needs_enough_different_points() {
    assert!(usl::fit(&points(&[1.0, 2.0, 4.0], &[1.0, 2.0, 3.0])).is_err());
    assert_eq!(usl::fit(&points(&[1.0, 1.0, 2.0, 2.0], &[1.0, 1.1, 2.0, 2.1])), Err(Error::Degenerate));
    assert!(usl::fit(&points(&[1.0, 2.0, 4.0, 8.0], &[1.0, 2.0, 3.0, 0.0])).is_err());
}
