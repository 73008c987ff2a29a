//! `whyslow ladder`: the variants of a target one after another, each against the one before it.

use analyse::Ladder;
use anyhow::bail;

use crate::catalogue::Catalogue;
use crate::cli::{CompareArgs, Format, LadderArgs};
use crate::compare;
use crate::exit::{Outcome, Stop};

pub(crate) fn run(args: &LadderArgs) -> Outcome {
    let steps = steps(args).map_err(Stop::usage)?;
    // Causes of a rung are for `compare` to find: a ladder measures many small steps.
    let design = CompareArgs { arms: steps, no_why: true, ..args.design.clone() };
    compare::run_with(&design, |run, format| render(&analyse::ladder(run), format))
}

/// The plain target, then the steps.
fn steps(args: &LadderArgs) -> anyhow::Result<Vec<String>> {
    if !args.design.arms.is_empty() || !args.design.commands.is_empty() {
        bail!("a ladder has one target: write its variants as --steps a,b,c");
    }
    let all = || -> anyhow::Result<Vec<String>> {
        let files = Catalogue::find().files()?;
        let file = files.into_iter().find(|(_, file)| file.name == args.target);
        Ok(file.map(|(_, file)| file.rungs().into_iter().map(str::to_owned).collect()).unwrap_or_default())
    };
    let names = if args.steps.is_empty() { all()? } else { args.steps.clone() };
    if names.is_empty() {
        bail!("'{}' has no variants to climb: a ladder needs a target with variants", args.target);
    }
    let steps = names.iter().map(|name| format!("{}@{name}", args.target));
    Ok(std::iter::once(args.target.clone()).chain(steps).collect())
}

fn render(ladder: &Ladder, format: Format) -> String {
    match format {
        Format::Text => report::ladder_text(ladder),
        Format::Json => report::ladder_json(ladder),
        Format::Md => report::ladder_markdown(ladder),
    }
}
