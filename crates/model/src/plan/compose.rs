use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::plan::Engine;
use crate::units::CpuSet;

/// A service of a compose file; the file's other services run beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compose {
    /// Whose containers they are: Podman's by `podman-compose`, Docker's by `docker compose`.
    pub engine: Engine,
    /// The file as it was named.
    pub asked: String,
    /// The file, from the root of the file system.
    pub file: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// The service that is asked.
    pub service: String,
    /// The file's other services.
    pub beside: Vec<String>,
    /// Words between the engine's name and its command.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Words behind the engine's `run`.
    #[serde(default)]
    pub run_flags: Vec<String>,
}

/// Digits of a file's hash that people read.
const SHORT_HASH: usize = 12;

impl Compose {
    /// The file and the service that `words` name, as in `compose.yaml#web`.
    #[must_use]
    pub fn split(words: &str) -> Option<(&str, &str)> {
        words.rsplit_once('#').filter(|(file, service)| !file.is_empty() && !service.is_empty())
    }

    /// How an arm is written that is this service.
    #[must_use]
    pub fn name(&self) -> String {
        format!("compose:{}#{}", self.asked, self.service)
    }

    /// The file's hash as people read it.
    #[must_use]
    pub fn short_hash(&self) -> &str {
        self.sha256.get(..SHORT_HASH).unwrap_or(&self.sha256)
    }

    /// The variable that gives the file the port of `service`, such as `DB_PORT` for `db`.
    #[must_use]
    pub fn port_variable(service: &str) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("{}_PORT", service.chars().map(fits).collect::<String>())
    }

    /// The engine's program for compose files, with `rest` behind its flags.
    #[must_use]
    pub fn words(&self, rest: &[&str]) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut words = match self.engine {
            Engine::Docker => [own(&["docker"]), self.flags.clone(), own(&["compose"])].concat(),
            Engine::Podman => {
                // It splits what it hands on as a shell does.
                let quoted = |word: &String| shlex::try_quote(word).map_or(word.clone(), Into::into);
                let before = self.flags.iter().map(|word| format!("--podman-args={}", quoted(word)));
                let behind = self.run_flags.iter().map(|word| format!("--podman-run-args={}", quoted(word)));
                let program = own(&["podman-compose", "--in-pod", "false"]);
                program.into_iter().chain(before).chain(behind).collect()
            }
        };
        words.extend(own(rest));
        words
    }

    /// What each service gets beside what the file says, as a second compose file (JSON is YAML): a name of its own for its
    /// container, the CPUs of the server, and no start behind our back. The service that is asked has `variables` in its environment.
    #[must_use]
    pub fn overlay(
        &self,
        container: &dyn Fn(&str) -> String,
        cpus: Option<&CpuSet>,
        variables: &BTreeMap<String, String>,
    ) -> String {
        let mut services = serde_json::Map::new();
        for service in std::iter::once(&self.service).chain(&self.beside) {
            let mut overlaid = json!({ "container_name": container(service), "restart": "no" });
            if let Some(cpus) = cpus {
                overlaid["cpuset"] = cpus.to_string().into();
            }
            if *service == self.service {
                overlaid["environment"] = json!(variables);
            }
            services.insert(service.clone(), overlaid);
        }
        json!({ "services": services }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_stands_behind_the_last_hash() {
        assert_eq!(Compose::split("shop/compose.yaml#web"), Some(("shop/compose.yaml", "web")));
        assert_eq!(Compose::split("a#b/c.yaml#web"), Some(("a#b/c.yaml", "web")));
        for wrong in ["compose.yaml", "compose.yaml#", "#web", ""] {
            assert_eq!(Compose::split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_service_has_a_variable_for_its_port() {
        let text = |text: &str| text.to_owned();
        let compose = Compose {
            engine: Engine::Podman,
            asked: text("c.yaml"),
            file: text("/srv/c.yaml"),
            sha256: "0123456789abcdef".repeat(4),
            service: text("web"),
            beside: vec![text("main-db")],
            flags: vec![text("--runtime"), text("a b")],
            run_flags: Vec::new(),
        };
        let words =
            ["podman-compose", "--in-pod", "false", "--podman-args=--runtime", "--podman-args='a b'", "up"];
        assert_eq!(compose.words(&["up"]), words);
        assert_eq!(Compose::port_variable("main-db"), "MAIN_DB_PORT");
        let overlay = compose.overlay(&|service| format!("x-{service}"), None, &BTreeMap::new());
        let named = json!({ "container_name": "x-main-db", "restart": "no" });
        let overlay: serde_json::Value = serde_json::from_str(&overlay).unwrap();
        assert_eq!(overlay["services"]["main-db"], named);
        assert_eq!((compose.name().as_str(), compose.short_hash()), ("compose:c.yaml#web", "0123456789ab"));
    }
}
