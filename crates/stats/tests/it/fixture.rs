//! The outside witnesses: what SciPy and R computed, committed beside the scripts that made them.

use serde_json::Value;

/// Figures from `make_fixtures.py`.
pub(crate) fn scipy() -> Value {
    parse(include_str!("../fixtures/scipy.json"))
}

/// Figures from `make_fixtures.R`.
pub(crate) fn r() -> Value {
    parse(include_str!("../fixtures/r.json"))
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("the committed fixture is JSON")
}

/// The cases of one family; a family without cases would prove nothing.
pub(crate) fn cases<'a>(fixture: &'a Value, family: &str) -> &'a [Value] {
    let cases = fixture[family].as_array().unwrap_or_else(|| panic!("no family {family}"));
    assert!(!cases.is_empty(), "family {family} is empty");
    cases
}

/// A number of a case.
pub(crate) fn number(case: &Value, key: &str) -> f64 {
    case[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {case}"))
}

/// A whole number of a case.
pub(crate) fn whole(case: &Value, key: &str) -> u64 {
    case[key].as_u64().unwrap_or_else(|| panic!("no whole number {key} in {case}"))
}

/// A list of numbers of a case.
pub(crate) fn numbers(case: &Value, key: &str) -> Vec<f64> {
    list(&case[key])
}

/// A list of numbers.
pub(crate) fn list(value: &Value) -> Vec<f64> {
    let items = value.as_array().unwrap_or_else(|| panic!("no list in {value}"));
    items.iter().map(|item| item.as_f64().expect("a number")).collect()
}

/// Asserts that two numbers agree to a relative (for small ones, absolute) tolerance.
#[track_caller]
pub(crate) fn close(ours: f64, theirs: f64, tolerance: f64) {
    let scale = theirs.abs().max(1.0);
    assert!(
        (ours - theirs).abs() <= tolerance * scale,
        "ours {ours}, theirs {theirs}, tolerance {tolerance}"
    );
}
