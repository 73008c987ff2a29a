/// Requests in flight as an area over time, the left side of Little's law.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    /// Requests in flight.
    pub(super) now: i64,
    last_ns: u64,
    area: u128,
}

impl Occupancy {
    #[inline]
    pub(super) fn add(&mut self, at: u64, change: i64) {
        self.area += u128::from(at.saturating_sub(self.last_ns)) * self.now as u128;
        self.last_ns = self.last_ns.max(at);
        self.now += change;
    }

    pub(super) fn restart(&mut self, at: u64) {
        (self.area, self.last_ns) = (0, at);
    }

    pub(super) fn area_until(&mut self, end: u64) -> u128 {
        self.add(end, 0);
        self.area
    }
}
