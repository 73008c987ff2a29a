//! Figures and conditions in words.

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

/// A share as a percentage for people: one decimal below 10 %.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}
