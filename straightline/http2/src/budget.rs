//! So many in a second.

/// Allows so many events a second, and as many at once after a second without any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    per_s: u64,
    /// What is left, in billionths of an event.
    left: u64,
    since_ns: u64,
}

const WHOLE: u64 = 1_000_000_000;

impl Budget {
    pub(crate) fn new(per_s: u32, now_ns: u64) -> Self {
        let per_s = u64::from(per_s);
        Self { per_s, left: per_s * WHOLE, since_ns: now_ns }
    }

    /// Takes one; `false` if there is none left.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns.max(self.since_ns);
        self.left = self.left.saturating_add(passed_ns.saturating_mul(self.per_s)).min(self.per_s * WHOLE);
        let Some(left) = self.left.checked_sub(WHOLE) else { return false };
        self.left = left;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn what_was_not_taken_in_a_second_can_be_taken_at_once_and_no_more() {
        let mut budget = Budget::new(3, 0);
        let taken = |budget: &mut Budget, now_ns| (0..10).filter(|_| budget.take(now_ns)).count();
        assert_eq!(taken(&mut budget, 0), 3);
        assert_eq!(taken(&mut budget, 400_000_000), 1);
        assert_eq!(taken(&mut budget, 60_000_000_000), 3);
        assert_eq!(taken(&mut budget, 0), 0, "time does not go back");
    }
}
