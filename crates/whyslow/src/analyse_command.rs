//! `whyslow analyse`: findings again, from the run directory alone.

use std::path::Path;

use anyhow::anyhow;
use model::record::RunDir;

use crate::cli::{AnalyseArgs, JudgedArgs};
use crate::compare::judged::{self, Judged};
use crate::exit::{Exit, Outcome, Stop};

pub(crate) fn run(args: &AnalyseArgs) -> Outcome {
    let JudgedArgs { fail_if, against, comment, junit, .. } = &args.judged;
    let one_only = !fail_if.is_empty() || against.is_some() || comment.is_some() || junit.is_some();
    if args.runs.len() > 1 && one_only {
        return Err(Stop::usage(anyhow!(
            "--fail-if, --against, --comment and --junit judge a single run: name only one"
        )));
    }
    let mut exit = Exit::Done;
    for path in &args.runs {
        if let Some(missing) = crate::history::missing(path, Path::new(crate::compare::RUNS)) {
            return Err(missing.into());
        }
        let run = RunDir::open(path).read()?;
        let judged = Judged::new(&args.judged, &run.manifest.plan)?;
        let findings = judged.findings(&run);
        crate::print(&crate::compare::render(&findings, args.format, args.details))?;
        judged.say(&run, &findings);
        judged.keep(&findings)?;
        exit = judged::of_conditions(&findings).unwrap_or(exit);
    }
    Ok(exit)
}
