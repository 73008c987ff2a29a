//! Servers that are alive together, and the generators that load one of them at a time.

use std::path::Path;
use std::time::Duration;

use model::job::{Job, Turn, TurnPace, TurnReport};
use model::plan::{Condition, Plan, SplitMix64};
use model::record::{FailureKind, Slice};
use observe::{Group, Observed, ReadinessAt, ReadinessWatch, Reading, ResourceSnapshot, Sampler};

use super::Early;
use super::generator::{Generator, Pooled};
use super::remote::{Command, Event, Remote};
use super::server::{Bench, Server};

/// Load before each turn that counts, to bring back what the caches lost in the turns of others.
const LEAD: Duration = Duration::from_millis(4);
/// Turns without an answer from which on a server counts as one that gives none.
const TRIES: u32 = 5;
/// A turn of so long needs none: what the caches lost is too small a part of it, and the lead of a slow server is a turn by itself.
const NO_LEAD: Duration = Duration::from_millis(100);
/// Answers under load from which on a server that gives no more is not merely slow.
const NOT_SLOW: u64 = 100;
/// How long answers are waited for after a turn. What takes longer is given up and counted as such.
const DRAIN: Duration = Duration::from_secs(10);
/// The same, at least, once an arm has left requests unanswered while it answered others: one that starves connections, in every turn or
/// now and then, would otherwise cost ten seconds each time.
const DRAIN_OF_STARVED: Duration = Duration::from_millis(250);
/// How many times as long as its latest answer is waited for such an arm: what it does answer is not to be given up.
const LATEST_ANSWERS: u32 = 2;
/// How long a server may take to end after its sockets have: the kernel closes them first.
pub(super) const EXIT_PATIENCE: Duration = Duration::from_millis(500);

/// How one turn loads its server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) condition: Condition,
    pub(super) length: Duration,
    /// Seed of the arrivals: the same for every arm of a cycle, so that all meet the same traffic.
    pub(super) seed: u64,
    /// Where its latencies are kept, if they are.
    pub(super) pool: Option<u32>,
}

/// What one turn brought.
pub(super) struct Taken {
    /// Of the load before it, which counts for nothing but that a server may stop in it.
    pub(super) lead: Option<TurnReport>,
    pub(super) report: TurnReport,
    pub(super) observed: Observed,
    /// How the turn looks in the record.
    pub(super) slice: Slice,
}

/// What watches a server more closely during a turn, beside the readings at its edges.
pub(super) trait Watching {
    /// The load begins that comes before a turn and does not count.
    fn lead(&mut self) {}
    /// The turn begins.
    fn begin(&mut self);
    /// It has ended, and the server is quiet.
    fn end(&mut self);
}

/// Nothing is watched but the counters at the edges.
pub(super) struct Unwatched;

/// What is watched is when the server and its generator were ready to run and had no CPU; nothing of one that is elsewhere.
pub(super) struct ReadinessWatching {
    groups: Vec<Group>,
    watch: Option<ReadinessWatch>,
    /// Of all turns, in the order of time.
    pub(super) readings: Vec<ReadinessAt>,
}

impl Watching for ReadinessWatching {
    fn lead(&mut self) {
        self.watch = Some(ReadinessWatch::begin(&self.groups));
    }

    fn begin(&mut self) {
        self.watch.get_or_insert_with(|| ReadinessWatch::begin(&self.groups));
    }

    fn end(&mut self) {
        self.readings.extend(self.watch.take().into_iter().flat_map(ReadinessWatch::end));
    }
}

impl Watching for Unwatched {
    fn begin(&mut self) {}
    fn end(&mut self) {}
}

/// The counters at one edge of a turn, as far as they are of this machine; those of others are kept there.
pub(super) struct Edge(Option<Reading>);

/// Servers with their generators: one generator for all that are asked in the same way.
pub(super) struct Together<'a> {
    bench: Bench<'a>,
    pub(super) servers: Vec<Server>,
    generators: Vec<Generator>,
    /// Of each generator, what is read here of it and the servers: nothing where both are on other machines.
    samplers: Vec<Option<Sampler>>,
    /// Of each server, its generator and which endpoint of it the server is.
    places: Vec<(usize, usize)>,
    /// To each server.
    connections: u32,
    /// How long answers are waited for after a turn at most.
    pub(super) drain: Duration,
    /// The same of each server.
    patience: Vec<Duration>,
    /// Of each server, how many requests it has answered.
    answers: Vec<u64>,
    turns: u32,
}

/// One job for all servers that are asked in the same way; of each server, its job and which endpoint of it the server is.
fn jobs(bench: &Bench, servers: &[Server], connections: u32) -> (Vec<Job>, Vec<(usize, usize)>) {
    let (mut jobs, mut places) = (Vec::<Job>::new(), Vec::new());
    for server in servers {
        let arm = &bench.plan.arms[server.arm];
        let asked = bench.plan.workload.job.beside(&bench.services.places());
        let job = Job { connections, ..asked.under(&arm.circumstances) };
        let known = jobs.iter().position(|known| Job { endpoints: Vec::new(), ..known.clone() } == job);
        let index = known.unwrap_or_else(|| {
            jobs.push(job);
            jobs.len() - 1
        });
        places.push((index, jobs[index].endpoints.len()));
        jobs[index].endpoints.push(bench.place(server.arm, server.address).endpoint());
    }
    (jobs, places)
}

impl<'a> Together<'a> {
    /// Opens `connections` to each server.
    pub(super) fn begin(
        bench: Bench<'a>,
        servers: Vec<Server>,
        connections: u32,
        log: &Path,
    ) -> Result<Self, Early> {
        let (jobs, places) = jobs(&bench, &servers, connections);
        if let Some(remote) = &bench.elsewhere.server {
            let servers = servers.iter().filter_map(Server::number).collect();
            remote.done(&Command::Watch { servers })?;
        }
        let (mut generators, mut samplers) = (Vec::new(), Vec::new());
        for job in &jobs {
            let generator = generator(&bench, job, log)?;
            samplers.push(sampler(&bench, &servers, &generator)?);
            generators.push(generator);
        }
        let patience =
            servers.iter().map(|server| bench.known.patience(server.arm).unwrap_or(DRAIN)).collect();
        let answers = vec![0; servers.len()];
        Ok(Self {
            bench,
            servers,
            generators,
            samplers,
            places,
            connections,
            drain: DRAIN,
            patience,
            answers,
            turns: 0,
        })
    }

    /// Loads server number `index` for one turn, from quiet to quiet. A failed server is named by its arm.
    ///
    /// A turn without any answer is taken again: something else had the server's CPUs, or the generator's, for as long.
    pub(super) fn turn(
        &mut self,
        index: usize,
        cycle: u32,
        asking: &Asking,
        watching: &mut dyn Watching,
    ) -> Result<Taken, Early> {
        let taken = self.answered(index, cycle, asking, watching);
        if taken.is_err() {
            self.bench.elsewhere.check()?;
        }
        taken
    }

    fn answered(
        &mut self,
        index: usize,
        cycle: u32,
        asking: &Asking,
        watching: &mut dyn Watching,
    ) -> Result<Taken, Early> {
        let mut tries = 0;
        loop {
            let taken = self.once(index, cycle, asking, watching)?;
            tries += 1;
            if !is_empty(&taken.report) {
                return Ok(taken);
            }
            if tries == TRIES {
                return Err(self.no_answer(index, &taken.report));
            }
        }
    }

    fn once(
        &mut self,
        index: usize,
        cycle: u32,
        asking: &Asking,
        watching: &mut dyn Watching,
    ) -> Result<Taken, Early> {
        let mut lead = None;
        if asking.pool.is_some() && asking.length < NO_LEAD {
            watching.lead();
            lead = Some(self.ask(index, &Asking { length: LEAD.min(asking.length), pool: None, ..*asking })?);
        }
        let before = self.read(index)?;
        watching.begin();
        let report = self.ask(index, asking);
        watching.end();
        let report = report?;
        let seen = self.since(index, &before)?;
        self.check(index, &report)?;
        let observed = observed(seen, &report);
        let slice = slice(cycle, self.turns, &report, &observed);
        self.turns += 1;
        Ok(Taken { lead, report, observed, slice })
    }

    /// Watches when server number `index` and its generator were ready to run, in that order.
    pub(super) fn watching_readiness(&self, index: usize) -> ReadinessWatching {
        let (generator, _) = self.places[index];
        let load = self.generators[generator].supervisor_pid().and_then(|pid| Group::below(pid).ok());
        let groups = vec![self.servers[index].group.clone(), load.unwrap_or_else(Group::unseen)];
        ReadinessWatching { groups, watch: None, readings: Vec::new() }
    }

    /// What the turns of `pool` brought, of server number `index`.
    pub(super) fn pooled(&mut self, index: usize, pool: u32, hlog: Option<&Path>) -> Result<Pooled, Early> {
        let (generator, _) = self.places[index];
        self.generators[generator].report(pool, hlog, self.bench.interrupt)
    }

    /// Resources of server number `index` now, if it is on this machine.
    pub(super) fn resources(&self, index: usize) -> Result<Option<ResourceSnapshot>, Early> {
        match &self.samplers[0] {
            Some(sampler) if self.bench.elsewhere.server.is_none() => Ok(Some(sampler.resources(index)?)),
            _ => Ok(None),
        }
    }

    /// CPUs that server number `index` keeps busy while nobody asks anything, watched for `time`. What compiles has an end, and does not
    /// count.
    pub(super) fn idle_share(&mut self, index: usize, time: Duration) -> Result<f64, Early> {
        let before = self.read(index)?;
        std::thread::sleep(time);
        let used = self.since(index, &before)?.target;
        let lasting_ns = used.cpu.total_ns.saturating_sub(used.compiling_ns());
        Ok(lasting_ns as f64 / used.wall_ns.max(1) as f64)
    }

    /// Stops everything.
    pub(super) fn end(self) {
        self.generators.into_iter().for_each(Generator::finish);
        // All are told before any is waited for.
        std::thread::scope(|scope| {
            for server in self.servers {
                scope.spawn(move || server.stop());
            }
        });
    }

    fn ask(&mut self, index: usize, asking: &Asking) -> Result<TurnReport, Early> {
        let (generator, endpoint) = self.places[index];
        let poll = self.bench.plan.placement.polls;
        let pace = match asking.condition {
            Condition::Capacity => TurnPace::Closed { poll },
            Condition::EqualRate { rate } => {
                TurnPace::Open { rate, poisson: self.bench.plan.workload.poisson }
            }
            Condition::ShareOfSlowest { .. } => {
                return Err(anyhow::anyhow!("no pilot has found the rate of the slowest arm").into());
            }
        };
        let turn = Turn {
            endpoint,
            pace,
            seed: asking.seed,
            begin_ns: None,
            length_ns: nanoseconds(asking.length),
            requests: None,
            drain_ns: nanoseconds(self.drain.min(self.patience[index])),
            pool: asking.pool,
        };
        let report = self.generators[generator].turn(turn, self.bench.interrupt)?;
        if report.given_up > 0 && report.requests > 0 {
            self.patience[index] = patience_with_starved(&report.late_ns);
            self.bench.known.note_patience(self.servers[index].arm, self.patience[index]);
        }
        self.answers[index] += report.requests;
        Ok(report)
    }

    /// Reads all counters before a turn; what is on other machines is read first.
    fn read(&mut self, index: usize) -> Result<Edge, Early> {
        let (generator, _) = self.places[index];
        self.generators[generator].mark()?;
        if let Some(remote) = &self.bench.elsewhere.server {
            match remote.ask(&Command::Mark { loaded: index })? {
                Event::Done => {}
                other => return Err(self.failed_there(index, remote, other)),
            }
        }
        Ok(Edge(self.read_here(index)?))
    }

    /// What happened since `before`, wherever it did.
    fn since(&mut self, index: usize, before: &Edge) -> Result<Observed, Early> {
        let now = self.read_here(index)?;
        let here = now.zip(before.0.as_ref()).map(|(now, before)| now.since(before)).unwrap_or_default();
        let (generator, _) = self.places[index];
        let load = self.generators[generator].since()?;
        let servers = match &self.bench.elsewhere.server {
            None => return Ok(load.map_or(here.clone(), |load| here.with_load(load))),
            Some(remote) => match remote.ask(&Command::Since { loaded: index })? {
                Event::Observed(observed) => *observed,
                other => return Err(self.failed_there(index, remote, other)),
            },
        };
        Ok(servers.with_load(load.unwrap_or(here)))
    }

    fn failed_there(&self, index: usize, remote: &Remote, event: Event) -> Early {
        match event {
            Event::Failed(failure) => Early::Arm(self.servers[index].arm, failure),
            other => remote.unexpected(&other),
        }
    }

    fn read_here(&mut self, index: usize) -> Result<Option<Reading>, Early> {
        let (generator, _) = self.places[index];
        let Some(sampler) = &self.samplers[generator] else { return Ok(None) };
        match sampler.read(index) {
            Ok(reading) => Ok(Some(reading)),
            Err(error) => Err(match self.servers[index].crash(EXIT_PATIENCE) {
                Some(failure) => Early::Arm(self.servers[index].arm, failure),
                None => self.bench.services.check().err().unwrap_or_else(|| error.into()).into(),
            }),
        }
    }

    /// A server that is gone, or that answered nothing.
    fn check(&mut self, index: usize, report: &TurnReport) -> Result<(), Early> {
        let failed = report.errors.total() + report.given_up > 0;
        let patience = if failed { EXIT_PATIENCE } else { Duration::ZERO };
        let server = &mut self.servers[index];
        if let Some(failure) = server.crash(patience) {
            return Err(Early::Arm(server.arm, failure));
        }
        if is_empty(report) && failed {
            return Err(self.no_answer(index, report));
        }
        Ok(())
    }

    fn no_answer(&self, index: usize, report: &TurnReport) -> Early {
        let server = &self.servers[index];
        let waited_s = Duration::from_nanos(report.quiet_ns.saturating_sub(report.start_ns)).as_secs_f64();
        let (kind, text) = silent(self.answers[index], self.connections, waited_s);
        Early::Arm(server.arm, server.failure(kind, text))
    }
}

/// What is said of a server that answered nobody for so long, after `answers` under load.
fn silent(answers: u64, connections: u32, waited_s: f64) -> (FailureKind, String) {
    if answers >= NOT_SLOW {
        let text = format!(
            "it stopped answering after {answers} requests: none was answered in {waited_s:.1} s; look for a lock, or for what it \
             ran out of"
        );
        return (FailureKind::Stopped, text);
    }
    let help = match connections {
        1 => "what takes so long cannot be compared; ask for less (--path)",
        _ => "lower --connections",
    };
    (FailureKind::NotReady, format!("it answered no request within {waited_s:.1} s: {help}"))
}

/// Whether a turn had requests to be answered and none was.
fn is_empty(report: &TurnReport) -> bool {
    report.requests == 0 && report.due != Some(0)
}

/// Starts a generator for `job` where generators run.
fn generator(bench: &Bench, job: &Job, log: &Path) -> Result<Generator, Early> {
    let cpus = &bench.plan.placement.load;
    match bench.elsewhere.generators(cpus) {
        machines if machines.is_empty() => Generator::start(job, cpus, log, bench.launcher, bench.interrupt),
        machines => Generator::start_there(job, &machines),
    }
}

/// What is watched here of the servers and their generator.
fn sampler(bench: &Bench, servers: &[Server], generator: &Generator) -> Result<Option<Sampler>, Early> {
    let groups = || servers.iter().map(|server| server.group.clone()).collect();
    let load = generator.supervisor_pid().map(Group::below).transpose()?;
    let placement = &bench.plan.placement;
    let (server_cpus, load_cpus) = (placement.server.clone(), placement.load.clone());
    let sampler = match (load, &bench.elsewhere.server) {
        (Some(load), None) => Sampler::new(groups(), load, server_cpus, load_cpus),
        (Some(load), Some(_)) => Sampler::of_generator(load, load_cpus),
        (None, None) => Sampler::of_targets(groups(), server_cpus),
        (None, Some(_)) => return Ok(None),
    };
    let own = servers.iter().flat_map(|server| server.beside.iter().cloned());
    Ok(Some(sampler.beside(bench.services.groups().into_iter().chain(own).collect())))
}

/// The order of the servers in one cycle: a random one, then the same reversed, so that each comes first as often as last.
pub(super) fn order(plan: &Plan, of: u64, cycle: u32, servers: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    SplitMix64::fork(plan.seed, "cycle", of << 32 | u64::from(cycle / 2)).shuffle(&mut order);
    if cycle % 2 == 1 {
        order.reverse();
    }
    order
}

/// What was seen between two quiet moments, over the time in which requests were under way.
fn observed(mut observed: Observed, report: &TurnReport) -> Observed {
    let busy_ns = report.quiet_ns.saturating_sub(report.start_ns).max(1);
    let cpu_ns = observed.target.cpu.total_ns / u64::from(observed.server_cpus.cpus.max(1));
    observed.target.wall_ns = at_work_ns(busy_ns, cpu_ns, observed.target.wall_ns);
    observed.generator.wall_ns = busy_ns;
    let busiest = report.cpu.busy_ns as f64 / busy_ns as f64;
    observed.without_polling(report.cpu.polled_ns, busiest)
}

/// For how long a server was at work, in nanoseconds: while answers were due, and longer where it tidies up after the last one.
/// `cpu_ns` is its CPU time on each of its CPUs, `between_ns` the time from one reading to the other. Around the turn the readings
/// wait for each other, which is no work.
fn at_work_ns(busy_ns: u64, cpu_ns: u64, between_ns: u64) -> u64 {
    busy_ns.max(cpu_ns.min(between_ns))
}

fn slice(cycle: u32, turn: u32, report: &TurnReport, observed: &Observed) -> Slice {
    Slice {
        cycle,
        turn,
        start_ns: report.start_ns,
        length_ns: report.end_ns.saturating_sub(report.start_ns),
        requests: report.requests,
        in_time: report.in_time,
        cpu_ns: observed.target.cpu.total_ns,
        wall_ns: observed.target.wall_ns,
        idle_arms_ns: observed.idle_ns.iter().sum(),
        others_ns: observed.server_cpus.others_ns,
        steal_ns: observed.server_cpus.steal_ns,
        throttled_ns: observed.server_cpus.throttled_ns,
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// How long answers are waited for of a server that left some requests unanswered and answered others so many nanoseconds after a turn, in
/// rising order.
fn patience_with_starved(late_ns: &[u64]) -> Duration {
    let latest = Duration::from_nanos(late_ns.last().copied().unwrap_or(0));
    (LATEST_ANSWERS * latest).clamp(DRAIN_OF_STARVED, DRAIN)
}

#[cfg(test)]
mod tests {
    use model::record::FailureKind;

    use super::{Duration, at_work_ns, patience_with_starved, silent};

    #[test]
    fn who_stops_after_many_answers_is_not_told_to_take_fewer_connections() {
        let (kind, text) = silent(3_000, 64, 2.0);
        assert_eq!(kind, FailureKind::Stopped);
        assert!(
            text.starts_with("it stopped answering after 3000 requests: none was answered in 2.0 s"),
            "{text}"
        );
        assert!(!text.contains("--connections"), "{text}");
        let (kind, text) = silent(3, 64, 2.0);
        assert_eq!(
            (kind, text.as_str()),
            (FailureKind::NotReady, "it answered no request within 2.0 s: lower --connections")
        );
    }

    #[test]
    fn who_starves_some_is_waited_for_as_long_as_it_takes_to_answer_others() {
        for (late_ms, expected_ms) in
            [(&[][..], 250), (&[3, 40], 250), (&[20, 900], 1_800), (&[4_000, 9_000], 10_000)]
        {
            let late_ns: Vec<u64> = late_ms.iter().map(|ms: &u64| ms * 1_000_000).collect();
            assert_eq!(patience_with_starved(&late_ns), Duration::from_millis(expected_ms), "{late_ms:?}");
        }
    }

    #[test]
    fn a_server_is_at_work_until_it_has_tidied_up_and_no_longer_than_it_was_watched() {
        for (busy, cpu, between, expected) in [(50, 40, 60, 50), (50, 58, 60, 58), (50, 70, 60, 60)] {
            assert_eq!(at_work_ns(busy, cpu, between), expected, "{busy} {cpu} {between}");
        }
    }
}
