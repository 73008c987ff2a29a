//! The JSON of scripts, with the schema that describes it.

use analyse::Findings;
use record::LoadReport;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

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
pub fn findings_json(findings: &Findings) -> String {
    pretty(&FindingsOutput { findings, text: crate::findings_text(findings) })
}

/// A load report as one JSON object.
#[must_use]
pub fn load_json(report: &LoadReport) -> String {
    pretty(report)
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
