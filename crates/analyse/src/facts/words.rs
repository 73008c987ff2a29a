//! Conditions in words.

use model::plan::Condition;

/// A condition in words.
#[must_use]
pub fn describe_condition(condition: Condition) -> String {
    match condition {
        Condition::Capacity => "capacity".to_owned(),
        Condition::EqualRate { rate } => format!("{:.0} requests/s", rate.get()),
        Condition::ShareOfSlowest { percent } => format!("{percent} % of the slowest arm's capacity"),
    }
}
