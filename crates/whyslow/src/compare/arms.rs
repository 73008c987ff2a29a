//! What the command line names, as arms.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use model::plan::{Arm, ArmSource, Circumstances, Expect, PlanError, WarmupClass, split_command};

use crate::catalogue::{BUILT_IN, Catalogue};
use crate::cli::CompareArgs;
use crate::revision::{self, Recipe};

/// What begins an arm that is a state of a git repository.
const GIT: &str = "git:";

/// The arms in the order given, with the path of the first target that has one.
pub(super) fn arms(args: &CompareArgs) -> anyhow::Result<(Vec<Arm>, Option<String>)> {
    let catalogue = Catalogue::find();
    let expect = expect(args)?;
    let mut arms = Vec::new();
    let mut path = None;
    for words in &args.arms {
        let (arm, own_path) = match words.split_once('=') {
            Some((name, what)) => (named(name, what, args, &expect)?, None),
            None => catalogue.arm(words)?,
        };
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
    let recipe = args.build.is_some() || args.run.is_some();
    if recipe && !arms.iter().any(|arm| arm.source.revision().is_some()) {
        bail!("--build and --run are for arms from git: write NAME=git:REF, or put the command after NAME=");
    }
    Ok((arms, path))
}

/// The arm that `what` describes.
fn named(name: &str, what: &str, args: &CompareArgs, expect: &Expect) -> anyhow::Result<Arm> {
    match what.strip_prefix(GIT) {
        Some(asked) => revision::arm(&Recipe::of(args, name)?, asked, expect),
        None => command_arm(name, what, args.port_env, expect),
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
        warmup: WarmupClass::Native,
        expect: expect.clone(),
    })
}

fn expect(args: &CompareArgs) -> anyhow::Result<Expect> {
    let any = Expect { status: args.expect_status, ..Expect::default() };
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
