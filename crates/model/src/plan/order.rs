use serde::{Deserialize, Serialize};

use crate::plan::{Plan, SplitMix64};

/// The environment is padded by up to this many bytes, because the size of the environment moves the stack and with
/// it the speed. Source: Mytkowicz et al., "Producing wrong data without doing anything obviously wrong", ASPLOS 2009.
pub const MAX_ENV_PADDING_BYTES: u64 = 4096;

/// One round to be run: which arm, when in its block, and the random circumstances that are recorded with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Round {
    /// The block, from 0.
    pub block: u32,
    /// The place within the block, from 0.
    pub position: u32,
    /// 0; in runs of when rounds were repeated, how often this one was.
    #[serde(default)]
    pub attempt: u32,
    /// Index into [`Plan::arms`].
    pub arm: usize,
    /// Bytes added to the target's environment.
    pub env_padding_bytes: u64,
    /// Seed of the arrival times: the same for every arm of a block, so that all meet the same traffic.
    pub arrival_seed: u64,
}

impl Plan {
    /// The rounds of one block, each arm once, in the order in which they run.
    ///
    /// Blocks come in pairs: a random order, then the same order reversed, so that each arm is first as often as last.
    #[must_use]
    pub fn rounds(&self, block: u32) -> Vec<Round> {
        let mut order: Vec<usize> = (0..self.arms.len()).collect();
        SplitMix64::fork(self.seed, "order", u64::from(block / 2)).shuffle(&mut order);
        if block % 2 == 1 {
            order.reverse();
        }
        let arrival_seed = SplitMix64::fork(self.seed, "arrivals", u64::from(block)).next_u64();
        let mut padding = SplitMix64::fork(self.seed, "padding", u64::from(block));
        order
            .into_iter()
            .zip(0..)
            .map(|(arm, position)| Round {
                block,
                position,
                attempt: 0,
                arm,
                env_padding_bytes: padding.below(MAX_ENV_PADDING_BYTES + 1),
                arrival_seed,
            })
            .collect()
    }
}
