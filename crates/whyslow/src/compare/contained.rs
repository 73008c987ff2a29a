//! Images as arms: which one, with what command, and how it is started.

use std::time::Duration;

use anyhow::{anyhow, bail};
use launch::{Contained, Container, LaunchError, Launcher, Process, Spec};
use model::plan::{Arm, ArmSource, Engine, Expect, split_command};

use super::command_arm;
use crate::cli::CompareArgs;

/// What begins an arm that is a service of a compose file.
const COMPOSE: &str = "compose:";
/// Placeholders of folders, none of which is in a container.
const FOLDERS: [&str; 3] = ["{dir}", "{build}", launch::OWN_FOLDER];

/// The arm that `words` describe: an image, and its command where that is not `--run` or the image's own. The image is pulled
/// where the engine does not have it.
pub(super) fn arm(
    name: &str,
    engine: Engine,
    words: &str,
    args: &CompareArgs,
    expect: &Expect,
) -> anyhow::Result<Arm> {
    let (asked, own) =
        words.split_once(char::is_whitespace).map_or((words, ""), |(image, own)| (image, own.trim()));
    if asked.is_empty() || asked.starts_with('-') {
        bail!("'{}:{words}' names no image: write {name}={}:IMAGE", engine.word(), engine.word());
    }
    let command = if own.is_empty() { args.run.as_deref().unwrap_or_default() } else { own };
    let run = if command.is_empty() { Vec::new() } else { split_command(name, command)? };
    if let Some(folder) = FOLDERS.iter().find(|folder| run.iter().any(|word| word.contains(**folder))) {
        bail!("'{name}' runs in a container, which has no {folder}: name the folder as it is in the image");
    }
    let pulling = || crate::say(&format!("{name}: pulling {asked}"));
    let flags = [flags(engine, "FLAGS")?, flags(engine, "RUN_FLAGS")?];
    let image =
        launch::image(engine, flags, asked, &pulling).map_err(|error| anyhow!("'{name}': {error}"))?;
    Ok(Arm {
        // An image's own command can hear of the port in no other way.
        port_env: args.port_env || run.is_empty(),
        run,
        source: ArmSource::Image(image),
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
pub(super) fn refuse(name: &str, what: &str) -> anyhow::Result<()> {
    if what.starts_with(COMPOSE) {
        bail!(
            "'{what}': whyslow starts no compose files: start it yourself, in the host's network, and give the service's \
             address and its process ({name}=http://127.0.0.1:PORT --watch-pid {name}=PID)"
        );
    }
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

/// A server that was started, and the container that it is in.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) container: Option<Contained>,
}

/// Starts the server of `spec`, in a container where `arm` is an image; `run` becomes part of the container's name.
pub(crate) fn start(
    launcher: &Launcher,
    arm: &Arm,
    spec: Spec,
    run: &str,
    limit: Duration,
) -> Result<Started, LaunchError> {
    let Some(image) = arm.source.image() else {
        return Ok(Started { process: launcher.start(&spec)?, container: None });
    };
    let container = Container::new(image, run);
    let mut process = launcher.start(&container.spec(spec))?;
    let contained = container.wait(&mut process, limit)?;
    Ok(Started { process, container: Some(contained) })
}
