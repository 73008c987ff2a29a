/// Two instants of one request in flight, on the monotonic clock in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) intended_ns: u64,
    pub(crate) sent_ns: u64,
}

impl Stamp {
    /// Of a request that is due then and was never sent.
    #[inline]
    pub(crate) fn due(intended_ns: u64) -> Self {
        Self { intended_ns, sent_ns: 0 }
    }
}

/// The stamps of all requests in flight: one ring for each connection, in one allocation made before the run.
#[derive(Debug)]
pub(crate) struct Rings {
    stamps: Box<[Stamp]>,
    depth: u32,
}

/// Where the requests of one connection lie in its ring.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    first: u32,
    /// Requests assigned to the connection and not answered.
    pub(crate) held: u32,
}

impl Rings {
    pub(crate) fn new(lanes: usize, depth: u32) -> Self {
        Self { stamps: vec![Stamp::default(); lanes * depth as usize].into(), depth }
    }

    /// The stamp of the request that `nth` others of its connection were assigned before.
    #[inline]
    pub(crate) fn at(&mut self, lane: u32, cursor: Cursor, nth: u32) -> &mut Stamp {
        let place = cursor.first + nth;
        let place = if place >= self.depth { place - self.depth } else { place };
        &mut self.stamps[lane as usize * self.depth as usize + place as usize]
    }

    #[inline]
    pub(crate) fn push(&mut self, lane: u32, cursor: &mut Cursor, stamp: Stamp) {
        cursor.held += 1;
        *self.at(lane, *cursor, cursor.held - 1) = stamp;
    }

    #[inline]
    pub(crate) fn pop(&mut self, lane: u32, cursor: &mut Cursor) -> Stamp {
        let stamp = *self.at(lane, *cursor, 0);
        cursor.held -= 1;
        cursor.first = if cursor.first + 1 == self.depth { 0 } else { cursor.first + 1 };
        stamp
    }
}
