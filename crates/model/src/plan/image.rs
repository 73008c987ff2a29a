use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that runs images in containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Podman.
    Podman,
    /// Docker.
    Docker,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Its program, which is also what stands before the image's name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// The engine that `words` begin with, as in `podman:IMAGE`, and what follows it.
    #[must_use]
    pub fn split_prefix(words: &str) -> Option<(Self, &str)> {
        let after = |engine: Self| Some((engine, words.strip_prefix(engine.word())?.strip_prefix(':')?));
        Self::ALL.into_iter().find_map(after)
    }
}

/// An image in the store of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// Whose store it is in, and who runs it.
    pub engine: Engine,
    /// What was asked for, such as `shop:2.1`.
    pub asked: String,
    /// SHA-256 of its configuration, hexadecimal: two images with the same one have the same files and command. It is run
    /// by this, so that a tag that moves meanwhile does not matter.
    pub id: String,
    /// SHA-256 of its manifest, as registries name it; absent where the engine knows none.
    #[serde(default)]
    pub digest: Option<String>,
    /// Words between the engine's name and its command.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Words behind the engine's `run`.
    #[serde(default)]
    pub run_flags: Vec<String>,
}

/// Digits of an image's id that people read: as many as the engines print.
const SHORT_ID: usize = 12;

/// An image's id as the engines print it.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

impl Image {
    /// Its id as the engines print it.
    #[must_use]
    pub fn short_id(&self) -> &str {
        short_id(&self.id)
    }

    /// Its name with the engine, as an arm is written.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}", self.engine.word(), self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_told_by_what_stands_before_the_image() {
        assert_eq!(Engine::split_prefix("podman:shop:2.1"), Some((Engine::Podman, "shop:2.1")));
        assert_eq!(Engine::split_prefix("docker:shop ./s {port}"), Some((Engine::Docker, "shop ./s {port}")));
        for other in ["podman shop", "podman", "./docker:x", "compose:file#web", ""] {
            assert_eq!(Engine::split_prefix(other), None, "{other}");
        }
    }

    #[test]
    fn an_id_is_shown_as_the_engines_show_it() {
        for (id, short) in [("dbb9ee5140cae6", "dbb9ee5140ca"), ("db", "db")] {
            let image = Image {
                engine: Engine::Docker,
                asked: "shop".to_owned(),
                id: id.to_owned(),
                digest: None,
                flags: Vec::new(),
                run_flags: Vec::new(),
            };
            assert_eq!((image.short_id(), image.name().as_str()), (short, "docker:shop"));
        }
    }
}
