//! Services of compose files as targets: the file is brought up as a project of its own, and taken down at the end.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use model::plan::{Compose, Engine};
use model::record::ServiceImage;

use crate::container::{LOOK, complaint, digest, stdout_of};
use crate::ready::LOG_LINES;
use crate::{Contained, ENV_PADDING, EngineError, LaunchError, Process, Spec, log_tail, sha256_file};

/// Stands for each port while the file is only read.
const ANY_PORT: &str = "1";
/// How Docker says that it has no compose. Source: docker/cli, cmd/docker/docker.go.
const NO_PLUGIN: [&str; 2] = ["unknown command", "is not a docker command"];
/// The network mode of a service that has no network of its own.
const HOST: &str = "host";

/// The service `service` of the compose file `asked`, by the first of `engines` that has a program for such files; `flags` are, for
/// an engine, the words before each of its commands and those behind `run`.
///
/// # Errors
/// [`EngineError`]
pub fn compose(
    engines: &[Engine],
    flags: &dyn Fn(Engine) -> [Vec<String>; 2],
    name: &str,
    service: &str,
) -> Result<Compose, EngineError> {
    let wrong = |reason: String| EngineError::File { file: name.to_owned(), reason };
    let file = std::path::absolute(name).map_err(|error| wrong(error.to_string()))?;
    let (sha256, _) = sha256_file(&file).map_err(|error| match error {
        LaunchError::File { source, .. } => wrong(format!("it cannot be read: {source}")),
        other => wrong(other.to_string()),
    })?;
    let file = file.to_str().ok_or_else(|| wrong("its name is not text".to_owned()))?.to_owned();
    for engine in engines {
        let [flags, run_flags] = flags(*engine);
        let mut read = Compose {
            engine: *engine,
            asked: name.to_owned(),
            file: file.clone(),
            sha256: sha256.clone(),
            service: service.to_owned(),
            beside: Vec::new(),
            flags,
            run_flags,
        };
        let Some(services) = services(&read).map_err(&wrong)? else { continue };
        if !services.iter().any(|one| one == service) {
            return Err(wrong(format!("it has no service '{service}': name one of {}", services.join(", "))));
        }
        read.beside = services.into_iter().filter(|one| one != service).collect();
        return Ok(read);
    }
    Err(EngineError::NoCompose)
}

/// The services of a file; nothing where the engine has no program for it.
fn services(compose: &Compose) -> Result<Option<Vec<String>>, String> {
    let words = compose.words(&["-f", &compose.file, "config", "--services"]);
    let mut asking = Command::new(&words[0]);
    asking.args(&words[1..]).env("PORT", ANY_PORT).stdin(Stdio::null());
    let output = match asking.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be started: {error}", words[0])),
        Ok(output) => output,
    };
    let error = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => {
            Ok(Some(String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()))
        }
        false if NO_PLUGIN.iter().any(|words| error.contains(words)) => Ok(None),
        false => Err(format!("{} cannot read it: {}", words[0], complaint(error.lines()))),
    }
}

/// A compose file that is to be brought up, with names and containers that no other has.
#[derive(Debug, Clone)]
pub struct Project {
    compose: Compose,
    name: String,
}

impl Project {
    /// A project with a name of its own, in which the run has its place.
    #[must_use]
    pub fn new(compose: &Compose, run: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Docker takes small letters, digits, dashes and underscores alone.
        let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let run: String = run.chars().map(fits).collect();
        let (own, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self { compose: compose.clone(), name: format!("whyslow-{run}-{own}-c{number}") }
    }

    /// How many services come up beside the one that is asked.
    #[must_use]
    pub fn others(&self) -> usize {
        self.compose.beside.len()
    }

    /// What the services get beside what the file says: see [`Compose::overlay`].
    #[must_use]
    pub fn overlay(&self, spec: &Spec) -> String {
        let mut variables = spec.env.clone();
        let padding = "x".repeat(usize::try_from(spec.env_padding_bytes).unwrap_or(0));
        variables.insert(ENV_PADDING.to_owned(), padding);
        self.compose.overlay(&|service| self.container(service), spec.cpus.as_ref(), &variables)
    }

    /// `spec` as the command that brings the file up together with `overlay`; all of it is taken down at the end however that comes.
    /// The file is given the port of the service that is asked, and `ports`, those of the services beside in their order.
    #[must_use]
    pub fn spec(&self, spec: Spec, overlay: &Path, (port, ports): (u16, &[u16])) -> Spec {
        let overlay = overlay.display().to_string();
        let Compose { file, service, beside, .. } = &self.compose;
        let project = ["-p", &self.name, "-f", file, "-f", &overlay];
        let words = |rest: &[&str]| self.compose.words(&[&project[..], rest].concat());
        let mut env = spec.env.clone();
        for (service, port) in std::iter::once((service, &port)).chain(beside.iter().zip(ports)) {
            env.insert(Compose::port_variable(service), port.to_string());
        }
        Spec {
            argv: words(&["up"]),
            afterwards: words(&["down", "--volumes", "--timeout", "0"]),
            env,
            env_padding_bytes: 0,
            ..spec
        }
    }

    /// Waits until the service that is asked runs; `process` is the command that brings the file up.
    ///
    /// # Errors
    /// As [`crate::Container::wait`].
    pub fn wait(&self, process: &mut Process, limit: Duration) -> Result<Contained, LaunchError> {
        let begin = Instant::now();
        loop {
            if let Some(seen) = self.look(&self.compose.service) {
                self.check(&seen)?;
                if let Some(contained) = seen.contained() {
                    process.serves_in(contained.pid);
                    return Ok(contained);
                }
                if seen.status == "exited" {
                    return Err(
                        self.failed(process, &format!("service '{}' has ended", self.compose.service))
                    );
                }
            }
            if process.try_exit().is_some() {
                return Err(self.failed(process, "it started no container"));
            }
            if process.is_unwanted() {
                return Err(LaunchError::Interrupted);
            }
            if begin.elapsed() >= limit {
                let log = log_tail(process.log(), LOG_LINES);
                let seen = format!("the service '{}' has not been started yet", self.compose.service);
                return Err(LaunchError::NotReady { waited: begin.elapsed(), seen, log });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The services beside that run now. One that has done what it was for and ended is none.
    #[must_use]
    pub fn beside(&self) -> Vec<(String, Contained)> {
        let running = |service: &String| Some((service.clone(), self.look(service)?.contained()?));
        self.compose.beside.iter().filter_map(running).collect()
    }

    /// The images of its services, of the one that is asked first; one without a container, or that the engine cannot name, has no entry.
    #[must_use]
    pub fn images(&self) -> Vec<ServiceImage> {
        let Compose { service, beside, .. } = &self.compose;
        std::iter::once(service).chain(beside).filter_map(|service| self.image(service)).collect()
    }

    fn image(&self, service: &str) -> Option<ServiceImage> {
        let Compose { engine, flags, .. } = &self.compose;
        let name = self.container(service);
        let words = ["container", "inspect", "--format", "{{.Image}} {{.Config.Image}}", &name];
        let text = stdout_of(*engine, flags, &words)?;
        let (id, image) = text.split_once(' ')?;
        Some(ServiceImage {
            service: service.to_owned(),
            asked: image.to_owned(),
            id: id.trim_start_matches("sha256:").to_owned(),
            digest: digest(*engine, flags, id),
        })
    }

    fn container(&self, service: &str) -> String {
        format!("{}-{service}", self.name)
    }

    fn look(&self, service: &str) -> Option<ContainerState> {
        let format = "{{.Id}} {{.State.Pid}} {{.HostConfig.NetworkMode}} {{.State.Status}}";
        let name = self.container(service);
        let words = ["container", "inspect", "--format", format, &name];
        let text = stdout_of(self.compose.engine, &self.compose.flags, &words)?;
        let mut words = text.split_whitespace().map(str::to_owned);
        let (id, pid) = (words.next()?, words.next()?.parse().ok()?);
        Some(ContainerState { id, pid, network: words.next()?, status: words.next()? })
    }

    /// Refuses a server behind a port that is published.
    fn check(&self, seen: &ContainerState) -> Result<(), LaunchError> {
        if seen.network == HOST {
            return Ok(());
        }
        let service = &self.compose.service;
        Err(LaunchError::Start {
            program: self.compose.name(),
            reason: format!(
                "service '{service}' has a network of its own, whose translation of addresses would be in the way of this arm \
                 only: give it network_mode: host, and have it listen on ${{PORT}}"
            ),
        })
    }

    fn failed(&self, process: &Process, what: &str) -> LaunchError {
        let log = log_tail(process.log(), LOG_LINES);
        let reason = match log.is_empty() {
            true => what.to_owned(),
            false => format!("{what}: {}", complaint(log.iter().map(String::as_str))),
        };
        LaunchError::Start { program: self.compose.name(), reason }
    }
}

/// What an engine says of a container.
struct ContainerState {
    id: String,
    pid: u32,
    network: String,
    status: String,
}

impl ContainerState {
    fn contained(&self) -> Option<Contained> {
        (self.pid != 0).then(|| Contained { id: self.id.clone(), pid: self.pid })
    }
}
