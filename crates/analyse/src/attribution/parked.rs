//! For what the goroutines of every arm waited, and where.

use model::plan::Arm;
use model::record::WaitsFor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::Place;
use super::waits::{place, within_checkout};
use crate::facts::Facts;
use crate::facts::parked::{ParkedAt, parked};

/// Rows of an arm, most goroutines first, and how many wait at a time in one at least: fewer were on their way.
const MOST: usize = 16;
const LEAST: f64 = 0.01;

/// Goroutines of an arm that waited for one thing in one function. They answer requests, or work beside them; one may wait for another, so
/// that rows do not sum to anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParkedRow {
    /// The arm.
    pub arm: String,
    /// For what they waited.
    pub waits_for: WaitsFor,
    /// Where.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Whether they answer requests.
    pub answers: bool,
    /// How many waited at a time on average.
    pub at_a_time: f64,
    /// The same over the rate, in nanoseconds: how long a request waited there, if they answer requests (Little's law).
    pub ns_per_request: f64,
}

/// The rows of every arm whose goroutines were seen.
pub(crate) fn rows(facts: &Facts) -> Vec<ParkedRow> {
    facts.sheet.plan().arms.iter().flat_map(|arm| of_arm(facts, arm)).collect()
}

fn of_arm(facts: &Facts, arm: &Arm) -> Vec<ParkedRow> {
    let checkout = arm.source.revision().map(|revision| revision.checkout.as_str());
    let row = |one: ParkedAt| ParkedRow {
        arm: arm.name.clone(),
        waits_for: one.waits_for,
        place: one.place.as_ref().map(|frame| within_checkout(place(frame), checkout)),
        answers: one.answers,
        at_a_time: one.at_a_time,
        ns_per_request: one.ns,
    };
    let parked = parked(&facts.sheet, &arm.name, &facts.passes).unwrap_or_default();
    let told = parked.into_iter().filter(|one| one.is_asked && one.at_a_time >= LEAST);
    told.take(MOST).map(row).collect()
}
