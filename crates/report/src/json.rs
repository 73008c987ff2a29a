//! The JSON of scripts, with the schema that describes it.

use analyse::capacity::Capacity;
use analyse::{Bisected, CaseFindings, Findings, Ladder, Watched};
use model::record::LoadReport;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::words::Worded;

/// A ladder with the text that a person would read.
#[derive(Serialize)]
struct LadderOutput<'a> {
    #[serde(flatten)]
    ladder: &'a Ladder,
    text: String,
}

/// Findings with the text that a person would read.
#[derive(Serialize, JsonSchema)]
struct FindingsOutput<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    /// The same findings as text.
    text: String,
}

/// A comparison as one JSON object.
#[must_use]
pub fn findings_json(findings: &Worded<Findings>) -> String {
    pretty(&FindingsOutput { findings, text: crate::findings_details(findings) })
}

/// What a search through a history came to, with the text that a person would read.
#[derive(Serialize, JsonSchema)]
struct BisectOutput<'a> {
    #[serde(flatten)]
    found: &'a Bisected,
    /// The same as text.
    text: String,
}

/// A search through a history as one JSON object.
#[must_use]
pub fn bisect_json(found: &Bisected) -> String {
    pretty(&BisectOutput { found, text: crate::bisect_text(found) })
}

/// The schema of [`bisect_json`].
#[must_use]
pub fn bisect_schema() -> Value {
    schemars::schema_for!(BisectOutput).to_value()
}

/// A ladder as one JSON object, with the text that a person would read.
#[must_use]
pub fn ladder_json(ladder: &Ladder) -> String {
    pretty(&LadderOutput { ladder, text: crate::ladder_text(ladder) })
}

/// A case with the text that a person would read.
#[derive(Serialize, JsonSchema)]
struct CaseOutput<'a> {
    #[serde(flatten)]
    findings: &'a CaseFindings,
    /// The same findings as text.
    text: String,
}

/// A case as one JSON object.
#[must_use]
pub fn case_json(findings: &Worded<CaseFindings>) -> String {
    pretty(&CaseOutput { findings, text: crate::case_details(findings) })
}

/// The schema of [`case_json`].
#[must_use]
pub fn case_schema() -> Value {
    schemars::schema_for!(CaseOutput).to_value()
}

/// A load report as one JSON object.
#[must_use]
pub fn load_json(report: &LoadReport) -> String {
    pretty(report)
}

/// A search for capacity as one JSON object.
#[must_use]
pub fn capacity_json(found: &Worded<Capacity>) -> String {
    pretty(found)
}

/// The schema of [`capacity_json`].
#[must_use]
pub fn capacity_schema() -> Value {
    schemars::schema_for!(Capacity).to_value()
}

/// The schema of [`findings_json`].
#[must_use]
pub fn findings_schema() -> Value {
    schemars::schema_for!(FindingsOutput).to_value()
}

/// The schema of [`load_json`].
#[must_use]
pub fn load_schema() -> Value {
    schemars::schema_for!(LoadReport).to_value()
}

/// A running server as one JSON object.
#[must_use]
pub fn watch_json(watched: &Worded<Watched>) -> String {
    pretty(watched)
}

/// The schema of [`watch_json`].
#[must_use]
pub fn watch_schema() -> Value {
    schemars::schema_for!(Watched).to_value()
}

/// The schema of the data that a page carries.
#[must_use]
pub fn page_schema() -> Value {
    schemars::schema_for!(crate::PageData).to_value()
}

pub(crate) fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("findings hold only string keys");
    text.push('\n');
    text
}
