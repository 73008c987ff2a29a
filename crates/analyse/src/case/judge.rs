//! Rules into words: is a published claim repeated by our figures?

use model::plan::{Bound, CaseFile, Claim, GateId, Part, Reason, Rule};
use stats::{Estimate, paired};

use super::profile::PublishedProfile;
use super::{CaseRun, ClaimFindings, Reproduced};
use crate::facts::arms::ArmFindings;
use crate::facts::metric::Metric;
use crate::findings::Findings;
use model::units::percent;

/// Level of the intervals that claims are judged by.
const LEVEL: f64 = 0.95;
/// A published ratio nearer to 1 than this says "no difference".
const SMALL: f64 = 0.02;

/// What a rule came to: published, ours, the word, the reasoning.
struct Judged {
    published: String,
    ours: String,
    reproduced: Reproduced,
    why: String,
}

impl Judged {
    fn unknown(published: String, why: impl Into<String>) -> Self {
        Self { published, ours: "-".to_owned(), reproduced: Reproduced::Unknown, why: why.into() }
    }
}

pub(super) fn claim(
    claim: &Claim,
    case: &CaseFile,
    runs: &[CaseRun],
    profiles: &[PublishedProfile],
) -> ClaimFindings {
    let run = |id: &str| runs.iter().find(|run| run.id == id).map(|run| &run.findings);
    let arm = |figure: &str| case.figure(figure).and_then(|figure| figure.arm.as_deref()).unwrap_or_default();
    let judged = match &claim.rule {
        Rule::Ratio { comparison, figure, against, within, reason } => {
            let rate = |id: &str| case.figure(id).and_then(|figure| figure.rate_per_s).unwrap_or(f64::NAN);
            let question = Ratio {
                published: rate(figure) / rate(against),
                arm: arm(figure),
                against: arm(against),
                within: *within,
            };
            question.judge(run(comparison), reason.as_ref())
        }
        Rule::Gate { comparison, figure, gate } => {
            by_gate(run(comparison), arm(figure), *gate, published(case, figure))
        }
        Rule::Overload { comparison, figure } => {
            overload(run(comparison), arm(figure), published(case, figure))
        }
        Rule::Share { profile, line, within, bound } => share(profiles, profile, line, *within, *bound),
    };
    ClaimFindings {
        text: claim.text.clone(),
        published: judged.published,
        ours: judged.ours,
        reproduced: judged.reproduced,
        why: judged.why,
    }
}

/// A published row in words.
fn published(case: &CaseFile, figure: &str) -> String {
    let Some(figure) = case.figure(figure) else { return String::new() };
    let rate = figure.rate_per_s.map(|rate| format!("{rate:.0} requests/s"));
    let mean = figure.mean.map(|mean| format!("mean {}", model::units::format_ns(mean.as_ns() as f64)));
    let parts: Vec<String> = rate.into_iter().chain(mean).chain(figure.latency.clone()).collect();
    parts.join(", ")
}

/// A published ratio of rates, to be found again.
struct Ratio<'a> {
    published: f64,
    arm: &'a str,
    against: &'a str,
    within: f64,
}

impl Ratio<'_> {
    fn judge(&self, findings: Option<&Findings>, reason: Option<&Reason>) -> Judged {
        let published = format!("x{:.3}", self.published);
        let Some(findings) = findings else { return Judged::unknown(published, "it was not run") };
        if let Some(missing) = [self.arm, self.against].into_iter().find(|arm| row(findings, arm).is_none()) {
            return Judged::unknown(published, format!("'{missing}' gave no figures"));
        }
        let Some((metric, differences)) = self.differences(findings) else {
            return Judged::unknown(published, "gates void both rate and CPU per request");
        };
        let estimate = paired::estimate_or_widest(&differences, LEVEL);
        let Ok(estimate) = estimate else {
            return Judged::unknown(published, "one block has no interval");
        };
        let interval = estimate.ratio_interval();
        let ours = format!(
            "x{:.3} [{:.3}, {:.3}] ({}, {} blocks)",
            estimate.ratio(),
            interval.low,
            interval.high,
            basis(metric),
            estimate.n
        );
        let (mut reproduced, mut why) = self.size(&estimate);
        if let (Reproduced::Yes, Some(reason)) = (reproduced, reason) {
            (reproduced, why) = self.reason(findings, reason, why);
        }
        Judged { published, ours, reproduced, why }
    }

    /// ln(arm / against) of the rates, block by block; where the rate is the generator's, of requests per CPU second.
    fn differences(&self, findings: &Findings) -> Option<(Metric, Vec<f64>)> {
        let of = |metric| pairs(findings, self.arm, self.against, metric);
        of(Metric::Rate).map(|pairs| (Metric::Rate, pairs)).or_else(|| {
            let costs = of(Metric::CpuPerRequest)?;
            Some((Metric::CpuPerRequest, costs.into_iter().map(|cost| -cost).collect()))
        })
    }

    /// Side and size.
    fn size(&self, estimate: &Estimate) -> (Reproduced, String) {
        let (low, high) = (estimate.interval.low, estimate.interval.high);
        if estimate.interval.level < LEVEL {
            return (Reproduced::Unknown, format!("{} blocks are too few to decide", estimate.n));
        }
        let published = self.published.ln();
        if published.abs() < SMALL {
            return no_difference(estimate);
        }
        let sign = published.signum();
        let (near, far) = if sign > 0.0 { (low, high) } else { (-high, -low) };
        let size = estimate.value * sign / published.abs();
        match () {
            () if far < 0.0 => (Reproduced::No, "the order is the other way round".to_owned()),
            () if near > 0.0 && size <= self.within && size * self.within >= 1.0 => {
                (Reproduced::Yes, format!("the same side, and {size:.2} of the published size (log scale)"))
            }
            () if near > 0.0 => (
                Reproduced::Partly,
                format!("the same side, but {size:.2} of the published size (log scale)"),
            ),
            () if low.abs().max(high.abs()) < SMALL => {
                (Reproduced::No, format!("no effect here: inside ±{}", percent(SMALL)))
            }
            () if far * self.within < published.abs() => {
                (Reproduced::No, "no effect of that size: the interval ends below it".to_owned())
            }
            () => (Reproduced::Unknown, "the interval has both 'no effect' and the published one".to_owned()),
        }
    }

    /// Whether the part of CPU per request that was named carries the difference.
    fn reason(&self, findings: &Findings, reason: &Reason, size: String) -> (Reproduced, String) {
        let cpu = |arm| row(findings, arm).and_then(|row| row.cpu_ns_per_request);
        let (Some(to), Some(from)) = (cpu(self.arm), cpu(self.against)) else {
            return (Reproduced::Yes, size);
        };
        let part = match reason.part {
            Part::User => to.user - from.user,
            Part::System => to.system - from.system,
        };
        let share = part / (to.total - from.total);
        let text = format!(
            "{size}; {} carries {} of the gap in CPU per request",
            reason.part.label(),
            percent(share)
        );
        if share >= reason.at_least {
            (Reproduced::Yes, text)
        } else {
            (Reproduced::Partly, format!("{text}, where the reason needs {}", percent(reason.at_least)))
        }
    }
}

fn basis(metric: Metric) -> &'static str {
    match metric {
        Metric::Rate => "rate",
        _ => "requests per CPU second",
    }
}

fn no_difference(estimate: &Estimate) -> (Reproduced, String) {
    let (low, high) = (estimate.interval.low, estimate.interval.high);
    if low.abs().max(high.abs()) < SMALL {
        return (Reproduced::Yes, format!("no difference: the interval is inside ±{}", percent(SMALL)));
    }
    if low * high > 0.0 && estimate.value.abs() >= SMALL {
        return (Reproduced::No, "here they differ".to_owned());
    }
    (Reproduced::Unknown, format!("the interval is wider than ±{}", percent(SMALL)))
}

fn row<'a>(findings: &'a Findings, arm: &str) -> Option<&'a ArmFindings> {
    findings.arms.iter().find(|row| row.name == arm && row.rounds > 0)
}

/// ln(arm / against) for each block that has both, from each one's pairs with the baseline; nothing where a gate voids it.
fn pairs(findings: &Findings, arm: &str, against: &str, metric: Metric) -> Option<Vec<f64>> {
    let with_baseline = |name: &str| {
        let row = findings.comparisons.iter().find(|row| row.arm == name && row.metric == metric)?;
        row.void_by.is_empty().then(|| row.pairs.clone())
    };
    let inverted = |pairs: Vec<(u32, f64)>| pairs.into_iter().map(|(_, d)| -d).collect();
    if against == findings.baseline {
        return with_baseline(arm).map(|pairs| pairs.into_iter().map(|(_, d)| d).collect());
    }
    let below = with_baseline(against)?;
    if arm == findings.baseline {
        return Some(inverted(below));
    }
    let above = with_baseline(arm)?;
    let joined = above.iter().filter_map(|(block, d)| {
        let other = below.iter().find(|(other, _)| other == block)?;
        Some(d - other.1)
    });
    Some(joined.collect())
}

/// A gate that fails for the arm, as the published figures do.
fn by_gate(findings: Option<&Findings>, arm: &str, gate: GateId, published: String) -> Judged {
    let Some(findings) = findings else { return Judged::unknown(published, "it was not run") };
    if row(findings, arm).is_none() {
        return Judged::unknown(published, format!("'{arm}' gave no figures"));
    }
    let failed =
        findings.gates.iter().find(|row| row.id == gate && !row.ok && row.arm.as_deref() == Some(arm));
    match failed {
        Some(row) => Judged {
            published,
            ours: row.text.clone(),
            reproduced: Reproduced::Yes,
            why: format!("gate '{gate}' fails here too"),
        },
        None => Judged {
            published,
            ours: format!("gate '{gate}' holds"),
            reproduced: Reproduced::No,
            why: format!("gate '{gate}' does not fail here"),
        },
    }
}

fn overload(findings: Option<&Findings>, arm: &str, published: String) -> Judged {
    let Some(findings) = findings else { return Judged::unknown(published, "it was not run") };
    let Some(row) = row(findings, arm) else {
        return Judged::unknown(published, format!("'{arm}' gave no figures"));
    };
    match &row.overload {
        Some(overload) => Judged {
            published,
            ours: overload.text(),
            reproduced: Reproduced::Yes,
            why: "less was answered than was asked for, while the generator had time to spare".to_owned(),
        },
        None => Judged {
            published,
            ours: "the rate asked for was served".to_owned(),
            reproduced: Reproduced::No,
            why: "no backlog grew, or the generator was the limit".to_owned(),
        },
    }
}

fn share(profiles: &[PublishedProfile], profile: &str, line: &str, within: f64, bound: Bound) -> Judged {
    let found = profiles.iter().find(|known| known.id == profile);
    let row = found.and_then(|profile| profile.rows.iter().find(|row| row.what == line));
    let Some(row) = row else { return Judged::unknown(String::new(), "there is no such line") };
    let published = format!("{:.1} %", row.published_percent);
    let Some(ours) = row.percent else { return Judged::unknown(published, "it needs --callgrind") };
    let factor = ours / row.published_percent;
    let (enough, no_more) = (factor * within >= 1.0, factor <= within);
    let (near, words) = match bound {
        Bound::About => (enough && no_more, "a factor of"),
        Bound::AtLeast => (enough, "no less than by a factor of"),
        Bound::AtMost => (no_more, "no more than by a factor of"),
    };
    Judged {
        published,
        ours: format!("{ours:.1} % of instructions"),
        reproduced: if near { Reproduced::Yes } else { Reproduced::No },
        why: format!("{factor:.2} times the published share; {words} {within} counts as the same"),
    }
}
