//! The one shape of histogram: whatever is recorded here can be added to anything else recorded here.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use hdrhistogram::{Counter, Histogram};

/// Latencies in nanoseconds.
pub type Latencies = Histogram<u64>;

/// Latencies of one second in nanoseconds: none of its counts needs more than 32 bits, and it takes half the memory.
pub type SecondLatencies = Histogram<u32>;

/// Longest latency that is kept apart from longer ones: a day.
const HIGHEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Significant decimal digits: 0.1 % is far below what two runs differ by.
const DIGITS: u8 = 3;

/// An empty histogram: 1 ns to 24 h at 3 digits, in 300 KiB.
#[must_use]
pub fn latencies() -> Latencies {
    empty()
}

fn empty<C: Counter>() -> Histogram<C> {
    Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("the bounds are constants that fit")
}

/// Adds latencies, of a second or of a longer time.
pub fn add_latencies<C: Counter>(sum: &mut Latencies, more: &Histogram<C>) {
    for step in more.iter_recorded() {
        sum.saturating_record_n(step.value_iterated_to(), step.count_at_value().as_u64());
    }
}

/// An empty histogram all of whose pages are there already, for recording on a path that must not wait.
///
/// The first touch of a page is a fault, and on a virtual machine whose host took the free memory back one that waits
/// for the host: up to milliseconds.
#[must_use]
pub(crate) fn resident<C: Counter>() -> Histogram<C> {
    let mut histogram = black_box(empty());
    histogram.reset();
    histogram
}

/// Histograms of seconds that were recorded to and read, for recording again.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<SecondLatencies>>);

impl Pool {
    /// A pool of so many.
    pub(crate) fn new(histograms: usize) -> Self {
        Self(Mutex::new((0..histograms).map(|_| resident()).collect()))
    }

    /// An empty one: one that was given back, if there is one.
    pub(crate) fn take(&self) -> SecondLatencies {
        let given = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        given.unwrap_or_else(resident)
    }

    /// Empties one and keeps it.
    pub(crate) fn give(&self, mut histogram: SecondLatencies) {
        histogram.reset();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_added_value_by_value() {
        let values = [1, 2_047, 2_048, 1_000_003, 86_400_000_000_000, u64::MAX];
        let (mut second, mut whole) = (empty::<u32>(), latencies());
        for (count, value) in (1..).zip(values) {
            second.saturating_record_n(value, count);
            whole.saturating_record_n(value, u64::from(count));
        }
        let mut sum = latencies();
        add_latencies(&mut sum, &second);
        assert_eq!(sum, whole);
        assert_eq!((sum.min(), sum.max(), sum.len()), (whole.min(), whole.max(), 21));
    }

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
