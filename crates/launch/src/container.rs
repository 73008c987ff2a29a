//! Images as targets: asked for, pulled, started and removed by the command of their engine.

use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use model::plan::{Engine, Image};

use crate::ready::LOG_LINES;
use crate::{ENV_PADDING, Exit, LaunchError, Launcher, Process, Spec, log_tail};

/// Between two looks at whether a container runs: each is a process of the engine's.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// Statuses by which an engine says that it could not start the container. Source: podman-run(1), "Exit Status"; Docker's
/// reference of `docker run`, "Exit status".
const NOT_STARTED: std::ops::RangeInclusive<i32> = 125..=127;
/// How the engines mark the line that says what went wrong.
const MARK: &str = "rror";

/// Why an image cannot be had; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The engine is not installed.
    #[error(
        "{program} cannot be started: {source}: install it, or give the server's command in the place of an image"
    )]
    NoEngine {
        /// Its program.
        program: &'static str,
        /// The cause, written raw: a chain of errors would tell it a second time.
        r#source: io::Error,
    },
    /// Nothing that starts compose files is installed.
    #[error(
        "neither podman-compose nor docker compose can be started: install one of them, or start the services yourself and \
         give the address of the server"
    )]
    NoCompose,
    /// The compose file cannot be read, or has no such service.
    #[error("'{file}': {reason}")]
    File {
        /// The file as it was named.
        file: String,
        /// Why not.
        reason: String,
    },
    /// It has no such image, and cannot get it.
    #[error("{program} cannot have the image '{image}': {reason}")]
    NoImage {
        /// Its program.
        program: &'static str,
        /// What was asked for.
        image: String,
        /// What it said last.
        reason: String,
    },
}

/// The image that `engine` has or pulls as `asked`; `pulling` is called before a pull, which may take minutes. `flags` go
/// before each of the engine's commands, `run_flags` behind `run`.
///
/// # Errors
/// [`EngineError`]
pub fn image(
    engine: Engine,
    [flags, run_flags]: [Vec<String>; 2],
    name: &str,
    pulling: &dyn Fn(),
) -> Result<Image, EngineError> {
    let program = engine.word();
    let no_image = |reason| EngineError::NoImage { program, image: name.to_owned(), reason };
    let ask = |words: &[&str]| {
        let output = command(engine, &flags, words).output();
        let output = output.map_err(|source| EngineError::NoEngine { program, source })?;
        Ok(match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(complaint(String::from_utf8_lossy(&output.stderr).lines())),
        })
    };
    let id = ["image", "inspect", "--format", "{{.Id}}", name];
    let id = match ask(&id)? {
        Ok(id) => id,
        Err(_) => {
            pulling();
            pull(engine, &flags, name).map_err(no_image)?;
            ask(&id)?.map_err(no_image)?
        }
    };
    let digest = digest(engine, &flags, &id);
    let id = id.trim_start_matches("sha256:").to_owned();
    Ok(Image { engine, asked: name.to_owned(), id, digest, flags, run_flags })
}

/// SHA-256 of the manifest of an image, as registries name it. Docker names it with the repository, podman alone; an image that was built
/// here may have none.
pub(crate) fn digest(engine: Engine, flags: &[String], id: &str) -> Option<String> {
    let words = ["image", "inspect", "--format", "{{index .RepoDigests 0}}", id];
    let name = stdout_of(engine, flags, &words)?;
    name.rsplit('@').next().map(str::to_owned).filter(|it| !it.is_empty())
}

/// What an engine prints on its standard output; nothing where it fails.
pub(crate) fn stdout_of(engine: Engine, flags: &[String], words: &[&str]) -> Option<String> {
    let output = command(engine, flags, words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Pulls an image below a supervisor: it takes minutes, and is not to go on when this program is gone.
fn pull(engine: Engine, flags: &[String], name: &str) -> Result<(), String> {
    let log = std::env::temp_dir().join(format!("whyslow-pull-{}.log", std::process::id()));
    let words = [engine.word()].into_iter().chain(flags.iter().map(String::as_str));
    let argv = words.chain(["pull", "--quiet", name]).map(str::to_owned).collect();
    let pulled = Launcher::this_program().finish("pull", &Spec { argv, log: log.clone(), ..Spec::default() });
    let log_lines = log_tail(&log, LOG_LINES);
    // It was for the text of a failure only.
    let _ = std::fs::remove_file(&log);
    pulled.map_err(|_| complaint(log_lines.iter().map(String::as_str)))
}

pub(crate) fn command(engine: Engine, flags: &[String], words: &[&str]) -> Command {
    let mut command = Command::new(engine.word());
    command.args(flags).args(words).stdin(Stdio::null());
    command
}

/// What went wrong, of what an engine printed: its last line that says so, else its last.
pub(crate) fn complaint<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let marked = lines.iter().rfind(|line| line.contains(MARK)).or(lines.last());
    let line = marked.copied().unwrap_or("it says nothing");
    line.trim_start_matches("docker: ").trim_start_matches("Error: ").to_owned()
}

/// A container that is to run an image.
#[derive(Debug, Clone)]
pub struct Container {
    image: Image,
    name: String,
}

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contained {
    /// Its id, which is also in the name of its cgroup.
    pub id: String,
    /// Its first process, as this machine numbers it.
    pub pid: u32,
}

impl Container {
    /// A container of `image` with a name of its own, in which the run has its place.
    #[must_use]
    pub fn new(image: &Image, run: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let fits = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
        let run: String = run.chars().map(fits).collect();
        let (own, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { image: image.clone(), name: format!("whyslow-{run}-{own}-{number}") }
    }

    /// `spec`, a server in the image, as the engine's command that runs it: in the network of this host, on its CPUs, and
    /// removed at the end however that comes.
    #[must_use]
    pub fn spec(&self, spec: Spec) -> Spec {
        let mut run = vec!["run", "--name", &self.name, "--network", "host"];
        let cpus = spec.cpus.as_ref().map(ToString::to_string);
        if let Some(cpus) = &cpus {
            run.extend(["--cpuset-cpus", cpus]);
        }
        let padding = "x".repeat(usize::try_from(spec.env_padding_bytes).unwrap_or(0));
        let padding = [(ENV_PADDING.to_owned(), padding)];
        let variables = spec.env.iter().chain(padding.iter().map(|(name, value)| (name, value)));
        let variables: Vec<String> = variables.map(|(name, value)| format!("{name}={value}")).collect();
        run.extend(variables.iter().flat_map(|variable| ["--env", variable]));
        run.extend(self.image.run_flags.iter().map(String::as_str));
        run.push(&self.image.id);
        run.extend(spec.argv.iter().map(String::as_str));
        Spec {
            argv: self.words(&run),
            afterwards: self.removal(),
            env_padding_bytes: 0,
            env: std::collections::BTreeMap::new(),
            ..spec
        }
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let flags = self.image.flags.iter().map(String::as_str);
        let all = std::iter::once(self.image.engine.word()).chain(flags).chain(words.iter().copied());
        all.map(str::to_owned).collect()
    }

    /// What removes it with its volumes, at once: nothing that it holds is wanted. Docker never waits there, and has no word
    /// for it.
    fn removal(&self) -> Vec<String> {
        match self.image.engine {
            Engine::Podman => self.words(&["rm", "--force", "--volumes", "--time", "0", &self.name]),
            Engine::Docker => self.words(&["rm", "--force", "--volumes", &self.name]),
        }
    }

    /// Waits until it runs; `process` is the engine's command.
    ///
    /// # Errors
    /// [`LaunchError::Start`] where the engine could not start it, [`LaunchError::Exited`], [`LaunchError::NotReady`] or
    /// [`LaunchError::Interrupted`].
    pub fn wait(&self, process: &mut Process, limit: Duration) -> Result<Contained, LaunchError> {
        let begin = Instant::now();
        loop {
            if let Some(contained) = self.look() {
                process.serves_in(contained.pid);
                return Ok(contained);
            }
            if let Some(exit) = process.try_exit() {
                return Err(self.ended(process, exit));
            }
            if process.is_unwanted() {
                return Err(LaunchError::Interrupted);
            }
            if begin.elapsed() >= limit {
                let log = log_tail(process.log(), LOG_LINES);
                let seen = format!("{} has not started its container yet", self.image.engine.word());
                return Err(LaunchError::NotReady { waited: begin.elapsed(), seen, log });
            }
            std::thread::sleep(LOOK);
        }
    }

    fn look(&self) -> Option<Contained> {
        let words = ["container", "inspect", "--format", "{{.Id}} {{.State.Pid}}", &self.name];
        let output = command(self.image.engine, &self.image.flags, &words).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (id, pid) = text.trim().split_once(' ')?;
        let pid = pid.parse().ok().filter(|pid| *pid != 0)?;
        Some(Contained { id: id.to_owned(), pid })
    }

    fn ended(&self, process: &Process, exit: Exit) -> LaunchError {
        let log = log_tail(process.log(), LOG_LINES);
        match exit {
            Exit::Code(code) if NOT_STARTED.contains(&code) => LaunchError::Start {
                program: format!("{} run {}", self.image.engine.word(), self.image.asked),
                reason: complaint(log.iter().map(String::as_str)),
            },
            exit => LaunchError::Exited { exit, log },
        }
    }
}
