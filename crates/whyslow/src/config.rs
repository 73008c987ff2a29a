//! `whyslow.toml`: what the command line leaves open, where arms come from a repository.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use model::plan::{ConfigFile, Service};

use crate::cli::{CompareArgs, CountOrFile};

/// Name of the file.
pub(crate) const FILE: &str = "whyslow.toml";

/// The file, read.
pub(crate) struct Loaded {
    pub(crate) config: ConfigFile,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// What it has run beside.
    pub(crate) services: Vec<Service>,
}

impl Loaded {
    /// Its file of requests.
    pub(crate) fn requests(&self) -> Option<CountOrFile> {
        self.config.requests.as_ref().map(|file| CountOrFile::File(self.folder.join(file)))
    }
}

/// Reads `file`; where none is given, for what comes from git the one in the current folder or the nearest above it within
/// the repository.
pub(crate) fn load(file: Option<&Path>, from_git: bool) -> anyhow::Result<Option<Loaded>> {
    let current = std::env::current_dir().context("cannot tell the current folder")?;
    let file = match file {
        Some(file) => Some(current.join(file)),
        None if from_git => find(&current),
        None => None,
    };
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let config = ConfigFile::parse(&file.display().to_string(), &text)?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let place = folder.to_str().context("the folder of the file has a name that is not text")?;
    let services = config.service.iter().map(|(name, service)| service.service(name, place));
    let services =
        services.collect::<Result<_, _>>().map_err(|reason| anyhow!("{}: {reason}", file.display()))?;
    Ok(Some(Loaded { folder: folder.to_owned(), config, services }))
}

/// The flags with what the file says in the place of what they leave open.
pub(crate) fn filled(args: &CompareArgs, from_git: bool) -> anyhow::Result<CompareArgs> {
    let Some(loaded) = load(args.config.as_deref(), from_git)? else { return Ok(args.clone()) };
    let requests = loaded.requests();
    let Loaded { config, folder, services } = loaded;
    let mut filled = args.clone();
    filled.request.beside = services.iter().map(|service| service.name.clone()).collect();
    filled.services = services;
    filled.folder = Some(folder);
    filled.build = filled.build.or(config.build);
    filled.run = filled.run.or(config.run);
    filled.ready = filled.ready.or(config.ready);
    // What the command line asks for stands in the place of all that the file asks for.
    if filled.path.is_none() && !filled.request.has_file() {
        match requests {
            Some(file) => filled.request.requests.push(file),
            None => filled.path = config.path,
        }
    }
    filled.expect_status = filled.expect_status.or(config.expect_status);
    filled.port_env |= config.port_env;
    filled.judged.fail_if_of_file = config.fail_if;
    Ok(filled)
}

/// The flags of a command that no condition of the file is meant for: those name the arms of one comparison.
pub(crate) fn filled_unjudged(args: &CompareArgs, from_git: bool) -> anyhow::Result<CompareArgs> {
    Ok(CompareArgs { judged: args.judged.clone(), ..filled(args, from_git)? })
}

/// The nearest file from `folder` upwards; a repository ends the search.
fn find(folder: &Path) -> Option<PathBuf> {
    for folder in folder.ancestors() {
        let file = folder.join(FILE);
        if file.exists() {
            return Some(file);
        }
        if folder.join(".git").exists() {
            return None;
        }
    }
    None
}
