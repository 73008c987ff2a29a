//! Where cases are found.

use std::path::{Path, PathBuf};

use crate::folder;
use anyhow::{Context, bail};
use model::plan::CaseFile;

/// Folder of cases.
const FOLDER: &str = "cases";
/// Names the folder where it is elsewhere.
const FOLDER_VARIABLE: &str = "WHYSLOW_CASES";
/// Folder of answers, beside that of cases.
const ANSWERS: &str = "docs/answers";

/// The cases that can be run.
pub(super) struct Library {
    folder: PathBuf,
}

impl Library {
    pub(super) fn find() -> anyhow::Result<Self> {
        let folder = folder::find(FOLDER, FOLDER_VARIABLE, |folder| !files(folder).is_empty());
        let folder = folder.with_context(|| {
            format!("there is no folder '{FOLDER}' with cases here or above: set {FOLDER_VARIABLE}")
        })?;
        Ok(Self { folder })
    }

    /// All cases, sorted by name.
    pub(super) fn cases(&self) -> anyhow::Result<Vec<CaseFile>> {
        files(&self.folder).iter().map(|file| read(file)).collect()
    }

    pub(super) fn case(&self, name: &str) -> anyhow::Result<CaseFile> {
        let all = files(&self.folder);
        let Some(file) = all.iter().find(|file| stem(file) == name) else {
            let names: Vec<String> = all.iter().map(|file| stem(file)).collect();
            bail!("there is no case '{name}': choose one of {}", names.join(", "));
        };
        read(file)
    }

    /// Where the answer of case `name` is kept.
    pub(super) fn answer(&self, name: &str) -> PathBuf {
        let root = self.folder.parent().map(Path::to_owned).unwrap_or_default();
        root.join(ANSWERS).join(format!("{name}.md"))
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

fn stem(file: &Path) -> String {
    file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

fn read(file: &Path) -> anyhow::Result<CaseFile> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let case = CaseFile::parse(&file.display().to_string(), &text)?;
    if case.name != stem(file) {
        bail!("{}: its name is '{}': make it the same as the file's", file.display(), case.name);
    }
    Ok(case)
}
