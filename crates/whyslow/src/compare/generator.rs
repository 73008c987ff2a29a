//! The generator as a child process, so that the kernel accounts its CPU apart from ours.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use launch::{Launcher, Process, Spec};
use model::job::{Command, Event, Job, Turn, TurnReport};
use model::record::LoadReport;
use model::units::CpuSet;

use super::Early;
use crate::interrupt::Interrupt;

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
pub(super) struct Generator {
    process: Process,
    lines: BufReader<UnixStream>,
    log: PathBuf,
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
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let spec = Spec {
            argv: [&exe.to_string_lossy(), "load", "--job"].map(str::to_owned).to_vec(),
            cpus: Some(cpus.clone()),
            log: log.to_owned(),
            ..Spec::default()
        };
        let (process, stream) = launcher.start_talking(&spec).map_err(anyhow::Error::new)?;
        let mut generator = Self { process, lines: BufReader::new(stream), log: log.to_owned() };
        generator.say(job)?;
        match generator.next(interrupt)? {
            Event::Connected { .. } => Ok(generator),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) fn supervisor_pid(&self) -> u32 {
        self.process.supervisor_pid()
    }

    /// Loads one endpoint for one turn; it is quiet again when this returns.
    pub(super) fn turn(&mut self, turn: Turn, interrupt: &Interrupt) -> Result<TurnReport, Early> {
        self.say(&Command::Turn(turn))?;
        match self.next(interrupt)? {
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
        self.say(&Command::Report { pool, hlog: hlog.map(Path::to_owned) })?;
        match self.next(interrupt)? {
            Event::Report { report, response_buckets, silences_ns } => {
                Ok(Pooled { load: *report, buckets: response_buckets, silences_ns })
            }
            other => Err(unexpected(&other)),
        }
    }

    fn say(&mut self, line: &impl serde::Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_vec(line).context("a command is JSON")?;
        text.push(b'\n');
        self.lines.get_mut().write_all(&text).map_err(|error| self.ended(&error.to_string()))
    }

    fn next(&mut self, interrupt: &Interrupt) -> Result<Event, Early> {
        if self.lines.buffer().is_empty() && !interrupt.wait_readable(self.lines.get_ref()) {
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

    /// Lets it end, and waits for that.
    pub(super) fn finish(self) {
        // Its end of the stream tells it to; stopping also covers one that does not heed it.
        let _ = self.lines.get_ref().shutdown(Shutdown::Write);
        let _ = self.process.stop();
    }
}

fn unexpected(event: &Event) -> Early {
    let error = || -> anyhow::Result<()> {
        match event {
            Event::Failed { text, .. } => bail!("the generator cannot go on: {text}"),
            other => bail!("the generator answered out of turn: {other:?}"),
        }
    };
    Early::Broken(error().expect_err("both ways are errors"))
}
