//! One block: fresh servers, alive together and loaded in turn, or one after the other where they cannot be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use analyse::warm_up::Course;
use model::plan::{Condition, Round, SplitMix64};
use model::record::{Background, Fitted, HostUsage, RoundRecord, Slice, Usage, Warmup, Window};
use observe::ResourceSnapshot;

use super::Early;
use super::generator::Pooled;
use super::progress::Progress;
use super::server::{Bench, Purpose, Server};
use super::stopping::{LOOK, TurnTimes, Watched};
use super::together::{Asking, Taken, Together, Unwatched, nanoseconds, order};

/// Shortest turn of a warm-up: what a request costs in one of so long moves by about 1 %, a third of what a steady server may.
const STEADY_TURN: Duration = Duration::from_millis(50);

/// What a block brought.
#[derive(Default)]
pub(super) struct Ran {
    /// Of each arm.
    pub(super) records: Vec<RoundRecord>,
    /// How each arm stopped for everybody, by its number, where that was looked for.
    pub(super) stops: Vec<(usize, Watched)>,
}

/// The servers of a block and what is written of each: in the same order.
struct Block<'a> {
    bench: Bench<'a>,
    together: Together<'a>,
    records: Vec<RoundRecord>,
    /// Where it looks for stops, what it saw of each arm, by its number.
    stops: Vec<(usize, Watched)>,
    number: u32,
    fitted: &'a Fitted,
    /// Whether it looks for stops, and lasts long enough for those that come every few seconds.
    looks_for_stops: bool,
}

impl<'a> Bench<'a> {
    /// Runs block `number` of the arms in `arms`; a failed arm is in its record, not an error. The first block looks for stops, where
    /// none were found yet and turns may become longer.
    pub(super) fn block(
        &self,
        number: u32,
        arms: &[bool],
        conditions: &[Condition],
        fitted: &'a Fitted,
        progress: &mut Progress,
    ) -> Result<Ran, Early> {
        self.services.begin_block(&self.around())?;
        let rounds: Vec<Round> =
            self.plan.rounds(number).into_iter().filter(|round| arms[round.arm]).collect();
        if self.alone(fitted) {
            let mut ran = Ran::default();
            for round in rounds {
                let one = self.measured(number, vec![round], conditions, fitted, progress)?;
                ran.records.extend(one.records);
                ran.stops.extend(one.stops);
            }
            return Ok(ran);
        }
        self.measured(number, rounds, conditions, fitted, progress)
    }

    /// Whether arms run one at a time.
    pub(super) fn alone(&self, fitted: &Fitted) -> bool {
        fitted.is_alone(self.plan)
    }

    fn measured(
        &self,
        number: u32,
        rounds: Vec<Round>,
        conditions: &[Condition],
        fitted: &'a Fitted,
        progress: &mut Progress,
    ) -> Result<Ran, Early> {
        let (mut ran, mut servers, mut records) = (Ran::default(), Vec::new(), Vec::new());
        for round in rounds {
            let mut record = self.blank(&round);
            match self.start(Purpose::Scored, &mut record) {
                Ok(server) => {
                    servers.push(server);
                    records.push(record);
                }
                Err(Early::Arm(_, failure)) => {
                    ran.records.push(RoundRecord { failure: Some(failure), ..record });
                }
                Err(other) => return Err(other),
            }
        }
        if !servers.is_empty() {
            let mut block = self.begun(number, servers, records, fitted)?;
            let outcome = block.run(conditions, progress);
            let Block { together, records, stops, .. } = block;
            together.end();
            ran.records.extend(records);
            ran.stops = stops;
            outcome?;
        }
        Ok(ran)
    }

    fn begun(
        &self,
        number: u32,
        servers: Vec<Server>,
        records: Vec<RoundRecord>,
        fitted: &'a Fitted,
    ) -> Result<Block<'a>, Early> {
        let connections = fitted.connections.unwrap_or(self.plan.workload.job.connections);
        let log = self.dir.log_path(&records[0].round, "generator");
        let together = Together::begin(*self, servers, connections, &log)?;
        let free = self.plan.design.turns.are_free();
        let looks_for_stops = number == 0 && fitted.stopping.is_empty() && free;
        Ok(Block { bench: *self, together, records, stops: Vec::new(), number, fitted, looks_for_stops })
    }
}

/// The turns of one server under one condition, as they add up.
#[derive(Default)]
pub(super) struct Sum {
    target: Usage,
    generator: Usage,
    server_cpus: HostUsage,
    load_cpus: HostUsage,
    observer_cpu_ns: u64,
    services: BTreeMap<String, u64>,
    pub(super) slices: Vec<Slice>,
    times: TurnTimes,
    /// Resources before the first turn.
    before: Option<ResourceSnapshot>,
}

impl Sum {
    /// Takes one more turn; its latencies are the generator's to add up.
    pub(super) fn add(&mut self, taken: &Taken) {
        let observed = &taken.observed;
        self.target.add_later(&observed.target);
        self.generator.add_later(&observed.generator);
        self.server_cpus.add_later(&observed.server_cpus);
        self.load_cpus.add_later(&observed.load_cpus);
        self.observer_cpu_ns += observed.observer_cpu_ns;
        for (name, cpu_ns) in &observed.services_ns {
            *self.services.entry(name.clone()).or_default() += cpu_ns;
        }
        self.slices.push(taken.slice);
        taken.lead.iter().chain([&taken.report]).for_each(|report| self.times.add(report));
    }

    /// The window that they make together.
    pub(super) fn into_window(
        self,
        condition: Condition,
        pooled: Pooled,
        after: Option<&ResourceSnapshot>,
    ) -> Window {
        Window {
            condition,
            load: pooled.load,
            target: self.target,
            generator: self.generator,
            server_cpus: self.server_cpus,
            load_cpus: self.load_cpus,
            resources: self.before.zip(after).map(|(before, after)| after.since(&before)),
            observer_cpu_ns: self.observer_cpu_ns,
            services: self.services,
            response_buckets: pooled.buckets,
            slices: self.slices,
        }
    }
}

impl Block<'_> {
    fn run(&mut self, conditions: &[Condition], progress: &mut Progress) -> Result<(), Early> {
        self.warm_up(conditions, progress)?;
        for (index, condition) in conditions.iter().enumerate() {
            self.condition(index, *condition, index + 1 == conditions.len(), progress)?;
        }
        Ok(())
    }

    /// What a server failed by is written down, and the others go on.
    fn kept<T>(&mut self, outcome: Result<T, Early>) -> Result<Option<T>, Early> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Early::Arm(arm, failure)) => {
                let record = self.records.iter_mut().find(|record| record.round.arm == arm);
                record.expect("a server that fails has a record").failure = Some(failure);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn works(&self, index: usize) -> bool {
        self.records[index].failure.is_none()
    }

    /// Loads the servers in turn until each is steady.
    fn warm_up(&mut self, conditions: &[Condition], progress: &mut Progress) -> Result<(), Early> {
        let begun = Instant::now();
        let timing = self.bench.plan.timing;
        // At capacity where that is asked for at all: it warms soonest.
        let condition = conditions[analyse::main_condition(self.bench.plan)];
        let known = |record: &RoundRecord| self.fitted.warming_of(self.bench.plan, record.round.arm);
        let mut courses: Vec<Course> = self.records.iter().map(|record| Course::new(known(record))).collect();
        loop {
            let mut cold = false;
            for (index, course) in courses.iter_mut().enumerate() {
                if !self.works(index) || course.is_over(&timing) {
                    continue;
                }
                cold = true;
                let asking = self.asking(condition, u64::MAX, None);
                let taken = self.together.turn(index, 0, &asking, &mut Unwatched);
                if let Some(taken) = self.kept(taken)? {
                    course.add(&taken.slice, &taken.observed.target);
                }
            }
            progress.tick();
            if !cold {
                break;
            }
        }
        for (index, course) in courses.iter().enumerate() {
            self.records[index].warmup = Warmup {
                per_turn: course.per_turn(),
                took_ns: nanoseconds(begun.elapsed()),
                steady: course.is_steady(),
            };
        }
        Ok(())
    }

    fn asking(&self, condition: Condition, cycle: u64, pool: Option<u32>) -> Asking {
        let purpose = u64::from(self.number) << 32 | cycle;
        let seed = SplitMix64::fork(self.bench.plan.seed, "arrivals", purpose).next_u64();
        let length = if pool.is_some() { turn(self.fitted) } else { warm_up_turn(self.fitted) };
        Asking { condition, length, seed, pool }
    }

    /// All turns under one condition; each working server has one window more then.
    fn condition(
        &mut self,
        number: usize,
        condition: Condition,
        last: bool,
        progress: &mut Progress,
    ) -> Result<(), Early> {
        let servers = self.records.len();
        let mut sums: Vec<Sum> = (0..servers).map(|_| Sum::default()).collect();
        let cycles =
            if self.bench.alone(self.fitted) { 1 } else { self.fitted.cycles_of(self.bench.plan, number) };
        let of = u64::from(self.number) << 8 | number as u64;
        let looks = self.looks_for_stops && number == 0;
        let begun = Instant::now();
        let mut cycle = 0;
        // An even number of cycles, so that each of several comes first as often as last.
        while cycle < cycles || looks && (servers > 1 && cycle % 2 == 1 || is_looking(begun.elapsed(), &sums))
        {
            for index in order(self.bench.plan, of, cycle, servers) {
                if !self.works(index) {
                    continue;
                }
                let asking = self.asking(condition, u64::from(cycle), Some(pool(number, index)));
                let taken = self.one(index, cycle, &asking, &mut sums[index], looks);
                if let Some(taken) = self.kept(taken)? {
                    self.note_background(index, &taken);
                    sums[index].add(&taken);
                }
            }
            progress.tick();
            cycle += 1;
        }
        for (index, mut sum) in sums.into_iter().enumerate() {
            if self.works(index) {
                let times = looks.then(|| std::mem::take(&mut sum.times));
                let window = self.whole(index, (number, condition), (sum, times), last)?;
                self.records[index].windows.push(window);
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        index: usize,
        cycle: u32,
        asking: &Asking,
        sum: &mut Sum,
        looks: bool,
    ) -> Result<Taken, Early> {
        if sum.before.is_none() {
            sum.before = self.together.resources(index)?;
        }
        if !looks {
            return self.together.turn(index, cycle, asking, &mut Unwatched);
        }
        let mut watching = self.together.watching_readiness(index);
        let taken = self.together.turn(index, cycle, asking, &mut watching);
        sum.times.readings.extend(watching.readings);
        taken
    }

    /// What the others used in the turn of server number `index`.
    fn note_background(&mut self, index: usize, taken: &Taken) {
        let others = self.records.iter_mut().enumerate().filter(|(other, _)| *other != index);
        for ((_, record), cpu_ns) in others.zip(&taken.observed.idle_ns) {
            let background = record.background.get_or_insert_with(Background::default);
            background.wall_ns += taken.slice.wall_ns;
            background.cpu_ns += cpu_ns;
        }
    }

    fn whole(
        &mut self,
        index: usize,
        (number, condition): (usize, Condition),
        (sum, times): (Sum, Option<TurnTimes>),
        last: bool,
    ) -> Result<Window, Early> {
        let hlog = last.then(|| self.bench.dir.hlog_path(&self.records[index].round));
        let pooled = self.together.pooled(index, pool(number, index), hlog.as_deref())?;
        if let Some(times) = times {
            self.stops.push((self.records[index].round.arm, Watched::new(times)));
        }
        let after = self.together.resources(index)?;
        Ok(sum.into_window(condition, pooled, after.as_ref()))
    }
}

/// Whether stops are looked for after so long: once more for as long where one came, which does not tell how often.
fn is_looking(after: Duration, sums: &[Sum]) -> bool {
    after < LOOK || after < 2 * LOOK && sums.iter().any(|sum| Watched::new(sum.times.clone()).is_unclear())
}

/// The pool of one server under one condition.
fn pool(condition: usize, server: usize) -> u32 {
    u32::try_from(condition << 16 | server).expect("a plan has few conditions and arms")
}

/// For how long requests are sent in one slice.
pub(super) fn turn(fitted: &Fitted) -> Duration {
    Duration::from_nanos(fitted.turn_ns)
}

/// The same in a warm-up.
pub(super) fn warm_up_turn(fitted: &Fitted) -> Duration {
    Duration::from_nanos(fitted.warm_up_turn_ns).max(STEADY_TURN)
}
