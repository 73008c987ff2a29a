//! One figure of each arm in each block, and what pairs of them say.

use std::collections::BTreeMap;

use model::record::{Run, Window};
use stats::{descriptive, paired};

/// Level of the intervals, where there are pairs enough for it.
const LEVEL: f64 = 0.95;

/// A figure by arm and block.
#[derive(Debug, Default)]
pub(crate) struct Blocks(BTreeMap<String, BTreeMap<u32, f64>>);

impl Blocks {
    /// The figure that `of` takes from the windows of each round of a run that counts.
    pub(crate) fn of_run(run: &Run, of: impl Fn(&[Window]) -> Option<f64>) -> Self {
        let mut blocks = Self::default();
        for round in analyse::counted_rounds(run) {
            if let Some(value) = of(&round.windows) {
                blocks.add(&round.arm, round.round.block, value);
            }
        }
        blocks
    }

    /// Notes a figure; a later one of the same block replaces it.
    pub(crate) fn add(&mut self, arm: &str, block: u32, value: f64) {
        self.0.entry(arm.to_owned()).or_default().insert(block, value);
    }

    /// The median over blocks.
    pub(crate) fn median(&self, arm: &str) -> Option<f64> {
        let values: Vec<f64> = self.0.get(arm)?.values().copied().collect();
        descriptive::median(&values)
    }

    /// The sum over blocks.
    pub(crate) fn sum(&self, arm: &str) -> Option<f64> {
        Some(self.0.get(arm)?.values().sum())
    }

    /// How many blocks gave a figure of `arm`.
    pub(crate) fn count(&self, arm: &str) -> usize {
        self.0.get(arm).map_or(0, BTreeMap::len)
    }

    /// `arm` over `baseline` from pairs within blocks: the Hodges–Lehmann estimate and its exact interval, in words.
    pub(crate) fn ratio(&self, arm: &str, baseline: &str) -> String {
        if arm == baseline {
            return "1".into();
        }
        let (Some(arm), Some(baseline)) = (self.0.get(arm), self.0.get(baseline)) else {
            return "–".into();
        };
        let pairs = arm.iter().filter_map(|(block, value)| Some((*value, *baseline.get(block)?)));
        let (arm, baseline): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let Ok(differences) = paired::log_ratios(&arm, &baseline) else { return "–".into() };
        match paired::estimate_or_widest(&differences, LEVEL) {
            Ok(estimate) => {
                let interval = estimate.ratio_interval();
                format!("{:.2} [{:.2}, {:.2}]", estimate.ratio(), interval.low, interval.high)
            }
            Err(_) => descriptive::median(&differences).map_or("–".into(), |d| format!("{:.2}", d.exp())),
        }
    }
}
