//! What is said of a cause: what came of testing it, what was seen, and how much that makes.

use analyse::{Carries, CauseSays, GapFunction, Grade, TestOutcome, Tested};
use model::plan::CauseId;
use model::units::{format_ns, percent};

use super::{joined, seen};

/// A cause.
pub(super) fn sentence(says: &CauseSays) -> String {
    let tests: String = says.tests.iter().map(|test| tested(test) + "; ").collect();
    let of = says.of.as_ref().map_or_else(String::new, |of| format!("in {of}, "));
    let seen = joined(&says.seen, seen::words, "; ");
    let colon = if says.seen.is_empty() { "" } else { ": " };
    format!("{tests}{of}{seen}{colon}{}", carries(&says.carries))
}

/// Under which function most of a gap is.
pub(super) fn under(found: &GapFunction) -> String {
    let GapFunction { slower, function, package, delta_ns, delta_se_ns, share, grown_ns, .. } = found;
    let file = found.file.as_ref().map_or_else(String::new, |file| format!(", {}", end_of(file)));
    let (ns, error) = (format_ns(delta_ns.abs()), format_ns(*delta_se_ns));
    let part = format!("{ns} a request ({} of the gap, standard error {error})", percent(*share));
    let seen = match grown_ns {
        None => format!("which was seen only in {slower}"),
        Some([baseline, arm]) => {
            format!("{} in the baseline and {} in the arm", format_ns(*baseline), format_ns(*arm))
        }
    };
    format!("{part} is under {function} ({package}{file}), {seen}")
}

/// The end of a path: enough of it to find the file by, and nothing of whose machine it is.
fn end_of(path: &str) -> &str {
    const PARTS: usize = 3;
    path.rmatch_indices('/').nth(PARTS - 1).map_or(path, |(at, _)| &path[at + 1..])
}

fn tested(test: &Tested) -> String {
    let [before, after] = test.gap_ns.map(format_ns);
    let [low, high] = test.fell_ns.map(format_ns);
    let figures = format!(
        "with {} the gap goes from {before} to {after} (a fall of {low} to {high}, {:.0} % interval, n = {} blocks)",
        test.with,
        test.level * 100.0,
        test.blocks
    );
    match test.outcome {
        TestOutcome::Confirmed => format!("confirmed: {figures}"),
        TestOutcome::NotAlone => format!("{figures}, which takes other suspects away with it"),
        TestOutcome::RuledOut => format!("ruled out: {figures}"),
        TestOutcome::NotConfirmed => format!("not confirmed: {figures}"),
    }
}

fn carries(carries: &Carries) -> String {
    match *carries {
        Carries::Split { part, share, between, ns: [arm, baseline] } => {
            let between = between.map_or_else(String::new, |[low, high]| {
                format!(" [{:.0}, {:.0}]", low * 100.0, high * 100.0)
            });
            format!(
                "time in {} accounts for {}{between} of the gap in CPU time: {} a request against {}",
                side(part),
                percent(share),
                format_ns(arm),
                format_ns(baseline)
            )
        }
        Carries::Rest { part, share } => format!(
            "time in {} of which nothing more is known accounts for {} of the gap in CPU time",
            side(part),
            percent(share)
        ),
        Carries::AtMost(share) => format!("can carry at most {} of the gap", percent(share)),
        Carries::Against(ns) => format!("makes the gap {} smaller", format_ns(ns)),
        Carries::Part { grade, ns, share } => {
            format!("{} {} of the gap ({})", can(grade), percent(share), format_ns(ns))
        }
        Carries::MoreThanGap { grade, ns, gap_ns } => format!(
            "{} {}, more than the gap of {}, which other parts make smaller",
            can(grade),
            format_ns(ns),
            format_ns(gap_ns)
        ),
        Carries::Unshown(ns) => {
            format!("{} a request, which neither its rate nor its CPU time shows", format_ns(ns))
        }
    }
}

fn side(part: CauseId) -> &'static str {
    if part == CauseId::UserTime { "its own code" } else { "the kernel" }
}

fn can(grade: Grade) -> &'static str {
    match grade {
        Grade::ConsistentWith => "consistent with",
        Grade::AccountsFor => "accounts for",
        _ => "can carry",
    }
}
