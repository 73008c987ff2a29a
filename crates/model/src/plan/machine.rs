use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::PlanError;

/// What begins the name of a machine.
const SCHEME: &str = "ssh://";

/// Another machine, as the system's `ssh` reaches it: `ssh://[USER@]HOST[:PORT]`, where the host may be one of the user's
/// configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Machine {
    user: Option<String>,
    host: String,
    port: Option<u16>,
}

impl Machine {
    /// Where `ssh` is to go, as one of its arguments.
    #[must_use]
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }

    /// The port of its SSH server, where it is not that of the user's configuration.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl FromStr for Machine {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let wrong = || PlanError::Machine(text.to_owned());
        let rest = text.strip_prefix(SCHEME).ok_or_else(wrong)?.trim_end_matches('/');
        let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        // What begins with a dash would be an option of ssh, and a space would end a word of its configuration.
        let is_word = |word: &str| {
            !word.is_empty()
                && !word.starts_with('-')
                && word.chars().all(|c| c.is_alphanumeric() || "._-+:%\\".contains(c))
        };
        if !is_word(host) || user.is_some_and(|user| !is_word(user)) {
            return Err(wrong());
        }
        let port = port.map(|port| port.parse().map_err(|_| wrong())).transpose()?;
        Ok(Self { user: user.map(str::to_owned), host: host.to_owned(), port })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(out, "{SCHEME}{user}{host}{port}")
    }
}

impl TryFrom<String> for Machine {
    type Error = PlanError;

    fn try_from(text: String) -> Result<Self, PlanError> {
        text.parse()
    }
}

impl From<Machine> for String {
    fn from(machine: Machine) -> Self {
        machine.to_string()
    }
}

/// The machines of a run, where they are others than the one whose user asks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machines {
    /// That of the servers.
    #[serde(default)]
    pub server: Option<Machine>,
    /// That of the generator.
    #[serde(default)]
    pub load: Option<Machine>,
    /// Those of further generators, which load together with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_load: Vec<Machine>,
}

impl Machines {
    /// Whether server and generator share a machine, so that what one does is seen by the other.
    #[must_use]
    pub fn are_one(&self) -> bool {
        self.server == self.load
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_as_it_is_written_and_is_given_to_ssh_in_words() {
        for (text, destination, port) in [
            ("ssh://big", "big", None),
            ("ssh://me@big.example", "me@big.example", None),
            ("ssh://me@10.0.0.7:2222", "me@10.0.0.7", Some(2222)),
            ("ssh://me@[fd00::7]:22", "me@fd00::7", Some(22)),
            ("ssh://[fd00::7]", "fd00::7", None),
        ] {
            let machine: Machine = text.parse().unwrap();
            assert_eq!((machine.destination().as_str(), machine.port()), (destination, port), "{text}");
            assert_eq!(machine.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_machine_is_refused() {
        for text in [
            "big",
            "http://big",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://me@",
            "ssh://a b",
            "ssh://big:port",
            "ssh://big/path",
            "ssh://-u@big",
        ] {
            let error = text.parse::<Machine>().unwrap_err().to_string();
            assert!(error.contains("write ssh://HOST"), "{text}: {error}");
        }
    }
}
