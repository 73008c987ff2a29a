//! `whyslow.toml`: what the command line does not say, where arms come from a repository.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use model::plan::ConfigFile;

use crate::cli::{CompareArgs, CountOrFile};

/// Name of the file.
pub(crate) const FILE: &str = "whyslow.toml";

/// The flags with what the file says in the place of what they leave open. The file is that of `--config`; for arms from git
/// else the one in the current folder or the nearest above it within the repository.
pub(crate) fn filled(args: &CompareArgs, from_git: bool) -> anyhow::Result<CompareArgs> {
    let current = std::env::current_dir().context("cannot tell the current folder")?;
    let file = match &args.config {
        Some(file) => Some(current.join(file)),
        None if from_git => find(&current),
        None => None,
    };
    let Some(file) = file else { return Ok(args.clone()) };
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let config = ConfigFile::parse(&file.display().to_string(), &text)?;
    let mut filled = args.clone();
    let folder = file.parent().unwrap_or(Path::new("/"));
    let place = folder.to_str().context("the folder of the file has a name that is not text")?;
    let services = config.service.iter().map(|(name, service)| service.service(name, place));
    filled.services =
        services.collect::<Result<_, _>>().map_err(|reason| anyhow!("{}: {reason}", file.display()))?;
    filled.folder = Some(folder.to_owned());
    filled.build = filled.build.or(config.build);
    filled.run = filled.run.or(config.run);
    filled.ready = filled.ready.or(config.ready);
    // What the command line asks for stands in the place of all that the file asks for.
    if filled.path.is_none() && !filled.request.has_file() {
        match config.requests {
            Some(file) => filled.request.requests.push(CountOrFile::File(folder.join(file))),
            None => filled.path = config.path,
        }
    }
    filled.expect_status = filled.expect_status.or(config.expect_status);
    filled.port_env |= config.port_env;
    if filled.judged.fail_if.is_empty() {
        filled.judged.fail_if = config.fail_if;
    }
    Ok(filled)
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
