//! Gates on what was answered: the same thing, and without errors.

use model::record::{Answer, Window};

use super::{Gate, PerArm, holds};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use crate::facts::words::percent;

/// Relative difference in bytes per answer that still counts as the same answer.
const MAX_WIRE_DIFFERENCE: f64 = 0.02;
/// Share of requests that may fail.
const MAX_ERRORS: f64 = 0.001;

/// `parity`: every arm answers as the baseline does.
pub(super) fn parity(sheet: &Sheet) -> Vec<Gate> {
    let allowed = sheet.plan().workload.allow_difference;
    let Some(baseline) = answer(sheet, sheet.baseline()) else {
        return vec![holds("parity", "the baseline never answered")];
    };
    let mut rows = Vec::new();
    let mut same = 0;
    for arm in sheet.others() {
        let Some(other) = answer(sheet, arm) else { continue };
        match difference(baseline, other).or_else(|| loaded_difference(sheet, arm)) {
            None => same += 1,
            Some(text) => rows.push(different(sheet.baseline(), arm, baseline, other, &text, allowed)),
        }
    }
    if rows.is_empty() {
        let text = format!(
            "{} arms answer alike: status {}, {} bytes",
            same + 1,
            baseline.status,
            baseline.wire_bytes
        );
        rows.push(holds("parity", text));
    }
    rows
}

fn different(name: &str, arm: &str, baseline: &Answer, other: &Answer, text: &str, allowed: bool) -> Gate {
    let advice = if allowed {
        "allowed by --allow-difference"
    } else {
        "make them alike, or pass --allow-difference to go on"
    };
    Gate {
        id: "parity".to_owned(),
        ok: allowed,
        arm: Some(arm.to_owned()),
        value: Some(other.wire_bytes as f64 / baseline.wire_bytes.max(1) as f64),
        limit: Some(1.0 + MAX_WIRE_DIFFERENCE),
        text: format!("'{arm}' does not answer as '{name}': {text}; {advice}"),
        voids: if allowed { Vec::new() } else { Metric::ALL.to_vec() },
    }
}

/// What differs between the answers to the load, where those to the first question were alike.
fn loaded_difference(sheet: &Sheet, arm: &str) -> Option<String> {
    let (base, other) = (bytes_per_answer(sheet, sheet.baseline())?, bytes_per_answer(sheet, arm)?);
    let unlike = (other / base - 1.0).abs() > MAX_WIRE_DIFFERENCE;
    unlike.then(|| format!("{other:.0} instead of {base:.0} bytes in each answer under load"))
}

/// Mean bytes of an answer to the load; absent where answers at the edges of windows, of which only a part is counted,
/// would weigh too much.
fn bytes_per_answer(sheet: &Sheet, arm: &str) -> Option<f64> {
    /// Requests for each one that may be under way at an edge, at least.
    const MANY: u64 = 100;
    let windows = sheet.windows(arm, sheet.main);
    let sum = |of: fn(&Window) -> u64| windows.iter().map(|window| of(window)).sum::<u64>();
    let requests = sum(|window| window.load.requests);
    let under_way = sum(|window| window.load.connections.established * u64::from(window.load.pipeline));
    (requests > 0 && requests >= MANY * under_way)
        .then(|| sum(|window| window.load.bytes_read) as f64 / requests as f64)
}

fn answer<'a>(sheet: &Sheet<'a>, arm: &str) -> Option<&'a Answer> {
    let rounds = &sheet.run.rounds;
    rounds.iter().filter(|record| record.arm == arm).find_map(|record| record.answer.as_ref())
}

/// What differs between two answers, in words; nothing where they are alike.
#[must_use]
pub fn difference(baseline: &Answer, other: &Answer) -> Option<String> {
    let mut found = Vec::new();
    if baseline.status != other.status {
        found.push(format!("status {} instead of {}", other.status, baseline.status));
    }
    if baseline.body_sha256 != other.body_sha256 {
        found.push(body_difference(baseline, other));
    }
    let extra = missing_from(other, baseline);
    let missing = missing_from(baseline, other);
    if !extra.is_empty() {
        found.push(format!("extra header {}", extra.join(", ")));
    }
    if !missing.is_empty() {
        found.push(format!("no header {}", missing.join(", ")));
    }
    let bytes = other.wire_bytes as i64 - baseline.wire_bytes as i64;
    if bytes.unsigned_abs() as f64 > baseline.wire_bytes as f64 * MAX_WIRE_DIFFERENCE {
        let word = if bytes > 0 { "more" } else { "fewer" };
        found.push(format!("{} bytes {word} in each answer", bytes.abs()));
    }
    (!found.is_empty()).then(|| found.join(", "))
}

fn body_difference(baseline: &Answer, other: &Answer) -> String {
    if baseline.body_bytes == other.body_bytes {
        return format!("another body of the same {} bytes", other.body_bytes);
    }
    format!("a body of {} bytes instead of {}", other.body_bytes, baseline.body_bytes)
}

/// Header names of `of` that `from` lacks, lower case, each once.
fn missing_from(of: &Answer, from: &Answer) -> Vec<String> {
    let has = |name: &str| from.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut names: Vec<String> =
        of.headers.iter().filter(|(name, _)| !has(name)).map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.dedup();
    names
}

/// `errors`: almost every request was answered, in every arm.
pub(super) fn errors(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new("errors", MAX_ERRORS, true);
    for arm in &sheet.plan().arms {
        let mut errors = model::record::Errors::default();
        let mut requests = 0;
        for record in sheet.rounds_of(&arm.name) {
            for window in &record.windows {
                requests += window.load.requests;
                errors += window.load.errors;
            }
        }
        let share = errors.total() as f64 / (requests + errors.total()).max(1) as f64;
        gate.add(&arm.name, share, &Metric::ALL, || {
            format!(
                "'{}' failed {} of its requests ({}): look at its log",
                arm.name,
                percent(share),
                kinds(&errors)
            )
        });
    }
    gate.rows(|worst| format!("at most {} of requests failed", percent(worst)))
}

fn kinds(errors: &model::record::Errors) -> String {
    let seen: Vec<String> = errors
        .kinds()
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    seen.join(", ")
}
