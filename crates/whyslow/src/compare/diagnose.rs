//! Diagnostic rounds: after the scored blocks each arm is started anew and watched more closely than a scored window may
//! be. Their figures are never scored; they say where the cost lies, and what watching cost.

use std::path::Path;
use std::thread::JoinHandle;

use launch::Launcher;
use model::plan::{Arm, Condition, Plan, ROUND_OVERHEAD_S, Round, WarmupClass};
use model::record::{Counts, DiagnosticRecord, Pass, PassKind, Warmup, Window};
use model::units::Span;
use observe::{Counting, Group, ObserveError, OwnCpus, Profiler, Samples, Tally};

use super::generator::Phase;
use super::progress::Progress;
use super::round::{Bench, DIAGNOSTIC, Early, SETTLE, Server, joined, keep_failure};
use super::tracing::Tracing;
use crate::jvm::MachineLogs;

/// Diagnostic rounds of each arm: counts per request hardly differ between two, and slowdowns are told from noise.
const ROUNDS: u32 = 2;
/// Arms from which one round of each has to do: what it costs to look closely is not to outgrow what is scored.
const MANY_ARMS: usize = 3;
/// Passes of every round, in this order: the tracepoints of the last one are let go only after the server has stopped.
const PASSES: [PassKind; 3] = [PassKind::Untouched, PassKind::Sampling, PassKind::Counting];
/// Share of its CPUs' time that a server must leave unused for its waits to be worth a look.
const IDLE: f64 = 0.05;
/// Switches a second from which on counters of threads, changed at each, would be felt: some 0.2 µs for each.
const MANY_SWITCHES_PER_S: f64 = 5_000.0;
/// Samples per second of CPU time: as many as there may be, for a window is short.
const SAMPLES_HZ: u32 = 997;
/// Longest window of a pass: counts need no more, and sampling at the highest rate has 2000 samples of a busy CPU.
const LONGEST_WINDOW: Span = Span::from_secs(2);
/// Longest warm-up of a native target, whose figures are weighed against a pass right beside them and never scored.
const LONGEST_WARMUP: Span = Span::from_secs(1);

/// The thread in which counters of an earlier round are let go.
pub(super) type Releasing = Option<JoinHandle<()>>;

/// Diagnostic rounds of each arm of `plan`.
pub(super) fn rounds(plan: &Plan) -> u32 {
    if plan.arms.len() >= MANY_ARMS { 1 } else { ROUNDS }
}

/// Seconds that all diagnostic rounds take.
pub(super) fn seconds(plan: &Plan) -> f64 {
    if !plan.design.why {
        return 0.0;
    }
    // Servers that wait have one pass more in one of the rounds; an estimate need not know which they are.
    let passes = PASSES.len() as f64 * (window(plan).0 + SETTLE.0).as_secs_f64();
    let arm = |arm: &Arm| warmup(plan, arm).0.as_secs_f64() + passes + ROUND_OVERHEAD_S;
    f64::from(rounds(plan)) * plan.arms.iter().map(arm).sum::<f64>()
}

fn warmup(plan: &Plan, arm: &Arm) -> Span {
    let warmup = plan.timing.warmup_of(arm.warmup);
    if arm.warmup == WarmupClass::Native { warmup.min(LONGEST_WARMUP) } else { warmup }
}

fn window(plan: &Plan) -> Span {
    plan.timing.window.min(LONGEST_WINDOW)
}

/// Waits until the counters of an earlier round are gone: until then every process pays for them.
pub(super) fn wait(releasing: &mut Releasing) {
    if let Some(thread) = releasing.take() {
        thread.join().expect("letting counters go does not panic");
    }
}

/// What watches a target in one window, beside the readings at its ends.
pub(super) enum Watch {
    /// Nothing.
    Nothing,
    /// Counting perf events.
    Counting {
        /// The counters.
        counting: Counting,
        /// Their reading at the window's begin.
        before: Option<Tally>,
        /// What was counted until its end.
        counts: Counts,
    },
    /// Sampled stacks: the profiler until the window ends, then its samples.
    Sampling {
        /// At work.
        profiler: Option<Profiler>,
        /// Ended.
        samples: Option<Samples>,
        /// What virtual machines log meanwhile.
        machines: Option<MachineLogs>,
    },
    /// A tracer that stops the target at every call.
    Tracing(Tracing),
    /// What was asked for cannot be had: why.
    Refused(String),
}

impl Watch {
    fn attach(
        kind: PassKind,
        own: &OwnCpus,
        target: &Group,
        bench: &Bench,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let sampling = |profiler: Result<Profiler, ObserveError>, machines| match profiler {
            Ok(profiler) => Self::Sampling { profiler: Some(profiler), samples: None, machines },
            Err(error) => Self::Refused(format!("no profile: {error}")),
        };
        Ok(match kind {
            PassKind::Counting => {
                let counting = Counting::attach(target, own)?.sparingly(own);
                Self::Counting { counting, before: None, counts: Counts::default() }
            }
            PassKind::Sampling => {
                let machines = MachineLogs::begin(target, bench.launcher, log);
                sampling(Profiler::attach(target, SAMPLES_HZ, own), machines)
            }
            PassKind::Waiting => sampling(Profiler::attach_off_cpu(target), None),
            PassKind::Tracing => match Tracing::of(target) {
                Ok(tracing) => Self::Tracing(tracing),
                Err(error) => Self::Refused(format!("no counts of system calls: {error}")),
            },
            PassKind::Untouched => Self::Nothing,
        })
    }

    /// The window begins.
    pub(super) fn begin(&mut self) {
        match self {
            Self::Counting { counting, before, .. } => *before = Some(counting.read()),
            Self::Sampling { profiler: Some(profiler), machines, .. } => {
                profiler.begin();
                machines.iter_mut().for_each(MachineLogs::window_begins);
            }
            Self::Tracing(tracing) => tracing.begin(),
            _ => {}
        }
    }

    /// The window ended.
    pub(super) fn end(&mut self) {
        match self {
            Self::Counting { counting, before: Some(before), counts } => {
                *counts = counting.read().since(before);
            }
            Self::Sampling { profiler, samples, machines } => {
                machines.iter_mut().for_each(MachineLogs::window_ends);
                *samples = profiler.take().map(Profiler::stop);
            }
            Self::Tracing(tracing) => tracing.end(),
            _ => {}
        }
    }

    /// Puts what was seen into the pass; what was sampled during `stalls` is told apart.
    fn finish(
        self,
        pass: &mut Pass,
        target: &Group,
        stalls: &[[u64; 2]],
        launcher: &Launcher,
        releasing: &mut Releasing,
    ) {
        match self {
            Self::Counting { counting, counts, .. } => {
                pass.missing.extend(counts.missing.iter().cloned());
                pass.counts = Some(counts);
                wait(releasing);
                *releasing = Some(counting.detach());
            }
            Self::Sampling { samples: Some(samples), machines, .. } => {
                crate::jvm::write_maps(target, launcher);
                pass.profile = Some(samples.resolve(stalls));
                if let Some(machines) = machines {
                    pass.machine = machines.read();
                    pass.missing.extend(machines.missing);
                }
            }
            Self::Tracing(tracing) => {
                let counts = tracing.counts();
                pass.missing.extend(counts.missing.iter().cloned());
                pass.counts = Some(counts);
            }
            Self::Refused(why) => pass.missing.push(why),
            Self::Sampling { .. } | Self::Nothing => {}
        }
    }
}

/// What is done after the passes of a round so far: waits are looked at where there are any, in the first round, and calls
/// are traced only where they could not be counted.
fn next_pass(record: &DiagnosticRecord) -> Option<PassKind> {
    let done = |kind| record.passes.iter().find(|pass| pass.kind == kind);
    if let Some(next) = PASSES.into_iter().find(|kind| done(*kind).is_none()) {
        let waits = done(PassKind::Untouched).is_some_and(|pass| leaves_idle(&pass.window));
        let look = next == PassKind::Counting && record.block == 0 && waits;
        return Some(if look && done(PassKind::Waiting).is_none() { PassKind::Waiting } else { next });
    }
    let counted = done(PassKind::Counting).and_then(|pass| pass.counts.as_ref());
    let by_name = counted.is_some_and(|counts| !counts.syscalls.is_empty());
    (!by_name && done(PassKind::Tracing).is_none()).then_some(PassKind::Tracing)
}

/// The load of a pass: as in the scored windows, and little of it while calls are traced.
fn load_of(kind: PassKind, record: &DiagnosticRecord, scored: Condition) -> Condition {
    let plain = record.passes.iter().find(|pass| pass.kind == PassKind::Untouched);
    let plain = plain.filter(|_| kind == PassKind::Tracing);
    plain.and_then(|pass| Tracing::condition(pass.window.load.rate_per_s)).unwrap_or(scored)
}

fn leaves_idle(window: &Window) -> bool {
    let offered = window.target.wall_ns.saturating_mul(u64::from(window.server_cpus.cpus.max(1)));
    (window.target.cpu.total_ns as f64) < (1.0 - IDLE) * offered as f64
}

fn switches_often(window: &Window) -> bool {
    let switches = window.target.voluntary_switches + window.target.involuntary_switches;
    switches as f64 > MANY_SWITCHES_PER_S * window.target.wall_ns as f64 / 1e9
}

impl Bench<'_> {
    /// One diagnostic round of the arm of `round`; a failed arm is in the record, not an error.
    pub(super) fn diagnose(
        &self,
        round: &Round,
        block: u32,
        condition: Condition,
        releasing: &mut Releasing,
        progress: &mut Progress,
    ) -> Result<DiagnosticRecord, Early> {
        let mut scratch = self.blank(round);
        let mut record = DiagnosticRecord::new(&scratch.arm, block);
        let outcome = self.measure(DIAGNOSTIC, &mut scratch, |bench, server, scratch| {
            wait(releasing);
            while let Some(kind) = next_pass(&record) {
                let log = bench.dir.log_path(&scratch.round, DIAGNOSTIC);
                let first = record.passes.is_empty();
                let warmup = if first { warmup(bench.plan, bench.arm(round)) } else { SETTLE };
                let window = window(bench.plan);
                let condition = load_of(kind, &record, condition);
                let plain = bench.phase(server, scratch, condition, &log);
                let phase = Phase { warmup, warmup_until: warmup, window, ..plain };
                let own = bench.own_cpus(kind, &record);
                let pass = bench.pass(kind, &own, &phase, server, releasing, progress)?;
                record.passes.push(pass);
            }
            Ok(())
        });
        let scratch = keep_failure(outcome, scratch)?;
        record.port = scratch.port;
        record.failure = scratch.failure;
        Ok(record)
    }

    /// CPUs that may be watched in the place of the server's threads. What the kernel does with interrupts off while a thread
    /// leaves a CPU is sampled in whoever comes next: of a server that is full this is another thread of it, of one that often
    /// has nothing to do it is nobody, and of its CPU time two fifths were missing.
    fn own_cpus(&self, kind: PassKind, record: &DiagnosticRecord) -> OwnCpus {
        let placement = &self.plan.placement;
        let plain = record.passes.iter().find(|pass| pass.kind == PassKind::Untouched);
        if kind == PassKind::Sampling && plain.is_none_or(|pass| leaves_idle(&pass.window)) {
            return OwnCpus::default();
        }
        let switched_often = plain.is_some_and(|pass| switches_often(&pass.window));
        OwnCpus { cpus: placement.server_only(), kept_awake: placement.awake, switched_often }
    }

    fn pass(
        &self,
        kind: PassKind,
        own: &OwnCpus,
        phase: &Phase,
        server: &mut Server,
        releasing: &mut Releasing,
        progress: &mut Progress,
    ) -> Result<Pass, Early> {
        let target = Group::below(server.process.supervisor_pid())?;
        let mut watch = Watch::attach(kind, own, &target, self, phase.log)?;
        let (measured, seen) = self.drive(phase, server, &mut Warmup::default(), &mut watch, progress)?;
        let seen = seen.ok_or_else(|| anyhow::anyhow!("the generator measured no window"))?;
        let stalls = measured.stalls();
        let window = joined(phase.condition, measured, seen);
        let mut pass = Pass { kind, window, counts: None, profile: None, machine: None, missing: Vec::new() };
        watch.finish(&mut pass, &target, &stalls, self.launcher, releasing);
        Ok(pass)
    }
}
