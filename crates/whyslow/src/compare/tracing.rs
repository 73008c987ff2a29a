//! System calls by `strace -c`, where the kernel lets nobody count them: it stops the target at every call, so that only
//! the mix of calls can be believed.

use std::path::{Path, PathBuf};

use launch::{Launcher, Process, Spec, executable_of, log_tail};
use model::record::Counts;
use observe::Group;

const PROGRAM: &str = "strace";

/// strace over one window.
pub(super) struct Tracing {
    spec: Spec,
    launcher: Launcher,
    /// Where it writes its table.
    table: PathBuf,
    process: Option<Process>,
}

impl Tracing {
    /// Whether there is a strace.
    pub(super) fn is_there() -> bool {
        executable_of(&[PROGRAM.to_owned()], None).is_ok()
    }

    /// Ready to trace every thread of `target`; the table lies beside `log`.
    pub(super) fn of(target: &Group, launcher: &Launcher, log: &Path) -> anyhow::Result<Self> {
        let table = std::path::absolute(log.with_extension("strace"))?;
        let mut argv: Vec<String> = [PROGRAM, "-c", "-f", "-o"].map(str::to_owned).into_iter().collect();
        argv.push(table.to_string_lossy().into_owned());
        argv.extend(target.pids()?.into_iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
        let spec = Spec { argv, log: log.with_extension("strace.log"), ..Spec::default() };
        Ok(Self { spec, launcher: launcher.clone(), table, process: None })
    }

    /// The window begins. That it cannot be started shows in [`Tracing::counts`].
    pub(super) fn begin(&mut self) {
        self.process = self.launcher.start(&self.spec).ok();
    }

    /// The window ended.
    pub(super) fn end(&mut self) {
        // Asked to end, it lets its processes go and writes its table.
        if let Some(process) = self.process.take() {
            let _ = process.stop();
        }
    }

    /// What was counted, or why nothing was.
    pub(super) fn counts(&self) -> Result<Counts, String> {
        let table = std::fs::read_to_string(&self.table).unwrap_or_default();
        let syscalls = observe::strace_calls(&table);
        if syscalls.is_empty() {
            let said = log_tail(&self.spec.log, 1).join(" ");
            return Err(format!("strace counted no system calls: {said}"));
        }
        Ok(Counts { syscalls, ..Counts::default() })
    }
}
