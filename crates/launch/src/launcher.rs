use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::plan::{Arm, Placeholders, fill};
use model::units::CpuSet;

use crate::protocol::{Report, Reports};
use crate::{LaunchError, Process, executable_of, shim, supervise};

/// Variable that holds the padding of the environment.
pub const ENV_PADDING: &str = "WHYSLOW_PADDING";

/// How long a supervisor may take to start a program: executables on a cold network disk take seconds.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Plays the role that this executable was started in, if it was started by a [`Launcher`]; `args` are the program's
/// arguments with its name first. To be called first thing in `main`.
pub fn role(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    let play: fn(&[OsString]) -> ExitCode = match args.next()?.to_str()? {
        supervise::ROLE => supervise::run,
        shim::ROLE => shim::run,
        _ => return None,
    };
    Some(play(&args.collect::<Vec<_>>()))
}

/// What to start and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// Program and arguments, placeholders filled in.
    pub argv: Vec<String>,
    /// Added to our environment.
    pub env: BTreeMap<String, String>,
    /// Folder it runs in; ours where none is given.
    pub dir: Option<PathBuf>,
    /// CPUs it may use; ours where none are given.
    pub cpus: Option<CpuSet>,
    /// File that what it prints is appended to.
    pub log: PathBuf,
    /// Bytes added to its environment, as the value of [`ENV_PADDING`].
    pub env_padding_bytes: u64,
    /// A command that removes what is not below the target, such as its container; it is run when the target is to end,
    /// also where the measuring program was killed. None where it is empty.
    pub afterwards: Vec<String>,
}

impl Spec {
    /// The start of `arm` with `values` filled into its command and environment.
    #[must_use]
    pub fn of_arm(arm: &Arm, values: &Placeholders, log: &Path) -> Self {
        let mut env = fill_env(arm, values);
        if arm.port_env {
            env.insert("PORT".to_owned(), values.port.to_string());
        }
        Self {
            argv: arm.run.iter().map(|word| fill(word, values)).collect(),
            env,
            dir: arm.dir.as_ref().map(PathBuf::from),
            log: log.to_owned(),
            ..Self::default()
        }
    }
}

pub(crate) fn fill_env(arm: &Arm, values: &Placeholders) -> BTreeMap<String, String> {
    arm.env.iter().map(|(name, value)| (name.clone(), fill(value, values))).collect()
}

/// In a command or its environment: a directory that this process alone has. Its supervisor makes it before the start and
/// removes it at the end, also when the measuring program was killed.
pub const OWN_FOLDER: &str = "{tmp}";

/// Starts targets below supervisors.
#[derive(Debug, Clone)]
pub struct Launcher {
    exe: PathBuf,
    stop: Option<Arc<AtomicBool>>,
}

impl Launcher {
    /// A launcher whose supervisors are `exe`, a program that calls [`role`].
    #[must_use]
    pub fn new(exe: PathBuf) -> Self {
        Self { exe, stop: None }
    }

    /// The same, whose builds and waits for readiness end with [`LaunchError::Interrupted`] once `stop` is set.
    #[must_use]
    pub fn until(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// A launcher whose supervisors are this very program, also when its file was replaced meanwhile.
    #[must_use]
    pub fn this_program() -> Self {
        Self::new(PathBuf::from("/proc/self/exe"))
    }

    pub(crate) fn is_unwanted(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }

    /// Starts a target; what it prints goes into its log.
    ///
    /// # Errors
    /// [`LaunchError::NoProgram`], [`LaunchError::Start`], or [`LaunchError::File`] for the log.
    pub fn start(&self, spec: &Spec) -> Result<Process, LaunchError> {
        let stderr = log_of(spec)?;
        self.start_with(spec, supervise::LOGGED, stderr.into())
    }

    /// Starts a program to talk with: what is written to the stream is its standard input, and its standard output comes
    /// back; its standard error goes into its log.
    ///
    /// # Errors
    /// As [`Launcher::start`].
    pub fn start_talking(&self, spec: &Spec) -> Result<(Process, UnixStream), LaunchError> {
        log_of(spec)?;
        let (ours, its) = UnixStream::pair().map_err(|error| cannot_start(spec, &error))?;
        Ok((self.start_with(spec, supervise::TALKING, OwnedFd::from(its).into())?, ours))
    }

    fn start_with(&self, spec: &Spec, output: &str, stderr: Stdio) -> Result<Process, LaunchError> {
        executable_of(&spec.argv, spec.dir.as_deref())?;
        let started = Instant::now();
        let mut supervisor =
            self.command(spec, output, stderr).and_then(|mut command| command.spawn()).map_err(|error| {
                LaunchError::Start { program: self.exe.display().to_string(), reason: error.to_string() }
            })?;
        let stdout = supervisor.stdout.take().expect("its standard output was asked for as a pipe");
        let mut reports = Reports::new(stdout);
        match first_report(&mut reports) {
            Ok(pid) => {
                let process = Process::new(pid, supervisor, reports, spec.log.clone(), started);
                Ok(process.until(self.stop.clone()).with_afterwards(!spec.afterwards.is_empty()))
            }
            Err(reason) => {
                end(supervisor);
                Err(LaunchError::Start { program: spec.argv[0].clone(), reason })
            }
        }
    }

    /// The supervisor's command. It has a group of its own, so that Ctrl-C reaches the measuring program alone, which
    /// then stops things in order.
    fn command(&self, spec: &Spec, output: &str, stderr: Stdio) -> io::Result<Command> {
        let padding = usize::try_from(spec.env_padding_bytes).map_err(io::Error::other)?;
        let own = own_folder(spec);
        let filled = |text: &str| match &own {
            Some(own) => text.replace(OWN_FOLDER, &own.to_string_lossy()),
            None => text.to_owned(),
        };
        let mut command = Command::new(&self.exe);
        command
            .arg0("whyslow")
            .arg(supervise::ROLE)
            .arg(std::path::absolute(&spec.log)?)
            .arg(output)
            .arg(spec.cpus.as_ref().map_or_else(|| supervise::NONE.to_owned(), ToString::to_string))
            .arg(own.as_deref().unwrap_or(Path::new(supervise::NONE)))
            .arg(spec.afterwards.len().to_string())
            .args(&spec.afterwards)
            .args(spec.argv.iter().map(|word| filled(word)))
            .envs(spec.env.iter().map(|(name, value)| (name, filled(value))))
            .env(ENV_PADDING, "x".repeat(padding))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        if let Some(dir) = &spec.dir {
            command.current_dir(dir);
        }
        Ok(command)
    }
}

/// A directory that only the process of `spec` has, if it asks for one.
fn own_folder(spec: &Spec) -> Option<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let wanted = spec.argv.iter().chain(spec.env.values()).any(|text| text.contains(OWN_FOLDER));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("whyslow-{}-{}-{number}", std::process::id(), since.as_nanos());
    wanted.then(|| std::env::temp_dir().join(name))
}

fn log_of(spec: &Spec) -> Result<std::fs::File, LaunchError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(&spec.log)
        .map_err(|source| LaunchError::File { path: spec.log.clone(), source })
}

fn cannot_start(spec: &Spec, error: &io::Error) -> LaunchError {
    let program = spec.argv.first().cloned().unwrap_or_default();
    LaunchError::Start { program, reason: error.to_string() }
}

fn first_report(reports: &mut Reports) -> Result<u32, String> {
    match reports.next(Instant::now() + START_LIMIT) {
        Some(Ok(Report::Started(pid))) => Ok(pid),
        Some(Ok(Report::Failed(reason))) => Err(reason),
        Some(Ok(other)) => Err(format!("its supervisor said '{}'", other.line().trim_end())),
        Some(Err(error)) => Err(format!("its supervisor ended: {error}")),
        None => Err(format!("its supervisor said nothing for {} s", START_LIMIT.as_secs())),
    }
}

/// Lets go of a supervisor that failed: without standard input it kills what it may have started, and ends.
fn end(mut supervisor: Child) {
    drop(supervisor.stdin.take());
    let _ = supervisor.wait();
}
