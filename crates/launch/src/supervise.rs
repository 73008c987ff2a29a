//! The role between the parent and the target: starts it, waits, and leaves nothing behind.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};

use crate::Exit;
use crate::protocol::{Report, wait_readable};
use crate::{shim, tree};

/// First argument of this role. Arguments: log file, [`TALKING`] or [`LOGGED`], CPU list or `-`, the target's own directory
/// or `-`, how many words the command has that is run at the end, those words, then the words of the target.
pub(crate) const ROLE: &str = "__supervise";

/// The target's standard input and output are the socket that is the supervisor's standard error.
pub(crate) const TALKING: &str = "talking";
/// The target's standard output goes into the log.
pub(crate) const LOGGED: &str = "logged";

/// In the place of a CPU list or a directory: there is none.
pub(crate) const NONE: &str = "-";

/// How long a target may take to end after SIGTERM: enough to close connections in order, short beside a round.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// How long to go on killing before a process counts as stuck in the kernel.
pub(crate) const KILL_LIMIT: Duration = Duration::from_secs(10);
/// How long the command at the end may take: engines of containers need a second on a busy machine.
pub(crate) const AFTERWARDS_LIMIT: Duration = Duration::from_secs(20);
/// Between two rounds of SIGKILL: a process that forked in between is caught by the next.
const KILL_AGAIN: Duration = Duration::from_millis(10);

/// What the supervisor is to start.
struct Order<'a> {
    log: &'a OsString,
    output: &'a OsString,
    cpus: &'a OsString,
    /// What removes that which is not below the target; empty where there is nothing such.
    afterwards: &'a [OsString],
    words: &'a [OsString],
}

impl<'a> Order<'a> {
    /// The order and the target's own directory.
    fn read(args: &'a [OsString]) -> Option<(Self, &'a OsString)> {
        let [log, output, cpus, own, count, rest @ ..] = args else { return None };
        let (afterwards, words) = rest.split_at_checked(count.to_str()?.parse().ok()?)?;
        Some((Self { log, output, cpus, afterwards, words }, own))
    }
}

/// Runs the role. Its standard input is the parent's hold on it, its standard output takes the reports.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let Some((order, own)) = Order::read(args) else { return ExitCode::FAILURE };
    let own = OwnFolder::make(own);
    match own.and_then(|own| Ok((Supervisor::start(&order)?, own))) {
        Ok((supervisor, own)) => {
            supervisor.serve(own, order.afterwards);
            ExitCode::SUCCESS
        }
        Err(error) => {
            report(&Report::Failed(error.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// The target's own directory, if it has one; removed with all that is in it when this is dropped.
struct OwnFolder(Option<PathBuf>);

impl OwnFolder {
    fn make(path: &OsString) -> io::Result<Self> {
        if path == NONE {
            return Ok(Self(None));
        }
        // Nobody else may look into it, and one that is there already is somebody else's.
        DirBuilder::new().mode(0o700).create(path)?;
        Ok(Self(Some(path.into())))
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What cannot be removed is the target's doing, such as a folder without rights.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// What the parent wants.
#[derive(PartialEq, Eq)]
enum Wish {
    /// Nothing yet.
    Wait,
    /// An orderly stop.
    Stop,
    /// Everything ended now: the parent is gone or has let go.
    Kill,
}

struct Supervisor {
    target: Pid,
    wakeups: UnixStream,
    stop_requested: Arc<AtomicBool>,
    /// Whether nothing below us is left. As the subreaper we are the last parent of every orphan, so that having no
    /// children means having no descendants.
    alone: bool,
    /// How the process that ended last did so, once the target itself has ended well: what it left behind serves in its
    /// place, until that ends too.
    in_background: Option<Exit>,
    /// The command that is run at the end, and how it ended.
    helper: Option<Pid>,
    helped: Option<Exit>,
}

impl Supervisor {
    fn start(order: &Order<'_>) -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let (wakeups, stop_requested) = wake_on_signals()?;
        let target = start_target(order)?;
        report(&Report::Started(target.as_raw_nonzero().get().unsigned_abs()));
        let (in_background, helper, helped) = (None, None, None);
        Ok(Self { target, wakeups, stop_requested, alone: false, in_background, helper, helped })
    }

    /// Waits until all are to end, ends them, and lets go of what they had.
    fn serve(mut self, own: OwnFolder, afterwards: &[OsString]) {
        let mut wish = Wish::Wait;
        while wish == Wish::Wait {
            wish = self.wait(None, true);
        }
        // What is not below us comes first: the target may only be waiting for it, and then ends by itself.
        let ended = !afterwards.is_empty() && self.run_to_end(afterwards) && self.await_all(GRACE);
        let (mut killed, mut left) = (0, 0);
        if !ended && (wish == Wish::Kill || !self.end_gently()) {
            (killed, left) = self.kill_all();
        }
        if !afterwards.is_empty() && (!ended || wish == Wish::Kill) {
            // The target may have been about to make what is to be removed.
            self.run_to_end(afterwards);
        }
        drop(own);
        report(&Report::Stopped { killed, left });
    }

    /// Waits for a child's end, for the parent, or for `deadline`; reaps what ended.
    fn wait(&mut self, deadline: Option<Instant>, heed_parent: bool) -> Wish {
        let stdin = rustix::stdio::stdin();
        let both = [self.wakeups.as_fd(), stdin];
        let fds = if heed_parent { &both[..] } else { &both[..1] };
        // Where even waiting fails, ending everything is the only safe thing left.
        let Ok(_) = wait_readable(fds, deadline) else { return Wish::Kill };
        self.reap();
        match if heed_parent { parents_wish() } else { Wish::Wait } {
            Wish::Wait if self.stop_requested.load(Ordering::Relaxed) => Wish::Stop,
            wish => wish,
        }
    }

    /// Collects every child that has ended, the target among them.
    fn reap(&mut self) {
        let mut sink = [0; 64];
        while matches!((&self.wakeups).read(&mut sink), Ok(1..)) {}
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note_end(pid, exit_of(status)),
                Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => break,
            }
        }
        self.alone = true;
        if let Some(exit) = self.in_background.take() {
            report(&Report::Ended(exit));
        }
    }

    /// The target has ended when its process has, or, where that ended well, when all have that it left behind.
    fn note_end(&mut self, pid: Pid, exit: Exit) {
        if self.helper == Some(pid) {
            self.helped = Some(exit);
        } else if self.in_background.is_some() || (pid == self.target && exit == Exit::Code(0)) {
            self.in_background = Some(exit);
        } else if pid == self.target {
            report(&Report::Ended(exit));
        }
    }

    /// Runs a command to its end, or for [`AFTERWARDS_LIMIT`]; whether it ended well. What ends meanwhile is reaped: engines
    /// of containers wait until it is gone.
    fn run_to_end(&mut self, words: &[OsString]) -> bool {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).process_group(0).stdin(Stdio::null());
        let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else { return false };
        self.helper = pid_of(&child);
        (self.helped, self.alone) = (None, false);
        let deadline = Instant::now() + AFTERWARDS_LIMIT;
        while self.helped.is_none() && Instant::now() < deadline {
            self.wait(Some(deadline), false);
        }
        let Some(exit) = self.helped else {
            let _ = self.helper.map(|pid| rustix::process::kill_process(pid, Signal::KILL));
            return false;
        };
        exit.is_success()
    }

    /// Waits until nothing below us is left, `patience` at most.
    fn await_all(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        self.reap();
        while !self.alone && Instant::now() < deadline {
            self.wait(Some(deadline), false);
        }
        self.alone
    }

    /// SIGTERM to all, then [`GRACE`]; `false` where something is still there.
    fn end_gently(&mut self) -> bool {
        self.signal_all(Signal::TERM);
        let deadline = Instant::now() + GRACE;
        self.reap();
        let mut parent_is_there = true;
        while !self.alone && parent_is_there && Instant::now() < deadline {
            parent_is_there = self.wait(Some(deadline), true) != Wish::Kill;
        }
        self.alone
    }

    /// SIGKILL to all until nothing is left; how many there were, and how many are stuck.
    fn kill_all(&mut self) -> (u32, u32) {
        let deadline = Instant::now() + KILL_LIMIT;
        self.reap();
        let first = count(&tree::descendants(own_pid()));
        while !self.alone && Instant::now() < deadline {
            self.signal_all(Signal::KILL);
            self.wait(Some(Instant::now() + KILL_AGAIN), false);
        }
        let left = if self.alone { 0 } else { count(&tree::descendants(own_pid())) };
        (first, left)
    }

    /// The target's group at once, then each descendant that has left it.
    fn signal_all(&self, signal: Signal) {
        let group = self.target.as_raw_nonzero().get().unsigned_abs();
        let (inside, outside): (Vec<_>, Vec<_>) =
            tree::descendants(own_pid()).into_iter().partition(|member| member.group == group);
        // Who ended meanwhile cannot be signalled, and that is well. A group without a member of ours is not ours: its
        // number may name another one by now.
        if !inside.is_empty() {
            let _ = rustix::process::kill_process_group(self.target, signal);
        }
        for member in outside {
            if let Some(pid) = i32::try_from(member.pid).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
    }
}

/// What came on standard input: the end of it means that the parent let go or died.
fn parents_wish() -> Wish {
    let stdin = rustix::stdio::stdin();
    match wait_readable(&[stdin], Some(Instant::now())) {
        Ok(false) => return Wish::Wait,
        Ok(true) => {}
        Err(_) => return Wish::Kill,
    }
    let mut chunk = [0; 64];
    match rustix::io::read(stdin, &mut chunk) {
        Ok(1..) => Wish::Stop,
        Ok(0) | Err(_) => Wish::Kill,
    }
}

/// A stream that becomes readable on each signal we wait for, and a flag that those which ask for an end set.
///
/// The parent-death signal is not used here: it would come when the thread that started us ends, and it is not needed,
/// because standard input ends with the parent.
fn wake_on_signals() -> io::Result<(UnixStream, Arc<AtomicBool>)> {
    let (read, write) = UnixStream::pair()?;
    read.set_nonblocking(true)?;
    let stop_requested = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop_requested))?;
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    signal_hook::low_level::pipe::register(SIGCHLD, write)?;
    Ok((read, stop_requested))
}

/// Starts the shim in a group of its own and waits until it has become the target.
fn start_target(order: &Order<'_>) -> io::Result<Pid> {
    let (mut failures, shim_end) = io::pipe()?;
    let log = OpenOptions::new().create(true).append(true).open(order.log)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(shim::ROLE)
        .arg(own_pid().to_string())
        .arg(order.output)
        .arg(order.cpus)
        .args(order.words)
        .process_group(0)
        .stdin(shim_end)
        .stdout(output(order, &log)?)
        .stderr(log.try_clone()?);
    let child = command.spawn()?;
    // Our copy of the pipe must close, or its end would never be seen.
    drop(command);
    // Whoever reads the target's output must see its end, so that no copy may stay here.
    rustix::stdio::dup2_stderr(&log)?;
    let mut reason = String::new();
    failures.read_to_string(&mut reason)?;
    if !reason.is_empty() {
        return Err(io::Error::other(reason));
    }
    Ok(pid_of(&child).expect("the kernel's process ids are positive"))
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn output(order: &Order<'_>, log: &File) -> io::Result<Stdio> {
    if order.output == TALKING {
        Ok(rustix::stdio::stderr().try_clone_to_owned()?.into())
    } else {
        Ok(log.try_clone()?.into())
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(0),
    }
}

fn own_pid() -> u32 {
    std::process::id()
}

fn count(members: &[tree::Member]) -> u32 {
    u32::try_from(members.len()).expect("the kernel has fewer process ids")
}

fn report(report: &Report) {
    // A parent that is gone hears nothing; its end is noticed on standard input.
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(report.line().as_bytes()).and_then(|()| stdout.flush());
}
