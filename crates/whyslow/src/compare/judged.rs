//! What is made of findings beside the page: conditions of `--fail-if`, the comment, the JUnit file, the exit code.

use std::path::Path;

use analyse::{FailIf, FailIfOutcome, Findings, Stored, Verdict};
use anyhow::{Context, anyhow, ensure};
use model::plan::Plan;
use model::record::{Fitted, RecordError, Run, RunDir, can_write, write_atomically};
use report::Worded;

use super::server::Bench;
use crate::cli::JudgedArgs;
use crate::config::FILE;
use crate::exit::{Exit, Stop};

/// The conditions, and where the files can be written: checked before anything is started.
pub(crate) struct Judged<'a> {
    args: &'a JudgedArgs,
    conditions: Vec<FailIf>,
    stored: Option<Stored>,
    /// The kernel of that run's machine.
    stored_kernel: Option<String>,
}

impl<'a> Judged<'a> {
    /// What `args` ask of runs of `plan`. A file that cannot be written is no fault of the command line.
    pub(crate) fn new(args: &'a JudgedArgs, plan: &Plan) -> Result<Self, Stop> {
        let conditions = conditions(args, plan).map_err(Stop::usage)?;
        let against = args.against.as_deref().map(|folder| stored(folder, plan, &conditions));
        let (stored, stored_kernel) = against.transpose().map_err(Stop::usage)?.unzip();
        for (flag, file) in [("--comment", &args.comment), ("--junit", &args.junit)] {
            file.as_deref().map_or(Ok(()), |file| writable(flag, file))?;
        }
        Ok(Self { args, conditions, stored, stored_kernel })
    }

    /// The conditions.
    pub(super) fn conditions(&self) -> &[FailIf] {
        &self.conditions
    }

    /// Says what came of each condition, and that a run of earlier was of another kernel than `run`, which may count otherwise.
    pub(crate) fn say(&self, run: &Run, findings: &Findings) {
        say(findings);
        if let Some((there, against)) = self.stored_kernel.as_ref().zip(self.args.against.as_ref())
            && *there != run.host.kernel
        {
            crate::say(&format!(
                "--against {}: that run was on kernel {there}, this one on {}: counts may differ for that reason",
                against.display(),
                run.host.kernel
            ));
        }
    }

    /// The findings on `run` with what came of the conditions.
    pub(crate) fn findings(&self, run: &Run) -> Worded<Findings> {
        report::worded(analyse::analyse(run).judged(run, &self.conditions, self.stored.as_ref()))
    }

    /// Writes the files: once the findings are printed, which nothing is to take away.
    pub(crate) fn keep(&self, findings: &Worded<Findings>) -> anyhow::Result<()> {
        if let Some(file) = &self.args.comment {
            write_atomically(
                file,
                report::findings_comment(findings, self.args.comment_link.as_deref()).as_bytes(),
            )
            .context("--comment is not written")?;
        }
        if let Some(file) = &self.args.junit {
            write_atomically(file, report::findings_junit(findings).as_bytes())
                .context("--junit is not written")?;
        }
        Ok(())
    }
}

/// The conditions of the command line, and those of the file that are on arms of this comparison: there may be others, as one in CI,
/// that call them otherwise. A comparison to which none of the file applies, and that has no other, is refused.
fn conditions(args: &JudgedArgs, plan: &Plan) -> anyhow::Result<Vec<FailIf>> {
    let parse = |text: &String| FailIf::parse(text, plan);
    let mut all = args.fail_if.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let is_here = |text: &String| {
        let arm = text.split_whitespace().next();
        plan.arms.iter().any(|one| arm == Some(one.name.as_str()))
    };
    let of_file = args.fail_if_of_file.iter().filter(|text| !args.fail_if.contains(text));
    let (here, elsewhere): (Vec<&String>, Vec<&String>) = of_file.partition(|text| is_here(text));
    let is_judged = !all.is_empty() || !here.is_empty();
    for text in if is_judged { &here } else { &elsewhere } {
        let condition = parse(text);
        all.push(condition.with_context(|| format!("fail_if in {FILE} does not fit this comparison"))?);
    }
    for text in elsewhere.iter().filter(|_| is_judged) {
        crate::say(&format!(
            "fail_if in {FILE}: '{text}' names an arm that is not compared here, and is not judged"
        ));
    }
    Ok(all)
}

/// The run of earlier in `folder`, and the kernel of its machine.
fn stored(folder: &Path, plan: &Plan, conditions: &[FailIf]) -> anyhow::Result<(Stored, String)> {
    let run = RunDir::open(folder).read().context("--against")?;
    let kernel = run.host.kernel.clone();
    Ok((Stored::new(&folder.display().to_string(), &run, plan, conditions)?, kernel))
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

/// Says which conditions will have too few answers, once the pilot has told how fast the arms are. The run goes on: its verdict and
/// its causes are worth having, and other conditions are judged.
pub(super) fn say_foreseen(bench: &Bench, fitted: &Fitted, pilot_per_s: &[f64]) {
    for found in analyse::foreseen(bench.conditions, bench.plan, fitted, pilot_per_s) {
        crate::say(&report::too_few_answers(&found));
    }
}

/// Says what came of each condition.
fn say(findings: &Findings) {
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
