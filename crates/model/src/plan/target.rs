use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Arm, ArmSource, CauseId, PlanError, Service, ServiceFile};

/// How long a kind of program takes to become steady.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmupClass {
    /// Compiled ahead of time.
    #[default]
    Native,
    /// Compiled while it runs.
    Jit,
}

/// The answer that a server must give.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// HTTP status.
    #[serde(default = "ok")]
    pub status: u16,
    /// Exact body; any where absent.
    #[serde(default)]
    pub body: Option<String>,
    /// SHA-256 of the exact body in hexadecimal, for one that is no text; any where absent.
    #[serde(default)]
    pub body_sha256: Option<String>,
    /// Start of the `Content-Type` value; any where absent.
    #[serde(default)]
    pub content_type: Option<String>,
}

fn ok() -> u16 {
    200
}

impl Default for Expect {
    fn default() -> Self {
        Self { status: ok(), body: None, body_sha256: None, content_type: None }
    }
}

/// Something a target needs on the machine before it can be built: a command on the path or a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// A command that must be on the path.
    #[serde(default)]
    pub command: Option<String>,
    /// A file that must exist.
    #[serde(default)]
    pub file: Option<String>,
    /// The package that brings it.
    #[serde(default)]
    pub package: Option<String>,
    /// The one command that installs it.
    pub install: String,
}

/// A variant of a target: what differs from the plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name, after the `@`.
    pub name: String,
    /// One sentence.
    #[serde(default)]
    pub about: Option<String>,
    /// Replaces the build.
    #[serde(default)]
    pub build: Option<Vec<Vec<String>>>,
    /// Replaces the command.
    #[serde(default)]
    pub run: Option<Vec<String>>,
    /// Added to the command.
    #[serde(default)]
    pub args: Vec<String>,
    /// Replaces the path that is measured.
    #[serde(default)]
    pub path: Option<String>,
    /// Replaces the answer that it must give.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// Added to the environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Replaces the warm-up class.
    #[serde(default)]
    pub warmup: Option<WarmupClass>,
    /// Causes of slowness that it takes away, by the names that findings give them: `--confirm` tries it against them.
    #[serde(default)]
    pub removes: Vec<CauseId>,
    /// Of a rung of a ladder: the variant that has its change alone.
    #[serde(default)]
    pub alone: Option<String>,
}

/// A `target.toml`: a server that whyslow can build, start and recognise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetFile {
    /// Its name; the folder's name.
    pub name: String,
    /// Programming language, lower case.
    pub language: String,
    /// One sentence.
    pub about: String,
    /// The path that is measured.
    pub path: String,
    /// How long it needs to become steady.
    #[serde(default)]
    pub warmup: WarmupClass,
    /// What the machine must have.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// Commands that build it.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Command that starts it.
    pub run: Vec<String>,
    /// Why it cannot be built from the registries at hand, and how one would.
    #[serde(default)]
    pub recipe: Option<String>,
    /// Environment of build and run.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The answer it must give.
    #[serde(default)]
    pub expect: Expect,
    /// Variants that are the rungs of a ladder, each the one before it and one change more; all of them where none are named.
    #[serde(default)]
    pub ladder: Vec<String>,
    /// What it needs beside it, by name: `[service.db]` has `{db.port}` and `{db.dir}` for its command.
    #[serde(default, rename = "service")]
    pub services: BTreeMap<String, ServiceFile>,
    /// Its variants.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
}

impl TargetFile {
    /// Reads the text of a `target.toml`; `file` is its name in error messages.
    ///
    /// # Errors
    /// [`PlanError::TargetFile`] with the line that does not read.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let wrong = |reason: String| PlanError::TargetFile { file: file.to_owned(), reason };
        let target: Self =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        if target.run.is_empty() {
            return Err(wrong("'run' is empty: write the command that starts the server".to_owned()));
        }
        if let Some(unknown) = target.ladder.iter().find(|name| target.variant(name).is_err()) {
            return Err(wrong(format!("'ladder' names '{unknown}', which is no variant")));
        }
        let alone = target.variants.iter().filter_map(|variant| variant.alone.as_ref());
        if let Some(unknown) = alone.into_iter().find(|name| target.variant(name).is_err()) {
            return Err(wrong(format!("'alone' names '{unknown}', which is no variant")));
        }
        target.services("").map_err(wrong)?;
        Ok(target)
    }

    fn services(&self, dir: &str) -> Result<Vec<Service>, String> {
        self.services.iter().map(|(name, service)| service.service(name, dir)).collect()
    }

    /// The path on which the target, or one of its variants, is measured.
    ///
    /// # Errors
    /// [`PlanError::UnknownVariant`] with those there are.
    pub fn path(&self, variant: Option<&str>) -> Result<&str, PlanError> {
        let own =
            variant.map(|name| self.variant(name)).transpose()?.and_then(|variant| variant.path.as_deref());
        Ok(own.unwrap_or(&self.path))
    }

    /// The variant that has the change of rung `name` alone, where there is one.
    #[must_use]
    pub fn alone(&self, name: &str) -> Option<&str> {
        self.variant(name).ok()?.alone.as_deref()
    }

    /// The variants that a ladder climbs, in its order.
    #[must_use]
    pub fn rungs(&self) -> Vec<&str> {
        let all = || self.variants.iter().map(|variant| variant.name.as_str()).collect();
        if self.ladder.is_empty() { all() } else { self.ladder.iter().map(String::as_str).collect() }
    }

    /// The arm for this target, or for one of its variants, named `NAME` or `NAME@VARIANT`.
    ///
    /// # Errors
    /// [`PlanError::UnknownVariant`] with those there are; [`PlanError::TargetFile`] for a service that cannot be.
    pub fn arm(&self, variant: Option<&str>, dir: &str, build_root: &str) -> Result<Arm, PlanError> {
        let chosen = variant.map(|name| self.variant(name)).transpose()?;
        let wrong = |reason| PlanError::TargetFile { file: self.name.clone(), reason };
        let services = self.services(dir).map_err(wrong)?;
        let mut arm = Arm { services, ..self.plain_arm(dir, build_root) };
        if let Some(chosen) = chosen {
            arm.name = format!("{}@{}", self.name, chosen.name);
            arm.source = ArmSource::Target { name: self.name.clone(), variant: Some(chosen.name.clone()) };
            // A variant that shares the plain build shares its folder too, or it would be built twice.
            if let Some(build) = &chosen.build {
                arm.build.clone_from(build);
                arm.build_dir = Some(format!("{build_root}/{}/{}", self.name, chosen.name));
            }
            arm.run = chosen.run.clone().unwrap_or(arm.run);
            arm.run.extend(chosen.args.iter().cloned());
            arm.env.extend(chosen.env.clone());
            arm.warmup = chosen.warmup.unwrap_or(arm.warmup);
            arm.expect = chosen.expect.clone().unwrap_or(arm.expect);
        }
        Ok(arm)
    }

    fn plain_arm(&self, dir: &str, build_root: &str) -> Arm {
        Arm {
            name: self.name.clone(),
            source: ArmSource::Target { name: self.name.clone(), variant: None },
            build: self.build.clone(),
            run: self.run.clone(),
            env: self.env.clone(),
            dir: Some(dir.to_owned()),
            build_dir: Some(format!("{build_root}/{}/plain", self.name)),
            port_env: false,
            circumstances: crate::plan::Circumstances::default(),
            services: Vec::new(),
            warmup: self.warmup,
            expect: self.expect.clone(),
        }
    }

    fn variant(&self, name: &str) -> Result<&Variant, PlanError> {
        self.variants.iter().find(|variant| variant.name == name).ok_or_else(|| PlanError::UnknownVariant {
            target: self.name.clone(),
            variant: name.to_owned(),
            known: self.known_variants(),
        })
    }

    fn known_variants(&self) -> String {
        let names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}
