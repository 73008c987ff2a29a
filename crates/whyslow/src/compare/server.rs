//! One arm's server, from its start to the answer that shows it ready.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use analyse::FailIf;
use launch::{LaunchError, Launcher, Port, Process, Spec, free_port, log_tail};
use model::plan::{Arm, Placeholders, Placement, Plan, Round, Running, SplitMix64, Watched};
use model::record::{
    Answer, Failure, FailureKind, RoundRecord, RunDir, SCHEMA_VERSION, ServiceImage, Warmup,
};
use observe::{Group, ObserveError};
use serde::{Deserialize, Serialize};

use super::Early;
use super::contained::{self, Started};
use super::reach::{Place, Starting};
use super::remote::{Command, Elsewhere, Event, Remote};
use super::services::{Around, Services};
use crate::interrupt::Interrupt;
use crate::runtimes::{self, Leavings};

/// Lines of the server's log that go with a crash.
const LOG_LINES: usize = 10;

/// What a server is started for; its port and the name of its log depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Purpose {
    /// To be measured.
    Scored,
    /// To see once whether it works and how fast it is.
    Pilot,
    /// To be watched more closely than a scored one may be.
    Diagnostic,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Self::Scored => "port",
            Self::Pilot => "pilot",
            Self::Diagnostic => "diagnostic",
        }
    }
}

/// What servers are started with.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) dir: &'a RunDir,
    pub(super) launcher: &'a Launcher,
    pub(super) interrupt: &'a Interrupt,
    /// Name of the run.
    pub(super) run_id: &'a str,
    /// What runs beside the servers.
    pub(super) services: &'a Services,
    /// The other machines, if there are any.
    pub(super) elsewhere: &'a Elsewhere,
    /// What earlier starts showed.
    pub(super) known: &'a Known,
    /// What decides the exit code, where something is said of it before all is measured.
    pub(super) conditions: &'a [FailIf],
}

/// What was found out about arms, by their place in the plan, when they ran before.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Ports that they listen on whatever they are given.
    ports: RefCell<BTreeMap<usize, u16>>,
    /// How long is waited for those that left requests unanswered while they answered others.
    patience: RefCell<BTreeMap<usize, Duration>>,
}

impl Known {
    fn port(&self, arm: usize) -> Option<u16> {
        self.ports.borrow().get(&arm).copied()
    }

    fn note_port(&self, arm: usize, port: u16) {
        self.ports.borrow_mut().insert(arm, port);
    }

    pub(super) fn patience(&self, arm: usize) -> Option<Duration> {
        self.patience.borrow().get(&arm).copied()
    }

    pub(super) fn note_patience(&self, arm: usize, patience: Duration) {
        self.patience.borrow_mut().insert(arm, patience);
    }
}

/// A server that answered as expected.
pub(super) struct Server {
    /// Index into the plan's arms.
    pub(super) arm: usize,
    held: Held,
    /// Files that go after it has ended, which is why they stand below it.
    leavings: Leavings,
    pub(super) address: SocketAddr,
    /// Nobody, where it is on another machine.
    pub(super) group: Group,
    /// The services that came up with it, by name.
    pub(super) beside: Vec<(String, Group)>,
    /// What it and they run, of a compose file in the pilot.
    pub(super) images: Vec<ServiceImage>,
}

/// By what a server is held.
enum Held {
    /// It was started here.
    Process(Process),
    /// The same, below a program that goes on when it ends.
    Project(Process),
    /// It runs already.
    Met,
    /// It is on another machine, by its number there.
    There(Arc<Remote>, u32),
}

impl<'a> Bench<'a> {
    pub(super) fn arm(&self, round: &Round) -> &'a Arm {
        &self.plan.arms[round.arm]
    }

    /// The arm with this place in the plan as a server on `address`.
    pub(super) fn place(&self, arm: usize, address: SocketAddr) -> Place<'a> {
        let Plan { workload, placement, arms, .. } = self.plan;
        Place { workload, arm: &arms[arm], placement, address, services: self.services.places() }
    }

    /// What the services of the plan are started with.
    pub(super) fn around(&self) -> Around<'a> {
        let Plan { services, placement, seed, timing, .. } = self.plan;
        Around {
            launcher: self.launcher,
            services,
            placement,
            seed: *seed,
            ready_limit: timing.ready_limit.0,
            folder: self.dir.path(),
            interrupt: self.interrupt.flag(),
        }
    }

    /// A record of `round` in which nothing has happened.
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
            background: None,
            failure: None,
        }
    }

    /// Starts the arm of `record` and waits until it answers as expected.
    pub(super) fn start(&self, purpose: Purpose, record: &mut RoundRecord) -> Result<Server, Early> {
        let arm = self.arm(&record.round);
        if let Some(remote) = &self.elsewhere.server {
            return start_there(remote, purpose, record);
        }
        if let Some(running) = arm.source.running() {
            return self.meet(running, record);
        }
        let Round { block, position, attempt, arm: index, .. } = record.round;
        let failed = |error: LaunchError| match error {
            LaunchError::Interrupted => Early::Interrupted,
            error => Early::Arm(index, error.failure()),
        };
        // A port of its own for each purpose: on one that was used a moment ago, connections linger.
        let order = u64::from(attempt) << 40 | u64::from(block) << 8 | u64::from(position);
        let seed = SplitMix64::fork(self.plan.seed, purpose.word(), order).next_u64();
        let fixed = self.known.port(index).map(Port::fixed);
        let drawn = fixed.map_or_else(|| free_port(seed), Ok).map_err(failed)?;
        let port = drawn.number();
        let log = self.dir.log_path(&record.round, &arm.name);
        let mut place = self.place(index, self.elsewhere.address(port));
        let spec = Spec {
            cpus: Some(arm.circumstances.cpus.as_ref().unwrap_or(&self.plan.placement.server).clone()),
            env_padding_bytes: record.round.env_padding_bytes,
            ..Spec::of_arm(arm, &place.values(), &log)
        };
        let asking = self.dir.log_path(&record.round, &format!("{}-ready", arm.name));
        let mut begun = match purpose {
            Purpose::Diagnostic => self.begin(arm, with_names(&spec), &mut place, &asking),
            Purpose::Scored | Purpose::Pilot => self.begin(arm, spec.clone(), &mut place, &asking),
        };
        // A runtime that cannot write its names ends, as Node does where another user has left a file of that name.
        if purpose == Purpose::Diagnostic && matches!(begun, Err(LaunchError::Exited { .. })) {
            begun = self.begin(arm, spec, &mut place, &asking);
        }
        let (started, answer, ready_ms) = begun.map_err(failed)?;
        (record.answer, record.ready_ms) = (answer, ready_ms);
        record.port = place.address.port();
        if record.port != port {
            self.known.note_port(index, record.port);
        }
        let group = started.group().map_err(|error| Early::Arm(index, not_seen(&error, &started.process)))?;
        record.fairness = group.fairness()?;
        if let Some(library) = &arm.circumstances.preload {
            preloaded(&group, library).map_err(|failure| Early::Arm(index, failure))?;
        }
        let images = if purpose == Purpose::Pilot { started.images() } else { Vec::new() };
        let beside = started.beside();
        let held = match beside {
            Some(_) => Held::Project(started.process),
            None => Held::Process(started.process),
        };
        let beside = beside.unwrap_or_default();
        let mut server = Server { beside, images, ..Server::alone(index, held, place.address, group) };
        if purpose == Purpose::Diagnostic {
            server.leavings.note(&server.group);
        }
        Ok(server)
    }

    /// Starts `arm` and waits until it answers as expected: what it answered then, and after how many milliseconds.
    fn begin(
        &self,
        arm: &Arm,
        spec: Spec,
        place: &mut Place<'_>,
        asking: &Path,
    ) -> Result<(Started, Option<Answer>, u64), LaunchError> {
        let limit = self.plan.timing.ready_limit.0;
        let mut started = contained::start(self.launcher, arm, spec, self.run_id, limit)?;
        let starting = Starting { launcher: self.launcher, log: asking, limit };
        let ready = place.wait_ready(&mut started.process, &starting);
        let (answer, ready_ms) = ready.map_err(|error| contained::explained(arm, error))?;
        Ok((started, answer, ready_ms))
    }

    /// The server of `record`, which runs already, once it has answered as expected.
    fn meet(&self, running: &Running, record: &mut RoundRecord) -> Result<Server, Early> {
        let index = record.round.arm;
        record.port = running.address.port();
        let answer = self.place(index, running.address).meet();
        record.answer = Some(answer.map_err(|error| Early::Arm(index, error.failure()))?);
        let group = watched(running).map_err(|error| {
            let kind = FailureKind::Start;
            Early::Arm(index, Failure { kind, text: error.to_string(), log: Vec::new() })
        })?;
        record.fairness = group.fairness()?;
        Ok(Server::alone(index, Held::Met, running.address, group))
    }
}

/// The same start, in which runtimes say what their functions are called.
fn with_names(spec: &Spec) -> Spec {
    let mut spec = spec.clone();
    runtimes::let_be_profiled(&mut spec.env);
    spec
}

/// Has an agent start the arm of `record`.
fn start_there(remote: &Arc<Remote>, purpose: Purpose, record: &mut RoundRecord) -> Result<Server, Early> {
    let arm = record.round.arm;
    match remote.ask(&Command::Start { purpose, round: record.round.clone() })? {
        Event::Started { server, address, record: started } => {
            *record = *started;
            let held = Held::There(Arc::clone(remote), server);
            Ok(Server::alone(arm, held, address, Group::unseen()))
        }
        Event::Failed(failure) => Err(Early::Arm(arm, failure)),
        other => Err(remote.unexpected(&other)),
    }
}

/// A server that is gone again.
fn not_seen(error: &ObserveError, process: &Process) -> Failure {
    let log = log_tail(process.log(), LOG_LINES);
    Failure { kind: FailureKind::Crashed, text: error.to_string(), log }
}

/// The processes whose CPU time is a running server's: those named must be there; where it was to be found by itself and
/// cannot be seen, it has none.
fn watched(running: &Running) -> Result<Group, ObserveError> {
    match &running.watched {
        Watched::Process { pid } => Group::from_pid(*pid),
        Watched::Unit { name } => Group::of_unit(name),
        Watched::Listener => {
            let listener = observe::listening_process(running.address.port());
            Ok(listener.and_then(Group::from_pid).unwrap_or_else(|_| Group::unseen()))
        }
    }
}

impl Server {
    /// One with which no services came up.
    fn alone(arm: usize, held: Held, address: SocketAddr, group: Group) -> Self {
        let leavings = Leavings::default();
        Self { arm, held, leavings, address, group, beside: Vec::new(), images: Vec::new() }
    }

    /// Ends what was started for it.
    pub(super) fn stop(mut self) {
        // It may have workers by now that were not there when it began.
        self.leavings.note_more(&self.group);
        match self.held {
            Held::Process(process) | Held::Project(process) => drop(process.stop()),
            Held::Met => {}
            // Where the connection is lost, the agent ends it.
            Held::There(remote, server) => drop(remote.done(&Command::Stop { server })),
        }
    }

    /// Its number on the other machine, if it is there.
    pub(super) fn number(&self) -> Option<u32> {
        match self.held {
            Held::There(_, number) => Some(number),
            Held::Process(_) | Held::Project(_) | Held::Met => None,
        }
    }

    fn log(&self) -> Vec<String> {
        match &self.held {
            Held::Process(process) | Held::Project(process) => log_tail(process.log(), LOG_LINES),
            Held::Met | Held::There(..) => Vec::new(),
        }
    }

    /// How it ended although it was not asked to, if it did or does within `patience`.
    pub(super) fn crash(&mut self, patience: Duration) -> Option<Failure> {
        let text = match &mut self.held {
            Held::Process(process) => format!("it {} while it was measured", process.wait(patience)?),
            Held::Met | Held::Project(_) if self.group.is_alive() => return None,
            Held::Met | Held::Project(_) => "it ended while it was measured".to_owned(),
            Held::There(remote, server) => return crash_there(remote, *server, patience),
        };
        Some(self.failure(FailureKind::Crashed, text))
    }

    /// What it failed by, with the end of its log.
    pub(super) fn failure(&self, kind: FailureKind, text: String) -> Failure {
        Failure { kind, text, log: self.log() }
    }
}

/// Asks an agent how a server ended. A connection that is lost is found by the next command.
fn crash_there(remote: &Remote, server: u32, patience: Duration) -> Option<Failure> {
    let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
    match remote.ask(&Command::Crash { server, patience_ms }) {
        Ok(Event::Crash(failure)) => failure,
        Ok(_) | Err(_) => None,
    }
}

/// An arm whose figures would not be those of the change it was started with.
fn preloaded(group: &Group, library: &str) -> Result<(), Failure> {
    if group.pids_with(library).is_ok_and(|pids| !pids.is_empty()) {
        return Ok(());
    }
    let text =
        format!("{library} is not loaded in it: a program that is linked statically takes no other library");
    Err(Failure { kind: FailureKind::Start, text, log: Vec::new() })
}

/// Values for the placeholders of an arm's command.
pub(crate) fn placeholders(arm: &Arm, placement: &Placement, port: u16) -> Placeholders {
    Placeholders {
        port,
        host: Ipv4Addr::LOCALHOST.to_string(),
        workers: arm.circumstances.workers.unwrap_or(placement.server.len() as u32),
        dir: arm.dir.clone().unwrap_or_default(),
        build: arm.build_dir.clone().unwrap_or_default(),
        services: Vec::new(),
    }
}
