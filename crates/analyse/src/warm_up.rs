//! When a server is warm: policy for whoever loads it.

use std::time::Duration;

use model::plan::{Timing, WarmupClass};
use model::record::{Slice, Usage};

/// Turns that must agree.
const TURNS: usize = 3;
/// How far the cost of a request may move between those turns and the ones before them, or between one another.
const STEADY: f64 = 0.03;
/// Share of a CPU that the compiler of a warm virtual machine uses at most.
const COMPILING: f64 = 0.02;
/// How the compiler threads of virtual machines call themselves, without the number behind it: of the JVM and of .NET.
const COMPILERS: [&str; 4] = ["C1 CompilerThre", "C2 CompilerThre", "JVMCI CompilerT", ".NET Tiered Com"];

/// CPU time of compiler threads in nanoseconds.
#[must_use]
pub fn compiling_ns(used: &Usage) -> u64 {
    let compilers = used.threads_ns.iter().filter(|(name, _)| COMPILERS.contains(&name.as_str()));
    compilers.map(|(_, ns)| ns).sum()
}

/// The turns of one server's warm-up so far.
#[derive(Debug, Clone)]
pub struct Course {
    class: WarmupClass,
    turns: Vec<Turn>,
    loaded: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    requests: u64,
    /// CPU time of one request in nanoseconds.
    cost_ns: f64,
    /// Share of a CPU that compilers used.
    compiling: f64,
}

impl Course {
    /// The warm-up of a server of which this is known beforehand.
    #[must_use]
    pub fn of(class: WarmupClass) -> Self {
        Self { class, turns: Vec::new(), loaded: Duration::ZERO }
    }

    /// Whether the server compiles while it runs, as was known or has been seen.
    #[must_use]
    pub fn class(&self) -> WarmupClass {
        self.class
    }

    /// Adds one more turn.
    pub fn add(&mut self, slice: &Slice, used: &Usage) {
        let compiling = compiling_ns(used);
        if compiling > 0 {
            self.class = WarmupClass::Jit;
        }
        self.turns.push(Turn {
            requests: slice.requests,
            cost_ns: slice.cpu_ns as f64 / slice.requests.max(1) as f64,
            compiling: compiling as f64 / slice.wall_ns.max(1) as f64,
        });
        self.loaded += Duration::from_nanos(slice.length_ns);
    }

    /// Whether no more turns are needed: the server is steady, or has been warmed up as long as allowed.
    #[must_use]
    pub fn is_over(&self, timing: &Timing) -> bool {
        let [least, most] = timing.warmup_of(self.class);
        self.loaded >= most.0 || (self.loaded >= least.0 && self.is_steady())
    }

    /// Whether a request cost the same in the last turns as in those before, and no compiler was at work.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let compiles = self.class == WarmupClass::Jit;
        let needed = if compiles { 2 * TURNS } else { TURNS };
        let Some(first) = self.turns.len().checked_sub(needed) else { return false };
        let last = &self.turns[first..];
        if compiles && mean(&last[TURNS..], |turn| turn.compiling) > COMPILING {
            return false;
        }
        // The first of these turns against the others: of a server that still gets faster it is the dearest.
        let (before, after) = last.split_at(needed / 2);
        let (before, after) = (mean(before, |turn| turn.cost_ns), mean(after, |turn| turn.cost_ns));
        before > 0.0 && (after / before - 1.0).abs() < STEADY
    }

    /// Requests of each turn.
    #[must_use]
    pub fn per_turn(&self) -> Vec<u64> {
        self.turns.iter().map(|turn| turn.requests).collect()
    }
}

fn mean(turns: &[Turn], figure: impl Fn(&Turn) -> f64) -> f64 {
    turns.iter().map(figure).sum::<f64>() / turns.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use model::units::Span;

    use super::*;

    const TIMING: Timing = Timing {
        window: Span::from_secs(1),
        warmup: Span(Duration::from_millis(500)),
        warmup_jit: Span::from_secs(1),
        warmup_cap: Span::from_secs(1),
        warmup_cap_jit: Some(Span::from_secs(2)),
        ready_limit: Span::from_secs(1),
    };

    /// `compiling` is the share of a CPU that a compiler used, if there was one.
    fn course(class: WarmupClass, costs_ns: &[u64], compiling: Option<f64>) -> Course {
        let mut course = Course::of(class);
        for cost_ns in costs_ns {
            let (wall_ns, requests) = (200_000_000, 10_000);
            let slice = Slice {
                requests,
                cpu_ns: requests * cost_ns,
                wall_ns,
                length_ns: wall_ns,
                ..Slice::default()
            };
            let compiler =
                compiling.map(|share| ("C2 CompilerThre".to_owned(), (share * wall_ns as f64) as u64));
            let used = Usage { threads_ns: compiler.into_iter().collect(), ..Usage::default() };
            course.add(&slice, &used);
        }
        course
    }

    #[test]
    fn a_server_is_warm_when_requests_cost_the_same_and_nothing_compiles() {
        let falling = [20_000, 18_000, 16_000, 14_000, 12_000, 10_000, 9_000, 8_000, 7_000, 6_000];
        let (native, jit) = (WarmupClass::Native, WarmupClass::Jit);
        let rows = [
            (native, &[9_000, 9_000][..], None, false),
            (native, &[9_000, 9_000, 9_100], None, true),
            (native, &[20_000, 12_000, 9_000], None, false),
            (jit, &[9_000; 3], None, false),
            (jit, &[9_000; 6], None, true),
            (jit, &[9_000; 6], Some(0.3), false),
            // Nothing says of it that it compiles, and it does.
            (native, &[9_000; 3], Some(0.01), false),
            (native, &[9_000; 6], Some(0.3), false),
            (native, &[9_000; 6], Some(0.01), true),
            // As long as it may last, steady or not.
            (native, &falling[..5], None, true),
            (native, &falling[..9], Some(0.5), false),
            (jit, &falling, Some(0.5), true),
        ];
        for (class, costs, compiling, over) in rows {
            let is_over = course(class, costs, compiling).is_over(&TIMING);
            assert_eq!(is_over, over, "{class:?} {costs:?} {compiling:?}");
        }
    }
}
