//! Limits on what a window of load must show for its figures to count. `load` warns by them; the gates of a comparison judge by them.

use super::LoadReport;

/// Share of requests that were sent once more, above which it is said: below it, no percentile up to the p99.9 shows it.
pub const MANY_RESENT: f64 = 0.001;
/// Share of the due requests that must be answered for a schedule to count as kept.
pub const MIN_RATE_RATIO: f64 = 0.99;
/// Busy share of the generator's CPUs from which on, with a schedule to keep, it begins to send late.
pub const GENERATOR_BUSY: f64 = 0.80;
/// Distance from Little's law, as a share of the requests in flight.
pub const MAX_LITTLE: f64 = 0.05;
/// Jain's index of fairness between connections, below which some were starved.
pub const MIN_JAIN: f64 = 0.9;
/// Send lag that no percentile of a network server can notice, in nanoseconds.
pub const SMALL_SEND_LAG_NS: f64 = 50_000.0;
/// Send lag as a share of the median response, below which it does not matter.
const SEND_LAG_SHARE: f64 = 0.05;

/// Returns the send lag, in nanoseconds, above which response times are charged with the generator's own delay: a share of their
/// median, but never less than [`SMALL_SEND_LAG_NS`].
#[must_use]
pub fn max_send_lag_ns(median_response_ns: f64) -> f64 {
    SMALL_SEND_LAG_NS.max(median_response_ns * SEND_LAG_SHARE)
}

/// The percentile of send lag that a schedule is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LagPercentile {
    /// Half of the requests left earlier.
    P50,
    /// Nine of ten requests left earlier.
    P90,
    /// 99 of a hundred did.
    P99,
}

impl LagPercentile {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
        }
    }

    /// Percentage of the requests that left at least this late.
    #[must_use]
    pub const fn later_percent(self) -> u32 {
        match self {
            Self::P50 => 50,
            Self::P90 => 10,
            Self::P99 => 1,
        }
    }
}

/// How late the latest of the requests left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendLagTail {
    /// The percentile.
    pub percentile: LagPercentile,
    /// How late, in nanoseconds.
    pub ns: f64,
}

impl LoadReport {
    /// Returns the p99 of send lag, or its p90 where the window has too few requests for a p99; nothing where it has too few for
    /// either.
    #[must_use]
    pub fn send_lag_tail(&self) -> Option<SendLagTail> {
        self.send_lag_at(LagPercentile::P99).or_else(|| self.send_lag_at(LagPercentile::P90))
    }

    /// Returns one percentile of send lag; nothing where the window has too few requests for it.
    #[must_use]
    pub fn send_lag_at(&self, percentile: LagPercentile) -> Option<SendLagTail> {
        let lag_ns = match percentile {
            LagPercentile::P50 => self.send_lag_ns.p50,
            LagPercentile::P90 => self.send_lag_ns.p90,
            LagPercentile::P99 => self.send_lag_ns.p99,
        };
        Some(SendLagTail { percentile, ns: lag_ns? as f64 })
    }

    /// Whether requests left when they were due and as many were answered as were due; nothing in a closed loop, or where there
    /// were too few to tell how late they left.
    ///
    /// A generator that is busy and yet sends on time has not changed what it measured.
    #[must_use]
    pub fn schedule_kept(&self) -> Option<bool> {
        let lag = self.send_lag_tail()?;
        let limit_ns = max_send_lag_ns(self.response_ns.p50.map_or(0.0, |ns| ns as f64));
        Some(self.rate_ratio? >= MIN_RATE_RATIO && lag.ns <= limit_ns)
    }
}
