/// Parts into which a window is cut to see whether it drifts: enough for a rank test, each long enough to mean something.
pub const SLICES: usize = 10;

/// One tenth of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Slice {
    /// Requests completed.
    pub requests: u64,
    /// Sum of the binary logarithms of their responses, in 1/65536.
    pub log_sum: u64,
}

impl Slice {
    /// Geometric mean of the responses in nanoseconds, to 6 %; `None` without any.
    #[must_use]
    pub fn typical_ns(&self) -> Option<f64> {
        (self.requests > 0)
            .then(|| (self.log_sum as f64 / self.requests as f64 / f64::from(1 << LOG_BITS)).exp2())
    }
}

/// Fractional bits of a logarithm.
const LOG_BITS: u32 = 16;

/// Requests and responses in tenths of a window.
#[derive(Debug, Clone)]
pub struct Drift {
    /// The tenths.
    pub slices: [Slice; SLICES],
    current: usize,
    slice_ns: u64,
    slice_end_ns: u64,
}

impl Drift {
    pub(crate) fn new(start_ns: u64, end_ns: u64) -> Self {
        let slice_ns = (end_ns.saturating_sub(start_ns) / SLICES as u64).max(1);
        Self {
            slices: [Slice::default(); SLICES],
            current: 0,
            slice_ns,
            slice_end_ns: start_ns.saturating_add(slice_ns),
        }
    }

    #[inline]
    pub(crate) fn note(&mut self, done: u64, response_ns: u64) {
        while done > self.slice_end_ns && self.current + 1 < SLICES {
            self.current += 1;
            self.slice_end_ns = self.slice_end_ns.saturating_add(self.slice_ns);
        }
        let slice = &mut self.slices[self.current];
        slice.requests += 1;
        slice.log_sum += log2(response_ns);
    }
}

/// The binary logarithm, linear between powers of two, in 1/65536: monotone, and cheaper than the true one.
#[inline]
fn log2(value: u64) -> u64 {
    let value = value.max(1);
    let whole = value.ilog2();
    let fraction = (value << (63 - whole)) << 1 >> (64 - LOG_BITS);
    u64::from(whole) << LOG_BITS | fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_of_two_and_monotone_between() {
        for power in 0..63 {
            assert_eq!(log2(1 << power), (power as u64) << LOG_BITS);
        }
        assert!((1..100_000u64).map(log2).is_sorted());
        let slice = Slice { requests: 2, log_sum: log2(1 << 10) + log2(1 << 20) };
        assert_eq!(slice.typical_ns(), Some(f64::from(1 << 15)));
    }

    #[test]
    fn requests_fall_into_their_tenth() {
        let mut drift = Drift::new(1000, 2000);
        [1001, 1100, 1101, 1950, 5000].into_iter().for_each(|done| drift.note(done, 8));
        let counts = drift.slices.map(|slice| slice.requests);
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
    }
}
