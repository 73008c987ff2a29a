use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use model::record::{Failure, FailureKind};

use crate::{Exit, GitError};

/// Why a target gives no figures; each display is one sentence, and [`LaunchError::failure`] makes a row of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// A command that was to end well, such as a build's, ended badly.
    #[error("the {what} command '{command}' {exit}")]
    Build {
        /// What it was for: `build`, `setup`, `ready`.
        what: &'static str,
        /// The command as it ran.
        command: String,
        /// How it ended.
        exit: Exit,
        /// Last lines of its log.
        log: Vec<String>,
    },
    /// The program is not there.
    #[error("there is no program '{name}': {advice}", name = .0, advice = instead_of(.0))]
    NoProgram(String),
    /// The program is there and cannot be started.
    #[error("'{program}' cannot be started: {reason}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
    },
    /// It ended before it was ready.
    #[error("it {exit} before it was ready")]
    Exited {
        /// How it ended.
        exit: Exit,
        /// Last lines of its log.
        log: Vec<String>,
    },
    /// It did not answer in time.
    #[error("it did not answer within {:.1} s: {seen}", waited.as_secs_f64())]
    NotReady {
        /// How long it was given.
        waited: Duration,
        /// What was seen instead, such as the port it listens on.
        seen: String,
        /// Last lines of its log.
        log: Vec<String>,
    },
    /// It listens, but on another port than it was given, or on another loopback address than was asked.
    #[error(
        "it did not answer within {:.1} s: it listens on {} instead of {addr}: {}",
        waited.as_secs_f64(), listed(listens), to_be_written(*addr, listens)
    )]
    Elsewhere {
        /// How long it was given.
        waited: Duration,
        /// Where it was asked.
        addr: SocketAddr,
        /// Where it listens.
        listens: BTreeSet<SocketAddr>,
        /// Last lines of its log.
        log: Vec<String>,
    },
    /// A server that was to run already does not answer.
    #[error("nothing answers on {addr}, where it was to run already: {reason}")]
    NotRunning {
        /// Where it was asked.
        addr: SocketAddr,
        /// What happened instead.
        reason: String,
    },
    /// It answered, but not as expected.
    #[error("it answered wrongly: {what}")]
    WrongAnswer {
        /// What was expected and what came.
        what: String,
        /// Last lines of its log.
        log: Vec<String>,
    },
    /// A revision could not be checked out.
    #[error(transparent)]
    Git(#[from] GitError),
    /// We were asked to stop meanwhile.
    #[error("interrupted")]
    Interrupted,
    /// No port could be bound.
    #[error("no free port on 127.0.0.1: {0}")]
    NoPort(io::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// What makes a server listen on `addr` that listens elsewhere.
fn to_be_written(addr: SocketAddr, listens: &BTreeSet<SocketAddr>) -> &'static str {
    match listens.iter().any(|own| own.port() == addr.port()) {
        true => "write {host} where its command names the address",
        false => "write {port} where its command names the port, or have it read PORT and say --port-env",
    }
}

impl LaunchError {
    /// The row that a run keeps of it.
    #[must_use]
    pub fn failure(&self) -> Failure {
        let (kind, log) = match self {
            Self::Build { log, .. } => (FailureKind::Build, log.clone()),
            Self::Exited { log, .. } => (FailureKind::Exited, log.clone()),
            Self::NotReady { log, .. } | Self::Elsewhere { log, .. } => (FailureKind::NotReady, log.clone()),
            Self::WrongAnswer { log, .. } => (FailureKind::WrongAnswer, log.clone()),
            Self::NotRunning { .. } => (FailureKind::NotReady, Vec::new()),
            Self::Git(_) => (FailureKind::Build, Vec::new()),
            Self::NoProgram(_)
            | Self::Start { .. }
            | Self::NoPort(_)
            | Self::File { .. }
            | Self::Interrupted => (FailureKind::Start, Vec::new()),
        };
        Failure { kind, text: self.to_string(), log }
    }
}

/// Addresses, one after another.
pub(crate) fn listed(addresses: &BTreeSet<SocketAddr>) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What to write where there is no program of this name.
fn instead_of(name: &str) -> &'static str {
    const OF_SHELLS: [&str; 8] = ["cd", "export", "source", ".", "exec", "ulimit", "umask", "set"];
    if name.contains('=') {
        "commands are started without a shell: set variables with env, as in 'env NAME=VALUE program'"
    } else if OF_SHELLS.contains(&name) {
        "commands are started without a shell: use sh -c '…' where one is needed"
    } else {
        "check its name, its folder and PATH"
    }
}

/// Why one request had no answer; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// Nothing listens, or the connection was refused.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// The server closed the connection before the answer was complete.
    #[error("the server closed the connection before the answer was complete")]
    Closed,
    /// The answer was not complete in time.
    #[error("no complete answer in time")]
    Timeout,
    /// What came is not HTTP/1.
    #[error("what came is not HTTP/1: {0}")]
    NotHttp(String),
}

#[cfg(test)]
mod tests {
    use super::LaunchError;

    #[test]
    fn words_of_a_shell_are_told_from_programs() {
        for (name, advice) in
            [("cd", "sh -c '…'"), ("A=1", "'env NAME=VALUE program'"), ("servr", "and PATH")]
        {
            let text = LaunchError::NoProgram(name.to_owned()).to_string();
            assert!(
                text.starts_with(&format!("there is no program '{name}': ")) && text.contains(advice),
                "{text}"
            );
        }
    }
}
