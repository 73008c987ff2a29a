//! The JSON of scripts and its committed schema.

use std::path::Path;

use report::{capacity_schema, findings_schema, load_json, load_schema};
use serde_json::Value;

use crate::support::{about, findings, findings_details, findings_json};

/// The committed schema of an output.
fn committed(output: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/schema/{output}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn valid(schema: &Value, json: &str) -> Vec<String> {
    let instance: Value = serde_json::from_str(json).unwrap();
    let validator = jsonschema::validator_for(schema).unwrap();
    validator.iter_errors(&instance).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_committed_schemas_are_those_of_the_types() {
    for (output, schema) in
        [("compare", findings_schema()), ("load", load_schema()), ("capacity", capacity_schema())]
    {
        assert!(
            committed(output) == schema,
            "docs/schema/{output}.schema.json is old: \
             cargo run -p whyslow -- schema {output} > docs/schema/{output}.schema.json"
        );
    }
}

#[test]
fn findings_are_what_the_schema_says() {
    let schema = committed("compare");
    assert_eq!(valid(&schema, &findings_json(&findings())), [""; 0]);
    let mut poor = about("a", "b");
    poor.arms[1] = analyse::ArmFindings { name: "b".to_owned(), ..analyse::ArmFindings::default() };
    poor.comparisons[0].ratio = None;
    assert_eq!(valid(&schema, &findings_json(&poor)), [""; 0], "an arm without figures is valid too");
}

#[test]
fn load_reports_are_what_the_schema_says() {
    for rate in [1.0, 98_000.0, 5e7] {
        assert_eq!(valid(&committed("load"), &load_json(&testkit::load_report(rate))), [""; 0]);
    }
}

#[test]
fn the_schema_refuses_what_is_not_so() {
    let spoil = |json: String, field: &str, value: Value| {
        let mut object: Value = serde_json::from_str(&json).unwrap();
        match value {
            Value::Null => drop(object.as_object_mut().unwrap().remove(field)),
            value => object[field] = value,
        }
        object.to_string()
    };
    let load = || load_json(&testkit::load_report(98_000.0));
    let cases = [
        ("compare", spoil(findings_json(&findings()), "gates", Value::Null)),
        ("compare", spoil(findings_json(&findings()), "text", Value::Null)),
        ("compare", spoil(findings_json(&findings()), "arms", Value::from("none"))),
        ("load", spoil(load(), "requests", Value::from(-1))),
        ("load", spoil(load(), "response_ns", Value::Null)),
    ];
    for (output, json) in cases {
        assert_ne!(valid(&committed(output), &json), [""; 0], "{json}");
    }
}

fn names(value: &Value, want: &[&str]) {
    for name in want {
        assert!(value.get(name).is_some(), "no '{name}' in {value}");
    }
}

#[test]
fn fields_of_findings_have_the_names_that_scripts_use() {
    let json: Value = serde_json::from_str(&findings_json(&findings())).unwrap();
    names(&json, &["schema", "run_id", "case", "seed", "host", "text", "unattributed_share"]);
    names(
        &json["arms"][0],
        &[
            "name",
            "target",
            "variant",
            "command",
            "ok",
            "error",
            "requests",
            "rate_per_s",
            "connections",
            "cpu_ns_per_request",
            "context_switches_per_request",
            "syscalls_per_request",
            "latency_ns",
            "rss_peak_bytes",
        ],
    );
    names(
        &json["comparisons"][0],
        &[
            "baseline",
            "arm",
            "metric",
            "verdict",
            "ratio",
            "ci_low",
            "ci_high",
            "level",
            "blocks",
            "noise_floor",
            "blocks_needed",
        ],
    );
    names(&json["gates"][0], &["id", "ok", "arm", "value", "limit", "text"]);
    names(&json["causes"][0], &["id", "grade", "baseline", "arm", "ns_per_request", "share", "text"]);
    assert_eq!(json["comparisons"][0]["metric"], "cpu_per_request");
    assert_eq!(json["comparisons"][0]["verdict"], "slower");
    assert_eq!(json["causes"][1]["grade"], "ruled_out");
    assert_eq!(json["text"], findings_details(&findings()));
}

#[test]
fn fields_of_a_load_have_the_names_that_scripts_use() {
    let load: Value = serde_json::from_str(&load_json(&testkit::load_report(98_000.0))).unwrap();
    names(
        &load,
        &[
            "schema",
            "url",
            "threads",
            "connections",
            "schedule",
            "window_ns",
            "requests",
            "bytes_read",
            "rate_per_s",
            "rate_ratio",
            "errors",
            "unfinished",
            "unsent",
            "response_ns",
            "service_ns",
            "send_lag_ns",
            "cpu_ns_per_request",
            "warnings",
        ],
    );
}
