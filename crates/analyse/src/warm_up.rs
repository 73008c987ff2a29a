//! When a server is warm: policy for whoever loads it.

use std::time::Duration;

use model::plan::{Timing, WarmupClass};
use model::record::{Slice, Usage, Warming};

/// Turns that must agree.
const TURNS: usize = 3;
/// How far the cost of a request may move between those turns and the ones before them, or between one another.
const STEADY: f64 = 0.03;
/// The same in standard errors of their difference. Of a steady fall over six turns it is 3.7 of them; the one earlier turn of a native
/// server has none.
const ERRORS: f64 = 2.0;
/// A request costs so many times what it costs in the end while a server is not warm: a host's clock moves by less.
const SETTLED: f64 = 1.3;
/// A server that takes so long to settle compiles while it runs, or does what comes to the same.
const SLOW: Duration = Duration::from_millis(400);
/// How many times as long as it may be loaded a server is warmed up at most, what it takes to answer after each turn included: one that
/// leaves requests unanswered is waited for in every turn.
const WITH_ANSWERS: u32 = 2;
/// Share of a CPU that the compiler of a warm virtual machine uses at most.
const COMPILING: f64 = 0.02;

/// The turns of one server's warm-up so far.
#[derive(Debug, Clone)]
pub struct Course {
    class: WarmupClass,
    least: Duration,
    turns: Vec<Turn>,
    loaded: Duration,
    /// The same with the time in which answers came, or were waited for, after each turn.
    spent: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    requests: u64,
    /// CPU time of one request in nanoseconds.
    cost_ns: f64,
    /// Share of a CPU that compilers used.
    compiling: f64,
    /// For how long requests were sent.
    length: Duration,
}

impl Course {
    /// The warm-up of a server of which this is known beforehand.
    #[must_use]
    pub fn new(known: Warming) -> Self {
        let least = Duration::from_nanos(known.settled_ns);
        Self { class: known.class, least, turns: Vec::new(), loaded: Duration::ZERO, spent: Duration::ZERO }
    }

    /// How the server is warmed up: as it was said to be, or as one that compiles since its compiler was seen.
    #[must_use]
    pub fn class(&self) -> WarmupClass {
        self.class
    }

    /// What is known of the server now. An interpreter costs the same for a while before its compiler begins, so that three turns that
    /// agree say nothing: what took so much longer to settle is warmed up as what compiles.
    #[must_use]
    pub fn warming(&self) -> Warming {
        let last = &self.turns[self.turns.len().saturating_sub(TURNS)..];
        let settled = mean(last, |turn| turn.cost_ns) * SETTLED;
        let dear = self.turns.iter().take_while(|turn| turn.cost_ns > settled);
        let until: Duration = dear.map(|turn| turn.length).sum();
        let compiles = until >= SLOW || self.class == WarmupClass::Jit;
        let class = if compiles { WarmupClass::Jit } else { WarmupClass::Native };
        Warming { class, settled_ns: u64::try_from(until.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// Adds one more turn.
    pub fn add(&mut self, slice: &Slice, used: &Usage) {
        let compiling = used.compiling_ns();
        if compiling > 0 {
            self.class = WarmupClass::Jit;
        }
        self.turns.push(Turn {
            requests: slice.requests,
            cost_ns: slice.cpu_ns as f64 / slice.requests.max(1) as f64,
            compiling: compiling as f64 / slice.wall_ns.max(1) as f64,
            length: Duration::from_nanos(slice.length_ns),
        });
        self.loaded += Duration::from_nanos(slice.length_ns);
        self.spent += Duration::from_nanos(slice.wall_ns);
    }

    /// Whether no more turns are needed: the server is steady, or has been warmed up as long as allowed.
    #[must_use]
    pub fn is_over(&self, timing: &Timing) -> bool {
        let [least, most] = timing.warmup_of(self.class);
        self.loaded >= most.0
            || self.spent >= WITH_ANSWERS * most.0
            || (self.loaded >= least.0.max(self.least) && self.is_steady())
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
        let [mean_before, mean_after] = [before, after].map(|turns| mean(turns, |turn| turn.cost_ns));
        // By chance, as the earlier turns scatter: a fall that begins shows in the later ones, and must not excuse itself.
        let error = std::f64::consts::SQRT_2 * error_of_mean(before);
        mean_before > 0.0 && (mean_after - mean_before).abs() < (STEADY * mean_before).max(ERRORS * error)
    }

    /// Requests of each turn.
    #[must_use]
    pub fn per_turn(&self) -> Vec<u64> {
        self.turns.iter().map(|turn| turn.requests).collect()
    }
}

/// Standard error of the mean cost of a request; 0 of a single turn.
fn error_of_mean(turns: &[Turn]) -> f64 {
    let (all, mean) = (turns.len() as f64, mean(turns, |turn| turn.cost_ns));
    let squares: f64 = turns.iter().map(|turn| (turn.cost_ns - mean).powi(2)).sum();
    (squares / (all - 1.0).max(1.0) / all.max(1.0)).sqrt()
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
        let mut course = Course::new(Warming { class, settled_ns: 0 });
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
            (jit, &[12_000, 11_000, 10_000, 9_000, 8_000, 7_000], None, false),
            (native, &[30_000, 30_000, 20_000], None, false),
            (native, &[10_000, 9_000, 6_800], None, false),
            (jit, &[30_000, 30_000, 30_000, 30_000, 30_000, 20_000], None, false),
            // Few requests in each turn.
            (jit, &[40_000, 90_000, 62_000, 75_000, 48_000, 80_000], None, true),
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

    #[test]
    fn a_server_that_is_waited_for_after_each_turn_is_not_warmed_up_for_minutes() {
        let mut course = course(WarmupClass::Native, &[9_000], None);
        for cost_ns in [6_000, 9_000] {
            assert!(!course.is_over(&TIMING), "{course:?}");
            let (length_ns, wall_ns) = (50_000_000, 1_050_000_000);
            let slice = Slice { requests: 10, cpu_ns: 10 * cost_ns, length_ns, wall_ns, ..Slice::default() };
            course.add(&slice, &Usage::default());
        }
        assert!(course.loaded < TIMING.warmup.0 && course.is_over(&TIMING), "{course:?}");
    }

    #[test]
    fn what_settles_late_is_known_to_compile() {
        let (native, jit) = (WarmupClass::Native, WarmupClass::Jit);
        let rows = [
            (&[9_000; 8][..], (native, 0)),
            // Cold caches, and a host that slows down for a moment.
            (&[14_000, 9_000, 9_000, 10_500, 9_000, 9_000, 9_000], (native, 200)),
            // One disturbed turn, when all was settled.
            (&[9_000, 9_000, 9_000, 9_000, 14_000, 9_000, 9_000, 9_000], (native, 0)),
            // The interpreter's plateau, and then the compiler.
            (&[30_000, 30_000, 30_000, 20_000, 12_000, 10_000, 10_000, 10_000], (jit, 800)),
        ];
        for (costs, (class, settled_ms)) in rows {
            let course = course(native, costs, None);
            assert_eq!(course.class(), native, "no compiler was seen: {costs:?}");
            assert_eq!(course.warming(), Warming { class, settled_ns: settled_ms * 1_000_000 }, "{costs:?}");
        }
        let known = Warming { class: native, settled_ns: 900_000_000 };
        let mut course = Course { turns: course(native, &[9_000; 4], None).turns, ..Course::new(known) };
        course.loaded = Duration::from_millis(800);
        assert!(!course.is_over(&TIMING), "it is steady, and was seen to take longer");
    }
}
