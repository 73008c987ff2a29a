//! The commit that made a server slower: what a step says of a commit, and what all of them come to.

mod search;

use std::collections::BTreeSet;

use model::plan::HistoryAnswer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::verdict::HigherIs;

use crate::facts::metric::Metric;
use crate::verdicts::{Comparison, Verdict};
pub use search::{BisectAsk, BisectNext, BisectPair, BisectPurpose, BisectTold, Bisection};

/// Version of the JSON.
pub const BISECT_SCHEMA: u32 = 1;
/// Least level at which an interval decides: five blocks attain 93.75 %, six 96.9 %.
const LEVEL: f64 = 0.95;
/// How much of an interval tells a side after the last look: some 0.6 standard errors to either side of the ratio. A commit costs all or
/// nothing of the difference, so that its estimate is several standard errors from halfway. If a side is wrong all the same, the search ends
/// at a commit that is no slower than its parent, and none is named.
const INNER: f64 = 0.25;

/// Halfway between the good end and the bad one: a commit beyond it is as slow as the bad end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Halfway {
    /// What is compared.
    metric: Metric,
    /// ln of how many times slower than the good end, positive.
    ln: f64,
}

impl Halfway {
    /// Returns the point halfway to the bad end, where `row` compares the bad end with the good one; nothing if the bad end
    /// was not shown to be slower.
    #[must_use]
    pub fn to(row: &Comparison) -> Option<Self> {
        let ln = slower_ln(row.metric, row.ratio?) / 2.0;
        (row.verdict == Verdict::Slower && ln > 0.0).then_some(Self { metric: row.metric, ln })
    }

    /// Says whether a commit is as slow as the bad end or as fast as the good one, where `row` compares it with the good end.
    /// The whole interval must lie on one side; otherwise the answer is open.
    #[must_use]
    pub fn side(&self, row: &Comparison) -> HistoryAnswer {
        self.side_of(row, 1.0)
    }

    /// Says the same if nothing more will be measured: the inner part of the interval decides.
    #[must_use]
    pub fn likely_side(&self, row: &Comparison) -> HistoryAnswer {
        self.side_of(row, INNER)
    }

    /// The side on which the interval lies if it is made narrower around the ratio, to `part` of its length.
    fn side_of(&self, row: &Comparison, part: f64) -> HistoryAnswer {
        let decided = row.verdict != Verdict::Invalid && row.level.is_some_and(|level| level >= LEVEL);
        let ends = row.ci_low.zip(row.ci_high).filter(|_| decided);
        let Some(((low, high), ratio)) = ends.zip(row.ratio) else { return HistoryAnswer::Open };
        let [low, middle, high] = [low, ratio, high].map(|ratio| slower_ln(self.metric, ratio));
        match [low, high].map(|end| middle + part * (end - middle)) {
            ends if ends.iter().all(|ln| *ln > self.ln) => HistoryAnswer::Bad,
            ends if ends.iter().all(|ln| *ln < self.ln) => HistoryAnswer::Good,
            _ => HistoryAnswer::Open,
        }
    }
}

/// ln of how many times slower the arm is than the baseline, by the ratio of a metric.
fn slower_ln(metric: Metric, ratio: f64) -> f64 {
    match metric.higher_is() {
        HigherIs::Worse => ratio.ln(),
        HigherIs::Better => -ratio.ln(),
    }
}

/// What a step found out about a commit, as it is stored. Of a commit that is compared with another one than the good end, it is said in
/// relation to that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepAnswer {
    /// As fast as the good end.
    Good,
    /// As slow as the bad end.
    Bad,
    /// It could not be built or started.
    Broken,
    /// Neither could be shown.
    Open,
}

impl From<HistoryAnswer> for StepAnswer {
    fn from(answer: HistoryAnswer) -> Self {
        match answer {
            HistoryAnswer::Good => Self::Good,
            HistoryAnswer::Bad => Self::Bad,
            HistoryAnswer::Broken => Self::Broken,
            HistoryAnswer::Open => Self::Open,
        }
    }
}

impl From<StepAnswer> for HistoryAnswer {
    fn from(answer: StepAnswer) -> Self {
        match answer {
            StepAnswer::Good => Self::Good,
            StepAnswer::Bad => Self::Bad,
            StepAnswer::Broken => Self::Broken,
            StepAnswer::Open => Self::Open,
        }
    }
}

/// One commit that was compared with another on the way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BisectStep {
    /// Number of the comparison, from 1: commits with the same number were measured side by side.
    pub comparison: u32,
    /// The commit.
    pub commit: String,
    /// What it was compared with.
    pub against: String,
    /// The outcome.
    pub answer: StepAnswer,
    /// The commit's figure over that of the commit it was compared with; absent if nothing was measured.
    pub ratio: Option<f64>,
    /// Low end of its interval.
    pub ci_low: Option<f64>,
    /// High end.
    pub ci_high: Option<f64>,
    /// Level of the interval, 0 to 1.
    pub level: Option<f64>,
    /// Blocks behind it.
    pub blocks: u32,
    /// Why there is no answer, if there is none.
    pub reason: Option<String>,
}

impl BisectStep {
    /// Makes a step of the comparison with this number, about the first commit and what it was compared with. `row` is the reason
    /// if nothing was measured. The caller, which knows what was asked, gives the `answer`.
    #[must_use]
    pub fn new(
        comparison: u32,
        [commit, against]: [&str; 2],
        row: Result<&Comparison, String>,
        answer: HistoryAnswer,
    ) -> Self {
        let (row, reason) = match row {
            Ok(row) => (Some(row), row.void_by.first().map(|gate| format!("gate {gate} failed"))),
            Err(reason) => (None, Some(reason)),
        };
        Self {
            comparison,
            commit: commit.to_owned(),
            against: against.to_owned(),
            answer: answer.into(),
            ratio: row.and_then(|row| row.ratio),
            ci_low: row.and_then(|row| row.ci_low),
            ci_high: row.and_then(|row| row.ci_high),
            level: row.and_then(|row| row.level),
            blocks: row.map_or(0, |row| row.blocks),
            reason,
        }
    }

    /// Returns how many comparisons `steps` are of, without those in which nothing was measured.
    #[must_use]
    pub fn comparisons(steps: &[Self]) -> u32 {
        let measured = steps.iter().filter(|step| step.answer != StepAnswer::Broken);
        measured.map(|step| step.comparison).collect::<BTreeSet<u32>>().len() as u32
    }
}

/// A commit as git describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedCommit {
    /// Its full name.
    pub hash: String,
    /// First line of its message.
    pub subject: String,
    /// Its first parent.
    pub parent: String,
    /// Files that it changes.
    pub files: Vec<String>,
}

/// The outcome of a search through a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bisected {
    /// Schema version.
    pub schema: u32,
    /// The good end.
    pub good: String,
    /// The bad end.
    pub bad: String,
    /// What was compared.
    pub metric: Metric,
    /// Number of commits after the good end, up to and including the bad one.
    pub commits: u32,
    /// Every commit that was compared or skipped, in order: the first compares the two ends, the last the commit that was found
    /// with its parent, or the ends of `between`. The first comparison and the last one can hold two commits, each a step with
    /// the same `comparison`.
    pub steps: Vec<BisectStep>,
    /// Comparisons that were made: at most as many as there are steps.
    pub comparisons: u32,
    /// Comparisons that a search of so many commits takes at most if every commit builds and each of them decides.
    pub most_steps: u32,
    /// The commit; absent if none could be singled out.
    pub commit: Option<NamedCommit>,
    /// Why it is slower than its parent, or the end of `between` than its beginning, if causes were looked for and found.
    pub why: Vec<String>,
    /// Why no commit could be singled out.
    pub cannot_tell: Option<String>,
    /// If a commit could not be singled out for want of comparisons that decide: the last good commit before those that remain, and the
    /// first bad one, which is the last of them.
    #[serde(default)]
    pub between: Option<[String; 2]>,
    /// The commits that remain if none could be singled out.
    pub among: Vec<NamedCommit>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_side_by_side_are_one_comparison_and_what_was_not_measured_is_none() {
        let step = |number, answer| {
            let row = row(Metric::Rate, Verdict::Equal, [1.0, 0.99, 1.01]);
            let measured = if answer == HistoryAnswer::Broken { Err("no".to_owned()) } else { Ok(&row) };
            BisectStep::new(number, ["a", "b"], measured, answer)
        };
        use HistoryAnswer::{Bad, Broken, Good, Open};
        let steps = [(1, Bad), (1, Good), (2, Broken), (3, Open), (4, Good), (4, Bad)];
        assert_eq!(BisectStep::comparisons(&steps.map(|(number, answer)| step(number, answer))), 3);
        let broken = step(2, Broken);
        assert_eq!((broken.reason.as_deref(), broken.blocks, broken.ratio), (Some("no"), 0, None));
    }

    pub(super) fn row(metric: Metric, verdict: Verdict, [ratio, low, high]: [f64; 3]) -> Comparison {
        let json = serde_json::json!({
            "baseline": "good", "arm": "here", "metric": metric, "primary": true, "condition": "capacity",
            "verdict": verdict, "ratio": ratio, "ci_low": low, "ci_high": high, "level": 0.97, "p_wilcoxon": null,
            "p_sign_flip": null, "blocks": 6, "paired_sd": null, "noise_floor": null, "noise_floor_from": null,
            "delta": 0.02, "blocks_needed": null, "pairs": [], "void_by": [],
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_commit_lies_on_the_side_on_which_its_whole_interval_is() {
        use HistoryAnswer::{Bad, Good, Open};
        let cpu = Halfway::to(&row(Metric::CpuPerRequest, Verdict::Slower, [1.21, 1.18, 1.24])).unwrap();
        // Halfway is 1.1.
        for (ends, side) in [
            ([1.2, 1.15, 1.25], Bad),
            ([1.0, 0.98, 1.02], Good),
            ([1.05, 1.02, 1.09], Good),
            ([1.12, 1.09, 1.15], Open),
        ] {
            assert_eq!(cpu.side(&row(Metric::CpuPerRequest, Verdict::Slower, ends)), side, "{ends:?}");
        }
        assert_eq!(cpu.side(&row(Metric::CpuPerRequest, Verdict::Invalid, [2.0, 1.9, 2.1])), Open);
        // After the last look a quarter of the interval tells: from 1.112 to 1.128, from 1.07 to 1.089, and from 1.095 to 1.125.
        for (ends, side) in
            [([1.12, 1.09, 1.15], Bad), ([1.08, 1.04, 1.115], Good), ([1.105, 1.07, 1.18], Open)]
        {
            let likely = cpu.likely_side(&row(Metric::CpuPerRequest, Verdict::Slower, ends));
            assert_eq!(likely, side, "{ends:?}");
        }
        assert_eq!(cpu.likely_side(&row(Metric::CpuPerRequest, Verdict::Invalid, [2.0, 1.9, 2.1])), Open);
        // Of a rate less is slower.
        let rate = Halfway::to(&row(Metric::Rate, Verdict::Slower, [0.8, 0.79, 0.81])).unwrap();
        assert_eq!(rate.side(&row(Metric::Rate, Verdict::Slower, [0.8, 0.78, 0.82])), Bad);
        assert_eq!(rate.side(&row(Metric::Rate, Verdict::Equal, [1.0, 0.99, 1.01])), Good);
        for verdict in [Verdict::Faster, Verdict::Equal, Verdict::Inconclusive, Verdict::Invalid] {
            assert_eq!(Halfway::to(&row(Metric::CpuPerRequest, verdict, [1.2, 1.1, 1.3])), None);
        }
    }
}
