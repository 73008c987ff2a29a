use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::PlanError;

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

/// A service in a `whyslow.toml`.
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
}

impl ServiceFile {
    /// The service called `name`, started in `folder`.
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
            folder: folder.to_owned(),
        })
    }
}
