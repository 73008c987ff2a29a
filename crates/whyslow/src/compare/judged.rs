//! What is made of findings beside the page: conditions of `--fail-if`, the comment, the JUnit file, the exit code.

use std::path::Path;

use analyse::{FailIf, FailIfOutcome, Findings, Stored, Verdict};
use anyhow::{Context, anyhow, ensure};
use model::plan::Plan;
use model::record::{RecordError, Run, RunDir, can_write, write_atomically};
use report::Worded;

use crate::cli::JudgedArgs;
use crate::exit::{Exit, Stop};

/// The conditions, and where the files can be written: checked before anything is started.
pub(crate) struct Judged<'a> {
    args: &'a JudgedArgs,
    conditions: Vec<FailIf>,
    stored: Option<Stored>,
}

impl<'a> Judged<'a> {
    /// What `args` ask of runs of `plan`. A file that cannot be written is no fault of the command line.
    pub(crate) fn new(args: &'a JudgedArgs, plan: &Plan) -> Result<Self, Stop> {
        let conditions = args.fail_if.iter().map(|text| FailIf::parse(text, plan));
        let conditions: Vec<FailIf> = conditions.collect::<Result<_, _>>().map_err(Stop::usage)?;
        let against = args.against.as_deref().map(|folder| stored(folder, plan, &conditions));
        let stored = against.transpose().map_err(Stop::usage)?;
        for (flag, file) in [("--comment", &args.comment), ("--junit", &args.junit)] {
            file.as_deref().map_or(Ok(()), |file| writable(flag, file))?;
        }
        Ok(Self { args, conditions, stored })
    }

    /// The findings on `run` with what came of the conditions.
    pub(crate) fn findings(&self, run: &Run) -> Worded<Findings> {
        report::worded(analyse::analyse(run).judged(run, &self.conditions, self.stored.as_ref()))
    }

    /// Writes the files: once the findings are printed, which nothing is to take away.
    pub(crate) fn keep(&self, findings: &Worded<Findings>) -> anyhow::Result<()> {
        if let Some(file) = &self.args.comment {
            write_atomically(file, report::findings_comment(findings).as_bytes())
                .context("--comment is not written")?;
        }
        if let Some(file) = &self.args.junit {
            write_atomically(file, report::findings_junit(findings).as_bytes())
                .context("--junit is not written")?;
        }
        Ok(())
    }
}

/// The run of earlier in `folder`.
fn stored(folder: &Path, plan: &Plan, conditions: &[FailIf]) -> anyhow::Result<Stored> {
    let run = RunDir::open(folder).read().context("--against")?;
    Ok(Stored::new(&folder.display().to_string(), &run, plan, conditions)?)
}

/// Whether `file` can be written: checked before anything is measured.
fn writable(flag: &str, file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{flag} {}: there is no folder {}", file.display(), folder.display());
    ensure!(!file.is_dir(), "{flag} {}: that is a folder; name a file", file.display());
    can_write(file).map_err(|error| match error {
        RecordError::Write { source, .. } => {
            anyhow!("{flag} {}: it cannot be written ({source}): name another file", file.display())
        }
        other => other.into(),
    })
}

/// Says what came of each condition.
pub(crate) fn say(findings: &Findings) {
    for one in &findings.fail_if {
        let came = match one.outcome {
            FailIfOutcome::Holds => "holds",
            FailIfOutcome::DoesNotHold => "does not hold",
            FailIfOutcome::Undecided => "is not decided",
            _ => "cannot be judged",
        };
        crate::say(&format!("--fail-if '{}' {came}: {}", one.condition, one.text));
    }
}

/// The exit code of findings.
pub(crate) fn exit(findings: &Findings) -> Exit {
    if findings.arms.iter().any(|arm| arm.error.is_some()) || findings.partial.is_some() {
        return Exit::Failed;
    }
    of_conditions(findings).unwrap_or_else(|| of_verdicts(findings))
}

/// What the conditions make of it: one that holds, else one that was not measured, else one that is void or open.
pub(crate) fn of_conditions(findings: &Findings) -> Option<Exit> {
    let codes = [
        (FailIfOutcome::Holds, Exit::ConditionHolds),
        (FailIfOutcome::NotMeasured, Exit::Failed),
        (FailIfOutcome::Void, Exit::Invalid),
        (FailIfOutcome::Undecided, Exit::Inconclusive),
    ];
    let came = |outcome: FailIfOutcome| findings.fail_if.iter().any(|one| one.outcome == outcome);
    codes.into_iter().find(|(outcome, _)| came(*outcome)).map(|(_, exit)| exit)
}

/// An arm has its verdict when one primary metric decided; the exit code is that of the arm that has least.
fn of_verdicts(findings: &Findings) -> Exit {
    let primary = || findings.comparisons.iter().filter(|row| row.primary);
    let mut arms: Vec<&str> = primary().map(|row| row.arm.as_str()).collect();
    arms.dedup();
    let least = arms.into_iter().map(|arm| {
        let rows = || primary().filter(|row| row.arm == arm);
        match () {
            () if rows().any(|row| row.verdict.is_decided()) => Exit::Done,
            () if rows().any(|row| row.verdict == Verdict::Inconclusive) => Exit::Inconclusive,
            () => Exit::Invalid,
        }
    });
    least.max().unwrap_or(Exit::Invalid)
}
