//! Gates on what was answered: the same thing, and without errors.

use model::job::Requests;
use model::plan::{GateId, Same};
use model::record::{ArmAnswers, Reply, RequestAnswers, Window};

use super::sameness::{difference, is_framing};
use super::{Answered, Gate, GateSays, PerArm, Unlike, holds};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// Relative difference in bytes per answer that still counts as the same answer.
const MAX_WIRE_DIFFERENCE: f64 = 0.02;
/// Share of requests that may fail.
const MAX_ERRORS: f64 = 0.001;

/// `parity`: every arm answers as the baseline does.
pub(super) fn parity(sheet: &Sheet) -> Vec<Gate> {
    let workload = &sheet.plan().workload;
    let Some(baseline) = answers(sheet, sheet.baseline()) else {
        return vec![holds(GateId::Parity, GateSays::NoAnswer)];
    };
    let mut rows = Vec::new();
    let mut same = 0;
    for arm in sheet.others() {
        let Some(other) = answers(sheet, arm) else { continue };
        let probed = difference(&baseline, &other, workload.same).map(Unlike::Probed);
        match probed.or_else(|| loaded_difference(sheet, arm)) {
            None => same += 1,
            Some(found) => rows.push(different(sheet.baseline(), arm, found, workload.allow_difference)),
        }
    }
    if rows.is_empty() {
        rows.push(holds(GateId::Parity, GateSays::Alike { arms: same + 1, answer: answered(&baseline) }));
    }
    rows
}

/// What the baseline answers.
fn answered(baseline: &ArmAnswers) -> Answered {
    let first = baseline.requests.iter().find_map(|answers| answers.replies.first());
    match (first, baseline.requests.len()) {
        (Some(reply), 1) => Answered::One { status: reply.status, body_bytes: reply.body_bytes },
        (_, requests) => Answered::Several(requests),
    }
}

fn different(name: &str, arm: &str, found: Unlike, allowed: bool) -> Gate {
    Gate {
        ok: allowed,
        arm: Some(arm.to_owned()),
        voids: if allowed { Vec::new() } else { Metric::ALL.to_vec() },
        ..holds(GateId::Parity, GateSays::Unlike { baseline: name.to_owned(), found, allowed })
    }
}

/// What differs between the answers to the load, where those to the first question were alike.
fn loaded_difference(sheet: &Sheet, arm: &str) -> Option<Unlike> {
    let workload = &sheet.plan().workload;
    // Chance moves the mean where requests are drawn, and where answers are cut off.
    let comparable = matches!(workload.job.requests, Requests::Same(_)) && !workload.job.is_cut();
    if !comparable || workload.same == Same::Status {
        return None;
    }
    let (base, other) = (bytes_per_answer(sheet, sheet.baseline())?, bytes_per_answer(sheet, arm)?);
    let said = framing_bytes(sheet, arm) - framing_bytes(sheet, sheet.baseline());
    let unlike = ((other - said) / base - 1.0).abs() > MAX_WIRE_DIFFERENCE;
    unlike.then_some(Unlike::Loaded([other, base]))
}

/// Bytes in which the first answer of an arm says how its connection and its body are framed, which is no part of the answer.
fn framing_bytes(sheet: &Sheet, arm: &str) -> f64 {
    const BESIDE: usize = ": \r\n".len();
    let answers = answers(sheet, arm);
    let first = answers.as_ref().and_then(|answers| answers.requests.first()?.replies.first());
    let fields = first.into_iter().flat_map(|reply| &reply.fields);
    let framing = fields.filter(|(name, _)| is_framing(name));
    framing.map(|(name, value)| (name.len() + value.len() + BESIDE) as f64).sum()
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
    let answers = RequestAnswers { request: "GET".to_owned(), replies: vec![reply], left_open: false };
    Some(ArmAnswers { arm: arm.to_owned(), requests: vec![answers] })
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
        let kinds = errors.kinds().into_iter().filter(|(_, count)| *count > 0);
        gate.add(&arm.name, share, &Metric::ALL, || GateSays::Errors(kinds.collect()));
    }
    gate.rows(GateSays::FewErrors)
}
