//! What a load report says.

use record::{LoadReport, Percentiles};
use units::format_ns;

use crate::document::{Block, Document};

pub(crate) fn document(report: &LoadReport) -> Document {
    let mut page = vec![Block::Paragraph(summary(report))];
    page.push(latency_table(report));
    page.push(Block::List(facts(report)));
    if !report.warnings.is_empty() {
        page.push(Block::Heading("Warnings".to_owned()));
        page.push(Block::List(report.warnings.iter().map(|warning| warning.text.clone()).collect()));
    }
    page
}

fn summary(report: &LoadReport) -> String {
    let partial = if report.partial { "PARTIAL (interrupted): " } else { "" };
    format!(
        "{partial}{:.0} requests/s from {} in {} ({} requests over {} connections, {} threads).",
        report.rate_per_s,
        report.url,
        format_ns(report.window_ns as f64),
        report.requests,
        report.connections.established,
        report.threads,
    )
}

fn latency_table(report: &LoadReport) -> Block {
    let open = report.schedule.rate_per_s.is_some();
    let mut rows = vec![row("response", &report.response_ns)];
    if open {
        rows.push(row("service", &report.service_ns));
        rows.push(row("send lag", &report.send_lag_ns));
    }
    Block::table(["latency", "p50", "p75", "p90", "p99", "p99.9", "max", "mean"], rows)
}

fn row(name: &str, values: &Percentiles) -> [String; 8] {
    let ns = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64));
    [
        name.to_owned(),
        ns(values.p50),
        ns(values.p75),
        ns(values.p90),
        ns(values.p99),
        ns(values.p99_9),
        format_ns(values.max as f64),
        format_ns(values.mean),
    ]
}

fn facts(report: &LoadReport) -> Vec<String> {
    let errors = report.errors.kinds().map(|(kind, count)| format!("{kind} {count}"));
    let cpu = &report.cpu_ns_per_request;
    let mut facts = vec![
        format!("errors: {}; unfinished {}, unsent {}", errors.join(", "), report.unfinished, report.unsent),
        format!("generator CPU: {} user, {} system per request", format_ns(cpu.user), format_ns(cpu.system)),
    ];
    if let (Some(rate), Some(ratio)) = (report.schedule.rate_per_s, report.rate_ratio) {
        let arrival = report.schedule.arrival.as_deref().unwrap_or("constant");
        facts.push(format!(
            "schedule: {rate} requests/s, {arrival} arrivals; {:.2} % of it was answered",
            ratio * 100.0
        ));
    }
    if let Some([low, high]) = report.response_ns.ci.get("p99") {
        facts.push(format!("p99 interval (95 %): {} to {}", format_ns(*low as f64), format_ns(*high as f64)));
    }
    facts
}
