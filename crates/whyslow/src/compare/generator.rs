//! The generator as a child process, so that the kernel accounts its CPU apart from ours.

use std::io::{BufRead, BufReader, PipeReader};
use std::path::Path;

use anyhow::{Context, bail};
use launch::{Launcher, Process, Spec};
use model::plan::{Circumstances, Condition, Plan};
use model::record::LoadReport;
use model::units::Span;
use serde::{Deserialize, Serialize};

use crate::interrupt::Interrupt;

/// What the generator tells while it runs, one JSON object a line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// One second of warm-up with so many completed requests.
    WarmupSecond {
        /// Requests completed in it.
        requests: u64,
    },
    /// The window begins now.
    WindowStart {
        /// Whether the warm-up had become steady.
        steady: bool,
    },
    /// The window ended just now.
    WindowEnd,
    /// What was measured.
    Report {
        /// The report.
        report: Box<LoadReport>,
        /// Lower edge in nanoseconds and count of every bucket of the responses.
        response_buckets: Vec<[u64; 2]>,
        /// Time that the generator polled in vain.
        polled_ns: u64,
        /// When no answer came at all: begin and end of each time, in nanoseconds of the monotonic clock.
        silences_ns: Vec<[u64; 2]>,
    },
}

/// One generator run against a server on `port`.
pub(super) struct Phase<'a> {
    pub(super) plan: &'a Plan,
    pub(super) circumstances: &'a Circumstances,
    /// The status that the arm is expected to answer with.
    pub(super) status: u16,
    pub(super) port: u16,
    pub(super) condition: Condition,
    pub(super) warmup: Span,
    /// Longest warm-up; the same as `warmup` where it is of one length.
    pub(super) warmup_until: Span,
    pub(super) window: Span,
    pub(super) seed: u64,
    pub(super) hlog: Option<&'a Path>,
    pub(super) log: &'a Path,
}

impl Phase<'_> {
    fn argv(&self) -> anyhow::Result<Vec<String>> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let workload = &self.plan.workload;
        let threads = self.plan.placement.load.len().min(workload.connections as usize).max(1);
        let mut argv: Vec<String> =
            vec![exe.to_string_lossy().into_owned(), "load".to_owned(), "--events".to_owned()];
        let mut flag = |name: &str, value: String| argv.extend([name.to_owned(), value]);
        flag("--threads", threads.to_string());
        flag("--connections", workload.connections.to_string());
        flag("--pipeline", self.circumstances.pipeline.unwrap_or(workload.pipeline).to_string());
        flag("--duration", self.window.to_string());
        flag("--warmup", self.warmup.to_string());
        flag("--warmup-until", self.warmup_until.to_string());
        flag("--seed", self.seed.to_string());
        flag("--expect-status", self.status.to_string());
        match self.condition {
            // What it is sent wakes nobody: the server is charged for that, and the more the less there is to do.
            Condition::Capacity if self.plan.placement.polls => flag("--idle", "poll".to_owned()),
            Condition::Capacity => {}
            Condition::EqualRate { rate } => {
                flag("--rate", rate.to_string());
                flag("--arrival", if workload.poisson { "poisson" } else { "constant" }.to_owned());
            }
            Condition::ShareOfSlowest { .. } => bail!("no pilot has found the rate of the slowest arm"),
        }
        if self.circumstances.head == Some(true) {
            flag("--method", "HEAD".to_owned());
        }
        if !self.circumstances.keep_alive.unwrap_or(workload.keep_alive) {
            flag("--header", "Connection: close".to_owned());
        }
        if let Some(hlog) = self.hlog {
            flag("--hlog", hlog.to_string_lossy().into_owned());
        }
        argv.push(format!("http://127.0.0.1:{}{}", self.port, workload.path));
        Ok(argv)
    }

    /// Starts the generator.
    pub(super) fn start(&self, launcher: &Launcher) -> anyhow::Result<Running> {
        let spec = Spec {
            argv: self.argv()?,
            cpus: Some(self.plan.placement.load.clone()),
            log: self.log.to_owned(),
            ..Spec::default()
        };
        let (process, output) = launcher.start_piped(&spec)?;
        Ok(Running { process, lines: BufReader::new(output), log: self.log.to_owned() })
    }
}

/// A generator at work.
pub(super) struct Running {
    process: Process,
    lines: BufReader<PipeReader>,
    log: std::path::PathBuf,
}

impl Running {
    pub(super) fn supervisor_pid(&self) -> u32 {
        self.process.supervisor_pid()
    }

    /// The next event, or nothing when we were asked to stop; an error where the generator ended without its report.
    pub(super) fn next(&mut self, interrupt: &Interrupt) -> anyhow::Result<Option<Event>> {
        if self.lines.buffer().is_empty() && !interrupt.wait_readable(self.lines.get_ref()) {
            return Ok(None);
        }
        let mut line = String::new();
        self.lines.read_line(&mut line).context("cannot read from the generator")?;
        if line.is_empty() {
            bail!("the generator ended early: {}", launch::log_tail(&self.log, 3).join(" "));
        }
        serde_json::from_str(&line)
            .map(Some)
            .with_context(|| format!("the generator said '{}'", line.trim_end()))
    }

    /// Waits for its end; it has said all.
    pub(super) fn finish(self) {
        // It ends by itself after its report; stopping also covers one that does not.
        let _ = self.process.stop();
    }
}
