//! Whether our figures repeat a published claim.

use model::plan::{Bound, CaseFile, Claim, GateId, Part, Reason, Rule};
use stats::{Estimate, paired};

use super::profile::PublishedProfile;
use super::says::{ClaimSays, Ours, Published, Why};
use super::{CaseRun, ClaimFindings, Reproduced};
use crate::facts::arms::ArmFindings;
use crate::facts::metric::Metric;
use crate::findings::Findings;

/// Level of the intervals that claims are judged by.
const LEVEL: f64 = 0.95;
/// A published ratio nearer to 1 than this says "no difference".
const SMALL: f64 = 0.02;

/// What a rule came to.
struct Judged {
    reproduced: Reproduced,
    says: ClaimSays,
}

impl Judged {
    fn new(published: Published, ours: Ours, reproduced: Reproduced, why: Why) -> Self {
        Self { reproduced, says: ClaimSays { published, ours, why } }
    }

    fn unknown(published: Published, why: Why) -> Self {
        Self::new(published, Ours::Nothing, Reproduced::Unknown, why)
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
        published: String::new(),
        ours: String::new(),
        reproduced: judged.reproduced,
        why: String::new(),
        says: Some(judged.says),
    }
}

/// A published row.
fn published(case: &CaseFile, figure: &str) -> Published {
    case.figure(figure).map_or(Published::Nothing, |figure| Published::Row {
        rate_per_s: figure.rate_per_s,
        mean_ns: figure.mean.map(|mean| mean.as_ns() as f64),
        latency: figure.latency.clone(),
    })
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
        let published = Published::Ratio(self.published);
        let Some(findings) = findings else { return Judged::unknown(published, Why::NotRun) };
        if let Some(missing) = [self.arm, self.against].into_iter().find(|arm| row(findings, arm).is_none()) {
            return Judged::unknown(published, Why::NoFigures(missing.to_owned()));
        }
        let Some((metric, differences)) = self.differences(findings) else {
            return Judged::unknown(published, Why::Void);
        };
        let estimate = paired::estimate_or_widest(&differences, LEVEL);
        let Ok(estimate) = estimate else {
            return Judged::unknown(published, Why::OneBlock);
        };
        let interval = estimate.ratio_interval();
        let ours = Ours::Ratio {
            ratio: estimate.ratio(),
            interval: [interval.low, interval.high],
            metric,
            blocks: estimate.n,
        };
        let (mut reproduced, mut why) = self.size(&estimate);
        if let (Reproduced::Yes, Some(reason)) = (reproduced, reason) {
            (reproduced, why) = self.reason(findings, reason, why);
        }
        Judged::new(published, ours, reproduced, why)
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
    fn size(&self, estimate: &Estimate) -> (Reproduced, Why) {
        let (low, high) = (estimate.interval.low, estimate.interval.high);
        if estimate.interval.level < LEVEL {
            return (Reproduced::Unknown, Why::FewBlocks(estimate.n));
        }
        let published = self.published.ln();
        if published.abs() < SMALL {
            return no_difference(estimate);
        }
        let sign = published.signum();
        let (near, far) = if sign > 0.0 { (low, high) } else { (-high, -low) };
        let size = estimate.value * sign / published.abs();
        match () {
            () if far < 0.0 => (Reproduced::No, Why::OtherWay),
            () if near > 0.0 && size <= self.within && size * self.within >= 1.0 => {
                (Reproduced::Yes, Why::SameSize(size))
            }
            () if near > 0.0 => (Reproduced::Partly, Why::SameSide(size)),
            () if low.abs().max(high.abs()) < SMALL => (Reproduced::No, Why::NoEffect(SMALL)),
            () if far * self.within < published.abs() => (Reproduced::No, Why::Smaller),
            () => (Reproduced::Unknown, Why::Open),
        }
    }

    /// Whether the part of CPU per request that was named carries the difference.
    fn reason(&self, findings: &Findings, reason: &Reason, size: Why) -> (Reproduced, Why) {
        let cpu = |arm| row(findings, arm).and_then(|row| row.cpu_ns_per_request);
        let (Some(to), Some(from)) = (cpu(self.arm), cpu(self.against)) else {
            return (Reproduced::Yes, size);
        };
        let part = match reason.part {
            Part::User => to.user - from.user,
            Part::System => to.system - from.system,
        };
        let share = part / (to.total - from.total);
        let enough = share >= reason.at_least;
        let needed = (!enough).then_some(reason.at_least);
        let why = Why::Reason { size: Box::new(size), part: reason.part, share, needed };
        (if enough { Reproduced::Yes } else { Reproduced::Partly }, why)
    }
}

fn no_difference(estimate: &Estimate) -> (Reproduced, Why) {
    let (low, high) = (estimate.interval.low, estimate.interval.high);
    if low.abs().max(high.abs()) < SMALL {
        return (Reproduced::Yes, Why::NoDifference(SMALL));
    }
    if low * high > 0.0 && estimate.value.abs() >= SMALL {
        return (Reproduced::No, Why::Differ);
    }
    (Reproduced::Unknown, Why::Wide(SMALL))
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
fn by_gate(findings: Option<&Findings>, arm: &str, gate: GateId, published: Published) -> Judged {
    let Some(findings) = findings else { return Judged::unknown(published, Why::NotRun) };
    if row(findings, arm).is_none() {
        return Judged::unknown(published, Why::NoFigures(arm.to_owned()));
    }
    let failed =
        findings.gates.iter().find(|row| row.id == gate && !row.ok && row.arm.as_deref() == Some(arm));
    match failed {
        Some(row) => {
            let ours = Ours::Gate(Box::new(row.clone()));
            Judged::new(published, ours, Reproduced::Yes, Why::GateFails(gate))
        }
        None => Judged::new(published, Ours::GateHolds(gate), Reproduced::No, Why::GateHolds(gate)),
    }
}

fn overload(findings: Option<&Findings>, arm: &str, published: Published) -> Judged {
    let Some(findings) = findings else { return Judged::unknown(published, Why::NotRun) };
    let Some(row) = row(findings, arm) else {
        return Judged::unknown(published, Why::NoFigures(arm.to_owned()));
    };
    match row.overload {
        Some(overload) => Judged::new(published, Ours::Overload(overload), Reproduced::Yes, Why::Overloaded),
        None => Judged::new(published, Ours::Served, Reproduced::No, Why::NotOverloaded),
    }
}

fn share(profiles: &[PublishedProfile], profile: &str, line: &str, within: f64, bound: Bound) -> Judged {
    let found = profiles.iter().find(|known| known.id == profile);
    let row = found.and_then(|profile| profile.rows.iter().find(|row| row.what == line));
    let Some(row) = row else { return Judged::unknown(Published::Nothing, Why::NoLine) };
    let published = Published::Percent(row.published_percent);
    let Some(ours) = row.percent else { return Judged::unknown(published, Why::NoCallgrind) };
    let factor = ours / row.published_percent;
    let (enough, no_more) = (factor * within >= 1.0, factor <= within);
    let near = match bound {
        Bound::About => enough && no_more,
        Bound::AtLeast => enough,
        Bound::AtMost => no_more,
    };
    let reproduced = if near { Reproduced::Yes } else { Reproduced::No };
    Judged::new(published, Ours::Instructions(ours), reproduced, Why::Factor { factor, within, bound })
}
