//! When a server is warm: policy for whoever loads it.

use std::time::Duration;

use model::plan::WarmupClass;
use model::record::{Slice, Usage};

/// Turns that must agree.
const TURNS: usize = 3;
/// How far the cost of a request may move between those turns and the ones before them, or between one another.
const STEADY: f64 = 0.03;
/// Share of a CPU that the compiler of a warm virtual machine uses at most.
const COMPILING: f64 = 0.02;
/// How the compiler threads of virtual machines call themselves, without the number behind it.
const COMPILERS: [&str; 3] = ["C1 CompilerThre", "C2 CompilerThre", "JVMCI CompilerT"];

/// How long a warm-up lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Shortest load of the server itself.
    pub least: Duration,
    /// Longest.
    pub most: Duration,
    /// Whether the server compiles while it runs.
    pub class: WarmupClass,
}

/// The turns of one server's warm-up so far.
#[derive(Debug, Clone, Default)]
pub struct Course {
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
    /// Adds one more turn.
    pub fn add(&mut self, slice: &Slice, used: &Usage) {
        let compilers = used.threads_ns.iter().filter(|(name, _)| COMPILERS.contains(&name.as_str()));
        let compiling: u64 = compilers.map(|(_, ns)| ns).sum();
        self.turns.push(Turn {
            requests: slice.requests,
            cost_ns: slice.cpu_ns as f64 / slice.requests.max(1) as f64,
            compiling: compiling as f64 / slice.wall_ns.max(1) as f64,
        });
        self.loaded += Duration::from_nanos(slice.length_ns);
    }

    /// Whether no more turns are needed: the server is steady, or has been warmed up as long as allowed.
    #[must_use]
    pub fn is_over(&self, limits: &Limits) -> bool {
        self.loaded >= limits.most || (self.loaded >= limits.least && self.is_steady(limits))
    }

    /// Whether a request cost the same in the last turns as in those before, and no compiler was at work.
    #[must_use]
    pub fn is_steady(&self, limits: &Limits) -> bool {
        let needed = if limits.class == WarmupClass::Jit { 2 * TURNS } else { TURNS };
        let Some(first) = self.turns.len().checked_sub(needed) else { return false };
        let last = &self.turns[first..];
        if limits.class == WarmupClass::Jit && mean(&last[TURNS..], |turn| turn.compiling) > COMPILING {
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
    use super::*;

    const NATIVE: Limits = Limits {
        least: Duration::from_millis(500),
        most: Duration::from_secs(2),
        class: WarmupClass::Native,
    };
    const JIT: Limits = Limits { class: WarmupClass::Jit, ..NATIVE };

    fn course(costs_ns: &[u64], compiling: f64) -> Course {
        let mut course = Course::default();
        for cost_ns in costs_ns {
            let (wall_ns, requests) = (200_000_000, 10_000);
            let slice = Slice {
                requests,
                cpu_ns: requests * cost_ns,
                wall_ns,
                length_ns: wall_ns,
                ..Slice::default()
            };
            let compilers = (compiling * wall_ns as f64) as u64;
            let used =
                Usage { threads_ns: [("C2 CompilerThre".to_owned(), compilers)].into(), ..Usage::default() };
            course.add(&slice, &used);
        }
        course
    }

    #[test]
    fn a_server_is_warm_when_requests_cost_the_same_and_nothing_compiles() {
        let rows = [
            (&[9_000, 9_000][..], 0.0, NATIVE, false),
            (&[9_000, 9_000, 9_100], 0.0, NATIVE, true),
            (&[20_000, 12_000, 9_000], 0.0, NATIVE, false),
            (&[9_000; 3], 0.0, JIT, false),
            (&[9_000; 6], 0.0, JIT, true),
            (&[9_000; 6], 0.3, JIT, false),
            // As long as it may last, steady or not.
            (&[20_000, 18_000, 16_000, 14_000, 12_000, 10_000, 9_000, 8_000, 7_000, 6_000], 0.5, JIT, true),
        ];
        for (costs, compiling, limits, over) in rows {
            assert_eq!(course(costs, compiling).is_over(&limits), over, "{costs:?} {compiling}");
        }
    }
}
