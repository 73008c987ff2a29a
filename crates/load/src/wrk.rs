//! A run in the words of wrk and of wrk2, for whoever reads those with a program.
//!
//! Source: wrk 4.1, `wrk.c` and `units.c`; wrk2, `wrk.c` and hdr_histogram's `hdr_percentiles_print`.

use std::fmt::Write;
use std::time::Duration;

use crate::export::spectrum;
use crate::{Latencies, Outcome};

/// Nanoseconds of a microsecond, the unit of wrk's latencies.
const MICROSECOND_NS: f64 = 1e3;

/// What of a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The length of the window that was asked for.
    pub duration: Duration,
    /// `-L`: the distribution of latencies.
    pub latency: bool,
    /// `-U` of wrk2: the latencies counted from when requests were really sent, too.
    pub uncorrected: bool,
}

/// The text, as wrk prints a closed loop and wrk2 an open one.
#[must_use]
pub fn text(outcome: &Outcome, page: &Page) -> String {
    let report = &outcome.report;
    let mut text = format!(
        "Running {} test @ {}\n  {} threads and {} connections\n",
        scaled(page.duration.as_secs() as f64, &SECONDS, 0),
        report.url,
        report.threads,
        report.connections.requested,
    );
    text += &format!("  Thread Stats{:>6}{:>11}{:>8}{:>12}\n", "Avg", "Stdev", "Max", "+/- Stdev");
    text += &latency_row(&outcome.response);
    text += &rate_row(&outcome.thread_rates_per_s);
    text += &distributions(outcome, page);
    text + &totals(outcome)
}

fn distributions(outcome: &Outcome, page: &Page) -> String {
    const RULE: &str = "----------------------------------------------------------\n";
    let closed = outcome.report.schedule.rate_per_s.is_none();
    let mut text = String::new();
    if closed && page.latency {
        text += "  Latency Distribution\n";
        text += &percentiles(&outcome.response, &[50.0, 75.0, 90.0, 99.0], 0);
    }
    if !closed && (page.latency || page.uncorrected) {
        text += &detailed(&outcome.response, "Recorded Latency");
        text += RULE;
    }
    if let Some(service) = outcome.service.as_ref().filter(|_| page.uncorrected) {
        let what = "Uncorrected Latency (measured without taking delayed starts into account)";
        text += &format!("\n{}{RULE}", detailed(service, what));
    }
    text
}

fn detailed(latencies: &Latencies, what: &str) -> String {
    let wanted = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];
    format!(
        "  Latency Distribution (HdrHistogram - {what})\n{}\n  Detailed Percentile spectrum:\n{}",
        percentiles(latencies, &wanted, 3),
        spectrum(latencies)
    )
}

fn percentiles(latencies: &Latencies, wanted: &[f64], digits: usize) -> String {
    wanted.iter().fold(String::new(), |mut text, percent| {
        let ns = latencies.value_at_quantile(percent / 100.0);
        let value = padded(&microseconds(ns as f64 / MICROSECOND_NS), 10);
        writeln!(text, "{percent:7.digits$}%{value}").expect("writing to a string cannot fail");
        text
    })
}

fn latency_row(latencies: &Latencies) -> String {
    let (mean, stdev) = (latencies.mean(), latencies.stdev());
    let within = latencies.count_between((mean - stdev).max(0.0) as u64, (mean + stdev) as u64);
    let share = within as f64 / latencies.len().max(1) as f64;
    let max = if latencies.is_empty() { 0 } else { latencies.max() };
    let us = |ns: f64| microseconds(ns / MICROSECOND_NS);
    row("Latency", [us(mean), us(stdev), us(max as f64)], share)
}

fn rate_row(rates: &[f64]) -> String {
    let count = rates.len().max(1) as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let stdev = (rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt();
    let within = rates.iter().filter(|rate| (**rate - mean).abs() <= stdev).count();
    let max = rates.iter().copied().fold(0.0, f64::max);
    row("Req/Sec", [mean, stdev, max].map(|rate| scaled(rate, &METRIC, 2)), within as f64 / count)
}

fn row(name: &str, [mean, stdev, max]: [String; 3], within: f64) -> String {
    let (mean, stdev, max) = (padded(&mean, 8), padded(&stdev, 10), padded(&max, 9));
    format!("    {name:<10}{mean}{stdev}{max}{:8.2}%\n", within * 100.0)
}

fn totals(outcome: &Outcome) -> String {
    let report = &outcome.report;
    let seconds = report.window_ns as f64 / 1e9;
    let per_s = |amount: f64| if seconds > 0.0 { amount / seconds } else { 0.0 };
    let mut text = format!(
        "  {} requests in {}, {}B read\n",
        report.requests,
        microseconds(report.window_ns as f64 / MICROSECOND_NS),
        scaled(report.bytes_read as f64, &BINARY, 2)
    );
    let errors = &report.errors;
    // wrk has no word for an answer that is not HTTP, or for bytes that answer nothing, but that it failed to read it.
    let read = errors.read + errors.parse + errors.surplus;
    if errors.connect + read + errors.write + errors.timeout > 0 {
        text += &format!(
            "  Socket errors: connect {}, read {read}, write {}, timeout {}\n",
            errors.connect, errors.write, errors.timeout
        );
    }
    if errors.status > 0 {
        text += &format!("  Non-2xx or 3xx responses: {}\n", errors.status);
    }
    text += &format!("Requests/sec: {:9.2}\n", report.rate_per_s);
    text + &format!("Transfer/sec: {:>10}B\n", scaled(per_s(report.bytes_read as f64), &BINARY, 2))
}

/// Where the figures differ from those that wrk or wrk2 would have printed of the same run, in one line.
#[must_use]
pub fn note(outcome: &Outcome) -> Option<String> {
    let report = &outcome.report;
    let closed = report.schedule.rate_per_s.is_none();
    let mut parts = Vec::new();
    if closed {
        let added = synthetic(outcome);
        if added > 0 {
            parts.push(format!(
                "each latency was measured: wrk would have added {added} samples that it did not take"
            ));
        }
    } else {
        parts.push(
            "the latencies are of the whole window, from the first request on: wrk2 leaves out its first 10 s"
                .to_owned(),
        );
    }
    let unanswered = report.unfinished + report.unsent + report.errors.timeout;
    if unanswered > 0 {
        let who = if closed { "wrk" } else { "wrk2" };
        parts.push(format!(
            "{unanswered} requests without an answer count as at least as long as they had waited: {who} leaves them out"
        ));
    }
    (!parts.is_empty()).then(|| format!("note: {}", parts.join("; ")))
}

/// Samples that wrk adds to those it took: for a latency of several mean intervals, one for each interval but the last
/// two.
///
/// Source: wrk 4.1, `stats_correct`.
fn synthetic(outcome: &Outcome) -> u64 {
    let report = &outcome.report;
    let each = report.requests / report.connections.requested.max(1);
    if each == 0 {
        return 0;
    }
    let interval = (report.window_ns / each).max(1);
    let added = outcome.response.iter_recorded().map(|step| {
        let intervals = step.value_iterated_to().div_ceil(interval);
        intervals.saturating_sub(2) * step.count_at_value()
    });
    added.sum()
}

/// Names of rising units, each `scale` times the one before.
struct Units {
    scale: f64,
    base: &'static str,
    names: &'static [&'static str],
}

const MICROSECONDS: Units = Units { scale: 1000.0, base: "us", names: &["ms"] };
const SECONDS: Units = Units { scale: 60.0, base: "s", names: &["m"] };
const METRIC: Units = Units { scale: 1000.0, base: "", names: &["k", "M", "G", "T"] };
const BINARY: Units = Units { scale: 1024.0, base: "", names: &["K", "M", "G", "T"] };

fn microseconds(us: f64) -> String {
    if us >= 1e6 { scaled(us / 1e6, &SECONDS, 2) } else { scaled(us, &MICROSECONDS, 2) }
}

/// A number in the first unit in which it is below 85 % of the next.
fn scaled(number: f64, units: &Units, digits: usize) -> String {
    const ENOUGH: f64 = 0.85;
    let (mut amount, mut unit) = (number, units.base);
    for name in units.names {
        if amount < units.scale * ENOUGH {
            break;
        }
        amount /= units.scale;
        unit = name;
    }
    format!("{amount:.digits$}{unit}")
}

/// `text` to the right of `width` columns, of which it leaves the last two to units: one letter or none is filled up.
fn padded(text: &str, width: usize) -> String {
    let letter = |from_end: usize| {
        text.len().checked_sub(from_end).is_some_and(|at| text.as_bytes()[at].is_ascii_alphabetic())
    };
    let pad = 2 - usize::from(letter(1)) - usize::from(letter(2));
    let room = width - pad;
    format!("{:>room$}{:pad$}", &text[..text.len().min(room)], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_and_padded_as_wrk_does() {
        let cases = [
            (microseconds(0.0), "0.00us"),
            (microseconds(849.0), "849.00us"),
            (microseconds(850.0), "0.85ms"),
            (microseconds(999_999.0), "1000.00ms"),
            (microseconds(1_500_000.0), "1.50s"),
            (microseconds(60e6), "1.00m"),
            (scaled(10.0, &SECONDS, 0), "10s"),
            (scaled(3600.0, &SECONDS, 0), "60m"),
            (scaled(849.0, &METRIC, 2), "849.00"),
            (scaled(1_234_567.0, &METRIC, 2), "1.23M"),
            (scaled(870.0, &BINARY, 2), "870.00"),
            (scaled(871.0, &BINARY, 2), "0.85K"),
        ];
        for (got, want) in cases {
            assert_eq!(got, want);
        }
        assert_eq!(padded("1.23ms", 8), "  1.23ms");
        assert_eq!(padded("1.23k", 8), "  1.23k ");
        assert_eq!(padded("849.00", 8), "849.00  ");
        assert_eq!(padded("123456789.00", 8), "123456  ");
    }
}
