//! One recorded run against its truth.

use analyse::{Cause, Comparison, Findings, Grade, Metric, Verdict, analyse};
use anyhow::{Context, bail, ensure};
use model::plan::CauseId;
use model::record::Run;
use regex::{Regex, RegexBuilder};
use report::Worded;

use super::truth::Truth;
use crate::calibrate::matrix::Kind;

/// Causes that a reader sees at a glance.
const FIRST: usize = 3;
/// Titles of parts of a report in which a word proves nothing: what was ruled out, the commands, what watching did, and after them.
const SKIPPED: [&str; 6] = ["Ruled out", "Next:", "Gates", "Warnings", "Run", "Watching"];
/// Titles of parts that say something again.
const EXPLAINING: [&str; 9] = [
    "What limits",
    "Why",
    "Unattributed",
    "Verdicts",
    "Arms at",
    "Response at",
    "What a request",
    "Resources",
    "Where",
];
/// The leaves of a tree may miss its CPU time per request by so much of it.
const TREE: f64 = 0.01;
/// Share of a gap of which at most nothing was seen.
const UNATTRIBUTED: f64 = 0.1;
/// Shares and ratios that differ by less are the same.
const SAME: f64 = 1e-6;

/// What today's rules say of a pair.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) truth: Truth,
    /// CPU time per request and rate.
    pub(super) primary: Vec<Comparison>,
    /// The cause named first, with the share of the gap that it carries.
    pub(super) first: Option<(CauseId, Option<f64>)>,
    /// Place of the first right cause among those named, from 1.
    pub(super) place: Option<usize>,
    /// Where the report names the place.
    pub(super) located: Located,
    /// Share of the gap of which nothing was seen.
    pub(super) left: Option<f64>,
    /// Share in parts that are too small or unsure to be told, and the ends of its interval.
    pub(super) small: Option<(f64, [f64; 2])>,
    /// Sum of the tree's leaves over CPU time per request, of the arm for which that is further from 1.
    pub(super) tree: Option<f64>,
}

/// Where a report names the place of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Located {
    /// In the sentences about the first causes.
    WithCauses,
    /// Elsewhere in the report.
    InReport,
    Nowhere,
}

impl Judged {
    /// Whether the cause named first is right.
    pub(super) fn is_right(&self) -> bool {
        self.place == Some(1)
    }

    /// Whether one of the causes that a reader sees at a glance is.
    pub(super) fn is_among_first(&self) -> bool {
        self.place.is_some_and(|place| place <= FIRST)
    }

    /// What no rule may say of it, in a sentence: that the arm with the fault is faster, that nobody knows where much of the gap is, or
    /// parts that are not their whole.
    pub(super) fn fault(&self) -> Option<String> {
        let name = &self.truth.name;
        let says = |verdict: Verdict| self.primary.iter().any(|row| row.verdict == verdict);
        if says(Verdict::Faster) && !says(Verdict::Slower) {
            return Some(format!("{name}: the arm with the fault is said to be faster"));
        }
        if let Some(left) = self.left.filter(|left| left.abs() > UNATTRIBUTED) {
            return Some(format!("{name}: nothing was seen of {:.0} % of the gap", 100.0 * left));
        }
        let sum = self.tree.filter(|sum| (sum - 1.0).abs() > TREE)?;
        Some(format!("{name}: the leaves of the tree sum to {:.1} % of CPU time per request", 100.0 * sum))
    }

    /// The kind of cause that there was, and the kind that was named first; absent where the truth names none.
    pub(super) fn kinds(&self) -> Option<(Kind, Kind, u32)> {
        let named = self.first.map(|(id, _)| id).filter(|id| self.truth.right.contains(id));
        let there = named.as_ref().or_else(|| self.truth.right.first())?;
        let named = self.first.map_or("", |(id, _)| id.name());
        Some((Kind::of(there.name()), Kind::of(named), 1))
    }
}

/// What today's rules say of `run`.
pub(super) fn judge(truth: &Truth, run: &Run) -> anyhow::Result<Judged> {
    let findings = report::worded(analyse(run));
    let others = findings.arms.iter().map(|arm| arm.name.as_str()).filter(|name| *name != findings.baseline);
    let others: Vec<&str> = others.collect();
    let [arm] = others[..] else { bail!("a pair compares two arms, and this run has {}", others.len() + 1) };
    let named: Vec<&Cause> = named(&findings, arm).collect();
    let [cause, place] = [expression(&truth.cause_words)?, expression(&truth.where_words)?];
    Ok(Judged {
        truth: truth.clone(),
        primary: primary(&findings, arm).cloned().collect(),
        first: named.first().map(|cause| (cause.id, cause.share)),
        place: named.iter().position(|one| cause.is_match(&said_of(one))).map(|index| index + 1),
        located: located(&place, &named, &findings),
        left: findings.unattributed_share,
        small: findings
            .rests
            .iter()
            .find(|rest| rest.arm == arm)
            .map(|rest| (rest.small_share, rest.small_between)),
        tree: tree(&findings, arm),
    })
}

fn expression(words: &str) -> anyhow::Result<Regex> {
    let built = RegexBuilder::new(words).case_insensitive(true).build();
    built.with_context(|| format!("'{words}' is no regular expression"))
}

/// The causes that are not ruled out, in order.
fn named<'a>(findings: &'a Findings, arm: &'a str) -> impl Iterator<Item = &'a Cause> {
    findings.causes.iter().filter(move |cause| cause.arm == arm && cause.grade != Grade::RuledOut)
}

fn primary<'a>(findings: &'a Findings, arm: &'a str) -> impl Iterator<Item = &'a Comparison> {
    let decides = |row: &&Comparison| matches!(row.metric, Metric::CpuPerRequest | Metric::Rate);
    findings.comparisons.iter().filter(decides).filter(move |row| row.arm == arm)
}

fn said_of(cause: &Cause) -> String {
    format!("{} {}", cause.id.name(), cause.text)
}

fn located(place: &Regex, named: &[&Cause], findings: &Worded<Findings>) -> Located {
    if named.iter().take(FIRST).any(|cause| place.is_match(&said_of(cause))) {
        Located::WithCauses
    } else if place.is_match(&explaining(&report::findings_details(findings))) {
        Located::InReport
    } else {
        Located::Nowhere
    }
}

/// The report without [`SKIPPED`], as one line, so that it does not matter where its lines break.
fn explaining(report: &str) -> String {
    let mut skip = false;
    let mut words = Vec::new();
    for line in report.lines() {
        let is_one_of = |titles: &[&str]| titles.iter().any(|title| line.starts_with(title));
        skip = is_one_of(&SKIPPED) || skip && !is_one_of(&EXPLAINING);
        if !skip {
            words.extend(line.split_whitespace());
        }
    }
    words.join(" ")
}

fn tree(findings: &Findings, arm: &str) -> Option<f64> {
    let cpu = |name: &str| {
        let arm = findings.arms.iter().find(|one| one.name == name)?;
        Some(arm.cpu_ns_per_request?.total).filter(|total| *total > 0.0)
    };
    let rows = || findings.attribution.iter().filter(|row| row.arm == arm);
    rows().next()?;
    let base = rows().map(|row| row.baseline_ns).sum::<f64>() / cpu(&findings.baseline)?;
    let of_arm = rows().map(|row| row.arm_ns).sum::<f64>() / cpu(arm)?;
    Some(if (base - 1.0).abs() > (of_arm - 1.0).abs() { base } else { of_arm })
}

/// An error where the rules say something else of one run than of the other.
pub(super) fn says_the_same(one: &Run, other: &Run) -> anyhow::Result<()> {
    let [before, after] = [analyse(one), analyse(other)];
    let ratios = |findings: &Findings| -> Vec<(Metric, Verdict, Option<f64>)> {
        findings.comparisons.iter().map(|row| (row.metric, row.verdict, row.ratio)).collect()
    };
    let causes = |findings: &Findings| -> Vec<(CauseId, Grade, Option<f64>)> {
        findings.causes.iter().map(|cause| (cause.id, cause.grade, cause.share)).collect()
    };
    ensure!(
        alike(&ratios(&before), &ratios(&after)) && alike(&causes(&before), &causes(&after)),
        "without the paths of this machine the rules say something else of it"
    );
    Ok(())
}

fn alike<A: PartialEq, B: PartialEq>(these: &[(A, B, Option<f64>)], those: &[(A, B, Option<f64>)]) -> bool {
    let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= SAME * a.abs().max(1.0),
        (a, b) => a.is_none() && b.is_none(),
    };
    these.len() == those.len()
        && these.iter().zip(those).all(|(a, b)| a.0 == b.0 && a.1 == b.1 && near(a.2, b.2))
}

#[cfg(test)]
mod tests {
    use super::super::truth::{Role, Truths};
    use super::*;

    #[test]
    fn a_verdict_the_wrong_way_and_a_tree_that_does_not_add_up_are_faults() {
        let truth = "[[pair]]\nname = 'x'\nsoftware = 'x'\nversion = ''\nlanguage = ''\nsource = ''\nslowdown = ''\nbase = ''\narm = ''\n\
                     path = '/'\nflags = []\nright = []\ncause_words = ''\nwhere_words = ''\nrecorded = ''\ncpu_model = ''\ncpus = 1\n\
                     role = 'first-run'";
        let truth = toml::from_str::<Truths>(truth).unwrap().pair.remove(0);
        assert_eq!(truth.role, Role::FirstRun);
        let demo = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/fixtures/demo");
        let mut row = analyse(&model::record::RunDir::open(&demo).read().unwrap()).comparisons.remove(0);
        row.verdict = Verdict::Faster;
        let judged = |primary, tree| Judged {
            truth: truth.clone(),
            primary,
            first: None,
            place: None,
            located: Located::Nowhere,
            left: None,
            small: None,
            tree,
        };
        assert!(judged(vec![row.clone()], None).fault().is_some_and(|fault| fault.contains("faster")));
        assert!(judged(Vec::new(), Some(0.98)).fault().is_some_and(|fault| fault.contains("98.0 %")));
        row.verdict = Verdict::Inconclusive;
        assert_eq!(judged(vec![row], Some(1.001)).fault(), None);
        let unknown = Judged { left: Some(0.12), ..judged(Vec::new(), None) };
        assert!(unknown.fault().is_some_and(|fault| fault.contains("12 % of the gap")));
    }

    #[test]
    fn words_prove_nothing_where_they_were_ruled_out() {
        let report = "arm is slower\n(8 blocks)\n\nWhy\n  arm: writes that do not\n    go to the network\n\nRuled out\n  arm: handing over\n\n\
                      Unattributed: 2 %\n\nNext: take\n\n  whyslow 'arm=mutex'\n\nWhere the CPU time goes\n  f\n\nRun\n  mutex\n";
        let text = explaining(report);
        assert!(text.contains("writes that do not go to the network") && text.ends_with("goes f"), "{text}");
        assert!(!text.contains("handing") && !text.contains("mutex"), "{text}");
    }
}
