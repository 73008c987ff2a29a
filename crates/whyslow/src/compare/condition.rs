//! `--fail-if`: a condition on the findings that makes the exit code 3.

use analyse::{Findings, Metric, Verdict};
use anyhow::bail;
use model::plan::Plan;

/// `ARM VERDICT [in METRIC]`
#[derive(Debug, PartialEq)]
pub(super) struct Condition {
    arm: String,
    verdict: Verdict,
    /// Any primary metric where none is named.
    metric: Option<Metric>,
}

const VERDICTS: [Verdict; 5] =
    [Verdict::Slower, Verdict::Faster, Verdict::Equal, Verdict::Inconclusive, Verdict::Invalid];

/// Parses all conditions against the plan's arms.
pub(super) fn parse_all(texts: &[String], plan: &Plan) -> anyhow::Result<Vec<Condition>> {
    texts.iter().map(|text| parse(text, plan)).collect()
}

fn parse(text: &str, plan: &Plan) -> anyhow::Result<Condition> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (arm, word, metric) = match words[..] {
        [arm, word] => (arm, word, None),
        [arm, word, "in", metric] => (arm, word, Some(metric)),
        _ => bail!("--fail-if '{text}' is not a condition: write 'ARM slower' or 'ARM slower in p99'"),
    };
    if !plan.arms.iter().any(|known| known.name == arm) {
        bail!("--fail-if '{text}' names no arm: there is no '{arm}'");
    }
    let Some(verdict) = VERDICTS.into_iter().find(|verdict| verdict.word() == word) else {
        bail!(
            "--fail-if '{text}': '{word}' is no verdict; write slower, faster, equal, inconclusive or invalid"
        );
    };
    let metric = match metric {
        Some(name) => Some(
            metric_named(name).ok_or_else(|| anyhow::anyhow!("--fail-if '{text}': no metric '{name}'"))?,
        ),
        None => None,
    };
    if arm == plan.arms[plan.baseline].name {
        bail!(
            "--fail-if '{text}' can never hold: '{arm}' is the baseline, with which the others are compared"
        );
    }
    if let Some(metric) = metric.filter(|metric| !analyse::is_compared(plan, *metric)) {
        bail!(
            "--fail-if '{text}' can never hold: this run does not compare {}; see --equal-rates and --rate",
            metric.label()
        );
    }
    Ok(Condition { arm: arm.to_owned(), verdict, metric })
}

/// The metric that the JSON calls `name`.
fn metric_named(name: &str) -> Option<Metric> {
    serde_json::from_value(serde_json::Value::String(name.replace('.', "_"))).ok()
}

impl Condition {
    /// Whether the findings meet it.
    pub(super) fn holds(&self, findings: &Findings) -> bool {
        findings.comparisons.iter().any(|row| {
            let metric = self.metric.map_or(row.primary, |metric| metric == row.metric);
            metric && row.arm == self.arm && row.verdict == self.verdict
        })
    }
}
