//! Which runs there are. What is asked for is looked up here, never joined to a path.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run that wrote nothing for so long has ended without saying so.
const SILENT_FOR: Duration = Duration::from_secs(15 * 60);

/// Runs by the name of their directory.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    /// Every run in a folder.
    Folder(PathBuf),
    /// One run.
    Run(PathBuf),
}

impl Shelf {
    /// The runs in `folder`.
    pub(crate) fn of_folder(folder: &Path) -> Self {
        Self { place: Place::Folder(folder.to_owned()) }
    }

    /// One run alone.
    pub(crate) fn of_run(run: &Path) -> Self {
        Self { place: Place::Run(run.to_owned()) }
    }

    /// Name and directory of every run there is now. Links are not followed: they lead out of the folder.
    pub(crate) fn runs(&self) -> BTreeMap<String, PathBuf> {
        match &self.place {
            Place::Run(run) => BTreeMap::from([(name(run), run.clone())]),
            Place::Folder(folder) => {
                let entries = fs::read_dir(folder).into_iter().flatten().flatten();
                let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
                folders
                    .map(|entry| entry.path())
                    .filter(|path| path.join("manifest.json").is_file())
                    .map(|path| (name(&path), path))
                    .collect()
            }
        }
    }

    /// The directory of one run.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        self.runs().remove(name)
    }
}

fn name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    whole.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What changes when a run does: how many rounds it has, and when its manifest, its host or its last round was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) rounds: usize,
    pub(crate) written: SystemTime,
}

impl Stamp {
    pub(crate) fn read(run: &Path) -> Self {
        let written = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
        let folder = run.join("rounds");
        let rounds = fs::read_dir(&folder).into_iter().flatten().flatten().count();
        let files = ["manifest.json", "host.json"].map(|name| written(&run.join(name)));
        Self { rounds, written: files.into_iter().fold(written(&folder), SystemTime::max) }
    }

    /// Whether a run that says it is running still is.
    pub(crate) fn is_recent(self) -> bool {
        self.written.elapsed().is_ok_and(|since| since < SILENT_FOR)
    }

    /// As a text that differs where the stamp does.
    pub(crate) fn text(self) -> String {
        let since = self.written.duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{} {}", self.rounds, since.as_nanos())
    }
}
