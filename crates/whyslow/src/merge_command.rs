//! `whyslow merge`: shards of one run → one report.

use load::Merged;
use model::record::{ShardDir, write_atomically};

use crate::cli::{Format, MergeArgs};
use crate::exit::{Outcome, Stop};
use crate::load_command;

pub(crate) fn run(args: &MergeArgs) -> Outcome {
    let bounds = load_command::bounds(&args.fail_if).map_err(Stop::usage)?;
    let mut shards = Vec::new();
    for folder in &args.runs {
        shards.extend(ShardDir::open(folder).read()?);
    }
    let merged = load::merge(shards).map_err(anyhow::Error::from)?;
    keep(args, &merged)?;
    let report = &merged.outcome.report;
    crate::print(&match args.format {
        Format::Text if args.details => report::load_details(report),
        Format::Text => report::load_text(report),
        Format::Json => report::load_json(report),
        Format::Md => report::load_markdown(report),
    })?;
    load_command::judge(&bounds, report)
}

/// Writes the files that were asked for.
fn keep(args: &MergeArgs, merged: &Merged) -> anyhow::Result<()> {
    let outcome = &merged.outcome;
    if let Some(folder) = &args.save {
        ShardDir::create(folder)?.write(&outcome.shard, &merged.log)?;
    }
    if let Some(file) = &args.hlog {
        write_atomically(file, load::shard_log(outcome, &[]).as_bytes())?;
    }
    load_command::keep_figures(&args.figures, outcome)
}
