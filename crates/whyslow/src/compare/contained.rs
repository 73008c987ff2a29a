//! Images as arms: which one, with what command, and how it is started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use launch::{Contained, Container, LaunchError, Launcher, Port, Process, Project, Spec, free_port};
use model::plan::{Arm, ArmSource, Compose, Engine, Expect, SplitMix64, split_command};
use model::record::ServiceImage;
use observe::{Group, ObserveError};

use super::command_arm;

/// What begins an arm that is a service of a compose file.
pub(crate) const COMPOSE: &str = "compose:";
/// Names the engine that brings compose files up.
const COMPOSE_VARIABLE: &str = "WHYSLOW_COMPOSE";
/// Placeholders of folders, none of which is in a container.
const FOLDERS: [&str; 3] = ["{dir}", "{build}", launch::OWN_FOLDER];

/// The arm that `words` describe: an image, and its command where that is not `--run` or the image's own. The image is pulled
/// where the engine does not have it.
fn of_image(
    name: &str,
    engine: Engine,
    words: &str,
    (run, port_env): (Option<&str>, bool),
    expect: &Expect,
) -> anyhow::Result<Arm> {
    let (image_name, own) =
        words.split_once(char::is_whitespace).map_or((words, ""), |(image, own)| (image, own.trim()));
    if image_name.is_empty() || image_name.starts_with('-') {
        bail!("'{}:{words}' names no image: write {name}={}:IMAGE", engine.word(), engine.word());
    }
    let command = if own.is_empty() { run.unwrap_or_default() } else { own };
    let run = if command.is_empty() { Vec::new() } else { split_command(name, command)? };
    if let Some(folder) = FOLDERS.iter().find(|folder| run.iter().any(|word| word.contains(**folder))) {
        bail!("'{name}' runs in a container, which has no {folder}: name a folder of the image");
    }
    let pulling = || crate::say(&format!("{name}: pulling {image_name}"));
    let flags = [flags(engine, "FLAGS")?, flags(engine, "RUN_FLAGS")?];
    let image =
        launch::image(engine, flags, image_name, &pulling).map_err(|error| anyhow!("'{name}': {error}"))?;
    Ok(Arm {
        // An image's own command can hear of the port in no other way.
        port_env: port_env || run.is_empty(),
        run,
        source: ArmSource::Image(image),
        ..command_arm(name, "-", false, expect)?
    })
}

/// The arm that `what` is where it names an image or a service of a compose file; `run` is the command of an image that has none, and
/// whether it reads its port from the environment.
pub(crate) fn arm(
    name: &str,
    what: &str,
    run: (Option<&str>, bool),
    expect: &Expect,
) -> anyhow::Result<Option<Arm>> {
    if let Some((engine, words)) = Engine::split_prefix(what) {
        return of_image(name, engine, words, run, expect).map(Some);
    }
    match what.strip_prefix(COMPOSE) {
        Some(words) => of_compose(name, words, expect).map(Some),
        None => refuse(name, what).map(|()| None),
    }
}

fn of_compose(name: &str, words: &str, expect: &Expect) -> anyhow::Result<Arm> {
    let Some((file, service)) = Compose::split(words) else {
        bail!("'{COMPOSE}{words}' names no service of a compose file: write {name}={COMPOSE}FILE#SERVICE");
    };
    let chosen = std::env::var(COMPOSE_VARIABLE).unwrap_or_default();
    let engines: Vec<Engine> =
        Engine::ALL.into_iter().filter(|engine| chosen.is_empty() || engine.word() == chosen).collect();
    if engines.is_empty() {
        bail!("{COMPOSE_VARIABLE} is '{chosen}': set it to podman or docker");
    }
    let flags_of = |engine| ["FLAGS", "RUN_FLAGS"].map(|which| flags(engine, which).unwrap_or_default());
    for engine in &engines {
        flags(*engine, "FLAGS")?;
        flags(*engine, "RUN_FLAGS")?;
    }
    let compose =
        launch::compose(&engines, &flags_of, file, service).map_err(|error| anyhow!("'{name}': {error}"))?;
    Ok(Arm {
        port_env: true,
        run: Vec::new(),
        source: ArmSource::Compose(compose),
        ..command_arm(name, "-", false, expect)?
    })
}

/// The words that an environment variable such as `WHYSLOW_PODMAN_FLAGS` holds.
fn flags(engine: Engine, which: &str) -> anyhow::Result<Vec<String>> {
    let variable = format!("WHYSLOW_{}_{which}", engine.word().to_uppercase());
    let words = std::env::var(&variable).unwrap_or_default();
    if words.trim().is_empty() {
        return Ok(Vec::new());
    }
    split_command(&variable, &words)
        .map_err(|_| anyhow!("{variable} has a quote without its other half: {words}"))
}

/// Refuses a command whose server would be in a container, where nobody would remove it or count its CPU time.
fn refuse(name: &str, what: &str) -> anyhow::Result<()> {
    let mut words = what.split_whitespace();
    let engine = words.next().and_then(|word| word.rsplit('/').next());
    let starts = matches!(words.next(), Some("run" | "compose" | "start"));
    if let Some(engine @ ("docker" | "podman")) = engine
        && starts
    {
        bail!(
            "'{what}' starts a server that is no child of the command: write {name}='{engine}:IMAGE COMMAND with {{port}}', and \
             whyslow starts the container, counts its CPU time and removes it"
        );
    }
    Ok(())
}

/// Why a server is not ready, with what would help where it is an image that may not know its port.
pub(crate) fn explained(arm: &Arm, error: LaunchError) -> LaunchError {
    match error {
        LaunchError::NotReady { waited, seen, log } if arm.source.image().is_some() && arm.run.is_empty() => {
            let seen = format!(
                "{seen}; the image's own command is told its port in PORT alone: give one that takes it, with --run 'COMMAND \
                 with {{port}}'"
            );
            LaunchError::NotReady { waited, seen, log }
        }
        other => other,
    }
}

/// A server that was started, and the containers that are its own.
pub(crate) struct Started {
    pub(crate) process: Process,
    /// The server's, where it is in one.
    container: Option<Contained>,
    /// A program that goes on when the server ends, and what else it started.
    project: Option<Project>,
}

impl Started {
    /// The server's processes: all below its supervisor, or in its container.
    pub(crate) fn group(&self) -> Result<Group, ObserveError> {
        match &self.container {
            Some(Contained { id, pid }) => Group::of_container(*pid, id),
            None => Group::below(self.process.supervisor_pid()),
        }
    }

    /// What its services run, where it is one of a compose file.
    pub(crate) fn images(&self) -> Vec<ServiceImage> {
        self.project.as_ref().map(Project::images).unwrap_or_default()
    }

    /// Those of the services that came up with it, by name; nothing where it came alone.
    pub(crate) fn beside(&self) -> Option<Vec<(String, Group)>> {
        let running = self.project.as_ref()?.beside();
        // One that has ended since is none.
        let group =
            |(name, Contained { id, pid }): (String, _)| Some((name, Group::of_container(pid, &id).ok()?));
        Some(running.into_iter().filter_map(group).collect())
    }
}

/// Starts the server of `spec`, in a container where `arm` is one; `run` becomes part of the container's name.
pub(crate) fn start(
    launcher: &Launcher,
    arm: &Arm,
    spec: Spec,
    run: &str,
    limit: Duration,
) -> Result<Started, LaunchError> {
    if let Some(compose) = arm.source.compose() {
        return bring_up(launcher, Project::new(compose, run), spec, limit);
    }
    let Some(image) = arm.source.image() else {
        return Ok(Started { process: launcher.start(&spec)?, container: None, project: None });
    };
    let container = Container::new(image, run);
    let mut process = launcher.start(&container.spec(spec))?;
    let contained = container.wait(&mut process, limit)?;
    Ok(Started { process, container: Some(contained), project: None })
}

fn bring_up(
    launcher: &Launcher,
    project: Project,
    spec: Spec,
    limit: Duration,
) -> Result<Started, LaunchError> {
    let overlay = overlay_of(&spec.log);
    let text = project.overlay(&spec);
    model::record::write_atomically(&overlay, text.as_bytes())
        .map_err(|error| LaunchError::File { path: overlay.clone(), source: std::io::Error::other(error) })?;
    let port = spec.env.get("PORT").and_then(|port| port.parse().ok()).unwrap_or_default();
    let free = |number| free_port(SplitMix64::fork(u64::from(port), "beside", number).next_u64());
    let drawn = (0..).map(free).take(project.others()).collect::<Result<Vec<Port>, LaunchError>>()?;
    let ports: Vec<u16> = drawn.iter().map(Port::number).collect();
    let mut process = launcher.start(&project.spec(spec, &overlay, (port, &ports)))?;
    let contained = project.wait(&mut process, limit)?;
    Ok(Started { process, container: Some(contained), project: Some(project) })
}

/// The compose file that is written for a server with this log.
pub(crate) fn overlay_of(log: &Path) -> PathBuf {
    log.with_extension("compose.json")
}
