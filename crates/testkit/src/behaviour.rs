/// An instant that does not come.
pub const NEVER: u64 = u64::MAX;

/// When a server answers. Lengths are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// At once.
    Prompt,
    /// After the same time each.
    Delay {
        /// How long.
        by_ns: u64,
    },
    /// At once, but not at all in the first part of each period.
    Stall {
        /// The period, counted from the first request.
        every_ns: u64,
        /// The silent part of it.
        for_ns: u64,
    },
    /// At once until some time after the first request, then never again.
    Freeze {
        /// When.
        after_ns: u64,
    },
    /// At once, but every so many requests one is late; the others do not wait for it.
    Slow {
        /// Every how many requests.
        one_in: u64,
        /// How late.
        by_ns: u64,
    },
    /// One after the other, each taking its time.
    Queue {
        /// The time of one.
        service_ns: u64,
    },
}

/// A behaviour with what it must remember.
#[derive(Debug, Clone)]
pub struct Model {
    behaviour: Behaviour,
    first_ns: Option<u64>,
    count: u64,
    free_ns: u64,
}

impl Model {
    /// A server that has seen nothing yet.
    #[must_use]
    pub fn new(behaviour: Behaviour) -> Self {
        Self { behaviour, first_ns: None, count: 0, free_ns: 0 }
    }

    /// When the request that came at `at` is answered; [`NEVER`] if it is not.
    pub fn due(&mut self, at: u64) -> u64 {
        let since = at - *self.first_ns.get_or_insert(at);
        self.count += 1;
        match self.behaviour {
            Behaviour::Prompt => at,
            Behaviour::Delay { by_ns } => at + by_ns,
            Behaviour::Stall { every_ns, for_ns } => at + for_ns.saturating_sub(since % every_ns),
            Behaviour::Freeze { after_ns } if since >= after_ns => NEVER,
            Behaviour::Freeze { .. } => at,
            Behaviour::Slow { one_in, by_ns } if self.count.is_multiple_of(one_in) => at + by_ns,
            Behaviour::Slow { .. } => at,
            Behaviour::Queue { service_ns } => {
                self.free_ns = self.free_ns.max(at) + service_ns;
                self.free_ns
            }
        }
    }
}
