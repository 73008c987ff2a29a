//! `whyslow agent`: the other end, on the machine of the servers or of the generator. All that it started ends with it, and it
//! ends with its standard input, or when nothing has come there for a while.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Stdin};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use launch::Launcher;
use model::job::{self, Job};
use model::plan::Plan;
use model::record::RunDir;
use model::units::CpuSet;
use observe::{Group, Observed, Reading, Sampler};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use rustix::time::Timespec;

use super::arrival::Place;
use super::clock::now_ns;
use super::words::{Command, Event, Hello};
use super::{Elsewhere, arrival, window};
use crate::compare::Early;
use crate::compare::generator::Generator;
use crate::compare::server::{Bench, Known, Purpose, Server};
use crate::compare::services::Services;
use crate::compare::together::EXIT_PATIENCE;
use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupt;

/// How long nothing may come before the other side counts as gone: it says that it is there six times in this time.
const SILENCE: Duration = Duration::from_secs(60);

/// What stands for the name of the run, which is kept on the other machine.
const AGENT: &str = "agent";

pub(crate) fn run() -> Outcome {
    let interrupt = Interrupt::listen()?;
    let commands = receive_commands(interrupt.flag().clone());
    let place = arrival::beside(&std::env::current_exe().context("cannot find its own file")?);
    place.remove_leftovers();
    say(&Event::Hello(Box::new(hello()?)))?;
    let Some((plan, host)) = before_a_plan(&commands, &interrupt)? else { return Ok(Exit::Done) };
    let (_folder, dir) = Folder::make(&place)?;
    let launcher = Launcher::this_program().until(interrupt.flag().clone());
    let (services, elsewhere) = (Services::default(), Elsewhere { host: Some(host), ..Elsewhere::default() });
    let plan = on_this_machine(plan)?;
    let bench = Bench {
        plan: &plan,
        dir: &dir,
        launcher: &launcher,
        interrupt: &interrupt,
        run_id: AGENT,
        services: &services,
        elsewhere: &elsewhere,
        known: &Known::default(),
        conditions: &[],
    };
    let mut agent = Agent {
        bench,
        servers: BTreeMap::new(),
        next: 0,
        watched: Vec::new(),
        sampler: None,
        mark: None,
        generators: BTreeMap::new(),
    };
    say(&Event::Done)?;
    for command in commands {
        let event = agent.answer(command).unwrap_or_else(refused);
        say(&event)?;
    }
    Ok(Exit::Done)
}

/// Answers what needs no plan, until there is one; nothing where none comes.
fn before_a_plan(
    commands: &Receiver<Command>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<(Plan, IpAddr)>> {
    while let Ok(command) = commands.recv() {
        say(&match command {
            Command::Plan { plan, host } => return Ok(Some((*plan, host))),
            Command::Clock => Event::Clock(now_ns()),
            Command::Window { job, cpus } => window::run(&job, cpus.as_ref(), commands, interrupt.flag())
                .unwrap_or_else(|error| Event::Refused(crate::exit::told(&error))),
            other => Event::Refused(format!("there is no plan yet for {other:?}")),
        })?;
    }
    Ok(None)
}

/// What this machine is, and how it is reached.
fn hello() -> anyhow::Result<Hello> {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    Ok(Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: observe::fingerprint(),
        cpus: crate::compare::allowed_cpus()?,
        available_bytes: observe::available_bytes(),
        ends: arrival::ends(&connection),
    })
}

/// The plan, with what is built in as this machine has it.
fn on_this_machine(mut plan: Plan) -> anyhow::Result<Plan> {
    let exe = std::env::current_exe().context("cannot find its own file")?;
    let built_in = |arm: &&mut model::plan::Arm| matches!(arm.source, model::plan::ArmSource::BuiltIn { .. });
    for arm in plan.arms.iter_mut().filter(built_in) {
        arm.run[0] = exe.to_string_lossy().into_owned();
    }
    Ok(plan)
}

/// A folder that is gone with it, and locked meanwhile: where an agent is killed, the next one sees that nobody needs it.
struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    fn make(place: &Place) -> anyhow::Result<(Self, RunDir)> {
        // Who looks for leftovers waits until it is locked.
        let _turn = place.turn()?;
        let path = place.own();
        let dir = RunDir::create(&path)?;
        let lock = File::open(&path).and_then(|file| file.lock().map(|()| file));
        let lock = lock.with_context(|| format!("cannot lock {}", path.display()))?;
        Ok((Self { path, _lock: lock }, dir))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is a server's doing, such as a folder without rights.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The commands that come. Where none do any more, whatever is waited for is given up.
fn receive_commands(stop: Arc<AtomicBool>) -> Receiver<Command> {
    let (give, take) = channel();
    std::thread::spawn(move || {
        listen(&give, &stop);
        // Our own handler takes note, and wakes who waits.
        let _ = kill_process(getpid(), Signal::TERM);
    });
    take
}

fn listen(give: &Sender<Command>, stop: &AtomicBool) {
    let mut lines = BufReader::new(std::io::stdin());
    while is_there(&lines) {
        let mut line = String::new();
        if lines.read_line(&mut line).is_err() || line.is_empty() {
            return;
        }
        match serde_json::from_str(&line) {
            Ok(Command::Alive) => {}
            Ok(Command::Enough) => stop.store(true, Ordering::Relaxed),
            Ok(command) => {
                if give.send(command).is_err() {
                    return;
                }
            }
            Err(error) => {
                let line = line.trim_end();
                return crate::say(&format!("the agent does not understand '{line}': {error}"));
            }
        }
    }
}

/// Waits until something comes; false where nothing does for too long.
fn is_there(lines: &BufReader<Stdin>) -> bool {
    if !lines.buffer().is_empty() {
        return true;
    }
    let limit = Timespec { tv_sec: SILENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let mut stdin = [PollFd::new(lines.get_ref(), PollFlags::IN)];
    loop {
        match poll(&mut stdin, Some(&limit)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

pub(super) fn say(event: &Event) -> anyhow::Result<()> {
    let line = serde_json::to_string(event).context("an event is JSON")?;
    crate::print(&format!("{line}\n"))
}

fn refused(early: Early) -> Event {
    Event::Refused(crate::exit::told(&early.into_error()))
}

struct Agent<'a> {
    bench: Bench<'a>,
    servers: BTreeMap<u32, Server>,
    /// Number of the next server or generator.
    next: u32,
    /// Numbers of the servers watched, in their order.
    watched: Vec<u32>,
    sampler: Option<Sampler>,
    mark: Option<Reading>,
    generators: BTreeMap<u32, Driven>,
}

/// A generator with what watches it.
struct Driven {
    generator: Generator,
    sampler: Sampler,
    mark: Option<Reading>,
}

impl Agent<'_> {
    fn answer(&mut self, command: Command) -> Result<Event, Early> {
        match command {
            Command::Alive | Command::Enough => Ok(Event::Done),
            Command::Plan { .. } | Command::Window { .. } | Command::Begin { .. } => {
                Err(anyhow::anyhow!("there is a plan already").into())
            }
            Command::Clock => Ok(Event::Clock(now_ns())),
            Command::Listen => Ok(Event::Listening(super::listen(self.bench.elsewhere.host())?)),
            Command::Measure { place } => Ok(Event::Link(super::measure(place)?)),
            Command::Start { purpose, round } => self.start(purpose, &round),
            Command::Watch { servers } => self.watch(servers),
            Command::Mark { loaded } => self.read(loaded, |agent, reading| {
                agent.mark = Some(reading);
                Ok(Event::Done)
            }),
            Command::Since { loaded } => self.read(loaded, |agent, now| observed(&now, agent.mark.as_ref())),
            Command::Crash { server, patience_ms } => {
                let server = self.servers.get_mut(&server).context("there is no such server")?;
                Ok(Event::Crash(server.crash(Duration::from_millis(patience_ms))))
            }
            Command::Stop { server } => {
                if let Some(server) = self.servers.remove(&server) {
                    server.stop();
                }
                Ok(Event::Done)
            }
            Command::Generate { job, cpus } => self.generate(&job, &cpus),
            Command::Drive { generator, command } => self.drive(generator, command),
            Command::MarkLoad { generator } => {
                let driven = self.driven(generator)?;
                driven.mark = Some(driven.sampler.read(0)?);
                Ok(Event::Done)
            }
            Command::SinceLoad { generator } => {
                let driven = self.driven(generator)?;
                observed(&driven.sampler.read(0)?, driven.mark.as_ref())
            }
            Command::Finish { generator } => {
                if let Some(driven) = self.generators.remove(&generator) {
                    driven.generator.finish();
                }
                Ok(Event::Done)
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn start(&mut self, purpose: Purpose, round: &model::plan::Round) -> Result<Event, Early> {
        let mut record = self.bench.blank(round);
        match self.bench.start(purpose, &mut record) {
            Ok(started) => {
                let (server, address) = (self.number(), started.address);
                self.servers.insert(server, started);
                Ok(Event::Started { server, address, record: Box::new(record) })
            }
            Err(Early::Arm(_, failure)) => Ok(Event::Failed(failure)),
            Err(other) => Err(other),
        }
    }

    fn watch(&mut self, servers: Vec<u32>) -> Result<Event, Early> {
        let group = |number: &u32| self.servers.get(number).map(|server| server.group.clone());
        let groups: Option<Vec<Group>> = servers.iter().map(group).collect();
        let groups = groups.context("there is no such server")?;
        self.sampler = Some(Sampler::of_targets(groups, self.bench.plan.placement.server.clone()));
        self.watched = servers;
        Ok(Event::Done)
    }

    /// Reads the counters; a server that is gone is reported as one that failed.
    fn read(
        &mut self,
        loaded: usize,
        then: impl FnOnce(&mut Self, Reading) -> Result<Event, Early>,
    ) -> Result<Event, Early> {
        let read = self.sampler.as_ref().context("nothing is watched")?.read(loaded);
        match read {
            Ok(reading) => then(self, reading),
            Err(error) => {
                let server = self.watched.get(loaded).and_then(|number| self.servers.get_mut(number));
                match server.and_then(|server| server.crash(EXIT_PATIENCE)) {
                    Some(failure) => Ok(Event::Failed(failure)),
                    None => Err(error.into()),
                }
            }
        }
    }

    fn generate(&mut self, job: &Job, cpus: &CpuSet) -> Result<Event, Early> {
        let number = self.number();
        let log = self.bench.dir.path().join("logs").join(format!("generator-{number}.log"));
        let generator = Generator::start(job, cpus, &log, self.bench.launcher, self.bench.interrupt)?;
        let group = Group::below(generator.supervisor_pid().context("it is not here")?)?;
        let sampler = Sampler::of_generator(group, cpus.clone());
        self.generators.insert(number, Driven { generator, sampler, mark: None });
        Ok(Event::Generating(number))
    }

    fn driven(&mut self, number: u32) -> anyhow::Result<&mut Driven> {
        self.generators.get_mut(&number).context("there is no such generator")
    }

    /// Hands a command on, and its answer back, with the text of the file that the generator wrote here.
    fn drive(&mut self, number: u32, command: job::Command) -> Result<Event, Early> {
        let (interrupt, file) = (self.bench.interrupt, self.bench.dir.path().join("latencies.hlog"));
        let driven = self.driven(number)?;
        let (command, kept) = match command {
            job::Command::Report { pool, hlog: Some(_) } => {
                (job::Command::Report { pool, hlog: Some(file.clone()) }, true)
            }
            other => (other, false),
        };
        let event = driven.generator.exchange(&command, interrupt)?;
        let hlog =
            kept.then(|| std::fs::read_to_string(&file)).transpose().context("cannot read latencies")?;
        Ok(Event::Generated { event, hlog })
    }
}

fn observed(now: &Reading, before: Option<&Reading>) -> Result<Event, Early> {
    let observed: Observed = now.since(before.context("there is no reading before")?);
    Ok(Event::Observed(Box::new(observed)))
}
