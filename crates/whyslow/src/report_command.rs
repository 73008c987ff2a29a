//! `whyslow report`: run directories into one HTML file.

use std::path::Path;

use anyhow::{Context, anyhow};
use model::record::{Host, RecordError, RunDir};
use report::{PageData, PageRun, Place, Unreadable};

use crate::cli::ReportArgs;
use crate::exit::{Exit, Outcome};

pub(crate) fn run(args: &ReportArgs) -> Outcome {
    let data = read(&args.runs);
    let reasons: Vec<&str> = data.unreadable.iter().map(|run| run.error.as_str()).collect();
    let (missing, reasons) = (reasons.len(), reasons.join("; "));
    if data.runs.is_empty() && !data.unreadable.iter().any(has_remains) {
        let output = args.output.display();
        return Err(anyhow!("no run could be read, so that {output} is not written: {reasons}").into());
    }
    match (data.runs.len(), missing) {
        (_, 0) => {}
        (0, _) => crate::say(&format!("warning: no run could be read: {reasons}")),
        (read, _) => {
            let of = read + missing;
            crate::say(&format!("error: {missing} of {of} runs could not be read: {reasons}"));
        }
    }
    let page = report::page(&data, Place::File).html;
    model::record::write_atomically(&args.output, page.as_bytes()).context("give another file with -o")?;
    crate::say(&format!("{}: {} KiB", args.output.display(), page.len().div_ceil(1024)));
    Ok(if missing == 0 { Exit::Done } else { Exit::Failed })
}

/// Whether there is anything to show of a run that cannot be read.
fn has_remains(run: &Unreadable) -> bool {
    !run.facts.is_empty() || run.host.is_some() || !run.rounds.is_empty()
}

/// What a page of these run directories is made of.
pub(crate) fn read(paths: &[impl AsRef<Path>]) -> PageData {
    let here = observe::fingerprint();
    let (mut runs, mut unreadable) = (Vec::new(), Vec::new());
    for path in paths {
        let dir = RunDir::open(path.as_ref());
        match page_run(&dir, &here) {
            Ok(run) => runs.push(run),
            Err(error) => unreadable.push(what_is_known(&dir, &error)),
        }
    }
    PageData::new(runs, unreadable)
}

fn page_run(dir: &RunDir, here: &Host) -> Result<PageRun, RecordError> {
    let run = dir.read()?;
    let findings: Vec<_> = analyse::analyse_each_baseline(&run).into_iter().map(report::worded).collect();
    // The manifest keeps the command that made the run.
    let climbed = run.manifest.command.get(1).is_some_and(|command| command == "ladder");
    Ok(PageRun {
        profiles: findings.first().map(|own| analyse::stacks(&run, own)).unwrap_or_default(),
        ladder: climbed.then(|| analyse::ladder(&run)),
        findings,
        detail: analyse::detail(&run),
        elsewhere: if run.host.is_known() {
            analyse::machine_difference(&run.host, here)
        } else {
            Vec::new()
        },
        damaged: run.damaged,
    })
}

fn what_is_known(dir: &RunDir, error: &RecordError) -> Unreadable {
    let name = dir.path().file_name().unwrap_or(dir.path().as_os_str());
    let remains = dir.remains();
    Unreadable {
        name: name.to_string_lossy().into_owned(),
        error: error.to_string(),
        facts: dir.facts(),
        host: remains.host,
        rounds: analyse::unjudged(&remains.rounds),
    }
}
