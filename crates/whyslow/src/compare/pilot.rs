//! The pilot: every arm started once, to see that it works, how fast it is, and whether arms can live together.

use std::fmt;
use std::time::{Duration, Instant};

use analyse::warm_up::Course;
use model::job::Job;
use model::plan::{Condition, LONGEST_SLICE, Round, SHORTEST_SLICE, Timing, Turns, WarmupClass};
use model::record::{
    AloneReason, Failure, FailureKind, Fitted, RequestAnswers, RoundRecord, ServiceImage, Stopping, Stops,
    Warming,
};
use model::units::Span;

use super::Early;
use super::holding;
use super::server::{Bench, Purpose, Server};
use super::stopping;
use super::together::{Asking, EXIT_PATIENCE, Together, Unwatched};

/// Load of a pilot that no figure refers to.
const WARM: Duration = Duration::from_millis(200);
/// How long it is watched whether a request gets cheaper, where it may be warmed up for as long.
const WATCH: Duration = Duration::from_millis(1500);
/// Longest such load of an arm that compiles while it runs: its rate is then of the right size.
const WARM_JIT: Duration = Duration::from_secs(3);
/// Load from which the rate is read: it only has to be right within some percent.
const LOAD: Duration = Duration::from_millis(300);
/// Longest turn of a quick run for the stops of a server, where one of them comes in it.
const QUICK_TURN: Duration = Duration::from_secs(1);
/// Longest turn that is made longer because of stops.
const LONGEST_HOLDING: Span = Span::from_secs(10);
/// Longest window that an arm alone has because of stops.
const LONGEST_WINDOW: Span = Span::from_secs(30);
/// How long a server is watched while nobody asks it anything, after it was loaded and had time to settle.
const IDLE: Duration = Duration::from_millis(300);
/// How long a server may tidy up after a load before it counts as working on its own.
const SETTLE: Duration = Duration::from_millis(200);
/// Answers of the slowest arm in a slice, at least.
const ANSWERS: f64 = 200.0;
/// The same in a quick run.
const QUICK_ANSWERS: f64 = 100.0;
/// Longest slice of a quick run, if each connection is answered in it.
const QUICK_SLICE_S: f64 = 0.25;
/// How many times as long as one answer on each connection takes a slice is at least: each has a whole one in time then, so that there
/// are latencies.
const ONE_ANSWER: f64 = 1.2;
/// Answers on each connection in a short slice.
const TURNOVERS: f64 = 16.0;
/// What is in flight must be answered within this part of a second, or connections are lowered: a turn ends only when
/// all is answered.
const LONGEST_QUEUE_S: f64 = 1.0;
/// An answer under load may take so many times as long as one alone beside that.
const SLOWEST_ANSWERS: f64 = 2.0;
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
    /// How long it took to start, to be connected to, and to stop.
    start: Duration,
    /// How long it takes to become warm.
    warming: Warming,
    /// Whether only its cost says that it compiles.
    only_slow: bool,
    /// How long the services beside took to start.
    services: Duration,
    /// Largest resident set.
    rss_bytes: u64,
    /// CPUs that it keeps busy while nobody asks it anything.
    background: f64,
    /// Whether all that was in flight was answered in time.
    kept_up: bool,
    /// Answers per second while requests were sent.
    sending_per_s: f64,
    /// Connections that it seems to answer at a time, where it leaves the others waiting.
    held: Option<u32>,
    /// Whether it used all of its CPUs.
    full: bool,
}

/// What turns and blocks are fitted to, beside stops.
#[derive(Debug, Clone, Copy)]
pub(super) struct Basis {
    /// Requests that the slowest arm answers in a second.
    slowest_per_s: f64,
    /// To each server.
    connections: u32,
    /// Usual length of a turn of such arms.
    usual: Span,
    /// Seconds that a block takes to begin and to end.
    begin_s: f64,
    /// Whether arms take turns.
    together: bool,
}

impl Bench<'_> {
    /// Starts the arm of `round`, keeps its answer, and finds its rate with so many connections.
    ///
    /// One that only its cost makes a server that compiles is started once more: a machine seldom slows down two starts.
    pub(super) fn pilot(&self, round: &Round, connections: u32) -> Result<Piloted, Early> {
        let mut piloted = self.pilot_once(round, connections)?;
        if piloted.only_slow {
            let again = self.pilot_once(round, connections)?;
            let sooner =
                again.record.failure.is_none() && again.warming.settled_ns < piloted.warming.settled_ns;
            piloted.warming = if sooner { again.warming } else { piloted.warming };
        }
        Ok(piloted)
    }

    fn pilot_once(&self, round: &Round, connections: u32) -> Result<Piloted, Early> {
        let begun = Instant::now();
        self.services.begin_block(&self.around())?;
        let services = begun.elapsed();
        let record = self.blank(round);
        let mut piloted = Piloted {
            record,
            answers: Vec::new(),
            images: Vec::new(),
            per_s: 0.0,
            start: Duration::ZERO,
            warming: Warming { class: self.plan.arms[round.arm].warmup, settled_ns: 0 },
            only_slow: false,
            services,
            rss_bytes: 0,
            background: 0.0,
            kept_up: true,
            sending_per_s: 0.0,
            held: None,
            full: false,
        };
        let begun = Instant::now();
        match self.start(Purpose::Pilot, &mut piloted.record) {
            Ok(server) => {
                piloted.start = begun.elapsed();
                self.try_out(server, connections, &mut piloted)?;
            }
            Err(Early::Arm(_, failure)) => piloted.record.failure = Some(failure),
            Err(other) => return Err(other),
        }
        Ok(piloted)
    }

    fn try_out(&self, mut server: Server, connections: u32, piloted: &mut Piloted) -> Result<(), Early> {
        piloted.images = std::mem::take(&mut server.images);
        let begun = Instant::now();
        match self.ask(&mut server) {
            Ok(answers) => {
                let heard = Heard::since(begun, &answers);
                // Until more is known.
                piloted.per_s = heard.per_s();
                piloted.answers = answers;
                if let Some(heard) = self.too_slow(&mut server, heard) {
                    let text = too_slow(heard);
                    piloted.record.failure = Some(server.failure(FailureKind::WrongAnswer, text));
                    server.stop();
                    return Ok(());
                }
                self.place(server.arm, server.address).note_left_open(&mut piloted.answers);
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

    /// What was heard of an arm for whose answers no turn is long enough. Its first ones may take longer than all that follow: it is
    /// asked again.
    fn too_slow(&self, server: &mut Server, heard: Heard) -> Option<Heard> {
        let is_too_slow = |heard: &Heard| heard.per_s() * LONGEST_SLICE.0.as_secs_f64() < 1.0;
        if self.plan.design.turns == Turns::Alone || !is_too_slow(&heard) {
            return None;
        }
        crate::say(&format!("'{}' gave {heard}: asking once more", self.plan.arms[server.arm].name));
        let begun = Instant::now();
        let again = self.ask(server).map_or(heard, |answers| Heard::since(begun, &answers));
        Some(again).filter(is_too_slow)
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
        let begun = Instant::now();
        let mut together = Together::begin(*self, vec![server], connections, &log)?;
        piloted.start += begun.elapsed();
        let job = &self.plan.workload.job;
        let watch = WATCH.min(self.plan.timing.warmup_cap.0);
        let outcome = look(&mut together, connections, job, (&self.warming(), watch), piloted);
        let ended = Instant::now();
        together.end();
        piloted.start += ended.elapsed();
        match outcome {
            Err(Early::Arm(_, failure)) => {
                piloted.record.failure = Some(failure);
                Ok(())
            }
            other => other,
        }
    }

    /// How long a pilot warms its arm up.
    fn warming(&self) -> Timing {
        let jit = Span(WARM_JIT).min(self.plan.timing.warmup_of(WarmupClass::Jit)[1]);
        Timing {
            warmup: Span(WARM),
            warmup_cap: Span(WARM),
            warmup_jit: Span(WARM),
            warmup_cap_jit: Some(jit),
            ..self.plan.timing
        }
    }

    /// Fits the plan to what the pilots of all arms found.
    pub(super) fn fit(&self, pilots: &[Piloted], connections: u32) -> (Fitted, Basis) {
        let working = || pilots.iter().filter(|piloted| piloted.record.failure.is_none());
        let slowest_per_s = working().map(|piloted| piloted.per_s).fold(f64::INFINITY, f64::min);
        let usual = working().map(|piloted| piloted.warming.class.usual_slice()).max();
        let usual = usual.unwrap_or_else(|| self.plan.usual_slice());
        let warm_up = self.slice(slowest_per_s, connections, usual);
        let alone = self.reason_to_be_alone(pilots);
        let together = alone.is_none() && self.plan.design.turns != Turns::Alone;
        // Those that run on were started by the first pilot.
        let services = pilots.last().map(|last| last.services).unwrap_or_default();
        let begin_s = |piloted: &Piloted| {
            let settled_s = piloted.warming.settled_ns as f64 / 1e9;
            piloted.start.as_secs_f64() + settled_s.max(self.plan.warming_s(piloted.warming.class, warm_up))
        };
        let begin_s = services.as_secs_f64() + working().map(begin_s).sum::<f64>();
        let mut warming: Vec<Warming> =
            self.plan.arms.iter().map(|arm| Warming { class: arm.warmup, settled_ns: 0 }).collect();
        pilots.iter().for_each(|piloted| warming[piloted.record.round.arm] = piloted.warming);
        let basis = Basis { slowest_per_s, connections, usual, begin_s, together };
        let fitted = Fitted { alone, warm_up_turn_ns: warm_up.as_ns(), warming, ..Fitted::default() };
        (self.holding_stops(fitted, &basis, Vec::new()), basis)
    }

    /// The same with turns that hold some stops of each arm that is `stopping`.
    pub(super) fn holding_stops(&self, fitted: Fitted, basis: &Basis, stopping: Vec<Stopping>) -> Fitted {
        let usual = if basis.together { basis.usual } else { self.plan.timing.window };
        let most = if basis.together { LONGEST_HOLDING } else { LONGEST_WINDOW };
        let free = if basis.together { self.short(basis) } else { usual };
        let held = stopping.iter().map(|one| self.turn_of(one.stops).min(most)).fold(free, Span::max);
        let turn = match basis.together {
            true => self.slice(basis.slowest_per_s, basis.connections, held),
            false => held,
        };
        let split = self.plan.split(basis.begin_s, turn, basis.together.then_some(usual));
        Fitted { turn_ns: turn.as_ns(), split, stopping, ..fitted }
    }

    /// A turn where nothing asks for a longer one: short, so that arms are compared close together in time, but with few answers from its end, when
    /// the server runs out of work.
    fn short(&self, basis: &Basis) -> Span {
        if basis.usual > WarmupClass::Native.usual_slice() {
            return basis.usual;
        }
        let full_s = TURNOVERS * self.in_flight(basis.connections) / basis.slowest_per_s;
        Span(Duration::from_secs_f64(full_s.min(basis.usual.0.as_secs_f64()))).max(SHORTEST_SLICE)
    }

    /// Requests under way at a time.
    fn in_flight(&self, connections: u32) -> f64 {
        f64::from(connections) * f64::from(self.plan.workload.job.depth())
    }

    /// How long a turn is that holds some of these stops; in a quick run one of them is enough, or those of a second.
    fn turn_of(&self, stops: Stops) -> Span {
        let one = Duration::from_secs_f64(stops.every_ns() / 1e9);
        let turn = stopping::turn(stops);
        if self.plan.is_quick() { turn.min(Span(QUICK_TURN.max(one))) } else { turn }
    }

    /// How long requests are sent in one turn, where the slowest arm answers so many a second; `usual` where all are fast enough for it.
    fn slice(&self, slowest_per_s: f64, connections: u32, usual: Span) -> Span {
        if let Turns::Slices { slice: Some(slice), .. } = self.plan.design.turns {
            return slice;
        }
        let in_flight = self.in_flight(connections);
        let needed_s = match self.plan.is_quick() {
            true => {
                (QUICK_ANSWERS / slowest_per_s).min(QUICK_SLICE_S).max(ONE_ANSWER * in_flight / slowest_per_s)
            }
            false => (ANSWERS / slowest_per_s).max(ONE_ANSWER * in_flight / slowest_per_s),
        };
        usual.max(Span(Duration::from_secs_f64(needed_s.min(LONGEST_SLICE.0.as_secs_f64()))))
    }

    fn reason_to_be_alone(&self, pilots: &[Piloted]) -> Option<AloneReason> {
        if self.plan.design.turns == Turns::Alone {
            return None;
        }
        let (needed, allowed) = super::preflight::descriptors(self.plan);
        if needed > allowed {
            return Some(AloneReason::Descriptors { needed, allowed });
        }
        if let Some((one, other)) = self.on_one_port(pilots) {
            return Some(AloneReason::Port { arms: [one.arm.clone(), other.arm.clone()], port: one.port });
        }
        let needed_bytes: u64 = pilots.iter().map(|piloted| piloted.rss_bytes).sum();
        let available_bytes = match &self.elsewhere.server {
            Some(remote) => remote.hello.available_bytes,
            None => observe::available_bytes(),
        };
        if needed_bytes as f64 > available_bytes as f64 * MOST_MEMORY {
            return Some(AloneReason::Memory { needed_bytes, available_bytes });
        }
        let busiest = pilots.iter().max_by(|a, b| a.background.total_cmp(&b.background))?;
        (busiest.background >= MOST_BACKGROUND)
            .then(|| AloneReason::Background { arm: busiest.record.arm.clone(), share: busiest.background })
    }

    /// Two arms that were started on the same port.
    fn on_one_port<'p>(&self, pilots: &'p [Piloted]) -> Option<(&'p RoundRecord, &'p RoundRecord)> {
        let started = |record: &&RoundRecord| {
            record.failure.is_none() && self.plan.arms[record.round.arm].source.running().is_none()
        };
        let mut records: Vec<&RoundRecord> =
            pilots.iter().map(|piloted| &piloted.record).filter(started).collect();
        // Pilots go in a random order.
        records.sort_by_key(|record| record.round.arm);
        records.iter().enumerate().find_map(|(index, one)| {
            records[index + 1..].iter().find(|other| other.port == one.port).map(|other| (*one, *other))
        })
    }

    /// Connections that every arm can answer within a turn, where the `connections` there are now are too many.
    pub(super) fn fewer_connections(&self, pilots: &[Piloted], connections: u32) -> Option<Fewer> {
        let working = || pilots.iter().filter(|piloted| piloted.answers_some());
        let depth = f64::from(self.plan.workload.job.depth());
        let slowest = working().map(|piloted| piloted.per_s).fold(f64::INFINITY, f64::min);
        // Only from the number that was planned: one lowering takes the queue away.
        let free = self.plan.design.fewer_connections && connections == self.plan.workload.job.connections;
        let longest_s = if working().any(Piloted::is_silent) || free && working().all(|piloted| piloted.full)
        {
            Some(USUAL_QUEUE_S)
        } else {
            working().any(|piloted| !piloted.kept_up).then_some(LONGEST_QUEUE_S)
        };
        let fewest = self.fewest_connections(slowest / depth);
        let fit = longest_s.map(|longest_s| (slowest * longest_s / depth).floor().max(fewest) as u32);
        let fit = fit.map(|connections| Fewer { connections, held_by: None });
        let held = |piloted: &Piloted| {
            Some(Fewer { connections: piloted.held?, held_by: Some(piloted.record.arm.clone()) })
        };
        let fewer = working().filter_map(held).chain(fit).min_by_key(|fewer| fewer.connections)?;
        (fewer.connections < connections).then_some(fewer)
    }

    /// Whether fewer connections show that the arm in `fewer` answers on more of them at a time than it seemed to.
    pub(super) fn is_refuted(&self, fewer: &Fewer, all: u32, before: &[Piloted], after: &[Piloted]) -> bool {
        let Some(arm) = &fewer.held_by else { return false };
        let per_s = |pilots: &[Piloted]| {
            pilots.iter().find(|piloted| piloted.record.arm == *arm).map(|piloted| piloted.sending_per_s)
        };
        let [Some(all_per_s), Some(held_per_s)] = [before, after].map(per_s) else { return false };
        holding::is_refuted(fewer.connections, all, held_per_s, all_per_s)
    }

    /// With fewer connections a server on all of its CPUs would have nothing to do now and then. Where even those are not answered in
    /// time, the moment between two requests is nothing beside one, and one connection for each CPU does.
    fn fewest_connections(&self, per_s: f64) -> f64 {
        let cpus = self.plan.placement.server.len();
        let usual = (cpus * CONNECTIONS_PER_CPU) as f64;
        if per_s * LONGEST_QUEUE_S < usual { cpus as f64 } else { usual }
    }
}

/// How many answers an arm gave to one request at a time, and in how long.
#[derive(Clone, Copy)]
struct Heard {
    answers: usize,
    seconds: f64,
}

impl Heard {
    fn since(begun: Instant, asked: &[RequestAnswers]) -> Self {
        let answers = asked.iter().map(|asked| asked.replies.len()).sum();
        Self { answers, seconds: begun.elapsed().as_secs_f64() }
    }

    fn per_s(self) -> f64 {
        self.answers as f64 / self.seconds
    }
}

impl fmt::Display for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers = if self.answers == 1 { "answer" } else { "answers" };
        write!(f, "{} {answers} in {:.1} s", self.answers, self.seconds)
    }
}

/// What is said of an arm for whose answers no turn is long enough.
fn too_slow(heard: Heard) -> String {
    format!(
        "it gave {heard} to one request at a time, and a turn is {} s at most: measure one arm at a time with longer windows (--alone \
         --window 60s --connections 1), or ask for less (--path)",
        LONGEST_SLICE.0.as_secs()
    )
}

/// How many connections there are to be in the place of more.
pub(super) struct Fewer {
    pub(super) connections: u32,
    /// The arm that answers on so many at a time and leaves all others without any answer.
    pub(super) held_by: Option<String>,
}

impl Piloted {
    /// Whether it answered when it was asked for one thing at a time, and to nothing under load.
    pub(super) fn is_silent(&self) -> bool {
        let failure = self.record.failure.as_ref();
        !self.answers.is_empty() && failure.is_some_and(|failure| failure.kind == FailureKind::NotReady)
    }

    /// It answers on all connections alike, whatever it seemed to do.
    pub(super) fn holds_none(&mut self) {
        self.held = None;
    }

    fn answers_some(&self) -> bool {
        self.record.failure.is_none() || self.is_silent()
    }
}

fn look(
    together: &mut Together,
    connections: u32,
    job: &Job,
    (timing, watch): (&Timing, Duration),
    piloted: &mut Piloted,
) -> Result<(), Early> {
    // What comes later shows that there are too many connections, and need not be waited for.
    let one_answer_s = (1.0 / piloted.per_s).min(LONGEST_SLICE.0.as_secs_f64());
    together.drain = Duration::from_secs_f64(LONGEST_QUEUE_S + SLOWEST_ANSWERS * one_answer_s);
    let asking = |length| Asking { condition: Condition::Capacity, length, seed: 1, pool: None };
    let begun = Instant::now();
    let mut course = Course::new(piloted.warming);
    let warmed = loop {
        let warmed = together.turn(0, 0, &asking(WARM), &mut Unwatched)?;
        course.add(&warmed.slice, &warmed.observed.target);
        if begun.elapsed() >= watch && course.is_over(timing) {
            break warmed;
        }
    };
    piloted.warming = course.warming();
    piloted.only_slow = piloted.warming.class != course.class();
    let taken = together.turn(0, 0, &asking(LOAD), &mut Unwatched)?;
    let report = &taken.report;
    let busy_s = Duration::from_nanos(report.quiet_ns.saturating_sub(report.start_ns)).as_secs_f64();
    piloted.per_s = report.requests as f64 / busy_s.max(LOAD.as_secs_f64());
    let drained = Duration::from_nanos(report.quiet_ns.saturating_sub(report.end_ns));
    piloted.kept_up =
        report.given_up == 0 && drained.as_secs_f64() <= LONGEST_QUEUE_S.max(SLOWEST_ANSWERS * one_answer_s);
    piloted.sending_per_s = holding::per_s(report);
    // What only one turn shows may have been something else that happened when it ended.
    let held = |report| holding::held(report, connections, job.depth(), one_answer_s);
    let tcp = &taken.observed.server_cpus.tcp;
    let turned_away = tcp.listen_overflows.max(tcp.listen_drops);
    piloted.held = held(&warmed.report).zip(held(report)).map(|(one, other)| one.max(other));
    piloted.held = piloted.held.filter(|_| holding::can_hold(job, turned_away));
    let used = &taken.observed.target;
    let offered_ns = used.wall_ns.saturating_mul(taken.observed.server_cpus.cpus.max(1).into());
    piloted.full = used.cpu.total_ns as f64 >= NEARLY_FULL * offered_ns as f64;
    piloted.rss_bytes = taken.observed.target.rss_peak_bytes;
    std::thread::sleep(SETTLE);
    piloted.background = together.idle_share(0, IDLE)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Heard, too_slow};

    #[test]
    fn a_server_too_slow_for_a_turn_is_told_with_what_to_do() {
        let text = too_slow(Heard { answers: 1, seconds: 10.0 });
        assert!(
            text.starts_with("it gave 1 answer in 10.0 s to one request at a time, and a turn is 5 s"),
            "{text}"
        );
        assert!(text.contains("--alone --window 60s --connections 1"), "{text}");
    }
}
