//! What a load report says: a few lines first, and everything behind `--details`.

use model::record::{Growth, LoadReport, NamedRequests, Percentiles};
use model::units::format_ns;

use crate::document::{Block, Document};

/// Columns of latencies.
const COLUMNS: [&str; 8] = ["latency", "p50", "p75", "p90", "p99", "p99.9", "max", "mean"];

/// Longest URL that is printed whole, in characters.
const URL_CHARACTERS: usize = 200;

/// Everything.
pub(crate) fn document(report: &LoadReport) -> Document {
    if report.is_before_its_window() {
        return vec![Block::Paragraph(unbegun(report))];
    }
    let mut page = vec![Block::Paragraph(summary(report))];
    page.push(latency_table(report));
    page.extend(phase_table(report));
    page.extend(event_table(report));
    page.extend(name_table(report));
    page.push(Block::List(facts(report)));
    if !report.warnings.is_empty() {
        page.push(Block::Heading("Warnings".to_owned()));
        page.push(Block::List(report.warnings.iter().map(|warning| warning.text.clone()).collect()));
    }
    page
}

/// What is read first: rate, response, what failed, and what the reader must know.
pub(crate) fn first(report: &LoadReport) -> Document {
    if report.is_before_its_window() {
        return vec![Block::Paragraph(unbegun(report))];
    }
    let response = row("response", &report.response_ns, censored(report));
    let mut page = vec![Block::Paragraph(summary(report)), Block::table(COLUMNS, vec![response])];
    page.extend(event_table(report));
    page.extend(name_table(report));
    let mut points: Vec<String> = schedule(report).into_iter().collect();
    points.push(failed(report));
    points.extend(users(report));
    points.extend(growth(report));
    points.extend(report.warnings.iter().map(|warning| warning.text.clone()));
    points.push("intervals, errors by kind, the generator's CPU: --details".to_owned());
    page.push(Block::List(points));
    page
}

/// Kinds of errors that there were, and of an open loop what has no answer.
fn failed(report: &LoadReport) -> String {
    let late = [("unfinished", report.unfinished), ("unsent", report.unsent)];
    let late = late.into_iter().filter(|_| is_open(report));
    let kinds = report.errors.kinds().into_iter().chain(late).filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{kind} {count}")).collect();
    format!("errors: {}", if kinds.is_empty() { "none".to_owned() } else { kinds.join(", ") })
}

/// What became of the users of a scenario.
fn users(report: &LoadReport) -> Option<String> {
    let users = report.users.as_ref()?;
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64));
    let took = &users.took_ns;
    let came = match users.not_begun {
        0 => format!("{} came", users.begun),
        waited => format!("{} were due and {} began", users.begun + waited, users.begun),
    };
    Some(format!(
        "users: {came}, {} finished (all steps: p50 {}, p90 {}, max {}), {} failed, {} under way at the end",
        users.finished,
        time(took.p50),
        time(took.p90),
        time((took.count > 0).then_some(took.max)),
        users.failed,
        users.under_way,
    ))
}

fn summary(report: &LoadReport) -> String {
    let partial = if report.partial { "PARTIAL (interrupted): " } else { "" };
    format!(
        "{partial}{} requests/s from {} in {} ({} over {}, {}).",
        rate(report.rate_per_s),
        url(report),
        format_ns(report.window_ns as f64),
        counted(report.requests, "request"),
        counted(report.connections.established, "connection"),
        counted(u64::from(report.threads), "thread"),
    )
}

/// All that is said of a run that was stopped before its window began.
fn unbegun(report: &LoadReport) -> String {
    format!("Interrupted before the window began: nothing was measured of {}.", url(report))
}

/// The URL, cut where it is very long.
fn url(report: &LoadReport) -> String {
    match report.url.char_indices().nth(URL_CHARACTERS) {
        None => report.url.clone(),
        Some((end, _)) => format!("{}… ({} bytes)", &report.url[..end], report.url.len()),
    }
}

/// A rate per second: whole, or with two digits that count where it is below 1.
fn rate(per_s: f64) -> String {
    let decimals = (1.0 - per_s.log10().floor()).clamp(0.0, 9.0) as usize;
    match per_s > 0.0 && per_s < 1.0 {
        true => format!("{per_s:.*}", decimals),
        false => format!("{per_s:.0}"),
    }
}

/// `1 thread`, `2 threads`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn latency_table(report: &LoadReport) -> Block {
    let late = censored(report);
    let mut rows = vec![row("response", &report.response_ns, late)];
    if is_open(report) {
        rows.push(row("service", &report.service_ns, report.unfinished));
        rows.push(row("send lag", &report.send_lag_ns, report.unsent));
    }
    Block::table(COLUMNS, rows)
}

/// Where the time of connections and answers went.
fn phase_table(report: &LoadReport) -> Option<Block> {
    let phases = report.phases.as_ref()?;
    let late = if is_open(report) { report.unfinished } else { 0 };
    let mut rows = vec![row("connect", &phases.connect_ns, 0)];
    rows.extend(phases.tls_ns.as_ref().map(|tls| row("TLS handshake", tls, 0)));
    rows.extend(phases.first_byte_ns.as_ref().map(|first| row("first byte", first, late)));
    rows.push(row("last byte", &phases.last_byte_ns, late));
    let mut columns = COLUMNS;
    columns[0] = "phase";
    Some(Block::table(columns, rows))
}

fn is_open(report: &LoadReport) -> bool {
    report.schedule.rate_per_s.is_some()
}

/// Requests of an open loop whose response is known only as "at least this long". Of a closed loop each connection has one
/// at the window's end, as at any other moment.
fn censored(report: &LoadReport) -> u64 {
    if is_open(report) { report.unfinished + report.unsent } else { 0 }
}

/// Whether a quantile may be any higher: more values are known only as "at least this long" than lie beyond it.
fn is_least(quantile: f64, values: &Percentiles, censored: u64) -> bool {
    censored as f64 > (1.0 - quantile) * values.count as f64
}

fn row(name: &str, values: &Percentiles, censored: u64) -> [String; 8] {
    let least = |quantile| if is_least(quantile, values, censored) { "≥ " } else { "" };
    let ns = |quantile, value: Option<u64>| {
        value.map_or_else(|| "-".to_owned(), |ns| least(quantile).to_owned() + &format_ns(ns as f64))
    };
    // Of none there is neither.
    let some = values.count > 0;
    [
        name.to_owned(),
        ns(0.5, values.p50),
        ns(0.75, values.p75),
        ns(0.9, values.p90),
        ns(0.99, values.p99),
        ns(0.999, values.p99_9),
        // As of p99: one that was on its way when the window ended is no reason to doubt either.
        ns(0.99, some.then_some(values.max)),
        if some { least(0.99).to_owned() + &format_ns(values.mean) } else { "-".to_owned() },
    ]
}

/// How the server grew, where it was watched.
fn growth(report: &LoadReport) -> Option<String> {
    const MIB: f64 = 1024.0 * 1024.0;
    let server = report.server.as_ref()?;
    let slope = |growth: &Growth, unit: f64, name: &str| match growth.low <= 0.0 && growth.high >= 0.0 {
        true => format!(
            "between {:+.1} and {:+.1}{name}/h, which may be none",
            growth.low / unit,
            growth.high / unit
        ),
        false => format!(
            "{:+.1}{name}/h [{:.1}, {:.1}]",
            growth.per_h / unit,
            growth.low / unit,
            growth.high / unit
        ),
    };
    Some(format!(
        "server (process {}): memory {:.1} MiB, {}; descriptors {}, {}",
        server.pid,
        server.rss_bytes as f64 / MIB,
        slope(&server.rss_slope_bytes, MIB, " MiB"),
        server.descriptors,
        slope(&server.descriptors_slope, 1.0, ""),
    ))
}

/// When events came, where answers are streams of them.
fn event_table(report: &LoadReport) -> Option<Block> {
    let events = report.events.as_ref()?;
    let [mut columns, first, gap] =
        [COLUMNS.map(str::to_owned), row("first event", &events.first_ns, 0), row("gap", &events.gap_ns, 0)];
    columns[0] = format!("{} events, {:.0}/s", events.count, events.rate_per_s);
    Some(Block::table(columns.each_ref().map(String::as_str), vec![first, gap]))
}

/// A row for each name that requests have.
fn name_table(report: &LoadReport) -> Option<Block> {
    let ns = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |ns| format_ns(ns as f64));
    let row = |(name, named): (&String, &NamedRequests)| {
        let times = &named.response_ns;
        let counts = [named.requests.to_string(), named.errors.to_string()];
        let [requests, errors] = counts;
        [name.clone(), requests, errors, ns(times.p50), ns(times.p90), ns(times.p99), ns(times.p99_9)]
    };
    let rows: Vec<[String; 7]> = report.requests_by_name.iter().map(row).collect();
    (!rows.is_empty())
        .then(|| Block::table(["request", "requests", "errors", "p50", "p90", "p99", "p99.9"], rows))
}

/// The intervals of the percentiles that are read most.
fn intervals(report: &LoadReport) -> Option<String> {
    let late = censored(report);
    let values = &report.response_ns;
    let interval = |(name, key, quantile): (&str, &str, f64)| {
        let [low, high] = values.ci.get(key)?.map(|ns| format_ns(ns as f64));
        Some(match is_least(quantile, values, late) {
            true => format!("{name} {low} or more"),
            false => format!("{name} {low} to {high}"),
        })
    };
    let intervals: Vec<String> = [("p50", "p50", 0.5), ("p99", "p99", 0.99), ("p99.9", "p99_9", 0.999)]
        .into_iter()
        .filter_map(interval)
        .collect();
    (!intervals.is_empty()).then(|| format!("response intervals (95 %): {}", intervals.join("; ")))
}

fn facts(report: &LoadReport) -> Vec<String> {
    let errors = report.errors.kinds().map(|(kind, count)| format!("{kind} {count}"));
    let cpu = &report.cpu_ns_per_request;
    let mut facts: Vec<String> = users(report).into_iter().collect();
    facts.extend([
        format!("errors: {}; unfinished {}, unsent {}", errors.join(", "), report.unfinished, report.unsent),
        format!("generator CPU: {} user, {} system per request", format_ns(cpu.user), format_ns(cpu.system)),
    ]);
    if report.resent > 0 {
        facts.push(format!(
            "sent once more: {}, as the server closed their connections at that moment; timed from the first time",
            report.resent
        ));
    }
    let lookup_ns = report.phases.as_ref().and_then(|phases| phases.lookup_ns);
    facts.extend(lookup_ns.map(|ns| format!("name look-up: {}", format_ns(ns as f64))));
    facts.extend(growth(report));
    facts.extend(schedule(report));
    facts.extend(intervals(report));
    facts
}

/// The rate that was asked for, and how much of it was answered.
fn schedule(report: &LoadReport) -> Option<String> {
    let (rate, ratio) = report.schedule.rate_per_s.zip(report.rate_ratio)?;
    let what = if report.users.is_some() { "users" } else { "requests" };
    let arrival = report.schedule.arrival.as_deref().unwrap_or("constant");
    Some(format!("schedule: {rate} {what}/s, {arrival} arrivals; {:.2} % of it was answered", ratio * 100.0))
}
