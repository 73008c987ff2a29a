//! Lists of requests: weighted, or an access log that is replayed with its own timing.

mod access_log;
mod weighted;

use std::sync::Arc;

use model::plan::SplitMix64;

use crate::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use crate::session::{Batch, Feed, FeedError};
use crate::{LoadError, Request};

/// Requests at most in a list: a day's log of a busy server, rendered in memory.
pub const MAX_ENTRIES: usize = 10_000_000;

/// Requests to choose from. Which one arrival k gets depends on k and the seed alone, so that shards and threads send
/// together what one alone would send.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Rendered requests; what a log asks for again is here once.
    requests: Vec<Vec<u8>>,
    order: Order,
    /// Lines of a log that hold no request: their clients connected and said nothing that was HTTP.
    pub skipped: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Order {
    /// Drawn at random; up to which part of 1 each request has its share.
    Drawn { up_to: Vec<f64> },
    /// One after the other.
    Logged {
        /// Which request each arrival is.
        sequence: Vec<u32>,
        /// When each is due, in seconds after the first, never falling.
        instants_s: Arc<[f64]>,
    },
}

impl List {
    /// Reads lines of `[WEIGHT] [METHOD] PATH`. A line without method is `template` with another path; one with a
    /// method has the template's fields, and its body if the method is POST, PUT or PATCH. Blank lines and those that
    /// begin with `#` are passed over.
    ///
    /// # Errors
    /// [`LoadError::List`] with the number of the line.
    pub fn weighted(text: &str, template: &Request) -> Result<Self, LoadError> {
        let (mut requests, mut weights) = (Vec::new(), Vec::new());
        for (number, line) in lines(text) {
            let (weight, request) = weighted::entry(line, template).map_err(at(number))?;
            requests.push(request.render().map_err(|error| at(number)(error.to_string()))?);
            weights.push(weight);
            limit(requests.len(), number)?;
        }
        Self::by_weight(requests, weights)
    }

    /// Requests drawn at random by weight.
    ///
    /// # Errors
    /// [`LoadError::List`] where no weight is above 0, [`LoadError::Request`] for a request that cannot be sent.
    pub fn drawn(entries: impl Iterator<Item = (f64, Request)>) -> Result<Self, LoadError> {
        let (mut requests, mut weights) = (Vec::new(), Vec::new());
        for (weight, request) in entries {
            requests.push(request.render()?);
            weights.push(weight);
        }
        Self::by_weight(requests, weights)
    }

    fn by_weight(requests: Vec<Vec<u8>>, weights: Vec<f64>) -> Result<Self, LoadError> {
        let whole: f64 = weights.iter().sum();
        if requests.is_empty() || !whole.is_finite() || whole <= 0.0 {
            return Err(at(0)("it has no request with a weight above 0".to_owned()));
        }
        let mut sum = 0.0;
        let share = |weight: f64| {
            sum += weight / whole;
            sum
        };
        let order = Order::Drawn { up_to: weights.into_iter().map(share).collect() };
        Ok(Self { requests, order, skipped: 0 })
    }

    /// Reads an access log in common or combined format. Each line is a request with the template's fields, due
    /// after the first as much later as the log says, divided by `speed`. A log tells whole seconds: what falls
    /// into the same one is spread over it evenly.
    ///
    /// # Errors
    /// [`LoadError::List`] with the number of the line.
    pub fn access_log(text: &str, template: &Request, speed: f64) -> Result<Self, LoadError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(LoadError::Config("the speed of a replay must be above 0"));
        }
        let (mut seconds, mut skipped) = (Vec::new(), 0);
        let mut known = access_log::Known::default();
        for (number, line) in lines(text) {
            let Some((second, request)) = access_log::entry(line, template).map_err(at(number))? else {
                skipped += 1;
                continue;
            };
            let index = known.index(&request).map_err(|error| at(number)(error.to_string()))?;
            seconds.push((second, index));
            limit(seconds.len(), number)?;
        }
        if seconds.is_empty() {
            return Err(at(0)("it has no request".to_owned()));
        }
        // A server writes a line when it has answered: requests that took longer come later than they were sent.
        seconds.sort_by_key(|(second, _)| *second);
        let instants_s = access_log::spread(&seconds, speed);
        let sequence = seconds.into_iter().map(|(_, index)| index).collect();
        let order = Order::Logged { sequence, instants_s: instants_s.into() };
        Ok(Self { requests: known.rendered, order, skipped })
    }

    /// The schedule that goes with the list, if it has one of its own.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        match &self.order {
            Order::Drawn { .. } => None,
            Order::Logged { instants_s, .. } => Some(Pace::Open {
                intensity: Intensity::Recorded(Arc::clone(instants_s)),
                arrival: Arrival::Constant,
                dispatch: Dispatch::Shared,
            }),
        }
    }

    /// When the last request is due, in seconds after the first, if the list says.
    #[must_use]
    pub fn lasts_s(&self) -> Option<f64> {
        match &self.order {
            Order::Drawn { .. } => None,
            Order::Logged { instants_s, .. } => instants_s.last().copied(),
        }
    }

    /// How many requests there are, if the list says when each is due and all are within the first `window_s` seconds.
    #[must_use]
    pub fn whole_within(&self, window_s: f64) -> Option<u64> {
        match &self.order {
            Order::Logged { instants_s, .. } if self.lasts_s() < Some(window_s) => {
                Some(instants_s.len() as u64)
            }
            _ => None,
        }
    }

    /// The request of arrival `k`.
    fn request(&self, seed: u64, k: u64) -> &[u8] {
        let index = match &self.order {
            Order::Drawn { up_to } => {
                let drawn = SplitMix64::fork(seed, "requests", k).unit();
                // The sum of the shares may fall short of 1 by a rounding.
                up_to.partition_point(|edge| *edge <= drawn).min(up_to.len() - 1)
            }
            // Only a request that is sent again asks for more than there are.
            Order::Logged { sequence, .. } => sequence[(k % sequence.len() as u64) as usize] as usize,
        };
        &self.requests[index]
    }
}

/// What one worker takes from a list.
#[derive(Debug)]
pub(crate) struct ListFeed {
    list: Arc<List>,
    seed: u64,
    part: Part,
    next: u64,
}

impl ListFeed {
    pub(crate) fn new(list: Arc<List>, seed: u64, part: Part) -> Self {
        Self { list, seed, part, next: part.part }
    }
}

impl Feed for ListFeed {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        batch.push(self.list.request(self.seed, self.next));
        self.next += self.part.parts;
        Ok(())
    }

    fn window_begins(&mut self) {
        self.next = self.part.part;
    }
}

/// The lines that count, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn at(line: usize) -> impl Fn(String) -> LoadError {
    move |why| LoadError::List { line, why }
}

fn limit(entries: usize, line: usize) -> Result<(), LoadError> {
    if entries <= MAX_ENTRIES {
        return Ok(());
    }
    Err(at(line)(format!("there are more than {MAX_ENTRIES} requests: give a part of them")))
}
