//! The pilot: every arm started once, to see that it works, how fast it is, and whether arms can live together.

use std::time::Duration;

use model::plan::{Condition, LONGEST_SLICE, Round, Turns};
use model::record::{AloneReason, Failure, FailureKind, Fitted, RequestAnswers, RoundRecord, ServiceImage};
use rustix::system::sysinfo;

use super::Early;
use super::server::{Bench, Purpose, Server};
use super::together::{Asking, DRAIN, EXIT_PATIENCE, Together, Unwatched, nanoseconds};

/// Load of a pilot that no figure refers to.
const WARM: Duration = Duration::from_millis(200);
/// Load from which the rate is read: it only has to be right within some percent.
const LOAD: Duration = Duration::from_millis(300);
/// How long a server is watched while nobody asks it anything, after it was loaded and had time to settle.
const IDLE: Duration = Duration::from_millis(300);
/// How long a server may tidy up after a load before it counts as working on its own.
const SETTLE: Duration = Duration::from_millis(200);
/// Answers of the slowest arm in a slice, at least.
const ANSWERS: f64 = 200.0;
/// The same in a brief run.
const BRIEF_ANSWERS: f64 = 100.0;
/// What is in flight must be answered within this part of a second, or connections are lowered: a turn ends only when
/// all is answered.
const LONGEST_QUEUE_S: f64 = 1.0;
/// The same where nobody gave a number of connections and every arm is full: more would only lengthen the queue, whose end each turn
/// waits for.
const USUAL_QUEUE_S: f64 = 0.05;
/// Share of its CPUs from which an arm is full.
const NEARLY_FULL: f64 = 0.9;
/// Connections for each CPU of the server, at least.
const CONNECTIONS_PER_CPU: usize = 4;
/// CPUs that an arm may keep busy while nobody asks it anything; with more it disturbs the others.
const MOST_BACKGROUND: f64 = 0.05;
/// Share of the memory that is left that arms may take together.
const MOST_MEMORY: f64 = 0.8;

/// What the pilot of one arm found.
pub(super) struct Piloted {
    pub(super) record: RoundRecord,
    /// What it answered to each request.
    pub(super) answers: Vec<RequestAnswers>,
    /// What its services ran, where it is one of a compose file.
    pub(super) images: Vec<ServiceImage>,
    /// Requests per second in a closed loop.
    pub(super) per_s: f64,
    /// Largest resident set.
    rss_bytes: u64,
    /// CPUs that it keeps busy while nobody asks it anything.
    background: f64,
    /// Whether all that was in flight was answered in time.
    kept_up: bool,
    /// Whether it used all of its CPUs.
    full: bool,
}

impl Bench<'_> {
    /// Starts the arm of `round`, keeps its answer, and finds its rate with so many connections.
    pub(super) fn pilot(&self, round: &Round, connections: u32) -> Result<Piloted, Early> {
        self.services.begin_block(&self.around())?;
        let record = self.blank(round);
        let mut piloted = Piloted {
            record,
            answers: Vec::new(),
            images: Vec::new(),
            per_s: 0.0,
            rss_bytes: 0,
            background: 0.0,
            kept_up: true,
            full: false,
        };
        match self.start(Purpose::Pilot, &mut piloted.record) {
            Ok(server) => self.try_out(server, connections, &mut piloted)?,
            Err(Early::Arm(_, failure)) => piloted.record.failure = Some(failure),
            Err(other) => return Err(other),
        }
        Ok(piloted)
    }

    fn try_out(&self, mut server: Server, connections: u32, piloted: &mut Piloted) -> Result<(), Early> {
        piloted.images = std::mem::take(&mut server.images);
        match self.ask(&mut server) {
            Ok(answers) => {
                piloted.answers = answers;
                self.load(server, connections, piloted)
            }
            Err(_) if self.interrupt.is_set() => Err(Early::Interrupted),
            Err(failure) => {
                piloted.record.failure = Some(failure);
                server.stop();
                Ok(())
            }
        }
    }

    /// Asks a few times for each request: what it answers is as expected, and kept to be compared.
    fn ask(&self, server: &mut Server) -> Result<Vec<RequestAnswers>, Failure> {
        let place = self.place(server.arm, server.address);
        let answers = place.answers(self.interrupt.flag()).map_err(|text| {
            let crash = server.crash(EXIT_PATIENCE);
            crash.unwrap_or_else(|| server.failure(FailureKind::NotReady, text))
        })?;
        match place.wrong(&answers) {
            None => Ok(answers),
            Some(what) => {
                Err(server.failure(FailureKind::WrongAnswer, format!("it answered wrongly: {what}")))
            }
        }
    }

    fn load(&self, server: Server, connections: u32, piloted: &mut Piloted) -> Result<(), Early> {
        let log = self.dir.log_path(&piloted.record.round, "pilot");
        let mut together = Together::begin(*self, vec![server], connections, &log)?;
        let outcome = look(&mut together, piloted);
        together.end();
        match outcome {
            Err(Early::Arm(_, failure)) => {
                piloted.record.failure = Some(failure);
                Ok(())
            }
            other => other,
        }
    }

    /// Fits the plan to what the pilots of all arms found.
    pub(super) fn fit(&self, pilots: &[Piloted]) -> Fitted {
        let working = || pilots.iter().filter(|piloted| piloted.record.failure.is_none());
        let slowest = working().map(|piloted| piloted.per_s).fold(f64::INFINITY, f64::min);
        let turn_ns = match self.plan.design.turns {
            Turns::Slices { slice: Some(slice), .. } => slice.as_ns(),
            _ => {
                let answers = if self.plan.design.brief { BRIEF_ANSWERS } else { ANSWERS };
                let needed = Duration::from_secs_f64((answers / slowest).min(LONGEST_SLICE.0.as_secs_f64()));
                nanoseconds(needed.max(self.plan.usual_slice().0))
            }
        };
        Fitted { alone: self.reason_to_be_alone(pilots), turn_ns, connections: None }
    }

    fn reason_to_be_alone(&self, pilots: &[Piloted]) -> Option<AloneReason> {
        if self.plan.design.turns == Turns::Alone {
            return None;
        }
        let (needed, allowed) = super::preflight::descriptors(self.plan);
        if needed > allowed {
            return Some(AloneReason::Descriptors { needed, allowed });
        }
        let needed_bytes: u64 = pilots.iter().map(|piloted| piloted.rss_bytes).sum();
        let available_bytes = match &self.elsewhere.server {
            Some(remote) => remote.hello.available_bytes,
            None => available_bytes(),
        };
        if needed_bytes as f64 > available_bytes as f64 * MOST_MEMORY {
            return Some(AloneReason::Memory { needed_bytes, available_bytes });
        }
        let busiest = pilots.iter().max_by(|a, b| a.background.total_cmp(&b.background))?;
        (busiest.background >= MOST_BACKGROUND)
            .then(|| AloneReason::Background { arm: busiest.record.arm.clone(), share: busiest.background })
    }

    /// Connections that the slowest arm can answer within a turn, where the `connections` there are now are too many.
    pub(super) fn fewer_connections(&self, pilots: &[Piloted], connections: u32) -> Option<u32> {
        let working = || pilots.iter().filter(|piloted| piloted.record.failure.is_none());
        let depth = f64::from(self.plan.workload.job.depth());
        let slowest = working().map(|piloted| piloted.per_s).fold(f64::INFINITY, f64::min);
        let late = working().any(|piloted| !piloted.kept_up);
        // Only from the number that was planned: one lowering takes the queue away.
        let free = self.plan.design.fewer_connections && connections == self.plan.workload.job.connections;
        let longest_s = if free && working().all(|piloted| piloted.full) {
            USUAL_QUEUE_S
        } else if late {
            LONGEST_QUEUE_S
        } else {
            return None;
        };
        let fit = (slowest * longest_s / depth).floor().max(self.fewest_connections());
        (fit < f64::from(connections)).then_some(fit as u32)
    }

    /// With fewer connections a server on all of its CPUs would have nothing to do now and then.
    fn fewest_connections(&self) -> f64 {
        (self.plan.placement.server.len() * CONNECTIONS_PER_CPU) as f64
    }
}

fn look(together: &mut Together, piloted: &mut Piloted) -> Result<(), Early> {
    let asking = |length| Asking { condition: Condition::Capacity, length, seed: 1, pool: None };
    together.turn(0, 0, &asking(WARM), &mut Unwatched)?;
    let taken = together.turn(0, 0, &asking(LOAD), &mut Unwatched)?;
    let report = &taken.report;
    let busy_s = Duration::from_nanos(report.quiet_ns.saturating_sub(report.start_ns)).as_secs_f64();
    piloted.per_s = report.requests as f64 / busy_s.max(LOAD.as_secs_f64());
    let drained = Duration::from_nanos(report.quiet_ns.saturating_sub(report.end_ns));
    piloted.kept_up =
        report.given_up == 0 && drained.as_secs_f64() <= LONGEST_QUEUE_S.min(DRAIN.as_secs_f64());
    let used = &taken.observed.target;
    let offered_ns = used.wall_ns.saturating_mul(taken.observed.server_cpus.cpus.max(1).into());
    piloted.full = used.cpu.total_ns as f64 >= NEARLY_FULL * offered_ns as f64;
    piloted.rss_bytes = taken.observed.target.rss_peak_bytes;
    std::thread::sleep(SETTLE);
    piloted.background = together.idle_share(0, IDLE)?;
    Ok(())
}

/// Memory that can be had without taking any from what runs.
pub(super) fn available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or_else(|| sysinfo().freeram, |kib| kib * 1024)
}
