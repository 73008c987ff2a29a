//! The figures of a running load so far, for whoever hands them out or sends them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use load::{Event, Latencies};
use report::LiveFigures;

/// Nanoseconds of a second.
const NS_PER_S: f64 = 1e9;

/// Figures that grow second by second, shared.
#[derive(Debug, Clone)]
pub(super) struct SoFar(Arc<Mutex<LiveFigures>>);

impl SoFar {
    /// Nothing yet of a load of `url`.
    pub(super) fn new(url: &str) -> Self {
        Self(Arc::new(Mutex::new(LiveFigures::new(url))))
    }

    /// Takes in what happened.
    pub(super) fn follow(&self, event: &Event) {
        let mut figures = self.locked();
        match event {
            Event::WindowStart { .. } => figures.measuring = true,
            Event::WindowEnd { .. } => figures.measuring = false,
            Event::Second { second, response, .. } => {
                figures.requests += second.requests;
                figures.errors += second.errors;
                add(&mut figures, response);
            }
            _ => {}
        }
    }

    /// As they are now.
    pub(super) fn copy(&self) -> LiveFigures {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, LiveFigures> {
        // Nothing panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the responses of one second, in one pass over them.
fn add(figures: &mut LiveFigures, response: &Latencies) {
    for step in response.iter_recorded() {
        let (seconds, count) = (step.value_iterated_to() as f64 / NS_PER_S, step.count_at_value());
        figures.answered(seconds, count);
    }
}
