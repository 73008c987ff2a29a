//! The commits of a range, as git tells of them.

use analyse::NamedCommit;
use anyhow::{Context, bail, ensure};
use launch::Repository;

/// Digits of a commit in names of arms and folders.
const DIGITS: usize = 10;
/// What is to be done where commits between the ends may be missing.
const SHALLOW: &str =
    "this clone is shallow and lacks commits between the two ends: run `git fetch --unshallow --tags`";

/// The commits behind `good`, up to `bad`, along first parents: what a branch was at each moment.
#[derive(Debug)]
pub(super) struct Commits {
    repository: Repository,
    /// From the good end, at place 0, to the bad one.
    hashes: Vec<String>,
}

/// `1 commit`, `2 commits`.
pub(super) fn counted(count: usize) -> String {
    if count == 1 { "1 commit".to_owned() } else { format!("{count} commits") }
}

/// A commit as it was typed, with the first digits of its hash where that is something else.
fn as_typed(name: &str, hash: &str) -> String {
    let short = Commits::short(hash);
    if hash.starts_with(name) { short.to_owned() } else { format!("{name} ({short})") }
}

impl Commits {
    /// Those of `range`, written GOOD..BAD, of the repository here.
    pub(super) fn in_range(range: &str) -> anyhow::Result<Self> {
        let Some((good, bad)) = range
            .split_once("..")
            .filter(|(good, bad)| !good.is_empty() && !bad.is_empty() && !bad.starts_with('.'))
        else {
            bail!(
                "'{range}' is not a range: write GOOD..BAD, two commits, branches or tags, the earlier one first"
            );
        };
        let folder = std::env::current_dir().context("cannot tell the current folder")?;
        let repository = Repository::find(&folder)?;
        let names = [good, bad];
        let [good, bad] = [repository.commit(good)?, repository.commit(bad)?];
        let [first, second] = [as_typed(names[0], &good), as_typed(names[1], &bad)];
        ensure!(good != bad, "{first} and {second} are the same commit: name two, the earlier one first");
        let range = format!("{good}..{bad}");
        let behind = repository.git(&["rev-list", "--first-parent", "--reverse", &range])?;
        let behind: Vec<String> = behind.lines().map(str::to_owned).collect();
        ensure!(
            !behind.is_empty(),
            "{second} has no commit that {first} has not: write the earlier one first, as in {}..{}",
            names[1],
            names[0]
        );
        let is_ancestor = repository.git(&["merge-base", "--is-ancestor", &good, &bad]).is_ok();
        ensure!(is_ancestor || !repository.is_shallow(), SHALLOW);
        ensure!(
            is_ancestor,
            "{second} is not built on {first}: choose a first commit that is an ancestor of the second one"
        );
        let hashes = std::iter::once(good).chain(behind).collect();
        Ok(Self { repository, hashes })
    }

    /// Commits behind the good end.
    pub(super) fn count(&self) -> usize {
        self.hashes.len() - 1
    }

    pub(super) fn hash(&self, place: usize) -> &str {
        &self.hashes[place]
    }

    pub(super) fn good(&self) -> &str {
        self.hash(0)
    }

    pub(super) fn bad(&self) -> &str {
        self.hash(self.count())
    }

    /// The name of a commit that is enough for people.
    pub(super) fn short(hash: &str) -> &str {
        hash.get(..DIGITS).unwrap_or(hash)
    }

    /// The commit at a place behind the good end.
    pub(super) fn named(&self, place: usize) -> anyhow::Result<NamedCommit> {
        let hash = self.hash(place);
        let parent = self.repository.git(&["rev-parse", &format!("{hash}^1")])?;
        let files = self.repository.git(&["diff", "--name-only", "--no-renames", &parent, hash])?;
        Ok(NamedCommit {
            subject: self.repository.git(&["log", "-1", "--format=%s", hash])?,
            files: files.lines().map(str::to_owned).collect(),
            hash: hash.to_owned(),
            parent,
        })
    }
}
