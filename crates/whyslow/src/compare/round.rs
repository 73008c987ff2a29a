//! One round: fresh server, ready, warm, one window for each condition, stopped.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use launch::{LaunchError, Launcher, Process, Spec, free_port, log_tail, wait_ready};
use model::plan::{Arm, Condition, Placeholders, Placement, Plan, Round, SplitMix64};
use model::record::{Failure, FailureKind, LoadReport, RoundRecord, RunDir, SCHEMA_VERSION, Warmup, Window};
use model::units::Span;
use observe::{DistanceWatch, Group, Observed, Sampler};

use super::diagnose::Watch;
use super::generator::{Event, Phase, Running};
use super::progress::Progress;
use crate::interrupt::Interrupt;

/// Load before every window but the first, whose warm-up is the round's: the change of load must have passed.
pub(super) const SETTLE: Span = Span(Duration::from_millis(500));
/// Length of a pilot's window: its rate only has to be right within some percent.
const PILOT_WINDOW: Span = Span::from_secs(1);
/// The purpose of a server that is watched closely and not scored, and the name of its log.
pub(super) const DIAGNOSTIC: &str = "diagnostic";
/// Lines of the target's log that go with a crash.
const LOG_LINES: usize = 10;

/// How long a server may take to end after its sockets have: the kernel closes them first.
const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// Why a round ended early.
pub(super) enum Early {
    /// The arm failed; the others go on.
    Failed(Failure),
    /// The user asked us to stop.
    Interrupted,
    /// We failed.
    Broken(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Early {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// What a generator reports: its figures, the shape of the responses, and how long it polled in vain.
pub(super) struct Measured {
    load: LoadReport,
    buckets: Vec<[u64; 2]>,
    polled_ns: u64,
    silences_ns: Vec<[u64; 2]>,
}

impl Measured {
    /// Silences that are no mere pause between two answers, as the generator saw them.
    pub(super) fn stalls(&self) -> Vec<[u64; 2]> {
        analyse::stalls(&self.silences_ns, self.load.window_ns, self.load.requests)
    }
}

/// What was seen in a window from outside.
pub(super) struct Seen {
    observed: Observed,
    cpu_distances_ns: Vec<f64>,
}

/// What rounds are run with.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dir: &'a RunDir,
    pub(super) launcher: &'a Launcher,
    pub(super) interrupt: &'a Interrupt,
}

/// A server that answered as expected, and where.
pub(super) struct Server {
    pub(super) process: Process,
    port: u16,
}

impl Bench<'_> {
    /// Runs `round` under `conditions`; a failed arm is in the record, not an error.
    pub(super) fn run(
        &self,
        round: &Round,
        conditions: &[Condition],
        progress: &mut Progress,
    ) -> Result<RoundRecord, Early> {
        let mut record = self.blank(round);
        let hlog = self.dir.hlog_path(round);
        let outcome = self.measure("port", &mut record, |bench, server, record| {
            for (index, condition) in conditions.iter().enumerate() {
                let hlog = (index + 1 == conditions.len()).then_some(hlog.as_path());
                let window = bench.window(server, record, *condition, hlog, progress)?;
                record.windows.push(window);
                // A round that does not count need not go on.
                if analyse::host_fault(record).is_some() {
                    break;
                }
            }
            Ok(())
        });
        keep_failure(outcome, record)
    }

    /// Starts the arm of `round` once, keeps its answer, and finds its rate in a short closed loop.
    pub(super) fn pilot(&self, round: &Round, progress: &mut Progress) -> Result<(RoundRecord, f64), Early> {
        let mut record = self.blank(round);
        let mut per_s = 0.0;
        let outcome = self.measure("pilot", &mut record, |bench, server, record| {
            let log = bench.dir.log_path(&record.round, "pilot");
            let phase = Phase {
                warmup: SETTLE,
                warmup_until: SETTLE,
                window: PILOT_WINDOW,
                ..bench.phase(server, record, Condition::Capacity, &log)
            };
            let (measured, _) =
                bench.drive(&phase, server, &mut Warmup::default(), &mut Watch::Nothing, progress)?;
            per_s = measured.load.rate_per_s;
            Ok(())
        });
        Ok((keep_failure(outcome, record)?, per_s))
    }

    pub(super) fn arm(&self, round: &Round) -> &Arm {
        &self.plan.arms[round.arm]
    }

    pub(super) fn blank(&self, round: &Round) -> RoundRecord {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        RoundRecord {
            schema: SCHEMA_VERSION,
            round: round.clone(),
            arm: self.arm(round).name.clone(),
            started_unix_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            port: 0,
            ready_ms: 0,
            answer: None,
            fairness: model::record::Fairness::default(),
            warmup: Warmup::default(),
            windows: Vec::new(),
            failure: None,
        }
    }

    /// Starts the server for `purpose`, lets `work` use it, and stops it whatever came of that.
    pub(super) fn measure(
        &self,
        purpose: &str,
        record: &mut RoundRecord,
        work: impl FnOnce(&Self, &mut Server, &mut RoundRecord) -> Result<(), Early>,
    ) -> Result<(), Early> {
        let mut server = self.start(purpose, record)?;
        let outcome = work(self, &mut server, record);
        let _ = server.process.stop();
        outcome
    }

    fn start(&self, purpose: &str, record: &mut RoundRecord) -> Result<Server, Early> {
        let arm = self.arm(&record.round);
        let failed = |error: LaunchError| match error {
            LaunchError::Interrupted => Early::Interrupted,
            error => Early::Failed(error.failure()),
        };
        // A port of its own for each attempt and purpose: on one that was used a moment ago, connections linger.
        let Round { block, position, attempt, .. } = record.round;
        let order = u64::from(attempt) << 40 | u64::from(block) << 8 | u64::from(position);
        let port = free_port(SplitMix64::fork(self.plan.seed, purpose, order).next_u64()).map_err(failed)?;
        record.port = port;
        let log = self.dir.log_path(&record.round, &arm.name);
        let mut spec = Spec {
            cpus: Some(arm.circumstances.cpus.as_ref().unwrap_or(&self.plan.placement.server).clone()),
            env_padding_bytes: record.round.env_padding_bytes,
            ..Spec::of_arm(arm, &placeholders(arm, &self.plan.placement, port), &log)
        };
        if purpose == DIAGNOSTIC {
            crate::runtimes::let_be_profiled(&mut spec.env);
        }
        let mut process = self.launcher.start(&spec).map_err(failed)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let limit = self.plan.timing.ready_limit.0;
        let ready = wait_ready(&mut process, address, &self.plan.workload.path, &arm.expect, limit)
            .map_err(failed)?;
        record.ready_ms = ready.ready_ms;
        record.answer = Some(ready.answer);
        let group = Group::below(process.supervisor_pid())?;
        record.fairness = group.fairness()?;
        if let Some(library) = &arm.circumstances.preload {
            preloaded(&group, library)?;
        }
        if self.plan.placement.awake {
            scheduled_with_us(&group)?;
        }
        Ok(Server { process, port })
    }

    pub(super) fn phase<'p>(
        &'p self,
        server: &Server,
        record: &RoundRecord,
        condition: Condition,
        log: &'p Path,
    ) -> Phase<'p> {
        Phase {
            plan: self.plan,
            circumstances: &self.arm(&record.round).circumstances,
            status: self.arm(&record.round).expect.status,
            port: server.port,
            condition,
            warmup: SETTLE,
            warmup_until: SETTLE,
            window: self.plan.timing.window,
            seed: record.round.arrival_seed,
            hlog: None,
            log,
        }
    }

    fn window(
        &self,
        server: &mut Server,
        record: &mut RoundRecord,
        condition: Condition,
        hlog: Option<&Path>,
        progress: &mut Progress,
    ) -> Result<Window, Early> {
        let log = self.dir.log_path(&record.round, "generator");
        let timing = &self.plan.timing;
        let first = record.windows.is_empty();
        let warmup = timing.warmup_of(self.arm(&record.round).warmup);
        let (warmup, warmup_until) = if first { (warmup, timing.warmup_cap) } else { (SETTLE, SETTLE) };
        let phase = Phase { warmup, warmup_until, hlog, ..self.phase(server, record, condition, &log) };
        let mut settled = Warmup::default();
        let (measured, seen) = self.drive(&phase, server, &mut settled, &mut Watch::Nothing, progress)?;
        if first {
            record.warmup = settled;
        }
        let seen = seen.context("the generator measured no window")?;
        Ok(joined(condition, measured, seen))
    }

    /// Watches whether the hypervisor moves the CPUs of server and generator, where they are virtual.
    fn watch_distance(&self) -> anyhow::Result<Option<DistanceWatch>> {
        let Placement { server, load, awake, .. } = &self.plan.placement;
        let start = || DistanceWatch::start(server, load).context("cannot watch the CPUs");
        awake.then(start).transpose()
    }

    /// Follows a generator through its events and reads the counters at the edges of its window.
    pub(super) fn drive(
        &self,
        phase: &Phase,
        server: &mut Server,
        warmup: &mut Warmup,
        watch: &mut Watch,
        progress: &mut Progress,
    ) -> Result<(Measured, Option<Seen>), Early> {
        let mut generator = phase.start(self.launcher)?;
        let sampler = self.sampler(server, &generator)?;
        let (mut before, mut seen) = (None, None);
        let measured = loop {
            let event = generator.next(self.interrupt).map_err(|error| without_generator(server, &error))?;
            match event {
                None => return Err(Early::Interrupted),
                Some(Event::WarmupSecond { requests }) => warmup.per_second.push(requests),
                Some(Event::WindowStart { steady }) => {
                    before = Some((self.read(&sampler, server)?, self.watch_distance()?));
                    watch.begin();
                    warmup.steady = steady;
                }
                Some(Event::WindowEnd) => {
                    watch.end();
                    let after = self.read(&sampler, server)?;
                    seen = before.take().map(|(before, distances)| Seen {
                        observed: after.since(&before),
                        cpu_distances_ns: distances.map(DistanceWatch::stop).unwrap_or_default(),
                    });
                }
                Some(Event::Report { report, response_buckets: buckets, polled_ns, silences_ns }) => {
                    break Measured { load: *report, buckets, polled_ns, silences_ns };
                }
            }
            progress.tick();
        };
        generator.finish();
        crashed(server)?;
        Ok((measured, seen))
    }

    fn sampler(&self, server: &Server, generator: &Running) -> anyhow::Result<Sampler> {
        let target = Group::below(server.process.supervisor_pid())?;
        let generator = Group::below(generator.supervisor_pid())?;
        let Placement { server, load, awake, .. } = &self.plan.placement;
        Ok(Sampler::new(target, generator, server.clone(), load.clone()).kept_awake(*awake))
    }

    /// One reading; where it fails because the server is gone, that is the failure.
    fn read(&self, sampler: &Sampler, server: &mut Server) -> Result<observe::Reading, Early> {
        crashed(server)?;
        sampler.read().map_err(|error| match crashed_within(server, EXIT_PATIENCE) {
            Some(crash) => crash,
            None => error.into(),
        })
    }
}

/// What the generator measured and what was seen meanwhile.
pub(super) fn joined(condition: Condition, measured: Measured, seen: Seen) -> Window {
    let Measured { load, buckets, polled_ns, .. } = measured;
    let cpu_distances_ns = seen.cpu_distances_ns;
    let observed = seen.observed.without_polling(polled_ns, load.busiest_thread);
    Window {
        condition,
        load,
        target: observed.target,
        generator: observed.generator,
        server_cpus: observed.server_cpus,
        load_cpus: observed.load_cpus,
        resources: Some(observed.resources),
        observer_cpu_ns: observed.observer_cpu_ns,
        cpu_distances_ns,
        response_buckets: buckets,
    }
}

/// An arm whose figures would not be those of the change it was started with.
fn preloaded(group: &Group, library: &str) -> Result<(), Early> {
    if !group.pids_with(library)?.is_empty() {
        return Ok(());
    }
    let text =
        format!("{library} is not loaded in it: a program that is linked statically takes no other library");
    Err(Early::Failed(Failure { kind: FailureKind::Start, text, log: Vec::new() }))
}

/// A server from which the threads that keep its CPUs awake would take half of them.
fn scheduled_with_us(group: &Group) -> Result<(), Early> {
    if !group.is_scheduled_apart()? {
        return Ok(());
    }
    let text = "it began a session or cgroup of its own, in which the threads that keep CPUs awake would take half of its \
                time: keep it in the foreground, or pass --keep-awake off";
    Err(Early::Failed(Failure { kind: FailureKind::Start, text: text.to_owned(), log: Vec::new() }))
}

/// A server that ended although it was not asked to.
fn crashed(server: &mut Server) -> Result<(), Early> {
    crashed_within(server, Duration::ZERO).map_or(Ok(()), Err)
}

/// As [`crashed`], of a server that may be ending.
fn crashed_within(server: &mut Server, patience: Duration) -> Option<Early> {
    let exit = server.process.wait(patience)?;
    Some(Early::Failed(Failure {
        kind: FailureKind::Crashed,
        text: format!("it {exit} under load"),
        log: log_tail(server.process.log(), LOG_LINES),
    }))
}

/// A generator that gave up: because its server is gone, or for a reason of its own, which it told.
fn without_generator(server: &mut Server, error: &anyhow::Error) -> Early {
    crashed_within(server, EXIT_PATIENCE).unwrap_or_else(|| {
        Early::Failed(Failure {
            kind: FailureKind::Generator,
            text: format!("{error:#}"),
            log: log_tail(server.process.log(), LOG_LINES),
        })
    })
}

pub(super) fn keep_failure(
    outcome: Result<(), Early>,
    mut record: RoundRecord,
) -> Result<RoundRecord, Early> {
    match outcome {
        Ok(()) => {}
        Err(Early::Failed(failure)) => record.failure = Some(failure),
        Err(other) => return Err(other),
    }
    Ok(record)
}

/// Values for the placeholders of an arm's command.
pub(crate) fn placeholders(arm: &Arm, placement: &Placement, port: u16) -> Placeholders {
    Placeholders {
        port,
        host: Ipv4Addr::LOCALHOST.to_string(),
        workers: arm.circumstances.workers.unwrap_or(placement.server.len() as u32),
        dir: arm.dir.clone().unwrap_or_default(),
        build: arm.build_dir.clone().unwrap_or_default(),
    }
}
