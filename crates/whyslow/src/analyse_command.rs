//! `whyslow analyse`: findings again, from the run directory alone.

use model::record::RunDir;

use crate::cli::AnalyseArgs;
use crate::exit::{Exit, Outcome};

pub(crate) fn run(args: &AnalyseArgs) -> Outcome {
    for path in &args.runs {
        let findings = analyse::analyse(&RunDir::open(path).read()?);
        crate::print(&crate::compare::render(&findings, args.format, args.details))?;
    }
    Ok(Exit::Done)
}
