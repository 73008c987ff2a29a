//! System calls counted one by one, where the kernel lets nobody count them: the target is stopped at every call, so that
//! it is asked at a low rate, at which a request does what any does.

use std::time::Duration;

use model::record::Counts;
use model::units::Rate;
use observe::{Group, ObserveError, Tally, Tracer};

/// Requests per second while calls are traced: some hundred in a window, and few enough for a server that makes a hundred
/// calls for each and takes 20 µs longer for every one of them.
const PER_S: f64 = 200.0;
/// Requests of one turn, at least, where a turn of the longest has as many: turns tell how exact a count is.
const OF_TURN: f64 = 40.0;
/// Of what it answers when it is not traced, which a slow server is asked at most.
const SHARE: f64 = 0.1;

/// What counts so taken do not show.
const NOT_SEEN: &str = "system calls were counted while the server had little to do: what it does for several requests at \
                        once when it is busy counts there as done for each";

/// A tracer in turns; between them the target runs freely.
pub(super) struct Tracing {
    /// At work, with what it had counted when the turn began.
    tracer: Option<(Tracer, Tally)>,
    /// What was counted in each turn.
    turns: Vec<Counts>,
}

impl Tracing {
    /// Traces every thread of `target` from now on.
    pub(super) fn start(target: &Group) -> Result<Self, ObserveError> {
        Ok(Self { tracer: Some(attach(target)?), turns: Vec::new() })
    }

    /// Traces again, for another turn; one in which that cannot be says nothing.
    pub(super) fn prepare(&mut self, target: &Group) {
        if self.tracer.is_none() {
            self.tracer = attach(target).ok();
        }
    }

    /// The load for it, of a server that answers so many requests per second untouched.
    pub(super) fn rate(per_s: f64) -> Option<Rate> {
        Rate::per_s((SHARE * per_s).min(PER_S))
    }

    /// How long a turn is at such a rate.
    pub(super) fn length(rate: Rate, [shortest, longest]: [Duration; 2]) -> Duration {
        Duration::from_secs_f64(OF_TURN / rate.get()).clamp(shortest, longest)
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        if let Some((tracer, before)) = &mut self.tracer {
            *before = tracer.read();
        }
    }

    /// It ended: the target runs freely again.
    pub(super) fn end(&mut self) {
        let counts = self.tracer.take().map(|(tracer, before)| tracer.read().since(&before));
        self.turns.push(counts.unwrap_or_else(|| Counts { counted_share: 0.0, ..Counts::default() }));
    }

    /// What was counted.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::of_turns(&self.turns);
        counts.missing.push(NOT_SEEN.to_owned());
        counts
    }
}

fn attach(target: &Group) -> Result<(Tracer, Tally), ObserveError> {
    let tracer = Tracer::attach(target)?;
    let now = tracer.read();
    Ok((tracer, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_is_asked_for_a_tenth_of_what_it_can() {
        let rate_of = |per_s| Tracing::rate(per_s).map(Rate::get);
        assert_eq!([100_000.0, 50.0, 0.0].map(rate_of), [Some(200.0), Some(5.0), None]);
        let [fast, slow] = [100_000.0, 50.0].map(|per_s| Tracing::rate(per_s).unwrap());
        let span = [200, 1000].map(Duration::from_millis);
        assert_eq!([fast, slow].map(|rate| Tracing::length(rate, span)), span);
    }
}
