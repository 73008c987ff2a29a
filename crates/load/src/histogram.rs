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

/// Longest latency for which a histogram on a path that must not wait has its pages: 2^30 ns, a little more than a second. Where a
/// longer one comes, the page that is waited for is the smaller part of it.
const RESIDENT_NS: u64 = (1 << 30) - 1;

/// An empty histogram of 1 ns to 24 h at 3 digits. It is as large as the longest latency in it asks for: 300 KiB at most.
#[must_use]
pub fn latencies() -> Latencies {
    empty(2)
}

fn empty<C: Counter>(highest_ns: u64) -> Histogram<C> {
    let mut histogram =
        Histogram::new_with_bounds(1, highest_ns, DIGITS).expect("the bounds are constants that fit");
    histogram.auto(true);
    histogram
}

/// Recording, of whatever length a latency is.
pub(crate) trait Record<C> {
    /// Records a latency.
    fn note(&mut self, ns: u64);

    /// Records one that came so often.
    fn note_n(&mut self, ns: u64, count: C);
}

impl<C: Counter> Record<C> for Histogram<C> {
    fn note(&mut self, ns: u64) {
        if ns <= self.high() {
            self.saturating_record(ns);
        } else {
            self.note_n(ns, C::one());
        }
    }

    fn note_n(&mut self, ns: u64, count: C) {
        self.record_n(ns.min(HIGHEST_NS), count).expect("it grows as far as a day");
    }
}

/// Adds latencies, of a second or of a longer time.
pub fn add_latencies<C: Counter>(sum: &mut Latencies, more: &Histogram<C>) {
    for step in more.iter_recorded() {
        sum.note_n(step.value_iterated_to(), step.count_at_value().as_u64());
    }
}

/// An empty histogram all of whose pages are there already, for recording on a path that must not wait.
///
/// The first touch of a page is a fault, and on a virtual machine whose host took the free memory back one that waits
/// for the host: up to milliseconds.
#[must_use]
pub(crate) fn resident<C: Counter>() -> Histogram<C> {
    let mut histogram = black_box(empty(RESIDENT_NS));
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
        let values = [0, 1, 2_047, 2_048, 1_000_003, 86_400_000_000_000, u64::MAX];
        let (mut second, mut whole) = (resident::<u32>(), latencies());
        for (count, value) in (1..).zip(values) {
            second.note_n(value, count);
            whole.note_n(value, u64::from(count));
        }
        let mut sum = latencies();
        add_latencies(&mut sum, &second);
        assert_eq!(sum, whole);
        assert_eq!((sum.min(), sum.max(), sum.len()), (whole.min(), whole.max(), 28));
    }

    #[test]
    fn a_histogram_grows_with_what_it_holds() {
        let mut some = latencies();
        let counters = |some: &Latencies| some.distinct_values();
        let small = counters(&some);
        some.note(1_000_000);
        assert!(counters(&some) < counters(&resident::<u64>()));
        some.note(u64::MAX);
        assert_eq!((small, counters(&some)), (2048, 38 * 1024), "a day and no more");
        assert_eq!(some.value_at_quantile(1.0), some.highest_equivalent(HIGHEST_NS));
    }

    #[test]
    fn what_is_given_back_is_lent_empty_and_not_made_anew() {
        let pool = Pool::new(1);
        let mut lent = pool.take();
        lent.note(5);
        pool.give(lent);
        assert!(pool.take().is_empty());
        assert!(pool.0.lock().unwrap().is_empty(), "the one there was is lent");
        assert!(pool.take().is_empty(), "a new one where none is left");
    }
}
