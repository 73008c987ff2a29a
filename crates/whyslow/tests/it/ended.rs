//! A comparison that is ended in the middle of a block: nothing stays behind, and what was measured can be read.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::record::{RunDir, RunStatus};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Printed, WHYSLOW, fresh_folder, whyslow_in, within};

/// After this long nothing may be left of a run that was killed.
const CLEAR_LIMIT: Duration = Duration::from_secs(2);
/// Until a crowded machine is in the second block.
const BLOCK_LIMIT: Duration = Duration::from_secs(60);

/// A comparison in its second block, run by a program file of its own, so that all its processes can be told.
struct Running {
    child: Child,
    program: PathBuf,
    folder: PathBuf,
}

impl Running {
    fn in_second_block() -> Self {
        let folder = fresh_folder().canonicalize().unwrap();
        let program = folder.join("whyslow-marked");
        std::fs::hard_link(WHYSLOW, &program).unwrap();
        let args = "compare threads futures --blocks 2 --cycles 15 --warmup 200ms --warmup-cap 500ms --connections 4 --equal-rates none --out run";
        let mut command = Command::new(&program);
        command.args(args.split(' ')).current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Self { child: command.spawn().unwrap(), program, folder };
        let log = running.folder.join("run/logs/b001-p0-generator.log");
        let begun = within(BLOCK_LIMIT, || log.exists() || running.child.try_wait().unwrap().is_some());
        assert!(begun && log.exists(), "the second block was not reached");
        // Itself, two supervisors with a server each, a supervisor and a generator.
        let started = within(CLEAR_LIMIT, || processes(&running.program).len() >= 7);
        assert!(started, "only {:?} are there", processes(&running.program));
        running
    }

    /// Its end, and what it said.
    fn end(self) -> (Printed, PathBuf, PathBuf) {
        (Printed::from_output(self.child.wait_with_output().unwrap()), self.program, self.folder)
    }
}

/// Processes whose executable is `program`.
fn processes(program: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let runs_it = |path: &PathBuf| std::fs::read_link(path.join("exe")).is_ok_and(|exe| exe == program);
    entries.map(|entry| entry.path()).filter(runs_it).map(|path| path.display().to_string()).collect()
}

/// Nothing runs any more, and the directory says how it ended; gives the analysis.
fn nothing_left(program: &Path, folder: &Path, status: RunStatus) -> String {
    let cleared = within(CLEAR_LIMIT, || processes(program).is_empty());
    assert!(cleared, "left behind: {:?}", processes(program));
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.manifest.status, status);
    assert!(run.damaged.is_empty(), "{:?}", run.damaged);
    assert!(!run.rounds.is_empty(), "the first block was whole before the second began");
    assert!(run.rounds.iter().all(|record| record.windows.len() == 1), "only whole rounds are kept");
    let analysed = whyslow_in(folder, &["analyse", "run"]);
    assert_eq!(analysed.code, Some(0), "{analysed:?}");
    analysed.out
}

#[test]
fn killed_it_leaves_no_process_and_a_run_that_reads_as_partial() {
    let mut running = Running::in_second_block();
    running.child.kill().unwrap();
    let (_, program, folder) = running.end();
    let text = nothing_left(&program, &folder, RunStatus::Running);
    assert!(text.starts_with("PARTIAL RUN: not ended (killed, or still running) after block 1\n"), "{text}");
}

#[test]
fn interrupted_it_keeps_what_was_measured_and_exits_with_1() {
    let running = Running::in_second_block();
    let pid = Pid::from_raw(i32::try_from(running.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let (printed, program, folder) = running.end();
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.out.starts_with("PARTIAL RUN: interrupted after block 1"), "{printed:?}");
    let text = nothing_left(&program, &folder, RunStatus::Partial);
    assert_eq!(text, printed.out, "the analysis of the directory is what was printed");
}
