//! A git repository, asked by git's own command. Nothing is written into it: what a work tree has beyond its commits goes
//! into the cache as objects, and its index is copied before anything is added.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use model::plan::Revision;

use crate::cache::Cache;

/// Settings of git's that would have it write beside the index that it is given.
const PLAIN_INDEX: [&str; 6] =
    ["-c", "core.splitIndex=false", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"];
/// What a hook's environment says of its repository; it does not hold for ours.
const OF_A_HOOK: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX",
];
/// What programs, objects and libraries begin with (elf(5)), and archives of objects (ar(5)).
const BUILT: [&[u8]; 2] = [b"\x7fELF", b"!<arch>\n"];
/// Bytes of the longest of them.
const LONGEST_MARK: u64 = 8;
/// What begins the command by which git would trust a repository of another user. Source: git's setup.c, die_upon_dubious_ownership.
const TRUST: &str = "git config --global --add safe.directory";
/// What git says where no folder above has a repository. Source: git, setup.c.
const NO_REPOSITORY: &str = "not a git repository";
/// The work tree as it is, in the place of a revision.
pub const WORK_TREE: &str = ".";

/// Why a revision cannot be had; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// Git is not installed.
    #[error("git cannot be started: {0}: install it, or name a command in the place of a revision")]
    NoGit(io::Error),
    /// The folder belongs to no repository.
    #[error("{} is in no git repository: go to a folder that is", folder.display())]
    NoRepository {
        /// The folder.
        folder: PathBuf,
    },
    /// There is no such revision.
    #[error(
        "there is no revision '{0}': name a branch, a tag or a commit that `git log` shows, or '.' for the work tree"
    )]
    NoRevision(String),
    /// There is none in a clone that lacks history.
    #[error(
        "this clone is shallow and has no revision '{0}': run `git fetch --unshallow --tags`, and for a branch that was not \
         cloned `git fetch origin BRANCH:refs/remotes/origin/BRANCH`"
    )]
    Shallow(String),
    /// Git does not trust a repository of another user.
    #[error("git refuses this repository, which belongs to another user: if you trust it, run `{remedy}`")]
    NotOwned {
        /// The command that git names.
        remedy: String,
    },
    /// A bare repository has no work tree.
    #[error("the repository has no work tree that '.' could stand for: name a branch, a tag or a commit")]
    NoWorkTree,
    /// The cache would be part of what is compared.
    #[error("the cache {} lies inside the repository: set WHYSLOW_CACHE to a folder elsewhere", .0.display())]
    CacheInside(PathBuf),
    /// Git failed.
    #[error("git {what} failed: {reason}")]
    Failed {
        /// What it was to do.
        what: String,
        /// What it said.
        reason: String,
    },
    /// A file of the cache could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A path that is not text.
    #[error("{} is not text: give the folder another name", .0.display())]
    Name(PathBuf),
}

/// A repository, seen from one of its folders.
#[derive(Debug, Clone)]
pub struct Repository {
    folder: PathBuf,
    git_dir: PathBuf,
    /// The root of its work tree, where it has one.
    root: Option<PathBuf>,
}

impl Repository {
    /// The repository that `folder` is in.
    ///
    /// # Errors
    /// [`GitError::NoGit`], [`GitError::NotOwned`] or [`GitError::NoRepository`].
    pub fn find(folder: &Path) -> Result<Self, GitError> {
        let mut found = Self { folder: folder.to_owned(), git_dir: PathBuf::new(), root: None };
        let git_dir = found.git(&["rev-parse", "--absolute-git-dir"]).map_err(|error| match error {
            GitError::Failed { reason, .. } if reason.contains(NO_REPOSITORY) => {
                GitError::NoRepository { folder: folder.to_owned() }
            }
            other => other,
        })?;
        found.git_dir = PathBuf::from(git_dir);
        found.root = found.git(&["rev-parse", "--show-toplevel"]).ok().map(PathBuf::from);
        Ok(found)
    }

    /// What git prints for `args`, run in the folder, without the last line end.
    ///
    /// # Errors
    /// [`GitError::NoGit`], [`GitError::NotOwned`] or [`GitError::Failed`].
    pub fn git(&self, args: &[&str]) -> Result<String, GitError> {
        run(Command::new("git").current_dir(&self.folder).args(args), args[0])
    }

    /// The folder that it is seen from, relative to the root of its files.
    ///
    /// # Errors
    /// As [`Repository::git`].
    pub fn prefix(&self) -> Result<String, GitError> {
        Ok(self.git(&["rev-parse", "--show-prefix"])?.trim_end_matches('/').to_owned())
    }

    /// Programs, objects and libraries in the work tree that git neither knows nor ignores, from its root: what a build has made.
    ///
    /// # Errors
    /// As [`Repository::git`].
    pub fn built(&self) -> Result<Vec<String>, GitError> {
        let Some(root) = &self.root else { return Ok(Vec::new()) };
        let mut command = Command::new("git");
        command.current_dir(root).args(["ls-files", "--others", "--exclude-standard", "-z"]);
        let files = run(&mut command, "ls-files")?;
        let is_built = |file: &&str| {
            let mut begin = Vec::new();
            let opened = fs::File::open(root.join(file));
            // What cannot be read is found by whoever adds it.
            let _ = opened.and_then(|file| file.take(LONGEST_MARK).read_to_end(&mut begin));
            BUILT.iter().any(|mark| begin.starts_with(mark))
        };
        let named = files.split('\0').filter(|file| !file.is_empty());
        Ok(named.filter(is_built).map(str::to_owned).collect())
    }

    /// Submodules of the work tree that have changes, or another commit than the one that is committed.
    ///
    /// # Errors
    /// As [`Repository::git`].
    pub fn changed_submodules(&self) -> Result<Vec<String>, GitError> {
        let status = [
            "--no-optional-locks",
            "status",
            "--porcelain=v2",
            "--untracked-files=no",
            "--ignore-submodules=none",
        ];
        let status_lines = self.git(&status)?;
        // "1 XY SUB MODE MODE MODE HASH HASH PATH"; SUB begins with S for a submodule. Source: git-status(1).
        let submodule = |line: &str| {
            let fields: Vec<&str> = line.splitn(9, ' ').collect();
            (fields.len() == 9 && fields[0] == "1" && fields[2].starts_with('S'))
                .then(|| fields[8].to_owned())
        };
        Ok(status_lines.lines().filter_map(submodule).collect())
    }

    /// The state that `name` stands for: a revision, or [`WORK_TREE`] with all files that are not ignored. Those of `without` are no
    /// part of what is built; they are put back where the build makes none of that name.
    /// `built_by` is the command that builds it: files built otherwise have another folder.
    ///
    /// # Errors
    /// [`GitError`]
    pub fn revision(
        &self,
        name: &str,
        (built_by, without): (&str, &[String]),
        cache: &Cache,
    ) -> Result<Revision, GitError> {
        if self.root.as_ref().is_some_and(|root| cache.folder().starts_with(root)) {
            return Err(GitError::CacheInside(cache.folder().to_owned()));
        }
        let of_work_tree = name == WORK_TREE;
        let commit = match self.commit(if of_work_tree { "HEAD" } else { name }) {
            // A repository without a commit has files all the same.
            Err(GitError::NoRevision(_)) if of_work_tree => None,
            other => Some(other?),
        };
        let committed = match &commit {
            Some(commit) => Some(self.git(&["rev-parse", &format!("{commit}^{{tree}}")])?),
            None => None,
        };
        let tree = if of_work_tree { Some(self.work_tree(without, cache)?) } else { committed.clone() };
        let tree = tree.ok_or_else(|| GitError::NoRevision(name.to_owned()))?;
        let put_back = if without.is_empty() { None } else { Some(self.tree_of(without, cache)?) };
        let built_by = put_back.iter().fold(built_by.to_owned(), |all, files| format!("{all}\n{files}"));
        Ok(Revision {
            asked: name.to_owned(),
            changed: committed.as_ref() != Some(&tree),
            commit,
            git_dir: text(&self.git_dir)?,
            checkout: text(&cache.entry(&tree, &built_by).checkout())?,
            tree,
            put_back,
        })
    }

    /// What has to change to make the files of `from` those of `to`, whole functions around each change. Either may be a work
    /// tree, whose objects are in the cache.
    ///
    /// # Errors
    /// As [`Repository::git`].
    pub fn diff(from: &Revision, to: &Revision, cache: &Cache) -> Result<String, GitError> {
        let git_dir = Path::new(&to.git_dir);
        let repository = Self { folder: git_dir.to_owned(), git_dir: git_dir.to_owned(), root: None };
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(git_dir).args([
            "-c",
            "core.quotePath=false",
            "diff-tree",
            "-r",
            "-p",
            "-M",
        ]);
        command.args(["--no-color", "--no-ext-diff", "--no-textconv", "--function-context"]);
        command.args(["--src-prefix=a/", "--dst-prefix=b/", &from.tree, &to.tree]);
        run(command.envs(objects(cache, &repository.objects()?)), "diff-tree")
    }

    /// The full name of the commit that `name` stands for.
    ///
    /// # Errors
    /// [`GitError::NoRevision`], [`GitError::Shallow`], or as [`Repository::git`].
    pub fn commit(&self, name: &str) -> Result<String, GitError> {
        // A word that begins with a dash would be an option.
        if name.is_empty() || name.starts_with('-') {
            return Err(GitError::NoRevision(name.to_owned()));
        }
        let commit = format!("{name}^{{commit}}");
        self.git(&["rev-parse", "--verify", "--quiet", &commit]).map_err(|error| match error {
            GitError::Failed { .. } if self.is_shallow() => GitError::Shallow(name.to_owned()),
            GitError::Failed { .. } => GitError::NoRevision(name.to_owned()),
            other => other,
        })
    }

    /// Whether the history of a clone ends before it began, as after `git clone --depth`.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        self.git(&["rev-parse", "--is-shallow-repository"]).is_ok_and(|output| output == "true")
    }

    /// The tree of the files as they are, written into the cache's objects by a copy of the index.
    fn work_tree(&self, without: &[String], cache: &Cache) -> Result<String, GitError> {
        let root = self.root.as_ref().ok_or(GitError::NoWorkTree)?;
        let index = cache.index()?;
        let own = self.git_dir.join("index");
        if own.exists() {
            // What is known of files that have not changed saves reading them again.
            fs::copy(&own, index.path()).map_err(|source| GitError::File { path: own, source })?;
        }
        let at_work = |args: &[&str]| self.with_index(root, index.path(), cache, args);
        at_work(&["add", "--all", "--", "."])?;
        if !without.is_empty() {
            at_work(&with_names(&["update-index", "--force-remove", "--"], without))?;
        }
        at_work(&["write-tree"])
    }

    /// The tree of some files of the work tree alone.
    fn tree_of(&self, files: &[String], cache: &Cache) -> Result<String, GitError> {
        let root = self.root.as_ref().ok_or(GitError::NoWorkTree)?;
        let index = cache.index()?;
        self.with_index(root, index.path(), cache, &with_names(&["add", "--force", "--"], files))?;
        self.with_index(root, index.path(), cache, &["write-tree"])
    }

    /// Runs git in `folder` with an index of ours.
    fn with_index(
        &self,
        folder: &Path,
        index: &Path,
        cache: &Cache,
        args: &[&str],
    ) -> Result<String, GitError> {
        let mut command = Command::new("git");
        command.current_dir(folder).args(PLAIN_INDEX).args(["--literal-pathspecs"]).args(args);
        run(command.env("GIT_INDEX_FILE", index).envs(objects(cache, &self.objects()?)), args[0])
    }

    fn objects(&self) -> Result<PathBuf, GitError> {
        Ok(self.git_dir.join(self.git(&["rev-parse", "--path-format=absolute", "--git-path", "objects"])?))
    }
}

/// Writes the files of `revision` into its folder, which is empty or absent: as a checkout does it, with attributes and
/// filters, but without hooks, and without a trace in the repository.
pub(crate) fn check_out(revision: &Revision, cache: &Cache) -> Result<(), GitError> {
    let folder = Path::new(&revision.checkout);
    fs::create_dir_all(folder).map_err(|source| GitError::File { path: folder.to_owned(), source })?;
    let git_dir = Path::new(&revision.git_dir);
    let repository = Repository { folder: git_dir.to_owned(), git_dir: git_dir.to_owned(), root: None };
    let index = cache.index()?;
    let mut command = Command::new("git");
    command.args(PLAIN_INDEX).current_dir(folder);
    command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(folder);
    command.args(["read-tree", "--reset", "-u", &revision.tree]).env("GIT_INDEX_FILE", index.path());
    run(command.envs(objects(cache, &repository.objects()?)), "read-tree").map(drop)
}

/// Puts the programs that the build of `revision` was without where it has made none of that name.
pub(crate) fn put_back(revision: &Revision, cache: &Cache) -> Result<(), GitError> {
    let Some(tree) = &revision.put_back else { return Ok(()) };
    let (folder, git_dir) = (Path::new(&revision.checkout), Path::new(&revision.git_dir));
    let repository = Repository { folder: git_dir.to_owned(), git_dir: git_dir.to_owned(), root: None };
    let index = cache.index()?;
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(PLAIN_INDEX).current_dir(folder);
        command.arg("--git-dir").arg(git_dir).arg("--work-tree").arg(folder).args(args);
        run(command.env("GIT_INDEX_FILE", index.path()).envs(objects(cache, &repository.objects()?)), args[0])
    };
    git(&["read-tree", tree])?;
    let files = git(&["ls-files", "-z"])?;
    let is_missing = |file: &&str| !file.is_empty() && fs::symlink_metadata(folder.join(file)).is_err();
    let missing: Vec<String> = files.split('\0').filter(is_missing).map(str::to_owned).collect();
    if missing.is_empty() {
        return Ok(());
    }
    git(&with_names(&["checkout-index", "--"], &missing)).map(drop)
}

fn with_names<'a>(args: &[&'a str], names: &'a [String]) -> Vec<&'a str> {
    args.iter().copied().chain(names.iter().map(String::as_str)).collect()
}

/// Where git writes objects, and where it reads all others.
fn objects(cache: &Cache, of_repository: &Path) -> [(&'static str, OsString); 2] {
    let quoted = of_repository.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    [
        ("GIT_OBJECT_DIRECTORY", cache.objects().into_os_string()),
        // The list is separated by colons, which a name in quotes may hold.
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", format!("\"{quoted}\"").into()),
    ]
}

fn run(command: &mut Command, what: &str) -> Result<String, GitError> {
    for name in OF_A_HOOK {
        if !command.get_envs().any(|(given, _)| given == name) {
            command.env_remove(name);
        }
    }
    let output = command.env("LC_ALL", "C").output().map_err(GitError::NoGit)?;
    if !output.status.success() {
        return Err(failed(what, &String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

/// What git complained of, in one sentence.
fn failed(what: &str, stderr: &str) -> GitError {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(remedy) = lines.clone().find(|line| line.starts_with(TRUST)) {
        return GitError::NotOwned { remedy: remedy.to_owned() };
    }
    let reason = lines.next().unwrap_or("it says nothing").to_owned();
    GitError::Failed { what: what.to_owned(), reason }
}

fn text(path: &Path) -> Result<String, GitError> {
    path.to_str().map(str::to_owned).ok_or_else(|| GitError::Name(path.to_owned()))
}
