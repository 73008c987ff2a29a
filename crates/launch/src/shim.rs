//! The role that becomes the target: what must be set inside the new process, then exec.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::thread::CpuSet;

use crate::supervise::TALKING;

/// First argument of this role. Arguments: supervisor's pid, [`TALKING`] or not, CPU list or `-`, then the words of the
/// target.
pub(crate) const ROLE: &str = "__shim";

/// Lowest descriptor that is not a standard stream.
const FIRST_FREE_FD: i32 = 3;

/// Becomes the target. Its standard input is a pipe to the supervisor: it closes when the target runs, and says why
/// where it does not.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    // The pipe must close by itself on exec, which a standard stream does not.
    let Ok(mut pipe) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE_FD).map(File::from)
    else {
        return ExitCode::FAILURE;
    };
    let error = become_target(args).expect_err("exec returns only when it fails");
    // A supervisor that is gone has nobody to tell.
    let _ = pipe.write_all(error.to_string().as_bytes());
    ExitCode::FAILURE
}

fn become_target(args: &[OsString]) -> io::Result<std::convert::Infallible> {
    let [supervisor, output, cpus, program, words @ ..] = args else {
        return Err(io::Error::other("no command"));
    };
    if output == TALKING {
        rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
    } else {
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    }
    die_with(supervisor)?;
    if cpus != "-" {
        pin(&text(cpus)?.parse().map_err(io::Error::other)?)?;
    }
    allow_descriptors()?;
    Err(Command::new(program).args(words).exec())
}

/// Raises the soft limit of open files to the hard one, as service managers and most servers do: a comparison is not to be
/// about whose author thought of it.
fn allow_descriptors() -> io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}

/// Asks the kernel to kill this process when its supervisor ends, however it ends.
fn die_with(supervisor: &OsString) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the line above, and nobody would tell us any more.
    let parent = getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    if text(supervisor)?.parse() == Ok(parent) {
        Ok(())
    } else {
        Err(io::Error::other("the supervisor is gone"))
    }
}

fn pin(cpus: &model::units::CpuSet) -> io::Result<()> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        let index = usize::try_from(cpu).expect("a CPU number fits a usize");
        if index >= CpuSet::MAX_CPU {
            return Err(io::Error::other(format!(
                "CPU {cpu} is beyond the {} that can be set",
                CpuSet::MAX_CPU
            )));
        }
        set.set(index);
    }
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("it cannot have the CPUs {cpus}: {error}")))
}

fn text(word: &OsString) -> io::Result<&str> {
    word.to_str().ok_or_else(|| io::Error::other("not a number"))
}
