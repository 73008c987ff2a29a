//! States of a git repository as arms: a revision or the work tree, checked out and built in the cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use launch::{Cache, Entry, Repository, WORK_TREE};
use model::plan::{Arm, ArmSource, Expect, Plan, Revision, split_command};
use model::record::SourceChange;

use crate::cli::CompareArgs;
use crate::compare::command_arm;

/// Names the cache where it is to be elsewhere.
const CACHE_VARIABLE: &str = "WHYSLOW_CACHE";

/// Digits of a whole hash, of the shorter kind. Source: git-hash-object(1), SHA-1.
const HASH_DIGITS: usize = 40;
/// Bytes of a difference between two revisions that a record keeps: of a larger one nobody reads which line changed.
const LONGEST_DIFF: usize = 4 << 20;

/// How the files of a revision become a server.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    /// Name of the arm.
    pub(crate) name: String,
    /// A line for a shell; nothing where nothing is built.
    pub(crate) build: Option<String>,
    /// The command that starts it.
    pub(crate) run: String,
    /// Whether it reads its port from the environment.
    pub(crate) port_env: bool,
    /// A folder of the repository: build and run happen where it is in the checkout.
    pub(crate) folder: PathBuf,
}

impl Recipe {
    /// The recipe of the arm `name` that the flags of a comparison give.
    pub(crate) fn from_args(args: &CompareArgs, name: &str) -> anyhow::Result<Self> {
        let folder = args.folder.as_deref();
        Self::new(name, args.build.clone(), args.run.clone(), args.port_env, folder)
    }

    /// The recipe of the arm `name`, in `folder` or the current one.
    pub(crate) fn new(
        name: &str,
        build: Option<String>,
        run: Option<String>,
        port_env: bool,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let Some(run) = run else {
            bail!(
                "'{name}' comes from git: say how it is started with --run 'COMMAND with {{port}}', or in a whyslow.toml"
            );
        };
        let folder = match folder {
            Some(folder) => folder.to_owned(),
            None => std::env::current_dir().context("cannot tell the current folder")?,
        };
        Ok(Self { name: name.to_owned(), build, run, port_env, folder })
    }
}

/// The arm that `name` stands for, a revision or `.` for the work tree, in a place of the cache that depends on its files and on
/// the build command. Nothing is checked out yet.
pub(crate) fn arm(recipe: &Recipe, name: &str, expect: &Expect) -> anyhow::Result<Arm> {
    let repository = Repository::find(&recipe.folder)?;
    let prefix = repository.prefix()?;
    let build = recipe.build.as_deref().unwrap_or_default();
    let without = if name == WORK_TREE { left_out(recipe, &repository)? } else { Vec::new() };
    let revision = repository.revision(name, (&format!("{prefix}\n{build}"), &without), &cache()?)?;
    let build = match build {
        "" => Vec::new(),
        // People write `a && b` and `X=1 make`, which need a shell.
        line => vec![["sh", "-c", line].map(str::to_owned).to_vec()],
    };
    let mut dir = PathBuf::from(&revision.checkout);
    // Nothing pushed would be a slash at its end.
    if !prefix.is_empty() {
        dir.push(&prefix);
    }
    let build_dir = Entry::for_revision(&revision).build_dir();
    let text =
        |path: &Path| path.to_str().map(str::to_owned).context("the cache has a name that is not text");
    Ok(Arm {
        run: split_command(&recipe.name, &recipe.run)?,
        build,
        dir: Some(text(&dir)?),
        build_dir: Some(text(&build_dir)?),
        source: ArmSource::Git(revision),
        ..command_arm(&recipe.name, &recipe.run, recipe.port_env, expect)?
    })
}

/// What of the work tree the build does not see: programs that an earlier one has left there. `make` would take them for its own, and
/// what is measured would not be the files that were changed.
fn left_out(recipe: &Recipe, repository: &Repository) -> anyhow::Result<Vec<String>> {
    let changed = repository.changed_submodules()?;
    if !changed.is_empty() {
        crate::say(&format!(
            "{}: submodules are not in the checkout, and {} has changes that are not measured",
            recipe.name,
            listed(&changed)
        ));
    }
    if recipe.build.is_none() {
        return Ok(Vec::new());
    }
    let built = repository.built()?;
    if !built.is_empty() {
        crate::say(&format!(
            "{}: git does not track {}: the build begins without, and what it does not make is put back",
            recipe.name,
            listed(&built)
        ));
    }
    Ok(built)
}

/// What an arm is called while it is built: a commit that was asked for by its whole hash, as by a search, says more than the arm's name.
pub(crate) fn called(arm: &Arm) -> String {
    let is_hash =
        |asked: &str| asked.len() >= HASH_DIGITS && asked.bytes().all(|byte| byte.is_ascii_hexdigit());
    let revision = arm.source.revision().filter(|revision| is_hash(&revision.asked));
    revision.map_or_else(|| arm.name.clone(), Revision::describe)
}

/// The first of some files, and how many more there are.
fn listed(files: &[String]) -> String {
    match files {
        [] => String::new(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}

/// Says which arms have the same files: what differs between them is chance.
pub(crate) fn say_same(arms: &[Arm]) {
    let trees: Vec<(&str, &str)> = arms
        .iter()
        .filter_map(|arm| Some((arm.name.as_str(), arm.source.revision()?.tree.as_str())))
        .collect();
    for (index, (name, tree)) in trees.iter().enumerate() {
        if let Some((other, _)) = trees[..index].iter().find(|(_, other)| other == tree) {
            crate::say(&format!(
                "{other} and {name} have the same files: what differs between them is chance"
            ));
        }
    }
}

/// How the files of arms differ from those of the baseline, of arms of one repository. Without it nothing is missing but a word.
pub(crate) fn changes(plan: &Plan) -> Vec<SourceChange> {
    let of = |arm: &Arm| arm.source.revision().cloned();
    let Some((from, cache)) = plan.arms.get(plan.baseline).and_then(of).zip(cache().ok()) else {
        return Vec::new();
    };
    let change = |arm: &Arm| {
        let to = of(arm).filter(|to| to.git_dir == from.git_dir && to.tree != from.tree)?;
        let diff = Repository::diff(&from, &to, &cache).ok().filter(|diff| diff.len() <= LONGEST_DIFF)?;
        Some(SourceChange { arm: arm.name.clone(), diff })
    };
    plan.arms.iter().filter_map(change).collect()
}

/// The cache: where the variable says, else where the user's caches are.
pub(crate) fn cache() -> anyhow::Result<Cache> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable(CACHE_VARIABLE)
        .or_else(|| variable("XDG_CACHE_HOME").map(|caches| caches.join("whyslow")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/whyslow")))
        .with_context(|| format!("there is no place for builds: set {CACHE_VARIABLE} to a folder"))?;
    let absolute =
        std::path::absolute(&folder).with_context(|| format!("cannot resolve {}", folder.display()))?;
    // Links are followed, so that a cache inside the repository is seen to be there.
    Ok(Cache::at(absolute.canonicalize().unwrap_or(absolute)))
}
