/// Requests in flight as an area over time, the left side of Little's law.
///
/// A request that is in flight from `at` on adds the time from there to the end, and one less takes it away again: the
/// order in which this is told does not matter, for an answer may be read after later requests were sent.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    /// Requests in flight.
    pub(super) now: i64,
    start_ns: u64,
    /// Minus the sum of all changes, each times its instant.
    moment: i128,
}

impl Occupancy {
    #[inline]
    pub(super) fn add(&mut self, at: u64, change: i64) {
        self.moment -= i128::from(change) * i128::from(at.max(self.start_ns));
        self.now += change;
    }

    pub(super) fn restart(&mut self, at: u64) {
        (self.start_ns, self.moment) = (at, -i128::from(self.now) * i128::from(at));
    }

    pub(super) fn area_until(&self, end: u64) -> u128 {
        u128::try_from(self.moment + i128::from(self.now) * i128::from(end)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_does_not_depend_on_the_order_of_the_telling() {
        let mut in_order = Occupancy::default();
        in_order.add(3, 1);
        in_order.restart(10);
        [(20, 1), (25, -1), (30, 1), (50, -1)].into_iter().for_each(|(at, change)| in_order.add(at, change));
        let mut late = Occupancy::default();
        late.add(3, 1);
        late.restart(10);
        [(20, 1), (30, 1), (25, -1), (50, -1)].into_iter().for_each(|(at, change)| late.add(at, change));
        // One from 10 on, a second from 20 to 25 and from 30 to 50.
        assert_eq!((in_order.area_until(100), late.area_until(100)), (90 + 5 + 20, 90 + 5 + 20));
    }
}
