//! Java virtual machines tell the names of what they compiled, who called it, and when they pause, only when asked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use launch::{Launcher, Spec};
use model::record::{MachineLog, Pauses};
use observe::Group;
use rustix::time::{ClockId, clock_gettime};

use crate::runtimes::Leavings;

/// Longest wait for a JVM to do what it was asked to: a map of a large program takes a second or two.
const JCMD_LIMIT: Duration = Duration::from_secs(10);

/// The note where pauses cannot be seen.
const NO_LOG: &str =
    "pauses of the JVM are not seen: jcmd of a JDK (17 or later) and the right to attach to it are needed";

/// Has every JVM of `group` whose own tables cannot be read write `/tmp/perf-PID.map`; without a JDK (17 or later) its methods stay
/// without names then, which the profile says. The maps go when what is given back is dropped.
#[must_use]
pub(crate) fn write_maps(group: &Group, launcher: &Launcher) -> Leavings {
    let mut leavings = Leavings::default();
    let cannot_be_read = |pid: &u32| !observe::names_java(*pid);
    for pid in group.java_pids().unwrap_or_default().into_iter().filter(cannot_be_read) {
        leavings.expect_map(pid);
        ask(pid, &["Compiler.perfmap"], launcher);
    }
    leavings
}

/// Whether a JVM carried out a command of `jcmd`, which comes with a JDK.
fn ask(pid: u32, command: &[&str], launcher: &Launcher) -> bool {
    let (program, pid) = ("jcmd".to_owned(), pid.to_string());
    let argv = [program, pid].into_iter().chain(command.iter().map(|word| (*word).to_owned())).collect();
    let spec = Spec { argv, log: PathBuf::from("/dev/null"), ..Spec::default() };
    let Ok(mut process) = launcher.start(&spec) else { return false };
    let exit = process.wait(JCMD_LIMIT);
    let _ = process.stop();
    exit.is_some_and(|exit| exit.is_success())
}

/// Logs of the JVMs of a target while it is watched.
pub(crate) struct MachineLogs {
    files: Vec<PathBuf>,
    /// Begin and end of each turn on the monotonic clock.
    turns_ns: Vec<[u64; 2]>,
    /// What could not be logged, one sentence each.
    pub(crate) missing: Vec<String>,
}

impl MachineLogs {
    /// Has every JVM of `group` log its pauses and collections, from now until it ends, into files beside `log`; nothing
    /// where there is no JVM.
    pub(crate) fn begin(group: &Group, launcher: &Launcher, log: &Path) -> Option<Self> {
        let pids = group.java_pids().unwrap_or_default();
        let mut logs = Self { files: Vec::new(), turns_ns: Vec::new(), missing: Vec::new() };
        for pid in &pids {
            // It has a working directory of its own.
            let file = std::path::absolute(log).ok()?.with_extension(format!("{pid}.jvm.log"));
            let output = format!("output={}", file.display());
            let words = [
                "VM.log",
                &output,
                "what=gc,safepoint",
                "decorators=timenanos,tags",
                "output_options=filecount=0",
            ];
            if ask(*pid, &words, launcher) {
                logs.files.push(file);
            } else {
                logs.missing = vec![NO_LOG.to_owned()];
            }
        }
        (!pids.is_empty()).then_some(logs)
    }

    pub(crate) fn turn_begins(&mut self) {
        self.turns_ns.push([now_ns(); 2]);
    }

    pub(crate) fn turn_ends(&mut self) {
        if let Some([_, end]) = self.turns_ns.last_mut() {
            *end = now_ns();
        }
    }

    /// What was logged in the turns; nothing where none logs.
    pub(crate) fn read(&self) -> Option<MachineLog> {
        let mut all = MachineLog::default();
        for file in &self.files {
            // One that is gone logged nothing that could be read.
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let log = observe::machine_log(&text, &self.turns_ns);
            all.collections_ns.extend(log.collections_ns);
            for (operation, pauses) in log.pauses {
                let sum: &mut Pauses = all.pauses.entry(operation).or_default();
                *sum = sum.and(pauses);
            }
            if let Some(per_s) = log.allocated_bytes_per_s {
                *all.allocated_bytes_per_s.get_or_insert_default() += per_s;
            }
        }
        (!self.files.is_empty()).then_some(all)
    }
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
