//! Load reports for programs that keep series.

use report::{load_csv, load_otlp, load_prometheus};
use serde_json::Value;

fn report() -> model::record::LoadReport {
    let mut report = testkit::load_report(50_000.0);
    report.url = "http://127.0.0.1/a\"b\\c".to_owned();
    report.response_ns.p99 = Some(1_500_000);
    report.response_ns.p99_999 = None;
    report.errors.timeout = 7;
    report.seconds = vec![
        model::record::Second { requests: 10, errors: 1, p50_ns: Some(20), p99_ns: Some(30) },
        model::record::Second { requests: 0, errors: 0, p50_ns: None, p99_ns: None },
    ];
    report
}

#[test]
fn the_series_has_a_row_for_each_second() {
    assert_eq!(load_csv(&report()), "second,requests,errors,p50_ns,p99_ns\n0,10,1,20,30\n1,0,0,,\n");
}

#[test]
fn every_prometheus_sample_belongs_to_a_declared_family_and_its_labels_are_escaped() {
    let text = load_prometheus(&report());
    let mut families = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            families.push(rest.split(' ').next().unwrap().to_owned());
        } else if !line.starts_with('#') {
            let (name, rest) = line.split_once('{').unwrap();
            let family = name.trim_end_matches("_sum").trim_end_matches("_count");
            assert!(families.iter().any(|known| known == family || known == name), "{line}");
            let (labels, value) = rest.rsplit_once("} ").unwrap();
            assert!(labels.starts_with(r#"url="http://127.0.0.1/a\"b\\c""#), "{line}");
            value.parse::<f64>().unwrap();
        }
    }
    assert!(families.len() > 8, "{families:?}");
    assert!(text.contains("quantile=\"0.99\"} 0.0015\n"), "{text}");
    assert!(text.contains("kind=\"timeout\"} 7\n"), "{text}");
    assert!(!text.contains("0.99999\""), "a percentile that is absent has no sample");
}

#[test]
fn otlp_has_the_figures_with_their_units_on_one_line() {
    let text = load_otlp(&report(), 1_700_000_000_000_000_000);
    assert_eq!(text.lines().count(), 1);
    let value: Value = serde_json::from_str(&text).unwrap();
    let metrics = value["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
    let response = &metric("whyslow.load.response")["summary"]["dataPoints"][0];
    let p99 =
        response["quantileValues"].as_array().unwrap().iter().find(|row| row["quantile"] == 0.99).unwrap();
    assert_eq!(p99["value"], 0.0015);
    assert_eq!(response["timeUnixNano"], "1700000000000000000");
    let errors = metric("whyslow.load.errors")["sum"]["dataPoints"].as_array().unwrap();
    assert!(errors.iter().any(|point| point["asInt"] == "7"));
    assert!(metrics.iter().all(|metric| metric["unit"].is_string()));
}
