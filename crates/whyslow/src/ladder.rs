//! `whyslow ladder`: the variants of a target one after another, each against the one before it.

use std::collections::{BTreeMap, BTreeSet};

use analyse::Ladder;
use anyhow::bail;

use crate::catalogue::{BUILT_IN, Catalogue};
use crate::cli::{CompareArgs, Format, LadderArgs};
use crate::compare::contained::COMPOSE;
use crate::compare::{self, GIT};
use crate::config;
use crate::exit::{Outcome, Stop};

pub(crate) fn run(args: &LadderArgs) -> Outcome {
    let steps = steps(args).map_err(Stop::usage)?;
    let steps_alone =
        if args.each { alone(&args.target, &steps).map_err(Stop::usage)? } else { BTreeMap::new() };
    let arms = steps.into_iter().chain(steps_alone.values().cloned().collect::<BTreeSet<_>>()).collect();
    let design = CompareArgs { arms, steps_alone, ..args.design.clone() };
    let from_git = args.target.starts_with(GIT);
    let design = config::filled_unjudged(&design, from_git).map_err(Stop::usage)?;
    compare::run_with(&design, |run, _, format| render(&analyse::ladder(run), format))
}

/// The plain target, then the steps.
fn steps(args: &LadderArgs) -> anyhow::Result<Vec<String>> {
    if !args.design.arms.is_empty() || !args.design.commands.is_empty() {
        bail!("a ladder climbs the variants of one target: name them with --steps a,b,c");
    }
    let kinds = [GIT, "podman:", "docker:", COMPOSE];
    let of_kind = kinds.into_iter().find_map(|kind| Some((kind, args.target.strip_prefix(kind)?)));
    if let Some((kind, first)) = of_kind {
        return states(kind, first, args);
    }
    let all = || -> anyhow::Result<Vec<String>> {
        let files = Catalogue::find().files()?;
        let file = files.into_iter().find(|(_, file)| file.name == args.target);
        let Some((_, file)) = file else {
            if BUILT_IN.contains(&args.target.as_str()) {
                return Ok(Vec::new());
            }
            bail!("there is no target '{}': 'whyslow targets list' shows those that there are", args.target);
        };
        Ok(file.rungs().into_iter().map(str::to_owned).collect())
    };
    let names = if args.steps.is_empty() { all()? } else { args.steps.clone() };
    if names.is_empty() {
        bail!(
            "'{}' has no variants: a ladder needs a target that has some ('whyslow targets list' shows them)",
            args.target
        );
    }
    let steps = names.iter().map(|name| format!("{}@{name}", args.target));
    Ok(std::iter::once(args.target.clone()).chain(steps).collect())
}

/// Revisions, images or compose files, each as an arm of its own name.
fn states(kind: &str, first: &str, args: &LadderArgs) -> anyhow::Result<Vec<String>> {
    if args.each {
        bail!("--each is for variants of a target: '{kind}{first}' has no change of one step alone");
    }
    if args.steps.is_empty() {
        bail!(
            "a ladder needs its steps: write --steps B,C behind {kind}{first}, each as it would follow {kind}"
        );
    }
    let name = |step: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
        let name: String = step.chars().map(|c| if fits(c) { c } else { '-' }).collect();
        if step == "." { "worktree".to_owned() } else { name.trim_start_matches('.').to_owned() }
    };
    let all = std::iter::once(first).chain(args.steps.iter().map(String::as_str));
    Ok(all.map(|step| format!("{}={kind}{step}", name(step))).collect())
}

/// The arms that have the change of one step alone, by the step, as the target's file says. The first step is its own.
fn alone(target: &str, steps: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    let files = Catalogue::find().files()?;
    let file = files.into_iter().map(|(_, file)| file).find(|file| file.name == target);
    let of = |step: &String| {
        let alone = file.as_ref()?.alone(step.rsplit_once('@')?.1)?;
        Some((step.clone(), format!("{target}@{alone}"))).filter(|(_, arm)| !steps.contains(arm))
    };
    let found: BTreeMap<String, String> = steps.iter().skip(2).filter_map(of).collect();
    if found.is_empty() {
        bail!(
            "no variant of '{target}' has the change of one of these steps alone: its target.toml may name them (alone = \"NAME\")"
        );
    }
    Ok(found)
}

fn render(ladder: &Ladder, format: Format) -> String {
    match format {
        Format::Text => report::ladder_text(ladder),
        Format::Json => report::ladder_json(ladder),
        Format::Md => report::ladder_markdown(ladder),
    }
}
