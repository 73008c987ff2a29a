//! What no cause carries of a gap: parts that were measured and are too small or unsure to be told, and what nothing was seen of.
//!
//! Both are apart: of the first it is known how exact their sum is, and more samples make it more exact. The second is a hole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Suspect;
use super::gap::Pair;
use super::sides::Told;
use crate::facts::observed::SURE;

/// What no cause carries of the gap of one arm, as shares of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestOfGap {
    /// The arm, against the baseline.
    pub arm: String,
    /// Of which nothing was seen: no sample and no end of a wait; below 0 where causes carry more than the gap.
    pub unattributed_share: f64,
    /// In parts that were measured and are each below a tenth of the gap or no larger than chance; below 0 where they make the gap smaller.
    pub small_share: f64,
    /// Ends of the interval of that, three standard errors of samples to either side.
    pub small_between: [f64; 2],
}

/// What is left beside those that are named or ruled out and the sides that were told of the others.
pub(super) fn rest(pair: &Pair, known: &[Suspect], unsure: &[Suspect], told: &Told) -> RestOfGap {
    let sum = |these: &[Suspect]| these.iter().map(Suspect::all_ns).sum::<f64>();
    // What a count times a unit cost bounds was not measured.
    let measured = unsure.iter().filter(|one| one.error_ns > 0.0 || one.idle_ns > 0.0);
    let small_ns = measured.map(Suspect::all_ns).sum::<f64>() - sum(&told.sides);
    let error_ns = SURE * told.rest_error_ns;
    RestOfGap {
        arm: pair.arm.to_owned(),
        unattributed_share: 1.0 - pair.share(sum(known) + sum(&told.sides) + small_ns),
        small_share: pair.share(small_ns),
        small_between: [small_ns - error_ns, small_ns + error_ns].map(|ns| pair.share(ns)),
    }
}
