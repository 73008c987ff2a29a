//! The Universal Scalability Law: what contention and coherency cost as load grows.
//!
//! X(N) = λN / (1 + σ(N − 1) + κN(N − 1)).
//!
//! Source: N. Gunther, Guerrilla Capacity Planning, Springer 2007, ch. 4 and 5.

use crate::Error;
use crate::error::{all_positive, at_least};

/// Parameters of the law; with as many points as parameters every curve fits, so one more is asked for.
const PARAMETERS: usize = 3;

/// Largest relative error of a point at which the law is still said to describe the data.
pub const FIT_TOLERANCE: f64 = 0.10;

/// A pivot below this share of its column's size means that the points do not determine the parameters.
const SINGULAR: f64 = 1e-12;

/// The law fitted to measured points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// λ, throughput at N = 1, in the unit of the throughput given.
    pub lambda: f64,
    /// σ ≥ 0, contention: the share that is serial.
    pub sigma: f64,
    /// κ ≥ 0, coherency: what each pair costs.
    pub kappa: f64,
    /// Largest |predicted/measured − 1| of any point.
    pub worst_error: f64,
}

impl Usl {
    /// Throughput at concurrency `n`.
    pub fn throughput(&self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }

    /// Whether every point lies within [`FIT_TOLERANCE`] of the law. When not, the parameters describe
    /// nothing and should not be printed.
    pub fn fits(&self) -> bool {
        self.worst_error <= FIT_TOLERANCE
    }

    /// Concurrency of the highest throughput, or nothing when the law has no peak (κ = 0 or σ ≥ 1).
    pub fn peak(&self) -> Option<f64> {
        let peak = ((1.0 - self.sigma) / self.kappa).sqrt();
        (peak.is_finite() && peak > 0.0).then_some(peak)
    }
}

/// One measured point: concurrency and throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Concurrency N, at least 1: connections, threads or cores.
    pub n: f64,
    /// Throughput X, in any unit.
    pub throughput: f64,
}

/// Fits the law by least squares of the relative error, with σ and κ not below zero.
///
/// With a = 1/λ, b = σ/λ, c = κ/λ the law reads N/X = a + b(N − 1) + cN(N − 1), so that the sum of
/// (measured/predicted − 1)² is quadratic: the best fit is unique and needs no iteration. The bounds are met
/// by trying each of the four sets of parameters that may be zero.
///
/// # Errors
/// [`Error::TooFew`] under four points, [`Error::Degenerate`] when they do not determine the parameters (fewer
/// than three different N), a value that is not finite and positive.
pub fn fit(points: &[Point]) -> Result<Usl, Error> {
    at_least(points.len(), PARAMETERS + 1)?;
    all_positive(&points.iter().flat_map(|point| [point.n, point.throughput]).collect::<Vec<_>>())?;
    let rows: Vec<[f64; 3]> = points.iter().map(row).collect();
    let full = solve(&rows, &[0, 1, 2]).ok_or(Error::Degenerate)?;
    let fallbacks = [[0, 1].as_slice(), &[0, 2], &[0]];
    let solutions = std::iter::once(full).chain(fallbacks.iter().filter_map(|free| solve(&rows, free)));
    let feasible = solutions.filter(|[a, b, c]| *a > 0.0 && *b >= 0.0 && *c >= 0.0);
    let [a, b, c] = feasible
        .min_by(|left, right| squares(&rows, left).total_cmp(&squares(&rows, right)))
        .ok_or(Error::Degenerate)?;
    let mut law = Usl { lambda: 1.0 / a, sigma: b / a, kappa: c / a, worst_error: 0.0 };
    let error = |point: &Point| (law.throughput(point.n) / point.throughput - 1.0).abs();
    law.worst_error = points.iter().map(error).fold(0.0, f64::max);
    Ok(law)
}

/// One row of the linear system whose right side is 1.
fn row(point: &Point) -> [f64; 3] {
    let scale = point.throughput / point.n;
    [scale, scale * (point.n - 1.0), scale * point.n * (point.n - 1.0)]
}

fn squares(rows: &[[f64; 3]], solution: &[f64; 3]) -> f64 {
    rows.iter().map(|row| (dot(row, solution) - 1.0).powi(2)).sum()
}

fn dot(row: &[f64; 3], solution: &[f64; 3]) -> f64 {
    row.iter().zip(solution).map(|(left, right)| left * right).sum()
}

/// Least squares in the `free` columns, the others held at zero: orthogonalises the columns one after the
/// other (modified Gram–Schmidt), which loses fewer digits than the normal equations.
fn solve(rows: &[[f64; 3]], free: &[usize]) -> Option<[f64; 3]> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut upper = [[0.0; 3]; 3];
    for (step, &column) in free.iter().enumerate() {
        let mut vector: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        let size = product(&vector, &vector).sqrt();
        for (earlier, unit) in basis.iter().enumerate() {
            upper[earlier][step] = product(unit, &vector);
            vector.iter_mut().zip(unit).for_each(|(value, u)| *value -= upper[earlier][step] * u);
        }
        let length = product(&vector, &vector).sqrt();
        if length <= SINGULAR * size {
            return None;
        }
        upper[step][step] = length;
        basis.push(vector.into_iter().map(|value| value / length).collect());
    }
    let mut solution = [0.0; 3];
    for step in (0..free.len()).rev() {
        let known: f64 = (step + 1..free.len()).map(|later| upper[step][later] * solution[free[later]]).sum();
        solution[free[step]] = (basis[step].iter().sum::<f64>() - known) / upper[step][step];
    }
    Some(solution)
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}
