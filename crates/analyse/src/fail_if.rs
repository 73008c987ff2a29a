//! What `--fail-if` asks of a comparison: a verdict on an arm, or one of its figures against a value.

mod figure;
mod foreseen;
mod parse;
mod says;
mod stored;

use model::plan::GateId;
use model::record::Run;

use crate::facts::arms::ArmFindings;
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use crate::findings::{FailIfFindings, FailIfOutcome, Findings};
use crate::gates;
use crate::verdicts::bound::Order;
use crate::verdicts::{Comparison, Verdict};
use figure::Figure;
pub use foreseen::{Foreseen, foreseen};
pub use says::{Against, AskedFigure, Basis, FailIfSays, WhyAbsent};
pub use stored::{Stored, StoredError};

/// Least level at which an interval decides: five blocks attain 93.75 %, six 96.9 %.
const LEVEL: f64 = 0.95;

/// A condition under which a comparison counts as failed.
#[derive(Debug, Clone, PartialEq)]
pub struct FailIf {
    text: String,
    arm: String,
    asks: Asks,
}

/// Why a text is not a condition, in one sentence that says how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--fail-if '{text}' {reason}")]
pub struct FailIfError {
    text: String,
    reason: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Asks {
    /// A verdict, in any primary metric where none is named.
    Verdict(Verdict, Option<Metric>),
    /// A figure on one side of a value.
    Figure(&'static Figure, Order, Value),
}

/// What a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    /// So many times the baseline's.
    Times(f64),
    /// So much more than the baseline's.
    More(f64),
    /// A value of its own, in the figure's unit.
    Own(f64),
}

impl FailIf {
    /// Judges the condition of the findings on `run`; counts that are held against another are so against those of `stored`, if there
    /// is one.
    #[must_use]
    pub fn judge(&self, run: &Run, findings: &Findings, stored: Option<&Stored>) -> FailIfFindings {
        let (outcome, says) = match &self.asks {
            Asks::Verdict(verdict, metric) => self.verdict(findings, *verdict, *metric),
            Asks::Figure(figure, order, value) => {
                let stored = stored.filter(|_| figure.is_count() && !matches!(value, Value::Own(_)));
                self.figure((run, findings, stored), figure, *order, *value)
            }
        };
        FailIfFindings {
            condition: self.text.clone(),
            arm: self.arm.clone(),
            outcome,
            text: String::new(),
            says: Some(says),
        }
    }

    fn verdict(
        &self,
        found: &Findings,
        verdict: Verdict,
        metric: Option<Metric>,
    ) -> (FailIfOutcome, FailIfSays) {
        let is_meant = |row: &&Comparison| metric.map_or(row.primary, |metric| metric == row.metric);
        let of_arm = found.comparisons.iter().filter(|row| row.arm == self.arm);
        let rows: Vec<&Comparison> = of_arm.filter(is_meant).collect();
        if let Some(row) = rows.iter().find(|row| row.verdict == verdict) {
            return (FailIfOutcome::Holds, FailIfSays::Rows(vec![(*row).clone()]));
        }
        let outcome = unmet(verdict, &rows);
        if outcome == FailIfOutcome::NotMeasured {
            let metric = metric.or(rows.first().map(|row| row.metric)).unwrap_or(Metric::CpuPerRequest);
            let failed = found.arms.iter().filter(|arm| [&self.arm, &found.baseline].contains(&&arm.name));
            let failed =
                failed.filter_map(|arm| Some(format!("{}: {}", arm.name, arm.error.as_ref()?))).next();
            let why = failed.map_or_else(|| few(metric), WhyAbsent::Failed);
            return (outcome, FailIfSays::NoRatio { metric, why });
        }
        (outcome, FailIfSays::Rows(rows.into_iter().cloned().collect()))
    }

    fn figure(
        &self,
        (run, found, stored): (&Run, &Findings, Option<&Stored>),
        figure: &Figure,
        order: Order,
        value: Value,
    ) -> (FailIfOutcome, FailIfSays) {
        let own = stored.is_some() || matches!(value, Value::Own(_));
        if let Some(gate) = self.void_by(found, figure, own) {
            return (FailIfOutcome::Void, FailIfSays::Void { figure: figure.asked(), gate });
        }
        if let Some(stored) = stored
            && let Some(machines) = stored.other_machine(run)
        {
            let (figure, run) = (figure.asked(), stored.name().to_owned());
            return (FailIfOutcome::Void, FailIfSays::OtherMachine { figure, run, machines });
        }
        match (value, figure.metric) {
            (Value::Times(limit), Some(metric)) if stored.is_none() => {
                self.ratio(found, metric, order, limit)
            }
            _ => self.counted((run, found, stored), figure, order, value),
        }
    }

    /// The gate that voids a figure; of two arms where it is held against the baseline, and not on its `own`.
    fn void_by(&self, found: &Findings, figure: &Figure, own: bool) -> Option<GateId> {
        let metric = figure.metric.unwrap_or(Metric::CpuPerRequest);
        let arms = [Some(self.arm.as_str()), (!own).then_some(found.baseline.as_str())];
        let voids = |gate: &&gates::Gate| arms.into_iter().flatten().any(|arm| gate.is_against(arm, metric));
        found.gates.iter().find(voids).map(|gate| gate.id)
    }

    /// A ratio that was compared: the whole of its interval has to lie on one side.
    fn ratio(
        &self,
        found: &Findings,
        metric: Metric,
        order: Order,
        limit: f64,
    ) -> (FailIfOutcome, FailIfSays) {
        let row = found.comparisons.iter().find(|row| row.arm == self.arm && row.metric == metric);
        let Some(row) = row.filter(|row| row.blocks > 0) else {
            return (FailIfOutcome::NotMeasured, FailIfSays::NoRatio { metric, why: few(metric) });
        };
        let sides = row
            .ci_low
            .zip(row.ci_high)
            .map(|(low, high)| (order.holds(low, limit), order.holds(high, limit)));
        let outcome = match sides.filter(|_| row.level.is_some_and(|level| level >= LEVEL)) {
            Some((true, true)) => FailIfOutcome::Holds,
            Some((false, false)) => FailIfOutcome::DoesNotHold,
            Some(_) | None => FailIfOutcome::Undecided,
        };
        (outcome, FailIfSays::Rows(vec![row.clone()]))
    }

    /// A figure as it was pooled over all blocks.
    fn counted(
        &self,
        (run, found, stored): (&Run, &Findings, Option<&Stored>),
        figure: &Figure,
        order: Order,
        value: Value,
    ) -> (FailIfOutcome, FailIfSays) {
        let arm = |name: &str| found.arms.iter().find(|arm| arm.name == name);
        let read = |arm: &ArmFindings| Some([figure.value(arm)?, figure.within(arm)]);
        let own_arm = arm(&self.arm);
        let Some((basis, [own, own_within])) =
            own_arm.and_then(|arm| Some((figure.basis(run, found, arm), read(arm)?)))
        else {
            return absent(found, figure, &self.arm);
        };
        let (baseline, base) = match (value, stored) {
            (Value::Own(_), _) => (String::new(), Some([0.0; 2])),
            (_, Some(stored)) => (stored.named(&self.arm), stored.arm(&self.arm).and_then(read)),
            (_, None) => (found.baseline.clone(), arm(&found.baseline).and_then(read)),
        };
        let Some([base, base_within]) = base else {
            let (found, name) =
                stored.map_or((found, &found.baseline), |stored| (stored.findings(), &self.arm));
            return absent(found, figure, name);
        };
        let (compared, within, limit, against) = match value {
            Value::Own(limit) => (own, own_within, limit, Against::Itself),
            Value::Times(limit) => {
                let times = times(own, base);
                let shares = share(own_within, own).hypot(share(base_within, base));
                // What none becomes is more, however many they are.
                let within = if times.is_finite() { times * shares } else { 0.0 };
                (times, within, limit, Against::Times { baseline, base, times })
            }
            Value::More(limit) => {
                let more = own - base;
                (more, own_within.hypot(base_within), limit, Against::More { baseline, base, more })
            }
        };
        let says = FailIfSays::Measured { figure: figure.asked(), own, against, within, basis };
        let [low, high] = [compared - within, compared + within].map(|bound| order.holds(bound, limit));
        (if low == high { outcome(low) } else { FailIfOutcome::Undecided }, says)
    }
}

/// An error as a share of its value; of none there is none.
fn share(within: f64, value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { within / value }
}

/// What a condition on a verdict comes to that none of `rows` has. It is false where one of them was decided, and where it asks for
/// what is no decision; else nothing was shown of it.
fn unmet(verdict: Verdict, rows: &[&Comparison]) -> FailIfOutcome {
    let any = |holds: fn(&Comparison) -> bool| rows.iter().any(|row| holds(row));
    match () {
        () if any(|row| row.verdict.is_decided()) => FailIfOutcome::DoesNotHold,
        () if !rows.is_empty() && !verdict.is_decided() => FailIfOutcome::DoesNotHold,
        () if any(|row| row.verdict == Verdict::Inconclusive && row.blocks > 0) => FailIfOutcome::Undecided,
        () if any(|row| !row.void_by.is_empty()) => FailIfOutcome::Void,
        () => FailIfOutcome::NotMeasured,
    }
}

fn absent(found: &Findings, figure: &Figure, arm: &str) -> (FailIfOutcome, FailIfSays) {
    let why = figure.why_absent(found, arm);
    (FailIfOutcome::NotMeasured, FailIfSays::NotMeasured { figure: figure.asked(), arm: arm.to_owned(), why })
}

impl Findings {
    /// The same findings with what came of `conditions` on their run, in which counts are held against those of `stored`.
    #[must_use]
    pub fn judged(mut self, run: &Run, conditions: &[FailIf], stored: Option<&Stored>) -> Self {
        self.fail_if = conditions.iter().map(|condition| condition.judge(run, &self, stored)).collect();
        self
    }
}

fn outcome(holds: bool) -> FailIfOutcome {
    if holds { FailIfOutcome::Holds } else { FailIfOutcome::DoesNotHold }
}

/// A ratio of counts; of none to none it is 1.
fn times(own: f64, base: f64) -> f64 {
    if own == base { 1.0 } else { own / base }
}

/// Why a metric has no value that could be compared.
fn few(metric: Metric) -> WhyAbsent {
    if metric.is_latency() { WhyAbsent::FewAnswers } else { WhyAbsent::NoPair }
}

/// Rounds of `arm` in `run` that count.
fn rounds(run: &Run, arm: &str) -> usize {
    Sheet::new(run).rounds_of(arm).count()
}
