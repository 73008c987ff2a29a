//! The search for the highest rate at which a condition holds: which rate to try next.
//!
//! Three phases: double the rate until the condition fails, halve the gap on a logarithmic scale until it is narrow
//! enough, then confirm the highest rate that held in a longer window; what is not confirmed counts as failed. The
//! search knows no clock and no server, so that it is tested against made-up ones.

/// Factor between the tries of the first phase.
const GROWTH: f64 = 2.0;
/// Lowest rate that is tried, in requests per second: below it a window has no percentiles.
const LOWEST_PER_S: f64 = 1.0;
/// Confirmations that may fail before the search says that the condition does not hold steadily.
const CONFIRMATIONS: u32 = 4;

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Try {
    /// A window at this rate, in requests per second.
    Probe(f64),
    /// A longer window at this rate.
    Confirm(f64),
    /// The highest rate that holds, confirmed; nothing where the condition held at no rate or never for long.
    Found(Option<f64>),
    /// The condition still held, confirmed, at the highest rate that was allowed.
    AtLeast(f64),
}

/// A search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    /// Highest rate that held.
    held: Option<f64>,
    /// Lowest rate that failed.
    failed: Option<f64>,
    first: f64,
    highest: f64,
    /// Largest ratio of `failed` to `held` that ends the second phase.
    close: f64,
    unconfirmed: u32,
    confirmed: bool,
}

impl Search {
    /// A search from `first` up to at most `highest` requests per second, ended when the answer is known within
    /// `precision` (0.05 is 5 %).
    #[must_use]
    pub fn new(first: f64, highest: f64, precision: f64) -> Self {
        let first = first.max(LOWEST_PER_S).min(highest);
        Self {
            held: None,
            failed: None,
            first,
            highest,
            close: 1.0 + precision,
            unconfirmed: 0,
            confirmed: false,
        }
    }

    /// What to do next; the same until [`Search::record`] says what came of it.
    #[must_use]
    pub fn next(&self) -> Try {
        match (self.held, self.failed) {
            (None, None) => Try::Probe(self.first),
            (None, Some(failed)) if failed <= LOWEST_PER_S => Try::Found(None),
            (None, Some(failed)) => Try::Probe((failed / GROWTH).max(LOWEST_PER_S)),
            (Some(held), None) if held < self.highest => Try::Probe((held * GROWTH).min(self.highest)),
            (Some(held), Some(failed)) if failed / held > self.close => Try::Probe((held * failed).sqrt()),
            (Some(held), _) => self.end(held),
        }
    }

    fn end(&self, held: f64) -> Try {
        match (self.confirmed, self.failed) {
            (true, Some(_)) => Try::Found(Some(held)),
            (true, None) => Try::AtLeast(held),
            (false, _) if self.unconfirmed >= CONFIRMATIONS => Try::Found(None),
            (false, _) => Try::Confirm(held),
        }
    }

    /// Records whether the condition held at the rate that [`Search::next`] named.
    pub fn record(&mut self, holds: bool) {
        match (self.next(), holds) {
            (Try::Probe(rate), true) => self.held = Some(rate),
            (Try::Probe(rate), false) => self.failed = Some(rate),
            (Try::Confirm(_), true) => self.confirmed = true,
            (Try::Confirm(rate), false) => {
                self.unconfirmed += 1;
                self.failed = Some(rate);
                // One step of the precision lower: it held at no rate above, and a longer window is harder to pass.
                self.held = Some((rate / self.close).max(LOWEST_PER_S));
            }
            (Try::Found(_) | Try::AtLeast(_), _) => {}
        }
    }

    /// Lowest rate that failed so far, in requests per second.
    #[must_use]
    pub fn failed(&self) -> Option<f64> {
        self.failed
    }
}
