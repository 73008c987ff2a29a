//! The one shape of histogram: whatever is recorded here can be added to anything else recorded here.

use hdrhistogram::Histogram;

/// Latencies in nanoseconds.
pub type Latencies = Histogram<u64>;

/// Longest latency that is told from a longer one: a day.
const HIGHEST_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Significant decimal digits: 0.1 % is far below what two runs differ by.
const DIGITS: u8 = 3;

/// An empty histogram: 1 ns to 24 h at 3 digits, 300 KiB of which only the pages written to are ever resident.
#[must_use]
pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("the bounds are constants that fit")
}
