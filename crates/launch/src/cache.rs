//! The folder in which revisions are checked out and built, so that a second comparison of the same builds nothing.
//!
//! ```text
//! CACHE/objects            what work trees have beyond their repositories, as git writes it
//! CACHE/index-PID-N        an index while it is used
//! CACHE/KEY/files          the files of one tree, and what its build command made of them
//! CACHE/KEY/build          {build}
//! CACHE/KEY/built.json     written when the build is complete; without it the rest is nothing
//! CACHE/KEY.lock           held while it is built
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use model::plan::Revision;
use model::record::write_atomically;
use rustix::fs::{FlockOperation, flock};

use crate::git::{self, GitError, check_out};
use crate::sha256;

/// Revisions that stay built: more than a search through a long history looks at.
const KEPT: usize = 64;
/// Nothing that was used within this time is removed: it may be in use.
const IN_USE: Duration = Duration::from_secs(24 * 3600);
/// Digits of a tree, and of the hash of a build command, in the name of a folder.
const KEY_DIGITS: usize = 20;
const FILES: &str = "files";
const BUILD: &str = "build";
const BUILT: &str = "built.json";

/// The cache of revisions.
#[derive(Debug, Clone)]
pub struct Cache(PathBuf);

/// The folder of one tree built by one command.
#[derive(Debug, Clone)]
pub struct Entry(PathBuf);

/// An index that is removed once nobody needs it.
pub(crate) struct Index(PathBuf);

impl Index {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // What stays is removed with the next cleaning.
        let _ = fs::remove_file(&self.0);
    }
}

impl Cache {
    /// The cache in `folder`, an absolute path.
    #[must_use]
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Where `tree` built by `built_by` is.
    #[must_use]
    pub fn entry(&self, tree: &str, built_by: &str) -> Entry {
        let short = |id: &str| id.chars().take(KEY_DIGITS).collect::<String>();
        Entry(self.0.join(format!("{}-{}", short(tree), short(&sha256(built_by.as_bytes())))))
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.0.join("objects")
    }

    pub(crate) fn index(&self) -> Result<Index, GitError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let objects = self.objects();
        fs::create_dir_all(&objects).map_err(|source| GitError::File { path: objects, source })?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Index(self.0.join(format!("index-{}-{number}", std::process::id()))))
    }

    /// Removes the revisions that were used longest ago beyond [`KEPT`], and what is left of work trees.
    fn clean(&self) {
        let mut entries: Vec<(SystemTime, PathBuf)> = files(&self.0)
            .into_iter()
            .filter_map(|path| Some((fs::metadata(path.join(BUILT)).ok()?.modified().ok()?, path)))
            .collect();
        entries.sort_by(|a, b| b.cmp(a));
        let old = |when: SystemTime| when.elapsed().is_ok_and(|age| age > IN_USE);
        for (_, path) in entries.into_iter().skip(KEPT).filter(|(used, _)| old(*used)) {
            // Without it the rest is nothing, also when the removal stops half way.
            let _ = fs::remove_file(path.join(BUILT));
            let _ = fs::remove_dir_all(&path);
        }
        let loose = files(&self.objects()).into_iter().flat_map(|folder| files(&folder));
        let indexes = files(&self.0).into_iter().filter(|path| path.is_file());
        for file in loose.chain(indexes) {
            if fs::metadata(&file).and_then(|facts| facts.modified()).is_ok_and(old) {
                let _ = fs::remove_file(&file);
            }
        }
    }
}

impl Entry {
    /// The entry of a revision.
    #[must_use]
    pub fn for_revision(revision: &Revision) -> Self {
        Self(Path::new(&revision.checkout).parent().unwrap_or(Path::new("")).to_owned())
    }

    /// Its files.
    #[must_use]
    pub fn checkout(&self) -> PathBuf {
        self.0.join(FILES)
    }

    /// What its build makes beside them.
    #[must_use]
    pub fn build_dir(&self) -> PathBuf {
        self.0.join(BUILD)
    }

    /// Whether its build is complete.
    #[must_use]
    pub fn is_built(&self) -> bool {
        self.0.join(BUILT).exists()
    }

    /// Waits until nobody else builds it; `unwanted` ends the wait with nothing.
    pub(crate) fn lock(&self, every: Duration, unwanted: &dyn Fn() -> bool) -> io::Result<Option<File>> {
        fs::create_dir_all(self.0.parent().unwrap_or(Path::new("")))?;
        let mut name = self.0.clone().into_os_string();
        name.push(".lock");
        let file = OpenOptions::new().create(true).append(true).open(name)?;
        // A lock that is used is not old, and stays when the cache is cleaned.
        file.set_modified(SystemTime::now())?;
        while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if unwanted() {
                return Ok(None);
            }
            std::thread::sleep(every);
        }
        Ok(Some(file))
    }

    /// Files as the revision has them, and nothing built.
    pub(crate) fn check_out(&self, revision: &Revision) -> Result<(), GitError> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0).map_err(|source| GitError::File { path: self.0.clone(), source })?;
        }
        check_out(revision, &self.cache())
    }

    /// Programs that the build was without, where it has made none of that name.
    pub(crate) fn put_back(&self, revision: &Revision) -> Result<(), GitError> {
        git::put_back(revision, &self.cache())
    }

    /// Says that it is complete, or that it was used again.
    pub(crate) fn stamp(&self, revision: &Revision) -> Result<(), GitError> {
        let path = self.0.join(BUILT);
        let text = format!("{{\n  \"tree\": \"{}\"\n}}\n", revision.tree);
        write_atomically(&path, text.as_bytes())
            .map_err(|error| GitError::File { path, source: io::Error::other(error) })?;
        self.cache().clean();
        Ok(())
    }

    fn cache(&self) -> Cache {
        Cache(self.0.parent().unwrap_or(Path::new("")).to_owned())
    }
}

/// What is in `folder`; nothing where it cannot be read.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
