use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Arm, PlanError};

/// How long a service beside lives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// As long as the run.
    #[default]
    Run,
    /// As long as one block: every block begins with the data of the setup.
    Block,
}

/// What arms need beside them, such as a database: started before them, and no part of what is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its name: `{NAME.port}` and `{NAME.dir}` fill the commands of arms.
    pub name: String,
    /// The words of the command that starts it; `{port}` and `{dir}` are its own.
    pub run: Vec<String>,
    /// The shell line that succeeds once it is ready; where none is given, it is ready when it takes connections.
    pub ready: Option<String>,
    /// The shell line that brings its data in, once after each start.
    pub setup: Option<String>,
    /// How long it lives.
    pub each: Each,
    /// Folder that it is started in.
    pub folder: String,
}

/// Where a service is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServicePlace {
    /// Its name.
    pub name: String,
    /// `{NAME.port}`
    pub port: u16,
    /// `{NAME.dir}`: a folder of its own, empty when it is started.
    pub dir: String,
}

impl ServicePlace {
    /// What stands for its port and for its folder, without the braces.
    #[must_use]
    pub fn placeholders(&self) -> [String; 2] {
        service_placeholders(&self.name)
    }
}

/// What stands for the port and for the folder of the service `name`, without the braces.
#[must_use]
pub fn service_placeholders(name: &str) -> [String; 2] {
    ["port", "dir"].map(|what| format!("{name}.{what}"))
}

/// A service in a `whyslow.toml` or a `target.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    /// The command that starts it, with `{port}`; `{dir}` is a folder of its own for its data.
    pub run: String,
    /// The shell line that succeeds once it is ready; where none is given, it is ready when it takes connections.
    #[serde(default)]
    pub ready: Option<String>,
    /// The shell line that brings its data in, once after each start.
    #[serde(default)]
    pub setup: Option<String>,
    /// How long it lives: as long as the `run`, or as one `block`.
    #[serde(default)]
    pub each: Each,
    /// Where its commands are started, from the file's own folder; that folder where none is given.
    #[serde(default)]
    pub folder: Option<String>,
}

impl ServiceFile {
    /// The service called `name` of a file in `folder`.
    ///
    /// # Errors
    /// One sentence on what is wrong with its name or its command.
    pub fn service(&self, name: &str, folder: &str) -> Result<Service, String> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.is_empty() || !name.chars().all(fits) {
            return Err(format!("'{name}' cannot name a service: use letters, digits, '_' or '-'"));
        }
        let run =
            crate::plan::split_command(name, &self.run).map_err(|error: PlanError| error.to_string())?;
        if !run.iter().any(|word| word.contains("{port}")) {
            return Err(format!(
                "the command of service '{name}' has no {{port}}: put {{port}} where the port goes"
            ));
        }
        Ok(Service {
            name: name.to_owned(),
            run,
            ready: self.ready.clone(),
            setup: self.setup.clone(),
            each: self.each,
            folder: self.folder.as_ref().map_or_else(|| folder.to_owned(), |own| below(folder, own)),
        })
    }
}

/// `own` as seen from `folder`, by its text alone: the same folder, named from two places, is the same text.
fn below(folder: &str, own: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(folder).join(own).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = path.pop(),
            part => path.push(part),
        }
    }
    path.to_string_lossy().into_owned()
}

impl Service {
    /// What the arms need beside them, each once, with what stands beside all of them.
    ///
    /// # Errors
    /// [`PlanError::TwoServices`] where two of one name differ.
    pub fn of_all(beside: &[Self], arms: &[Arm]) -> Result<Vec<Self>, PlanError> {
        let mut all = Vec::<Self>::new();
        for service in beside.iter().chain(arms.iter().flat_map(|arm| &arm.services)) {
            match all.iter().find(|known| known.name == service.name) {
                Some(known) if known != service => return Err(PlanError::TwoServices(service.name.clone())),
                Some(_) => {}
                None => all.push(service.clone()),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_folder_has_one_name_from_wherever_it_is_seen() {
        for (folder, own, want) in [
            ("/t/a", "../common/db", "/t/common/db"),
            ("/t/b", "./../common/./db", "/t/common/db"),
            ("/t/a", "seed", "/t/a/seed"),
            ("/t/a", "/srv/db", "/srv/db"),
        ] {
            assert_eq!(below(folder, own), want);
        }
    }
}
