//! What is true of the recorded runs: `corpus/truths.toml`, and the case files from which it is filled.

use std::fs;
use std::path::Path;

use anyhow::Context;
use model::plan::CauseId;
use model::record::Run;
use model::units::format_utc;
use serde::{Deserialize, Serialize};

/// What stands in a command of a case for the folder in which its servers are built.
const BUILT: &str = "{wild}";
/// First lines of the file.
const HEAD: &str = "# What is true of each run in this folder; README.md says what the keys mean.\n\n";
/// Letters of a date at the begin of a time in UTC.
const DATE: usize = "2026-01-31".len();

/// All truths, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Truths {
    #[serde(default)]
    pub(super) pair: Vec<Truth>,
}

/// What is true of one recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Truth {
    /// Name of the file of the run.
    pub(super) name: String,
    pub(super) software: String,
    /// Of the software, as recorded; empty where it is not known.
    pub(super) version: String,
    pub(super) language: String,
    /// Where the slowdown was published.
    pub(super) source: String,
    /// The slowdown in one sentence.
    pub(super) slowdown: String,
    /// Command of the server without the fault.
    pub(super) base: String,
    /// Command of the server with it.
    pub(super) arm: String,
    /// What was asked for.
    pub(super) path: String,
    /// Further flags of the comparison.
    pub(super) flags: Vec<String>,
    /// Causes that are right, the most fitting first: where the pair stands in the matrix. Empty leaves it out of that.
    pub(super) right: Vec<CauseId>,
    /// Regular expression, without regard to case: what a right cause says.
    pub(super) cause_words: String,
    /// Likewise: what the report says of the place.
    pub(super) where_words: String,
    /// Date of the recording.
    pub(super) recorded: String,
    pub(super) cpu_model: String,
    pub(super) cpus: u32,
    #[serde(flatten)]
    pub(super) role: Role,
}

/// What a pair is worth as evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub(super) enum Role {
    /// The rules were frozen when it was recorded, and it has changed none since.
    FirstRun,
    /// It has changed a rule.
    Training {
        /// Which.
        changed: String,
    },
}

impl Truths {
    /// The truths in `file`; none where there is no such file.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let Ok(text) = fs::read_to_string(file) else { return Ok(Self::default()) };
        toml::from_str(&text).with_context(|| format!("{} does not read", file.display()))
    }

    /// The truth of `name`.
    pub(super) fn of(&self, name: &str) -> Option<&Truth> {
        self.pair.iter().find(|truth| truth.name == name)
    }

    /// Adds `truth`, in the place of what was known of that name.
    pub(super) fn put(&mut self, truth: Truth) {
        self.pair.retain(|known| known.name != truth.name);
        self.pair.push(truth);
        self.pair.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// The file's text.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        Ok(format!("{HEAD}{}", toml::to_string_pretty(self)?))
    }
}

/// A pair of commands with its truth, as its author wrote it before anything was measured: `case.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Case {
    source: String,
    base: String,
    arm: String,
    path: String,
    #[serde(default)]
    flags: Vec<String>,
    truth: String,
    cause_words: String,
    where_words: String,
    software: Option<String>,
    version: Option<String>,
    language: Option<String>,
    right: Option<Vec<CauseId>>,
}

impl Case {
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is no case", file.display()))
    }

    /// The folder in which its servers were built, from the words of the comparison.
    pub(super) fn folder(&self, words: &[String]) -> Option<String> {
        let templates = [format!("base={}", self.base), format!("arm={}", self.arm)];
        templates.iter().find_map(|template| words.iter().find_map(|word| stands_for(template, word)))
    }

    /// The truth of `run`. What was written by hand into the one that is `known` stays where the case does not say it.
    pub(super) fn truth(self, name: &str, run: &Run, role: Option<Role>, known: Option<&Truth>) -> Truth {
        let or = |own: Option<String>, known: Option<&String>, else_: &str| {
            own.or_else(|| known.cloned()).unwrap_or_else(|| else_.to_owned())
        };
        Truth {
            name: name.to_owned(),
            software: or(self.software, known.map(|known| &known.software), name),
            version: or(self.version, known.map(|known| &known.version), ""),
            language: or(self.language, known.map(|known| &known.language), ""),
            source: self.source,
            slowdown: self.truth,
            base: self.base.replace(BUILT, "."),
            arm: self.arm.replace(BUILT, "."),
            path: self.path,
            flags: self.flags,
            right: self.right.or_else(|| Some(known?.right.clone())).unwrap_or_default(),
            cause_words: self.cause_words,
            where_words: self.where_words,
            recorded: format_utc(run.manifest.started_unix_s).chars().take(DATE).collect(),
            cpu_model: run.host.cpu_model.clone(),
            cpus: run.host.cpus,
            role: role.or_else(|| Some(known?.role.clone())).unwrap_or(Role::FirstRun),
        }
    }
}

/// What stands in `word` where `template` has [`BUILT`].
fn stands_for(template: &str, word: &str) -> Option<String> {
    let (before, rest) = template.split_once(BUILT)?;
    let after = rest.split(BUILT).next().unwrap_or_default();
    let tail = word.strip_prefix(before)?;
    let end = if after.is_empty() { tail.len() } else { tail.find(after)? };
    Some(tail[..end].to_owned()).filter(|folder| folder.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{ "name": "x", "source": "https://x.org", "base": "{wild}/x/a -p {port}", "path": "/",
        "arm": "{wild}/x/b -c {wild}/x/c {port}", "truth": "It waits.", "cause_words": "wait", "where_words": "f\\(", "note": 1 }"#;

    #[test]
    fn the_folder_of_a_case_is_read_from_the_command() {
        let case: Case = serde_json::from_str(TEXT).unwrap();
        let words = |base: &str| vec!["compare".to_owned(), base.to_owned()];
        assert_eq!(case.folder(&words("base=/a/b/x/a -p {port}")).as_deref(), Some("/a/b"));
        assert_eq!(case.folder(&words("arm=/c/x/b -c /c/x/c {port}")).as_deref(), Some("/c"));
        assert_eq!(case.folder(&words("base=other")), None);
    }

    #[test]
    fn what_is_written_reads_again() {
        let [first, training] =
            [("a", Role::FirstRun), ("b", Role::Training { changed: "gaps in many small parts".to_owned() })]
                .map(|(name, role)| Truth {
                    name: name.to_owned(),
                    software: "x".to_owned(),
                    version: String::new(),
                    language: "C".to_owned(),
                    source: "https://x.org".to_owned(),
                    slowdown: "It waits.".to_owned(),
                    base: "./x/a -p {port}".to_owned(),
                    arm: "./x/b".to_owned(),
                    path: "/".to_owned(),
                    flags: vec!["--pipeline".to_owned(), "16".to_owned()],
                    right: vec![CauseId::Sleep],
                    cause_words: r"own code \(|wait".to_owned(),
                    where_words: "it's".to_owned(),
                    recorded: "2026-01-31".to_owned(),
                    cpu_model: "X".to_owned(),
                    cpus: 2,
                    role,
                });
        let mut truths = Truths::default();
        for truth in [&training, &first, &training] {
            truths.put(truth.clone());
        }
        let text = truths.text().unwrap();
        assert!(text.contains("role = \"first-run\"") && text.contains("role = \"training\""), "{text}");
        assert_eq!(toml::from_str::<Truths>(&text).unwrap().pair, [first, training]);
    }
}
