use model::record::{Slice, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::verdict::HigherIs;

/// What is compared. The names are those of the JSON output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Server CPU per completed request.
    CpuPerRequest,
    /// Completed requests per second in a closed loop.
    Rate,
    /// Median response at an equal rate.
    P50,
    /// 90 % response at an equal rate.
    P90,
    /// 99 % response at an equal rate.
    P99,
    /// 99.9 % response at an equal rate.
    #[serde(rename = "p99_9")]
    P999,
    /// Largest resident set.
    Rss,
}

impl Metric {
    /// All metrics: the declared primary ones first.
    pub const ALL: [Self; 7] =
        [Self::CpuPerRequest, Self::Rate, Self::P50, Self::P90, Self::P99, Self::P999, Self::Rss];

    /// The metrics whose verdicts decide a run; the rest is exploratory.
    pub const PRIMARY: [Self; 2] = [Self::CpuPerRequest, Self::Rate];

    /// The primary metrics if the CPU time of an arm is not known. The median is the percentile of the response that varies
    /// least.
    pub const PRIMARY_UNSEEN: [Self; 2] = [Self::Rate, Self::P50];

    /// The metric that the JSON calls `name`; a point stands for an underscore.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        serde_json::from_value(serde_json::Value::String(name.replace('.', "_"))).ok()
    }

    /// Whether the metric is one of [`Metric::PRIMARY`].
    #[must_use]
    pub fn is_primary(self) -> bool {
        Self::PRIMARY.contains(&self)
    }

    /// Whether the metric is a percentile of the response. Those are compared only at equal rates.
    #[must_use]
    pub fn is_latency(self) -> bool {
        matches!(self, Self::P50 | Self::P90 | Self::P99 | Self::P999)
    }

    /// The share of the responses that are quicker, of a percentile.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::CpuPerRequest | Self::Rate | Self::Rss => None,
        }
    }

    /// The relative difference that matters.
    #[must_use]
    pub fn delta(self) -> f64 {
        match self {
            Self::CpuPerRequest | Self::Rate => 0.02,
            Self::P50 | Self::P90 => 0.03,
            Self::P99 | Self::Rss => 0.05,
            Self::P999 => 0.10,
        }
    }

    /// The smallest relative difference that is reported as slower or faster, however certain it is.
    #[must_use]
    pub fn least(self) -> f64 {
        match self {
            Self::CpuPerRequest | Self::Rate => 0.0025,
            other => other.delta() / 2.0,
        }
    }

    /// The metric's value in one slice; absent for metrics that a slice cannot give: percentiles need the answers of a whole
    /// block.
    #[must_use]
    pub fn of_slice(self, slice: &Slice) -> Option<f64> {
        let value = match self {
            Self::CpuPerRequest => slice.cpu_ns as f64 / slice.requests as f64,
            Self::Rate => slice.rate_per_s(),
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Rss => return None,
        };
        Some(value).filter(|value| value.is_finite() && *value > 0.0)
    }

    /// What a larger value means.
    #[must_use]
    pub fn higher_is(self) -> HigherIs {
        if self == Self::Rate { HigherIs::Better } else { HigherIs::Worse }
    }

    /// The name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::CpuPerRequest => "CPU per request",
            Self::Rate => "rate",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Rss => "memory",
        }
    }

    /// The metric's value in one window, in nanoseconds, bytes or per second; absent if the window cannot give it.
    #[must_use]
    pub fn value_in(self, window: &Window) -> Option<f64> {
        let response = &window.load.response_ns;
        let latency = |percentile: Option<u64>| percentile.map(|ns| ns as f64);
        let value = match self {
            Self::CpuPerRequest => per_request(window, window.target.cpu.total_ns),
            Self::Rate => Some(rate_per_s(window)),
            Self::P50 => latency(response.p50),
            Self::P90 => latency(response.p90),
            Self::P99 => latency(response.p99),
            Self::P999 => latency(response.p99_9),
            Self::Rss => Some(window.target.rss_peak_bytes as f64),
        };
        value.filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// Answers per second in all turns of a window.
fn rate_per_s(window: &Window) -> f64 {
    let slices = window.slices.iter().map(Slice::rate_per_s).collect::<Vec<_>>();
    let few = window.slices.iter().any(Slice::has_few);
    stats::descriptive::mean(&slices).filter(|_| few).unwrap_or(window.load.rate_per_s)
}

/// A count of the target over the observer's readings, as it belongs to the requests that the generator counted.
///
/// Turns are read while nothing is under way: the count is that of their requests. Runs of before arms took turns were read
/// in the middle of the load; the two intervals differ by the observer's delay there, so the count is taken as a rate.
pub(crate) fn in_window(window: &Window, count: u64) -> f64 {
    if !window.slices.is_empty() {
        return count as f64;
    }
    count as f64 * window.load.window_ns as f64 / window.target.wall_ns.max(1) as f64
}

/// A count of the target per request completed in the window.
#[must_use]
pub fn per_request(window: &Window, count: u64) -> Option<f64> {
    (window.load.requests > 0).then(|| in_window(window, count) / window.load.requests as f64)
}
