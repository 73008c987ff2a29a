//! How repositories of one kind are built and started, by the files that tell their kind.

use std::path::Path;

use super::kinds;
use super::seen::{Seen, quoted};

/// Where the recipes of Python put programs: a checkout has none of the environments that lie in a work tree.
const PROGRAMS_OF_PYTHON: &str = ".venv/bin/";

/// What a repository looks to be built and started by.
#[derive(Debug, Default)]
pub(super) struct Recipe {
    /// The file that tells it.
    pub(super) file: &'static str,
    pub(super) build: Option<String>,
    /// With `{port}`, unless it reads its port from `PORT`.
    pub(super) run: Option<String>,
    pub(super) port_env: bool,
    /// What stands in the place of the interpreter that was seen.
    pub(super) interpreter: Option<&'static str>,
    /// What is said beside: other programs that could be meant, or the kind of arm that fits better.
    pub(super) note: Option<String>,
    /// From the folder that the server ran in to that of the recipe, where they differ.
    pub(super) up: String,
}

impl Recipe {
    /// The recipe of `folder`; where a server was seen in another one, rather of that.
    pub(super) fn of(folder: &Path, seen: Option<&Seen>) -> Option<Self> {
        let program = seen.and_then(Seen::program);
        if let Some(dir) = seen.and_then(|seen| seen.dir.as_deref()) {
            if let Some(found) = kinds::recognise(&folder.join(dir), program) {
                let build = found.build.map(|build| format!("cd {} && {build}", quoted(dir)));
                return Some(Self { build, ..found });
            }
            let up = dir.split('/').map(|step| if step == ".." { "" } else { "../" }).collect();
            return kinds::recognise(folder, None).map(|found| Self { up, ..found });
        }
        kinds::recognise(folder, program)
    }

    /// The words that were seen, with what the build makes in the place of what was made by hand.
    pub(super) fn started(&self, seen: &Seen) -> Vec<String> {
        let mut words = seen.words.clone();
        if self.file == "Cargo.toml" {
            words[0] = words[0].replace("target/debug/", "target/release/");
        }
        // `go run` makes its program anew in a folder of its own, which is gone afterwards.
        if self.file == "go.mod" && words[0].contains("/go-build") {
            words[0] =
                self.run.as_deref().and_then(|run| run.split(' ').next()).unwrap_or("./server").to_owned();
        }
        let first = words[0].trim_start_matches("./").to_owned();
        let (folder, program) = first.rsplit_once('/').unwrap_or(("", &first));
        let Some(interpreter) = self.interpreter.filter(|_| program.starts_with("python")) else {
            return words;
        };
        words[0] = match interpreter.strip_prefix(PROGRAMS_OF_PYTHON) {
            Some(_) => format!("{}{interpreter}", self.up),
            None => interpreter.to_owned(),
        };
        // What was installed beside the interpreter, such as uvicorn, is installed beside that of the build.
        for word in &mut words[1..] {
            let plain = word.trim_start_matches("./");
            let beside = plain.strip_prefix(folder).filter(|_| !folder.is_empty());
            *word = match beside.and_then(|name| name.strip_prefix('/')) {
                Some(name) => format!("{}{PROGRAMS_OF_PYTHON}{name}", self.up),
                None => plain.to_owned(),
            };
        }
        words
    }
}
