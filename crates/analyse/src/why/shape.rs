//! The shape of the responses: where in time requests, and the time of requests, lie.

use std::collections::BTreeMap;

use record::Window;

/// Responses of all windows of an arm, by bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// Lower edge in nanoseconds → responses.
    buckets: BTreeMap<u64, u64>,
}

impl Shape {
    pub(crate) fn of(windows: &[&Window]) -> Self {
        let mut buckets = BTreeMap::new();
        for [edge, count] in windows.iter().flat_map(|window| &window.response_buckets) {
            *buckets.entry(*edge).or_default() += count;
        }
        Self { buckets }
    }

    /// Lower edge of the bucket below which this share of the responses lies; `None` without any.
    pub(crate) fn quantile_ns(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets.values().sum();
        let mut seen = 0;
        let mut reached = |count: u64| {
            seen += count;
            seen as f64 >= share * all as f64
        };
        self.buckets.iter().find(|(_, count)| reached(**count)).map(|(edge, _)| *edge)
    }

    /// Share of all waiting that was spent in responses of `from_ns` to `to_ns`, 0 to 1.
    pub(crate) fn share_of_time(&self, from_ns: u64, to_ns: u64) -> f64 {
        let time = |range: &mut dyn Iterator<Item = (&u64, &u64)>| -> f64 {
            range.map(|(edge, count)| *edge as f64 * *count as f64).sum()
        };
        let all = time(&mut self.buckets.iter());
        if all == 0.0 { 0.0 } else { time(&mut self.buckets.range(from_ns..to_ns)) / all }
    }

    /// Share of the responses of `from_ns` to `to_ns`, 0 to 1.
    pub(crate) fn share_of_requests(&self, from_ns: u64, to_ns: u64) -> f64 {
        let all: u64 = self.buckets.values().sum();
        let these: u64 = self.buckets.range(from_ns..to_ns).map(|(_, count)| count).sum();
        these as f64 / all.max(1) as f64
    }
}
