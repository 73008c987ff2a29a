//! The servers that can be named on a command line: the built-in models and the folders under `targets/`.

use std::path::{Path, PathBuf};

use crate::folder;
use anyhow::{Context, bail};
use model::plan::{Arm, ArmSource, Expect, TargetFile, WarmupClass};

/// Folder of targets.
const FOLDER: &str = "targets";
/// Names the folder where it is elsewhere.
const FOLDER_VARIABLE: &str = "WHYSLOW_TARGETS";
/// Folder for what builds make, below the targets' own.
const BUILDS: &str = ".build";

/// The built-in models, in the order in which a comparison without targets takes them.
pub(crate) const BUILT_IN: [&str; 3] = ["threads", "futures", "coroutines"];

/// Where targets are found.
pub(crate) struct Catalogue {
    folder: Option<PathBuf>,
}

impl Catalogue {
    pub(crate) fn find() -> Self {
        Self { folder: folder::find(FOLDER, FOLDER_VARIABLE, has_targets) }
    }

    /// All target files, sorted by name; one that does not read is an error with its name.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<(PathBuf, TargetFile)>> {
        let Some(folder) = &self.folder else { return Ok(Vec::new()) };
        let entries =
            std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut files = Vec::new();
        for entry in entries {
            let dir = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
            if dir.join("target.toml").exists() {
                files.push((dir.clone(), read(&dir)?));
            }
        }
        files.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        Ok(files)
    }

    /// The arm that `words` (`NAME` or `NAME@VARIANT`) names, with the path it is measured on.
    pub(crate) fn arm(&self, words: &str) -> anyhow::Result<(Arm, Option<String>)> {
        let (name, variant) =
            words.split_once('@').map_or((words, None), |(name, variant)| (name, Some(variant)));
        if variant.is_none() && BUILT_IN.contains(&name) {
            return Ok((built_in(name)?, None));
        }
        let Some(dir) =
            self.folder.as_ref().map(|folder| folder.join(name)).filter(|dir| is_target(name, dir))
        else {
            bail!(
                "there is no target '{name}': choose one of {}, or write NAME='COMMAND with {{port}}'",
                self.names()
            );
        };
        let folder = self.folder.as_ref().expect("a target was found in it");
        let builds = folder.join(BUILDS);
        let target = read(&dir)?;
        let arm = target.arm(variant, &text(&dir)?, &text(&builds)?)?;
        Ok((arm, Some(target.path(variant)?.to_owned())))
    }

    fn names(&self) -> String {
        let mut names: Vec<String> = BUILT_IN.iter().map(|name| (*name).to_owned()).collect();
        names.extend(self.files().unwrap_or_default().into_iter().map(|(_, target)| target.name));
        names.join(", ")
    }
}

fn has_targets(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .is_ok_and(|entries| entries.flatten().any(|entry| entry.path().join("target.toml").exists()))
}

/// A name that walks out of the folder is no target.
fn is_target(name: &str, dir: &Path) -> bool {
    !name.is_empty()
        && !name.contains(['/', '\\'])
        && !name.starts_with('.')
        && dir.join("target.toml").exists()
}

fn read(dir: &Path) -> anyhow::Result<TargetFile> {
    let file = dir.join("target.toml");
    let content =
        std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(TargetFile::parse(&file.display().to_string(), &content)?)
}

fn text(path: &Path) -> anyhow::Result<String> {
    let absolute = std::path::absolute(path).with_context(|| format!("cannot resolve {}", path.display()))?;
    absolute.into_os_string().into_string().ok().context("the targets' folder has a name that is not text")
}

fn built_in(model: &str) -> anyhow::Result<Arm> {
    let exe = crate::folder::own_program()?;
    let words = [&text(&exe)?, "serve", "--model", model, "--port", "{port}", "--workers", "{workers}"];
    Ok(Arm {
        name: model.to_owned(),
        source: ArmSource::BuiltIn { model: model.to_owned() },
        build: Vec::new(),
        run: words.map(str::to_owned).to_vec(),
        env: std::collections::BTreeMap::new(),
        dir: None,
        build_dir: None,
        port_env: false,
        circumstances: model::plan::Circumstances::default(),
        services: Vec::new(),
        warmup: WarmupClass::Native,
        expect: Expect { body: Some("Hello, World!".to_owned()), ..Expect::default() },
    })
}
