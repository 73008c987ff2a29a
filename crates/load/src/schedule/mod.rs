//! When requests are due: values that yield intended instants and know nothing of what happened.
//!
//! An arrival process is a unit-rate process (the whole numbers, or a Poisson process of rate one) whose instants
//! are mapped through the inverse of the cumulative rate. Constant, Poisson, ramp and steps are then two
//! independent choices instead of a list of loops.
//!
//! Source: Çinlar, "Introduction to Stochastic Processes", 1975, chapter 4.7 (time change of a Poisson process).

mod intensity;

use model::plan::SplitMix64;
use serde::{Deserialize, Serialize};

pub use intensity::{Intensity, Step};

/// An instant that stands for "as soon as a connection is free": in a closed loop, intended is sent.
pub const AT_ONCE: u64 = 0;

/// When requests are due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Each connection asks again as soon as it is answered.
    Closed,
    /// At intended instants, whatever happens.
    Open {
        /// How many each second.
        intensity: Intensity,
        /// How they are spread.
        arrival: Arrival,
        /// Who serves them.
        dispatch: Dispatch,
    },
}

impl Pace {
    /// A constant rate of `per_s` requests each second, served by any idle connection.
    #[must_use]
    pub fn open(per_s: f64, arrival: Arrival) -> Self {
        Self::Open { intensity: Intensity::Flat { per_s }, arrival, dispatch: Dispatch::Shared }
    }

    /// The same at one rate for ever, to warm up with.
    #[must_use]
    pub fn steady(&self) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Open { intensity, arrival, dispatch } => Self::Open {
                intensity: Intensity::Flat { per_s: intensity.warmup_per_s() },
                arrival: *arrival,
                dispatch: *dispatch,
            },
        }
    }
}

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrival {
    /// Evenly.
    Constant,
    /// As those of independent users: a Poisson process.
    Poisson,
}

/// Who serves an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dispatch {
    /// Any idle connection.
    Shared,
    /// The connection whose turn it is, as in wrk2: it waits for that one even when others are idle.
    Connection,
}

/// The arrivals of one part among many: of all arrivals 0, 1, 2, … those with k mod `parts` = `part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which one, from 0.
    pub part: u64,
    /// How many there are.
    pub parts: u64,
}

impl Part {
    /// How many of the first `all` arrivals are of this part.
    #[must_use]
    pub const fn share(self, all: u64) -> u64 {
        if all > self.part { (all - self.part).div_ceil(self.parts) } else { 0 }
    }

    /// Of this part, arrival j goes to part `index` if j mod `of` is `index`.
    #[must_use]
    pub const fn split(self, index: u64, of: u64) -> Self {
        Self { part: self.part + index * self.parts, parts: self.parts * of }
    }
}

/// Yields the intended instants of one part, in nanoseconds since the schedule's origin, never falling.
///
/// It ends where the intensity falls to zero for good.
#[derive(Debug, Clone)]
pub struct Schedule {
    intensity: Intensity,
    unit: Unit,
    part: Part,
    /// Index of the next arrival over all parts.
    next: u64,
}

/// A unit-rate process.
#[derive(Debug, Clone)]
enum Unit {
    Constant,
    Poisson { random: SplitMix64, sum: f64 },
}

impl Schedule {
    /// The part `part` of the arrivals. Every part of the same seed draws the same arrivals and keeps its own.
    #[must_use]
    pub fn new(intensity: Intensity, arrival: Arrival, seed: u64, part: Part) -> Self {
        let unit = match arrival {
            Arrival::Constant => Unit::Constant,
            Arrival::Poisson => Unit::Poisson { random: SplitMix64::fork(seed, "arrivals", 0), sum: 0.0 },
        };
        Self { intensity, unit, part, next: 0 }
    }

    /// The arrivals of one connection with a schedule of its own.
    ///
    /// Constant ones take turns. Poisson ones are independent of those of other parts, so that not every connection
    /// draws the arrivals of all: together they are a Poisson process again.
    #[must_use]
    pub fn of_connection(intensity: &Intensity, arrival: Arrival, seed: u64, part: Part) -> Self {
        match arrival {
            Arrival::Constant => Self::new(intensity.clone(), arrival, seed, part),
            Arrival::Poisson => {
                let seed = SplitMix64::fork(seed, "connection", part.part).next_u64();
                let intensity = intensity.scaled(1.0 / part.parts as f64);
                Self::new(intensity, arrival, seed, Part { part: 0, parts: 1 })
            }
        }
    }

    /// The instant of the next arrival over all parts in the unit-rate process.
    fn step(&mut self) -> f64 {
        self.next += 1;
        match &mut self.unit {
            Unit::Constant => (self.next - 1) as f64,
            Unit::Poisson { random, sum } => {
                // The complement lies in (0, 1], so that the logarithm is finite.
                *sum -= (1.0 - random.unit()).ln();
                *sum
            }
        }
    }

    /// Passes over the arrivals of other parts.
    fn skip_others(&mut self) {
        let Part { part, parts } = self.part;
        let others = (part + parts - self.next % parts) % parts;
        match self.unit {
            Unit::Constant => self.next += others,
            Unit::Poisson { .. } => (0..others).for_each(|_| {
                self.step();
            }),
        }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.skip_others();
        let unit = self.step();
        self.intensity.instant_s(unit).map(|seconds| (seconds * 1e9) as u64)
    }
}
