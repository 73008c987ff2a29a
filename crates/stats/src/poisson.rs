//! The error of a count of independent events, such as profile samples.

/// Standard error of a count: its square root.
pub fn standard_error(count: u64) -> f64 {
    (count as f64).sqrt()
}

/// Standard error relative to the count, 1/√count; infinite for zero.
pub fn relative_error(count: u64) -> f64 {
    1.0 / standard_error(count)
}
