use std::collections::BTreeMap;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Circumstances, Compose, Expect, Image, PlanError, Service, ServicePlace, WarmupClass};

/// Longest arm name: it becomes part of file names.
const MAX_NAME_CHARS: usize = 64;

/// Where an arm comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ArmSource {
    /// One of whyslow's own servers.
    BuiltIn {
        /// `threads`, `futures` or `coroutines`.
        model: String,
    },
    /// A folder under `targets/`.
    Target {
        /// The target's name.
        name: String,
        /// Its variant, where one was chosen.
        variant: Option<String>,
    },
    /// A command from the command line.
    Command,
    /// A state of a git repository, checked out and built in a cache.
    Git(Revision),
    /// An image that a container engine of this machine runs.
    Image(Image),
    /// A service of a compose file, which is brought up for it.
    Compose(Compose),
    /// A server that runs already: it is neither started nor stopped.
    Running(Running),
}

/// A server that runs already, on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Running {
    /// Where it listens: an address of the loopback interface.
    #[schemars(with = "String")]
    pub address: SocketAddr,
    /// Whose CPU time is its own.
    pub watched: Watched,
}

/// Whose CPU time is that of a server that runs already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Watched {
    /// Of the process that listens there, with its children.
    Listener,
    /// Of this process, with its children.
    Process {
        /// Its number.
        pid: u32,
    },
    /// Of all processes of a cgroup, such as a unit of systemd or a container.
    Unit {
        /// Name of its folder, or of the unit.
        name: String,
    },
}

impl ArmSource {
    /// Whether it is a server of ours, which does all that the others do; somebody's own has to give the answer alone.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        matches!(self, Self::BuiltIn { .. } | Self::Target { .. })
    }

    /// The server, where it runs already.
    #[must_use]
    pub fn running(&self) -> Option<&Running> {
        match self {
            Self::Running(running) => Some(running),
            _ => None,
        }
    }

    /// Which one it is of those that were asked for by the same words: the commit, the image, the hash of the compose file.
    #[must_use]
    pub fn state(&self) -> Option<String> {
        match self {
            Self::Git(revision) => Some(revision.describe()),
            Self::Image(image) => Some(format!("image {}", image.short_id())),
            Self::Compose(compose) => Some(format!("file {}", compose.short_hash())),
            Self::BuiltIn { .. } | Self::Target { .. } | Self::Command | Self::Running(_) => None,
        }
    }

    /// The image, where it is one.
    #[must_use]
    pub fn image(&self) -> Option<&Image> {
        match self {
            Self::Image(image) => Some(image),
            _ => None,
        }
    }

    /// The service of a compose file, where it is one.
    #[must_use]
    pub fn compose(&self) -> Option<&Compose> {
        match self {
            Self::Compose(compose) => Some(compose),
            _ => None,
        }
    }

    /// The revision, where it is one.
    #[must_use]
    pub fn revision(&self) -> Option<&Revision> {
        match self {
            Self::Git(revision) => Some(revision),
            _ => None,
        }
    }
}

/// A state of a git repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// What was asked for: a branch, a tag, a commit, or `.` for the work tree as it is.
    pub asked: String,
    /// The commit; of the work tree the one that it began from, absent where there is none yet.
    pub commit: Option<String>,
    /// The tree: two revisions with the same tree have the same files.
    pub tree: String,
    /// Whether the files are not those of the commit: work that is not committed.
    pub changed: bool,
    /// The repository's `.git`.
    pub git_dir: String,
    /// Folder that its files are checked out into, never inside the repository.
    pub checkout: String,
    /// The tree of programs that lie in the work tree and are no part of `tree`: what the build makes none of is put there after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<String>,
}

/// Digits of a commit that people read.
const SHORT_COMMIT: usize = 10;

impl Revision {
    /// The commit as people write it, and whether there is more than that.
    #[must_use]
    pub fn describe(&self) -> String {
        let short = |id: &str| id.chars().take(SHORT_COMMIT).collect::<String>();
        match &self.commit {
            Some(commit) if self.changed => format!("{} with changes", short(commit)),
            Some(commit) => short(commit),
            None => format!("tree {}", short(&self.tree)),
        }
    }
}

/// One server under comparison: how to build, start and recognise it. Words may hold placeholders (see [`fill`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// Name in every output.
    pub name: String,
    /// Where it comes from.
    pub source: ArmSource,
    /// Commands that build it, each a list of words.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Command that starts it.
    pub run: Vec<String>,
    /// Environment added to ours.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Folder it is built and started in; ours where none is given.
    #[serde(default)]
    pub dir: Option<String>,
    /// Folder for what its build makes.
    #[serde(default)]
    pub build_dir: Option<String>,
    /// Whether the port is passed as `PORT` in the environment.
    #[serde(default)]
    pub port_env: bool,
    /// How long it needs to become steady.
    pub warmup: WarmupClass,
    /// The answer that means "ready".
    pub expect: Expect,
    /// What an intervention changes for it.
    #[serde(default)]
    pub circumstances: Circumstances,
    /// What it needs beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Service>,
}

/// Names of logs that a run keeps beside those of its arms.
const RESERVED: [&str; 3] = ["pilot", "generator", "diagnostic"];

impl Arm {
    /// What starts it, or where it runs.
    #[must_use]
    pub fn what(&self) -> String {
        match &self.source {
            ArmSource::Running(running) => format!("http://{}", running.address),
            ArmSource::Image(image) => {
                let words = [image.engine.word(), "run", &image.asked];
                words.into_iter().chain(self.run.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
            }
            ArmSource::Compose(compose) => compose.name(),
            _ => self.run.join(" "),
        }
    }

    /// Checks the name and that the port reaches the server.
    ///
    /// # Errors
    /// [`PlanError::ArmName`], [`PlanError::ReservedName`], [`PlanError::Words`] or [`PlanError::NoPort`].
    pub fn validate(&self) -> Result<(), PlanError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
        let name = &self.name;
        if name.is_empty() || name.starts_with('.') || name.len() > MAX_NAME_CHARS || !name.chars().all(fits)
        {
            return Err(PlanError::ArmName(name.clone()));
        }
        if RESERVED.contains(&name.as_str()) {
            return Err(PlanError::ReservedName(name.clone()));
        }
        if self.source.running().is_some() {
            return Ok(());
        }
        // The file says what is run, and is told the port.
        if self.source.compose().is_some() {
            return Ok(());
        }
        // An image may have a command of its own.
        if self.run.is_empty() && self.source.image().is_none() {
            return Err(PlanError::Words { arm: name.clone() });
        }
        let env_has_port = self.env.values().any(|value| value.contains("{port}"));
        if !self.port_env && !env_has_port && !self.run.iter().any(|word| word.contains("{port}")) {
            return Err(PlanError::NoPort { arm: name.clone() });
        }
        Ok(())
    }
}

/// Values for the placeholders of a command.
#[derive(Debug, Clone, Default)]
pub struct Placeholders {
    /// `{port}`
    pub port: u16,
    /// `{host}`
    pub host: String,
    /// `{workers}`
    pub workers: u32,
    /// `{dir}`: the target's own folder.
    pub dir: String,
    /// `{build}`: the folder for what its build makes.
    pub build: String,
    /// `{NAME.port}` and `{NAME.dir}` of each service beside.
    pub services: Vec<ServicePlace>,
}

/// `word` with `{port}`, `{host}`, `{workers}`, `{dir}`, `{build}` and the places of services filled in.
#[must_use]
pub fn fill(word: &str, values: &Placeholders) -> String {
    let word = fill_services(word, &values.services);
    word.replace("{port}", &values.port.to_string())
        .replace("{host}", &values.host)
        .replace("{workers}", &values.workers.to_string())
        .replace("{dir}", &values.dir)
        .replace("{build}", &values.build)
}

/// `text` with `{NAME.port}` and `{NAME.dir}` of each service filled in.
#[must_use]
pub fn fill_services(text: &str, services: &[ServicePlace]) -> String {
    services.iter().fold(text.to_owned(), |text, service| {
        let [port, dir] = service.placeholders();
        text.replace(&format!("{{{port}}}"), &service.port.to_string())
            .replace(&format!("{{{dir}}}"), &service.dir)
    })
}

/// Splits a command line into words as a shell would, without running one.
///
/// # Errors
/// [`PlanError::Words`] where quotes do not match or nothing is there.
pub fn split_command(arm: &str, command: &str) -> Result<Vec<String>, PlanError> {
    shlex::split(command)
        .filter(|words| !words.is_empty())
        .ok_or_else(|| PlanError::Words { arm: arm.to_owned() })
}
