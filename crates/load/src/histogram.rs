//! The one shape of histogram: whatever is recorded here can be added to anything else recorded here.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

/// Latencies in nanoseconds.
pub type Latencies = Histogram<u64>;

/// Longest latency that is kept apart from longer ones: a day.
const HIGHEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Significant decimal digits: 0.1 % is far below what two runs differ by.
const DIGITS: u8 = 3;

/// An empty histogram: 1 ns to 24 h at 3 digits, 300 KiB of which only the pages written to are ever resident.
#[must_use]
pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("the bounds are constants that fit")
}

/// An empty histogram all of whose pages are there already, for recording on a path that must not wait.
///
/// The first touch of a page is a fault, and on a virtual machine whose host took the free memory back one that waits
/// for the host: up to milliseconds.
#[must_use]
pub(crate) fn resident() -> Latencies {
    let mut histogram = black_box(latencies());
    histogram.reset();
    histogram
}

/// Histograms that were recorded to and read, for recording again.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Latencies>>);

impl Pool {
    /// A pool of so many.
    pub(crate) fn new(histograms: usize) -> Self {
        Self(Mutex::new((0..histograms).map(|_| resident()).collect()))
    }

    /// An empty one: one that was given back, if there is one.
    pub(crate) fn take(&self) -> Latencies {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        given.unwrap_or_else(resident)
    }

    /// Empties one and keeps it.
    pub(crate) fn give(&self, mut histogram: Latencies) {
        histogram.reset();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_is_lent_empty_and_not_made_anew() {
        let pool = Pool::new(1);
        let mut lent = pool.take();
        lent.saturating_record(5);
        pool.give(lent);
        assert!(pool.take().is_empty());
        assert!(pool.0.lock().unwrap().is_empty(), "the one there was is lent");
        assert!(pool.take().is_empty(), "a new one where none is left");
    }
}
