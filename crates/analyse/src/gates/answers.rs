//! Gates on what was answered: the same thing, and without errors.

use model::job::Requests;
use model::plan::{GateId, Same};
use model::record::{ArmAnswers, Reply, RequestAnswers, Window};

use super::sameness::difference;
use super::{Gate, PerArm, holds};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use model::units::percent;

/// Relative difference in bytes per answer that still counts as the same answer.
const MAX_WIRE_DIFFERENCE: f64 = 0.02;
/// Share of requests that may fail.
const MAX_ERRORS: f64 = 0.001;

/// `parity`: every arm answers as the baseline does.
pub(super) fn parity(sheet: &Sheet) -> Vec<Gate> {
    let workload = &sheet.plan().workload;
    let Some(baseline) = answers(sheet, sheet.baseline()) else {
        return vec![holds(GateId::Parity, "the baseline never answered")];
    };
    let mut rows = Vec::new();
    let mut same = 0;
    for arm in sheet.others() {
        let Some(other) = answers(sheet, arm) else { continue };
        match difference(&baseline, &other, workload.same).or_else(|| loaded_difference(sheet, arm)) {
            None => same += 1,
            Some(text) => rows.push(different(sheet.baseline(), arm, &text, workload.allow_difference)),
        }
    }
    if rows.is_empty() {
        rows.push(holds(
            GateId::Parity,
            format!("{} arms answer alike: {}", same + 1, answer_words(&baseline)),
        ));
    }
    rows
}

/// What the baseline answers, in words.
fn answer_words(baseline: &ArmAnswers) -> String {
    let first = baseline.requests.iter().find_map(|asked| asked.replies.first());
    match (first, baseline.requests.len()) {
        (Some(reply), 1) => format!("status {}, {} bytes", reply.status, reply.body_bytes),
        (_, requests) => format!("{requests} requests, each asked a few times"),
    }
}

fn different(name: &str, arm: &str, text: &str, allowed: bool) -> Gate {
    let advice = if allowed {
        "allowed by --allow-difference"
    } else {
        "make them alike, ask for less with --same, or pass --allow-difference to go on"
    };
    Gate {
        id: GateId::Parity,
        ok: allowed,
        arm: Some(arm.to_owned()),
        value: None,
        limit: None,
        text: format!("'{arm}' does not answer as '{name}': {text}; {advice}"),
        voids: if allowed { Vec::new() } else { Metric::ALL.to_vec() },
    }
}

/// What differs between the answers to the load, where those to the first question were alike.
fn loaded_difference(sheet: &Sheet, arm: &str) -> Option<String> {
    // Requests that are drawn bring a mean that chance moves.
    if !matches!(sheet.plan().workload.job.requests, Requests::Same(_))
        || sheet.plan().workload.same == Same::Status
    {
        return None;
    }
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

/// What an arm answered; runs of before arms were asked a few times kept one answer, without its body.
fn answers(sheet: &Sheet, arm: &str) -> Option<ArmAnswers> {
    if !sheet.run.answers.is_empty() {
        return sheet.run.answers.iter().find(|answers| answers.arm == arm).cloned();
    }
    let rounds = &sheet.run.rounds;
    let answer =
        rounds.iter().filter(|record| record.arm == arm).find_map(|record| record.answer.as_ref())?;
    let reply = Reply {
        status: answer.status,
        fields: answer.headers.clone(),
        closed: answer.headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
        }),
        body_bytes: answer.body_bytes,
        body_sha256: answer.body_sha256.clone(),
        body: Vec::new(),
    };
    let asked = RequestAnswers { request: "GET".to_owned(), replies: vec![reply] };
    Some(ArmAnswers { arm: arm.to_owned(), requests: vec![asked] })
}

/// `errors`: almost every request was answered, in every arm.
pub(super) fn errors(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Errors, MAX_ERRORS, true);
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
