//! What the command line names, as arms.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use model::plan::{Arm, ArmSource, Circumstances, Expect, PlanError, WarmupClass, split_command};

use super::{contained, running};
use crate::catalogue::{BUILT_IN, Catalogue};
use crate::cli::CompareArgs;
use crate::revision::{self, Recipe};

/// What begins an arm that is a state of a git repository.
pub(crate) const GIT: &str = "git:";

/// The arms in the order given, with the path of the first target that has one.
pub(super) fn arms(args: &CompareArgs) -> anyhow::Result<(Vec<Arm>, Option<String>)> {
    let catalogue = Catalogue::find();
    let expect = expect(args)?;
    let mut arms = Vec::new();
    let mut path = None;
    for words in &args.arms {
        let (arm, own_path) = match words.split_once('=') {
            Some((name, what)) => named(name, what, args, &expect)?,
            None => catalogue.arm(words)?,
        };
        let differs = |first: &String| own_path.as_ref().is_some_and(|own| own != first);
        if arm.source.running().is_some() && args.path.is_none() && path.as_ref().is_some_and(differs) {
            bail!("the arms have different paths: all are asked for one, give it with --path");
        }
        path = path.or(own_path);
        arms.push(arm);
    }
    for words in &args.commands {
        let Some((name, command)) = words.split_once('=') else {
            bail!("--cmd '{words}' has no name: write --cmd NAME='COMMAND with {{port}}'");
        };
        arms.push(command_arm(name, command, args.port_env, &expect)?);
    }
    if arms.is_empty() {
        for model in BUILT_IN {
            arms.push(catalogue.arm(model)?.0);
        }
    }
    running::watch(&mut arms, args)?;
    let from_git = arms.iter().any(|arm| arm.source.revision().is_some());
    let of_image = arms.iter().any(|arm| arm.source.image().is_some());
    if args.build.is_some() && !from_git {
        bail!("--build is for arms from git: write NAME=git:REF, or put the command after NAME=");
    }
    if args.run.is_some() && !from_git && !of_image {
        bail!(
            "--run is for arms from git and from images: write NAME=git:REF or NAME=podman:IMAGE, or put the command after \
             NAME="
        );
    }
    Ok((arms, path))
}

/// Whether an arm's words name a state of a git repository.
pub(crate) fn is_from_git(words: &str) -> bool {
    words.split_once('=').is_some_and(|(_, what)| what.starts_with(GIT))
}

/// The arm that `what` describes, with the path that it names.
fn named(
    name: &str,
    what: &str,
    args: &CompareArgs,
    expect: &Expect,
) -> anyhow::Result<(Arm, Option<String>)> {
    if let Some(revision) = what.strip_prefix(GIT) {
        return Ok((revision::arm(&Recipe::from_args(args, name)?, revision, expect)?, None));
    }
    if what.split_whitespace().next().is_some_and(|word| word.contains("://")) {
        return running::arm(name, what, expect);
    }
    match contained::arm(name, what, (args.run.as_deref(), args.port_env), expect)? {
        Some(arm) => Ok((arm, None)),
        None => Ok((command_arm(name, what, args.port_env, expect)?, None)),
    }
}

/// An arm made of a command line.
pub(crate) fn command_arm(name: &str, command: &str, port_env: bool, expect: &Expect) -> anyhow::Result<Arm> {
    Ok(Arm {
        name: name.to_owned(),
        source: ArmSource::Command,
        build: Vec::new(),
        run: split_command(name, command)?,
        env: BTreeMap::new(),
        dir: None,
        build_dir: None,
        port_env,
        circumstances: Circumstances::default(),
        services: Vec::new(),
        warmup: WarmupClass::Native,
        expect: expect.clone(),
    })
}

fn expect(args: &CompareArgs) -> anyhow::Result<Expect> {
    let default = Expect::default();
    let any = Expect { status: args.expect_status.unwrap_or(default.status), ..default };
    let Some(file) = &args.expect_body else { return Ok(any) };
    let bytes =
        std::fs::read(file).with_context(|| format!("cannot read --expect-body {}", file.display()))?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => Expect { body: Some(text), ..any },
        Err(binary) => Expect { body_sha256: Some(launch::sha256(binary.as_bytes())), ..any },
    })
}

/// The place of the baseline among `arms`.
pub(super) fn baseline(args: &CompareArgs, arms: &[Arm]) -> anyhow::Result<usize> {
    let Some(name) = &args.baseline else { return Ok(0) };
    let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let unknown = || PlanError::UnknownBaseline(name.clone(), names.join(", "));
    Ok(names.iter().position(|other| other == name).ok_or_else(unknown)?)
}
