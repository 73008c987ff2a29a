//! Diagnosis: after the scored blocks the arms are started once more and watched closely in some of their turns. Watched
//! and unwatched turns of the same process follow each other, so that what watching costs is a ratio of neighbours. None
//! of it is scored.

mod turns;

use std::path::{Path, PathBuf};
use std::time::Duration;

use analyse::warm_up::Course as WarmUp;
use launch::Launcher;
use model::plan::{Condition, Round, SplitMix64};
use model::record::{Counts, DiagnosticRecord, Fitted, Pass, PassKind, Slice, Window};
use observe::{Counting, Group, ObserveError, OwnCpus, Profiler, Samples, Tally, WakerWatch};

use super::Early;
use super::block::{Sum, turn};
use super::progress::Progress;
use super::server::{Bench, Purpose};
use super::together::{Asking, Taken, Together, Unwatched, Watching};
use super::tracing::Tracing;
use crate::jvm::MachineLogs;

use self::turns::{COUNTED, LONGEST, WATCHED, WATCHED_TURN, as_long, plain_every, warm_up_turn, warming};
pub(super) use self::turns::{sampled_turns, seconds};

/// Share of its CPUs' time that a server must leave unused for its waits to be worth a look.
const IDLE: f64 = 0.05;
/// Switches a second from which on counters of threads, changed at each, would be felt: some 0.2 µs for each.
const MANY_SWITCHES_PER_S: f64 = 5_000.0;
/// Samples per second of CPU time: as many as there may be, for turns are short.
const SAMPLES_HZ: u32 = 997;
/// Why calls of a server that ran already are not traced.
const NOT_STOPPED: &str =
    "no counts of system calls: tracing would stop the server at each, and it was not started here";

/// Watches every arm in `arms`, sampling stacks in so many turns; a failed arm is in its record, not an error.
pub(super) fn block(
    bench: &Bench,
    number: u32,
    arms: &[bool],
    sampled: u32,
    condition: Condition,
    fitted: &Fitted,
    progress: &mut Progress,
) -> Result<Vec<DiagnosticRecord>, Early> {
    bench.services.begin_block(&bench.around())?;
    let rounds: Vec<Round> = bench.plan.rounds(number).into_iter().filter(|round| arms[round.arm]).collect();
    let groups = if bench.alone(fitted) { rounds.chunks(1) } else { rounds.chunks(rounds.len().max(1)) };
    let mut records = Vec::new();
    for group in groups {
        records.extend(diagnose(bench, group, sampled, condition, fitted, progress)?);
    }
    Ok(records)
}

/// Starts the arms of `rounds` together and watches each in turn.
fn diagnose(
    bench: &Bench,
    rounds: &[Round],
    sampled: u32,
    condition: Condition,
    fitted: &Fitted,
    progress: &mut Progress,
) -> Result<Vec<DiagnosticRecord>, Early> {
    let (mut failed, mut servers, mut watched) = (Vec::new(), Vec::new(), Vec::new());
    for round in rounds {
        let mut scratch = bench.blank(round);
        let started = bench.start(Purpose::Diagnostic, &mut scratch);
        let mut record = DiagnosticRecord::new(&scratch.arm, 0);
        record.port = scratch.port;
        match started {
            Ok(server) => {
                let beside = [bench.services.groups(), server.beside.clone()].concat();
                watched.push(Watched {
                    beside,
                    ..Watched::new(record, round.arm, server.group.clone(), condition)
                });
                servers.push(server);
            }
            Err(Early::Arm(_, failure)) => {
                record.failure = Some(failure);
                failed.push(record);
            }
            Err(other) => return Err(other),
        }
    }
    if servers.is_empty() {
        return Ok(failed);
    }
    let connections = fitted.connections.unwrap_or(bench.plan.workload.job.connections);
    let log = bench.dir.log_path(&rounds[0], "diagnostic");
    let together = Together::begin(*bench, servers, connections, &log)?;
    let (length, sampled) = if bench.alone(fitted) {
        (bench.plan.timing.window.0.min(LONGEST), sampled)
    } else {
        let length = turn(fitted).max(WATCHED_TURN);
        (length, as_long(sampled, length))
    };
    let mut course = Course { bench, fitted, together, watched, sampled, condition, length, log, turns: 0 };
    let outcome = course.run(progress);
    let Course { together, watched, .. } = course;
    together.end();
    outcome?;
    Ok(watched.into_iter().map(|watched| watched.record).chain(failed).collect())
}

/// One arm under diagnosis.
struct Watched {
    record: DiagnosticRecord,
    /// Index into the plan's arms.
    arm: usize,
    group: Group,
    /// What runs beside it, by name.
    beside: Vec<(String, Group)>,
    /// The turns in which nothing was watched.
    plain: Sum,
    /// The first of them, for what it tells of how to watch, and the requests per second in it.
    first: Window,
    per_s: f64,
    /// Whether its CPUs are sampled although they often have nothing to do: to sample its threads cost too much.
    whole_cpus: bool,
}

impl Watched {
    fn new(record: DiagnosticRecord, arm: usize, group: Group, condition: Condition) -> Self {
        let (beside, plain, first) = (Vec::new(), Sum::default(), Window::empty(condition));
        Self { record, arm, group, beside, plain, first, per_s: 0.0, whole_cpus: false }
    }

    fn works(&self) -> bool {
        self.record.failure.is_none()
    }
}

/// The diagnosis of arms that are alive together.
struct Course<'a> {
    bench: &'a Bench<'a>,
    fitted: &'a Fitted,
    together: Together<'a>,
    watched: Vec<Watched>,
    sampled: u32,
    condition: Condition,
    length: Duration,
    log: PathBuf,
    turns: u32,
}

impl Course<'_> {
    fn run(&mut self, progress: &mut Progress) -> Result<(), Early> {
        self.warm_up(progress)?;
        self.each(|course, index| {
            let taken = course.plain_turn(index)?;
            let watched = &mut course.watched[index];
            watched.per_s = taken.slice.rate_per_s();
            watched.first.target = taken.observed.target;
            watched.first.server_cpus = taken.observed.server_cpus;
            Ok(())
        })?;
        self.pass(PassKind::Sampling, self.sampled, |_| true, progress)?;
        self.each(Self::give_up_threads)?;
        self.pass(PassKind::Sampling, self.sampled, |watched| watched.whole_cpus, progress)?;
        self.pass(PassKind::Beside, WATCHED, |watched| !watched.beside.is_empty(), progress)?;
        self.pass(PassKind::Waiting, WATCHED, |watched| leaves_idle(&watched.first), progress)?;
        self.pass(PassKind::Waking, WATCHED, |watched| leaves_idle(&watched.first), progress)?;
        self.pass(PassKind::Counting, as_long(COUNTED, self.length), |_| true, progress)?;
        self.pass(PassKind::Tracing, COUNTED, is_uncounted, progress)?;
        self.each(Self::end_plain)
    }

    /// Loads the servers in turn until each is warm.
    fn warm_up(&mut self, progress: &mut Progress) -> Result<(), Early> {
        let plan = self.bench.plan;
        let timing = warming(&plan.timing);
        let known = |watched: &Watched| self.fitted.warming_of(plan, watched.arm);
        let mut courses: Vec<WarmUp> =
            self.watched.iter().map(|watched| WarmUp::new(known(watched))).collect();
        let mut cold = true;
        while cold {
            cold = false;
            self.each(|course, index| {
                if !courses[index].is_over(&timing) {
                    cold = true;
                    let taken = course.turn(index, None, &mut Unwatched)?;
                    courses[index].add(&taken.slice, &taken.observed.target);
                }
                Ok(())
            })?;
            progress.tick();
        }
        Ok(())
    }

    /// Does the same for every server that works; what one fails by is written down, and the others go on.
    fn each(&mut self, mut work: impl FnMut(&mut Self, usize) -> Result<(), Early>) -> Result<(), Early> {
        for index in 0..self.watched.len() {
            if self.watched[index].works() {
                let outcome = work(self, index);
                self.kept(outcome)?;
            }
        }
        Ok(())
    }

    fn kept(&mut self, outcome: Result<(), Early>) -> Result<(), Early> {
        match outcome {
            Err(Early::Arm(arm, failure)) => {
                let watched = self.watched.iter_mut().find(|watched| watched.arm == arm);
                watched.expect("a server that fails is watched").record.failure = Some(failure);
                Ok(())
            }
            other => other,
        }
    }

    fn turn(&mut self, index: usize, pool: Option<u32>, watching: &mut dyn Watching) -> Result<Taken, Early> {
        self.turns += 1;
        let asking = self.asking(index, pool);
        self.together.turn(index, self.turns, &asking, watching)
    }

    /// How a server is loaded: as in its scored turns, and a little while its calls are traced.
    fn asking(&self, index: usize, pool: Option<u32>) -> Asking {
        let seed = SplitMix64::fork(self.bench.plan.seed, "diagnosis", self.turns.into()).next_u64();
        let traced = pool == Some(self::pool(index, PassKind::Tracing));
        let seldom = traced.then(|| Tracing::rate(self.watched[index].per_s)).flatten();
        let usual = if pool.is_none() { warm_up_turn(self.fitted) } else { self.length };
        let (condition, length) = seldom.map_or((self.condition, usual), |rate| {
            (Condition::EqualRate { rate }, Tracing::length(rate, [WATCHED_TURN, LONGEST]))
        });
        Asking { condition, length, seed, pool }
    }

    /// A turn in which nothing is watched.
    fn plain_turn(&mut self, index: usize) -> Result<Taken, Early> {
        let taken = self.turn(index, Some(pool(index, PassKind::Untouched)), &mut Unwatched)?;
        self.watched[index].plain.add(&taken);
        Ok(taken)
    }

    /// So many turns in which the servers that are `wanted` are watched, each next to one in which it is not.
    fn pass(
        &mut self,
        kind: PassKind,
        turns: u32,
        wanted: impl Fn(&Watched) -> bool,
        progress: &mut Progress,
    ) -> Result<(), Early> {
        let mut watches = Vec::new();
        for watched in &self.watched {
            let (own, log) = (self.own_cpus(kind, watched), &self.log);
            let log = log.with_extension(format!("{}.log", watched.record.arm));
            let attach = || match kind {
                PassKind::Beside => Ok(Watch::beside(&watched.beside, &own)),
                _ => Watch::attach(kind, own, &watched.group, self.bench.launcher, &log),
            };
            watches.push((watched.works() && wanted(watched)).then(attach).transpose()?);
        }
        let mut sums: Vec<Sum> = watches.iter().map(|_| Sum::default()).collect();
        for number in 0..turns {
            self.each(|course, index| {
                let Some(watch) = &mut watches[index] else { return Ok(()) };
                if number % plain_every(turns) == 0 {
                    course.plain_turn(index)?;
                }
                watch.prepare(&course.watched[index].group)?;
                let taken = course.turn(index, Some(pool(index, kind)), watch)?;
                watch.rest();
                sums[index].add(&taken);
                Ok(())
            })?;
            progress.tick();
        }
        let mut ended = watches.into_iter().zip(sums).map(Some).collect::<Vec<_>>();
        self.each(|course, index| match ended[index].take() {
            Some((Some(watch), sum)) => course.end_pass(index, kind, watch, sum),
            _ => Ok(()),
        })
    }

    fn end_pass(&mut self, index: usize, kind: PassKind, watch: Watch, sum: Sum) -> Result<(), Early> {
        let pooled = self.together.pooled(index, pool(index, kind), None)?;
        let stalls = pooled.stalls();
        let after = self.together.resources(index)?;
        let mut pass = Pass::new(kind, sum.into_window(self.condition, pooled, after.as_ref()));
        let watched = &mut self.watched[index];
        watch.finish(&mut pass, &watched.group, &stalls, self.bench.launcher);
        watched.record.passes.push(pass);
        Ok(())
    }

    /// The turns in which nothing was watched come first in the record: the others are weighed against them.
    fn end_plain(&mut self, index: usize) -> Result<(), Early> {
        let pooled = self.together.pooled(index, pool(index, PassKind::Untouched), None)?;
        let after = self.together.resources(index)?;
        let plain = std::mem::take(&mut self.watched[index].plain);
        let window = plain.into_window(self.condition, pooled, after.as_ref());
        self.watched[index].record.passes.insert(0, Pass::new(PassKind::Untouched, window));
        Ok(())
    }

    /// CPUs that may be watched in the place of the server's threads. What the kernel does with interrupts off while a thread
    /// leaves a CPU is sampled in whoever comes next: of a server that is full this is another thread of it, of one that often
    /// has nothing to do it is nobody, and of its CPU time two fifths were missing.
    fn own_cpus(&self, kind: PassKind, watched: &Watched) -> OwnCpus {
        let first = &watched.first;
        if kind == PassKind::Sampling && leaves_idle(first) && !watched.whole_cpus {
            return OwnCpus::default();
        }
        OwnCpus { cpus: self.bench.plan.placement.server_only(), switched_often: switches_often(first) }
    }

    /// A server whose threads are sampled is slowed at each of its switches, and one that sleeps for every few requests by a third: then
    /// samples of whole CPUs, in which the end of each switch is missing, tell more than none.
    fn give_up_threads(&mut self, index: usize) -> Result<(), Early> {
        let watched = &mut self.watched[index];
        let is_sampling = |pass: &Pass| pass.kind == PassKind::Sampling;
        let sampled = watched.record.passes.iter().find(|pass| is_sampling(pass));
        let dearer =
            sampled.and_then(|pass| Some(cost_ns(&pass.window.slices)? / cost_ns(&watched.plain.slices)?));
        let has_own = !self.bench.plan.placement.server_only().is_empty();
        if has_own
            && leaves_idle(&watched.first)
            && dearer.is_some_and(|dearer| dearer > analyse::MAX_SLOWDOWN)
        {
            watched.whole_cpus = true;
            watched.record.passes.retain(|pass| !is_sampling(pass));
        }
        Ok(())
    }
}

/// CPU time of a request in these turns, in nanoseconds.
fn cost_ns(slices: &[Slice]) -> Option<f64> {
    let sum = |of: fn(&Slice) -> u64| slices.iter().map(of).sum::<u64>();
    let requests = sum(|slice| slice.requests);
    (requests > 0).then(|| sum(|slice| slice.cpu_ns) as f64 / requests as f64)
}

/// The pool of one server's turns of one kind.
fn pool(index: usize, kind: PassKind) -> u32 {
    u32::try_from(index << 4 | kind as usize).expect("a plan has few arms")
}

/// Whether calls of a server could not be counted by name.
fn is_uncounted(watched: &Watched) -> bool {
    let counts = watched.record.passes.iter().filter_map(|pass| pass.counts.as_ref());
    !counts.into_iter().any(|counts| !counts.syscalls.is_empty())
}

fn leaves_idle(window: &Window) -> bool {
    let offered = window.target.wall_ns.saturating_mul(u64::from(window.server_cpus.cpus.max(1)));
    (window.target.cpu.total_ns as f64) < (1.0 - IDLE) * offered as f64
}

fn switches_often(window: &Window) -> bool {
    let switches = window.target.voluntary_switches + window.target.involuntary_switches;
    switches as f64 > MANY_SWITCHES_PER_S * window.target.wall_ns as f64 / 1e9
}

/// What watches a server in some turns, beside the readings at their edges.
enum Watch {
    /// Counting perf events; attached anew for each turn, for they cost something between turns, too.
    Counting {
        /// The counters.
        counting: Option<Counting>,
        /// Their reading when the turn began.
        before: Option<Tally>,
        /// What was counted, turn by turn.
        turns: Vec<Counts>,
        /// What to count on.
        own: OwnCpus,
    },
    /// Sampled stacks: the profiler until the last turn ends, then its samples.
    Sampling {
        /// At work.
        profiler: Box<Profiler>,
        /// What virtual machines log meanwhile.
        machines: Option<MachineLogs>,
    },
    /// The same of services beside, by their names, with why any of them cannot be sampled.
    Beside(Vec<(String, Profiler)>, Vec<String>),
    /// What ends waits.
    Waking(WakerWatch),
    /// A tracer that stops the server at every call.
    Tracing(Tracing),
    /// What was asked for cannot be had: why.
    Refused(String),
}

impl Watching for Watch {
    fn begin(&mut self) {
        match self {
            Self::Counting { counting: Some(counting), before, .. } => *before = Some(counting.read()),
            Self::Sampling { profiler, machines } => {
                profiler.begin();
                machines.iter_mut().for_each(MachineLogs::turn_begins);
            }
            Self::Beside(profilers, _) => profilers.iter_mut().for_each(|(_, one)| one.begin()),
            Self::Waking(wakers) => wakers.begin(),
            Self::Tracing(tracing) => tracing.begin(),
            _ => {}
        }
    }

    fn end(&mut self) {
        match self {
            Self::Counting { counting: Some(counting), before: Some(before), turns, .. } => {
                turns.push(counting.read().since(before));
            }
            Self::Sampling { profiler, machines } => {
                machines.iter_mut().for_each(MachineLogs::turn_ends);
                profiler.pause();
            }
            Self::Beside(profilers, _) => profilers.iter_mut().for_each(|(_, one)| one.pause()),
            Self::Waking(wakers) => wakers.pause(),
            Self::Tracing(tracing) => tracing.end(),
            _ => {}
        }
    }
}

impl Watch {
    fn attach(
        kind: PassKind,
        own: OwnCpus,
        target: &Group,
        launcher: &Launcher,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let sampling = |profiler: Result<Profiler, ObserveError>, machines| match profiler {
            Ok(profiler) => Self::Sampling { profiler: Box::new(profiler), machines },
            Err(error) => Self::Refused(format!("no profile: {error}")),
        };
        Ok(match kind {
            PassKind::Sampling => {
                let machines = MachineLogs::begin(target, launcher, log);
                sampling(Profiler::attach(target, SAMPLES_HZ, &own), machines)
            }
            PassKind::Waiting => sampling(Profiler::attach_off_cpu(target), None),
            PassKind::Waking => match WakerWatch::attach(target) {
                Ok(wakers) => Self::Waking(wakers),
                Err(error) => Self::Refused(error.to_string()),
            },
            PassKind::Tracing if !target.is_supervised() => Self::Refused(NOT_STOPPED.to_owned()),
            PassKind::Tracing => match Tracing::start(target) {
                Ok(tracing) => Self::Tracing(tracing),
                Err(error) => Self::Refused(format!("no counts of system calls: {error}")),
            },
            PassKind::Counting | PassKind::Untouched | PassKind::Beside => {
                Self::Counting { counting: None, before: None, turns: Vec::new(), own }
            }
        })
    }

    /// Samples services beside. Their processes may begin with every connection and live shortly: where whole CPUs can be
    /// sampled, that sees them too.
    fn beside(services: &[(String, Group)], own: &OwnCpus) -> Self {
        let (mut profilers, mut missing) = (Vec::new(), Vec::new());
        for (name, group) in services {
            match Profiler::attach(group, SAMPLES_HZ, own) {
                Ok(profiler) => profilers.push((name.clone(), profiler)),
                Err(error) => missing.push(format!("no profile of service '{name}': {error}")),
            }
        }
        Self::Beside(profilers, missing)
    }

    /// Makes ready for the next turn.
    fn prepare(&mut self, target: &Group) -> anyhow::Result<()> {
        match self {
            Self::Counting { counting, own, .. } => {
                *counting = Some(Counting::attach(target, own)?.sparingly(own));
            }
            Self::Tracing(tracing) => tracing.prepare(target),
            _ => {}
        }
        Ok(())
    }

    /// Lets go of what would cost the next turn something.
    fn rest(&mut self) {
        if let Self::Counting { counting, .. } = self
            && let Some(counting) = counting.take()
        {
            counting.detach().join().expect("letting counters go does not panic");
        }
    }

    /// Puts what was seen into the pass; what was sampled during `stalls` is told apart.
    fn finish(self, pass: &mut Pass, target: &Group, stalls: &[[u64; 2]], launcher: &Launcher) {
        match self {
            Self::Counting { turns, .. } => {
                let counts = Counts::of_turns(&turns);
                pass.missing.extend(counts.missing.iter().cloned());
                pass.counts = Some(counts);
            }
            Self::Sampling { profiler, machines } => {
                let samples: Samples = profiler.stop();
                let _maps = crate::jvm::write_maps(target, launcher);
                pass.profile = Some(samples.resolve(stalls));
                if let Some(machines) = machines {
                    pass.machine = machines.read();
                    pass.missing.extend(machines.missing);
                }
            }
            Self::Beside(profilers, missing) => {
                let resolved = |(name, one): (String, Profiler)| (name, one.stop().resolve(stalls));
                pass.services = profilers.into_iter().map(resolved).collect();
                pass.missing.extend(missing);
            }
            Self::Waking(wakers) => {
                let _maps = crate::jvm::write_maps(target, launcher);
                let waits = wakers.stop();
                pass.missing.extend(waits.missing.iter().cloned());
                pass.waits = Some(waits);
            }
            Self::Tracing(tracing) => {
                let counts = tracing.counts();
                pass.missing.extend(counts.missing.iter().cloned());
                pass.counts = Some(counts);
            }
            Self::Refused(why) => pass.missing.push(why),
        }
    }
}
