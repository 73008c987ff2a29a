//! System calls counted one by one, where the kernel lets nobody count them: the target is stopped at every call, so that
//! it is asked at a low rate, at which a request does what any does.

use model::plan::Condition;
use model::record::Counts;
use model::units::Rate;
use observe::{Group, ObserveError, Tally, Tracer};

/// Requests per second while calls are traced: some hundred in a window, and few enough for a server that makes a hundred
/// calls for each and takes 20 µs longer for every one of them.
const PER_S: f64 = 200.0;
/// Of what it answers when it is not traced, which a slow server is asked at most.
const SHARE: f64 = 0.1;

/// What counts so taken do not show.
const NOT_SEEN: &str = "system calls were counted while the server had little to do: what it does for several requests at \
                        once when it is busy counts there as done for each";

/// A tracer over one window.
pub(super) struct Tracing {
    tracer: Option<Tracer>,
    before: Tally,
    counts: Counts,
}

impl Tracing {
    /// Traces every thread of `target` from now on.
    pub(super) fn start(target: &Group) -> Result<Self, ObserveError> {
        let tracer = Tracer::attach(target)?;
        Ok(Self { before: tracer.read(), tracer: Some(tracer), counts: Counts::default() })
    }

    /// The load for it, of a server that answers so many requests per second untouched.
    pub(super) fn condition(per_s: f64) -> Option<Condition> {
        Rate::per_s((SHARE * per_s).min(PER_S)).map(|rate| Condition::EqualRate { rate })
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        if let Some(tracer) = &self.tracer {
            self.before = tracer.read();
        }
    }

    /// The window ended: the target runs freely again.
    pub(super) fn end(&mut self) {
        if let Some(tracer) = self.tracer.take() {
            self.counts = tracer.read().since(&self.before);
            self.counts.missing.push(NOT_SEEN.to_owned());
        }
    }

    /// What was counted.
    pub(super) fn counts(self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_is_asked_for_a_tenth_of_what_it_can() {
        let rate_of = |per_s| match Tracing::condition(per_s) {
            Some(Condition::EqualRate { rate }) => Some(rate.get()),
            _ => None,
        };
        assert_eq!([100_000.0, 50.0, 0.0].map(rate_of), [Some(200.0), Some(5.0), None]);
    }
}
