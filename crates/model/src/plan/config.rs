use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use crate::plan::{PlanError, ServiceFile};

/// How alike a word must be to a known one to be taken for it misspelt, 0 to 1.
const ALIKE: f64 = 0.6;

/// A `whyslow.toml`: what a comparison of the revisions of one repository needs beside their names. What the command line
/// says goes before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigFile {
    /// The shell line that builds a revision, in the file's folder of its checkout; `{build}` is a folder for what it makes.
    pub build: Option<String>,
    /// The command that starts a revision there, with `{port}`; also `{host}`, `{workers}`, `{dir}` and `{build}`.
    pub run: Option<String>,
    /// Whether the command reads its port from `PORT` in the environment.
    pub port_env: bool,
    /// The path that is asked for.
    pub path: Option<String>,
    /// A file of requests, as `--requests` takes it; its path is from this file's folder.
    pub requests: Option<String>,
    /// What shows that a revision is ready: a path, or a command.
    pub ready: Option<String>,
    /// The status that is the right answer; 200 where none is given.
    pub expect_status: Option<u16>,
    /// Conditions that make the exit code 3, such as `pr slower`.
    pub fail_if: Vec<String>,
    /// What runs beside the arms, by name: `[service.db]` has `{db.port}` and `{db.dir}` for their commands.
    pub service: BTreeMap<String, ServiceFile>,
}

impl ConfigFile {
    /// Reads the text of a `whyslow.toml`; `file` is its name in error messages.
    ///
    /// # Errors
    /// [`PlanError::ConfigFile`] with the line that does not read, or with the known key that an unknown one resembles.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let wrong = |reason: String| PlanError::ConfigFile { file: file.to_owned(), reason };
        let table: toml::Table = toml::from_str(text).map_err(|error| wrong(one_line(&error.to_string())))?;
        check_keys(&table, &Self::schema()).map_err(wrong)?;
        let services = table.get("service").and_then(toml::Value::as_table);
        for service in services.into_iter().flat_map(|table| table.values()).filter_map(toml::Value::as_table)
        {
            check_keys(service, &schema_for!(ServiceFile)).map_err(wrong)?;
        }
        toml::from_str(text).map_err(|error| wrong(one_line(&error.to_string())))
    }

    /// The schema of the file.
    #[must_use]
    pub fn schema() -> Schema {
        schema_for!(Self)
    }
}

fn check_keys(table: &toml::Table, schema: &Schema) -> Result<(), String> {
    let known = keys(schema);
    match table.keys().find(|key| !known.contains(key)) {
        Some(unknown) => Err(unknown_key(unknown, &known)),
        None => Ok(()),
    }
}

/// The keys that an object of the schema may have.
fn keys(schema: &Schema) -> Vec<String> {
    let properties = schema.get("properties").and_then(serde_json::Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect()
}

fn unknown_key(unknown: &str, known: &[String]) -> String {
    let alike = |key: &&String| strsim::jaro_winkler(unknown, key);
    let nearest = known.iter().max_by(|a, b| alike(a).total_cmp(&alike(b))).filter(|key| alike(key) >= ALIKE);
    match nearest {
        Some(nearest) => format!("there is no key '{unknown}': did you mean '{nearest}'?"),
        None => format!("there is no key '{unknown}': it may have {}", known.join(", ")),
    }
}

/// What the parser says over several lines, with a picture of the place, as one sentence.
fn one_line(text: &str) -> String {
    let words = text.lines().filter(|line| !line.contains('|'));
    words.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_and_what_is_wrong_is_one_sentence() {
        let text = "build = 'make'\nrun = './s {port}'\npath = '/users'\nfail_if = ['pr slower']\n";
        let file = ConfigFile::parse("whyslow.toml", text).unwrap();
        assert_eq!((file.build.as_deref(), file.path.as_deref()), (Some("make"), Some("/users")));
        assert_eq!((file.fail_if.len(), file.port_env), (1, false));
        assert_eq!(ConfigFile::parse("whyslow.toml", "").unwrap(), ConfigFile::default());
        for (text, want) in [
            ("bild = 'make'", "whyslow.toml: there is no key 'bild': did you mean 'build'?"),
            ("failif = []", "whyslow.toml: there is no key 'failif': did you mean 'fail_if'?"),
            ("zzz = 1", "whyslow.toml: there is no key 'zzz': it may have build, "),
            (
                "[service.db]\nrun = 'x {port}'\nredy = 'y'",
                "whyslow.toml: there is no key 'redy': did you mean 'ready'?",
            ),
            ("build = 1", "whyslow.toml: TOML parse error at line 1, column 9: invalid type: integer `1`"),
            ("build = ", "whyslow.toml: TOML parse error at line 1, column 9"),
        ] {
            let error = ConfigFile::parse("whyslow.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(want) && error.lines().count() == 1, "{error}");
        }
    }
}
