//! The generator as a child process, so that the kernel accounts its CPU apart from ours: here, or below the agent on another
//! machine.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use launch::{Launcher, Process, Spec};
use model::job::{Command, Event, Job, Turn, TurnReport};
use model::record::LoadReport;
use model::units::CpuSet;
use observe::Observed;

use super::Early;
use super::remote::{self, Remote};
use super::several::Several;
use crate::interrupt::{Interrupt, Waited};

/// Lines of its log that go with an error of its own.
const LOG_LINES: usize = 3;

/// The turns of a pool, as one window.
pub(super) struct Pooled {
    pub(super) load: LoadReport,
    pub(super) buckets: Vec<[u64; 2]>,
    pub(super) silences_ns: Vec<[u64; 2]>,
}

impl Pooled {
    /// Silences that are no mere pause between two answers, as the generator saw them.
    pub(super) fn stalls(&self) -> Vec<[u64; 2]> {
        analyse::stalls(&self.silences_ns, self.load.window_ns, self.load.requests)
    }
}

/// A generator with its connections open; quiet but in its turns.
pub(super) enum Generator {
    Here(Box<Child>),
    There(Far),
    Several(Several),
}

/// A generator on this machine.
pub(super) struct Child {
    process: Process,
    lines: BufReader<UnixStream>,
    log: PathBuf,
}

/// A generator on another machine, by its number there.
pub(super) struct Far {
    remote: Arc<Remote>,
    number: u32,
}

impl Generator {
    /// Starts it and waits until it has tried all its connections.
    pub(super) fn start(
        job: &Job,
        cpus: &CpuSet,
        log: &Path,
        launcher: &Launcher,
        interrupt: &Interrupt,
    ) -> Result<Self, Early> {
        let exe = crate::folder::own_program()?;
        let spec = Spec {
            argv: [&exe.to_string_lossy(), "load", "--job"].map(str::to_owned).to_vec(),
            cpus: Some(cpus.clone()),
            log: log.to_owned(),
            ..Spec::default()
        };
        let (process, stream) = launcher.start_talking(&spec).map_err(anyhow::Error::new)?;
        let mut child = Box::new(Child { process, lines: BufReader::new(stream), log: log.to_owned() });
        child.say(job)?;
        match child.next(interrupt)? {
            Event::Connected { .. } => Ok(Self::Here(child)),
            other => Err(unexpected(&other)),
        }
    }

    /// The same on other machines, each with its CPUs.
    pub(super) fn start_there(job: &Job, machines: &[(Arc<Remote>, CpuSet)]) -> Result<Self, Early> {
        match machines {
            [(remote, cpus)] => Far::start(job, cpus, remote).map(Self::There),
            _ => Several::start(job, machines).map(Self::Several),
        }
    }

    /// Its supervisor, where that is a process of this machine.
    pub(super) fn supervisor_pid(&self) -> Option<u32> {
        match self {
            Self::Here(child) => Some(child.process.supervisor_pid()),
            Self::There(_) | Self::Several(_) => None,
        }
    }

    /// Loads one endpoint for one turn; it is quiet again when this returns.
    pub(super) fn turn(&mut self, turn: Turn, interrupt: &Interrupt) -> Result<TurnReport, Early> {
        if let Self::Several(several) = self {
            return several.turn(turn);
        }
        match self.exchange(&Command::Turn(turn), interrupt)? {
            Event::Turn(report) => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    /// The turns of `pool` so far; their latencies go to `hlog` where one is given.
    pub(super) fn report(
        &mut self,
        pool: u32,
        hlog: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Pooled, Early> {
        if let Self::Several(several) = self {
            return several.report(pool, hlog);
        }
        match self.exchange(&Command::Report { pool, hlog: hlog.map(Path::to_owned) }, interrupt)? {
            Event::Report { report, response_buckets, silences_ns } => {
                Ok(Pooled { load: *report, buckets: response_buckets, silences_ns })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Hands it a command and waits for its answer.
    pub(super) fn exchange(&mut self, command: &Command, interrupt: &Interrupt) -> Result<Event, Early> {
        match self {
            Self::Here(child) => {
                child.say(command)?;
                child.next(interrupt)
            }
            Self::There(far) => far.exchange(command),
            Self::Several(_) => {
                Err(anyhow::anyhow!("several generators are asked for turns and reports").into())
            }
        }
    }

    /// Keeps a reading of what it used so far, where it is on another machine.
    pub(super) fn mark(&self) -> Result<(), Early> {
        match self {
            Self::Here(_) => Ok(()),
            Self::There(far) => far.mark(),
            Self::Several(several) => several.mark(),
        }
    }

    /// What it used since the reading kept there, where it is on another machine.
    pub(super) fn since(&self) -> Result<Option<Observed>, Early> {
        match self {
            Self::Here(_) => Ok(None),
            Self::There(far) => far.since().map(Some),
            Self::Several(several) => several.since().map(Some),
        }
    }

    /// Lets it end, and waits for that.
    pub(super) fn finish(self) {
        match self {
            Self::Here(child) => {
                // Its end of the stream tells it to; stopping also covers one that does not heed it.
                let _ = child.lines.get_ref().shutdown(Shutdown::Write);
                let _ = child.process.stop();
            }
            Self::There(far) => far.finish(),
            Self::Several(several) => several.finish(),
        }
    }
}

impl Child {
    fn say(&mut self, line: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line).context("a command is JSON")?;
        text.push(b'\n');
        self.lines.get_mut().write_all(&text).map_err(|error| self.ended(&error.to_string()))
    }

    fn next(&mut self, interrupt: &Interrupt) -> Result<Event, Early> {
        if self.lines.buffer().is_empty()
            && interrupt.wait_readable(self.lines.get_ref(), None) != Waited::Readable
        {
            return Err(Early::Interrupted);
        }
        let mut line = String::new();
        self.lines.read_line(&mut line).map_err(|error| self.ended(&error.to_string()))?;
        if line.is_empty() {
            return Err(self.ended("it said nothing more").into());
        }
        let event = serde_json::from_str(&line);
        Ok(event.with_context(|| format!("the generator said '{}'", line.trim_end()))?)
    }

    fn ended(&self, why: &str) -> anyhow::Error {
        anyhow::anyhow!(
            "the generator ended early ({why}): {}",
            launch::log_tail(&self.log, LOG_LINES).join(" ")
        )
    }
}

impl Far {
    /// Starts one and waits until it has tried all its connections.
    pub(super) fn start(job: &Job, cpus: &CpuSet, remote: &Arc<Remote>) -> Result<Self, Early> {
        let command = remote::Command::Generate { job: Box::new(job.clone()), cpus: cpus.clone() };
        match remote.ask(&command)? {
            remote::Event::Generating(number) => Ok(Self { remote: Arc::clone(remote), number }),
            other => Err(remote.unexpected(&other)),
        }
    }

    pub(super) fn mark(&self) -> Result<(), Early> {
        self.remote.done(&remote::Command::MarkLoad { generator: self.number })
    }

    pub(super) fn since(&self) -> Result<Observed, Early> {
        match self.remote.ask(&remote::Command::SinceLoad { generator: self.number })? {
            remote::Event::Observed(observed) => Ok(*observed),
            other => Err(self.remote.unexpected(&other)),
        }
    }

    pub(super) fn finish(self) {
        // Where the connection is lost, the agent ends it.
        let _ = self.remote.done(&remote::Command::Finish { generator: self.number });
    }

    /// The latencies that it writes to a file there are written to the one that was asked for here.
    pub(super) fn exchange(&self, command: &Command) -> Result<Event, Early> {
        let drive = remote::Command::Drive { generator: self.number, command: command.clone() };
        match self.remote.ask(&drive)? {
            remote::Event::Generated { event, hlog } => {
                if let (Command::Report { hlog: Some(file), .. }, Some(text)) = (command, hlog) {
                    model::record::write_atomically(file, text.as_bytes())?;
                }
                Ok(event)
            }
            other => Err(self.remote.unexpected(&other)),
        }
    }
}

pub(super) fn unexpected(event: &Event) -> Early {
    let error = || -> anyhow::Result<()> {
        match event {
            Event::Failed { text, .. } => bail!("the generator cannot go on: {text}"),
            other => bail!("the generator answered out of turn: {other:?}"),
        }
    };
    Early::Broken(error().expect_err("both ways are errors"))
}
