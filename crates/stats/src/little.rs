//! Little's law as a check on a measurement.

/// Relative residual of Little's law, rate × mean latency / in flight − 1: zero when the figures agree.
///
/// `rate_per_s` completed requests a second, `mean_latency_s` in seconds, `in_flight` requests (in a closed
/// loop: connections × depth). Not finite when `in_flight` is zero.
///
/// Source: J. Little, A proof for the queuing formula L = λW, Oper. Res. 9(3), 1961.
pub fn residual(rate_per_s: f64, mean_latency_s: f64, in_flight: f64) -> f64 {
    rate_per_s * mean_latency_s / in_flight - 1.0
}
