//! Gates: what must hold before a figure is believed. A gate that does not hold voids the metrics it names.

mod answers;
mod disturbance;
mod encoding;
mod generator;
mod load;
mod place;
pub mod sameness;
mod says;

use model::plan::GateId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use disturbance::BiasSource;
pub(crate) use disturbance::biases;
pub(crate) use place::FLOOR_LEVEL;
pub use sameness::difference;
pub use says::{Answered, AnswersDiffer, Differing, Fault, GateSays, Stalled, Unlike};

use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// One gate: a condition under which figures may be believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Stable name.
    pub id: GateId,
    /// Whether it holds.
    pub ok: bool,
    /// The arm it speaks of; absent where it speaks of all.
    pub arm: Option<String>,
    /// What was seen.
    pub value: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// One or two sentences: what, why, what to do.
    pub text: String,
    /// Metrics that it voids when it does not hold.
    pub voids: Vec<Metric>,
    /// What the sentences are made from, beside arm, value and limit.
    #[serde(skip)]
    pub says: Option<GateSays>,
}

/// A gate: looks at the whole sheet and says what does not hold, for each arm where arms differ in it.
type Check = fn(&Sheet) -> Vec<Gate>;

/// All gates in the order in which they are printed. Adding one is adding a row.
const CHECKS: [Check; 11] = [
    answers::parity,
    answers::errors,
    generator::generator,
    load::little,
    load::stall,
    load::utilisation,
    load::wire,
    disturbance::host,
    place::environment,
    place::running,
    place::fairness,
];

pub(crate) fn all(sheet: &Sheet) -> Vec<Gate> {
    let mut rows: Vec<Gate> = CHECKS.iter().flat_map(|check| check(sheet)).collect();
    if sheet.rounds().is_empty() {
        // Nothing held of what was never measured.
        rows.iter_mut()
            .filter(|row| row.ok && row.id != GateId::Parity)
            .for_each(|row| *row = holds(row.id, GateSays::Nothing));
    }
    rows
}

/// A gate that holds for all arms.
fn holds(id: GateId, says: GateSays) -> Gate {
    Gate {
        id,
        ok: true,
        arm: None,
        value: None,
        limit: None,
        text: String::new(),
        voids: Vec::new(),
        says: Some(says),
    }
}

/// Rows of a gate that is judged arm by arm: those that fail, or one row with the worst value when all hold.
struct PerArm {
    id: GateId,
    limit: f64,
    /// Whether a value beyond the limit is above it (true) or below it.
    fails_above: bool,
    failed: Vec<Gate>,
    worst: Option<f64>,
}

impl PerArm {
    fn new(id: GateId, limit: f64, fails_above: bool) -> Self {
        Self { id, limit, fails_above, failed: Vec::new(), worst: None }
    }

    fn breaks(&self, value: f64) -> bool {
        if self.fails_above { value > self.limit } else { value < self.limit }
    }

    fn add(&mut self, arm: &str, value: f64, voids: &[Metric], says: impl FnOnce() -> GateSays) {
        let worse = |worst: f64| if self.fails_above { value > worst } else { value < worst };
        if self.worst.is_none_or(worse) {
            self.worst = Some(value);
        }
        if self.breaks(value) {
            self.failed.push(Gate {
                ok: false,
                arm: Some(arm.to_owned()),
                value: Some(value),
                limit: Some(self.limit),
                voids: voids.to_vec(),
                ..holds(self.id, says())
            });
        }
    }

    fn rows(self, says: GateSays) -> Vec<Gate> {
        match (self.failed.is_empty(), self.worst) {
            (false, _) => self.failed,
            (true, Some(worst)) => {
                vec![Gate { value: Some(worst), limit: Some(self.limit), ..holds(self.id, says) }]
            }
            (true, None) => vec![holds(self.id, GateSays::Nothing)],
        }
    }
}

/// The gate that does not hold for `arm`.
pub(crate) fn failed<'a>(gates: &'a [Gate], id: GateId, arm: &str) -> Option<&'a Gate> {
    gates.iter().find(|gate| gate.id == id && !gate.ok && gate.arm.as_deref() == Some(arm))
}

/// Whether a gate voids what was measured of `arm` in `metric`.
pub(crate) fn is_void(gates: &[Gate], arm: &str, metric: Metric) -> bool {
    gates.iter().any(|gate| gate.is_against(arm, metric))
}

impl Gate {
    /// Whether it voids what was measured of `arm` in `metric`.
    pub(crate) fn is_against(&self, arm: &str, metric: Metric) -> bool {
        let concerns = self.arm.as_deref().is_none_or(|name| name == arm);
        !self.ok && self.voids.contains(&metric) && concerns
    }
}
