//! How evenly something is shared.

/// Jain's index of the shares: 1 when all are alike, 1/n when one has everything; nothing when there are
/// no shares or all are zero.
///
/// Source: R. Jain, D. Chiu and W. Hawe, DEC Research Report TR-301, 1984.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}
