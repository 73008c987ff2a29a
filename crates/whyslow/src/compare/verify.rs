//! `--verify` and `targets verify`: each arm started once and its answers checked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use launch::{Check, Launcher, Spec, free_port};
use model::plan::{Arm, Placement, Plan, Workload};
use model::record::{RequestAnswers, status_name};
use serde::Serialize;

use super::contained;
use super::reach::{Place, Starting, on_loopback};
use super::server::placeholders;
use super::services::InTurn;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};

/// A status from which on an answer is an error.
const FIRST_ERROR: u16 = 400;
/// What stands for a run in the name of a container.
const VERIFYING: &str = "verify";
/// Longest wait for the first right answer.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(60);

/// Starts each arm of `plan` once and prints what it did.
pub(crate) fn run(plan: &Plan, format: Format) -> Outcome {
    // All of them are there for every arm, as in a comparison.
    let beside = |arm: &Arm| Arm { services: plan.services.clone(), ..arm.clone() };
    let arms = plan.arms.iter().map(|arm| (beside(arm), plan.workload.clone())).collect();
    verify(arms, &plan.placement, plan.timing.ready_limit.0, format)
}

/// Starts each arm once, asks it for its workload, and prints every check.
pub(crate) fn verify(
    arms: Vec<(Arm, Workload)>,
    placement: &Placement,
    limit: Duration,
    format: Format,
) -> Outcome {
    let mut seen = Vec::new();
    let mut beside = InTurn::new();
    for (arm, workload) in arms {
        let verified = Verified::for_arm(&arm, &workload, placement, (limit, &mut beside));
        match format {
            Format::Json => {}
            Format::Text => crate::print(&verified.lines())?,
            Format::Md => {
                verified.lines().lines().try_for_each(|line| crate::print(&format!("- {line}\n")))?
            }
        }
        seen.push(verified);
    }
    if format == Format::Json {
        crate::print_json(&seen)?;
    }
    Ok(if seen.iter().all(|arm| arm.ok) { Exit::Done } else { Exit::Failed })
}

/// What one arm did when it was started to be looked at.
#[derive(Serialize)]
struct Verified {
    arm: String,
    ok: bool,
    /// Why it could not be asked.
    error: Option<String>,
    checks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    ok: bool,
    /// Whether a comparison does without it.
    optional: bool,
    text: String,
}

impl Verified {
    fn for_arm(arm: &Arm, workload: &Workload, placement: &Placement, with: With<'_>) -> Self {
        let (checks, error) = match checks_within(arm, workload, placement, with) {
            Ok(checks) => (checks, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        // A target of ours does all that the others do; somebody's own command has to give the answer.
        let optional = |name: &str| !arm.source.is_ours() && name != "answer";
        let row = |check: launch::Check| Row {
            name: check.name,
            ok: check.ok,
            optional: optional(check.name),
            text: check.text,
        };
        let checks: Vec<Row> = checks.into_iter().map(row).collect();
        let ok = error.is_none() && checks.iter().all(|check| check.ok || check.optional);
        Self { arm: arm.name.clone(), ok, error, checks }
    }

    fn lines(&self) -> String {
        let failed = self.error.iter().map(|error| format!("FAILED {}: {error}\n", self.arm));
        let checks = self.checks.iter().map(|check| {
            let word = match (check.ok, check.optional) {
                (true, _) => "ok    ",
                (false, true) => "note  ",
                (false, false) => "FAILED",
            };
            format!("{word} {}: {}: {}\n", self.arm, check.name, check.text)
        });
        failed.chain(checks).collect()
    }
}

/// How long may pass until the first right answer, and what runs beside.
type With<'w> = (Duration, &'w mut InTurn);

/// Starts `arm` and makes every check.
pub(crate) fn checks_of(
    arm: &Arm,
    workload: &Workload,
    placement: &Placement,
    beside: &mut InTurn,
) -> anyhow::Result<Vec<launch::Check>> {
    checks_within(arm, workload, placement, (READY_LIMIT, beside))
}

fn checks_within(
    arm: &Arm,
    workload: &Workload,
    placement: &Placement,
    with: With<'_>,
) -> anyhow::Result<Vec<launch::Check>> {
    let log = std::env::temp_dir().join(format!("whyslow-verify-{}-{}.log", std::process::id(), arm.name));
    let outcome = checks(arm, workload, placement, with, &log);
    // The log is for the failure's text only, which has its last lines by now.
    let _ = std::fs::remove_file(&log);
    let _ = std::fs::remove_file(contained::overlay_of(&log));
    outcome
}

fn checks(
    arm: &Arm,
    workload: &Workload,
    placement: &Placement,
    (limit, beside): With<'_>,
    log: &Path,
) -> anyhow::Result<Vec<launch::Check>> {
    if let Some(running) = arm.source.running() {
        let place = Place { workload, arm, placement, address: running.address, services: Vec::new() };
        place.meet()?;
        return Ok(every(&place));
    }
    let launcher = Launcher::this_program();
    launcher.build(arm, &placeholders(arm, placement, 0), log, &mut |_| {}).context("it does not build")?;
    // Any port will do: nothing is measured.
    let port = free_port(u64::from(std::process::id()))?;
    let services = beside.places(arm, &launcher, placement, limit)?;
    let address = on_loopback(port);
    let place = Place { workload, arm, placement, address, services };
    let spec = Spec { cpus: Some(placement.server.clone()), ..Spec::of_arm(arm, &place.values(), log) };
    let mut process = contained::start(&launcher, arm, spec, VERIFYING, limit)?.process;
    let ready = place.wait_ready(&mut process, &Starting { launcher: &launcher, log, limit });
    let checks = ready.map(|_| every(&place));
    let _ = process.stop();
    checks.map_err(|error| contained::explained(arm, error)).context("it is not ready")
}

/// Every check of a server that is ready.
fn every(place: &Place<'_>) -> Vec<Check> {
    match place.is_plain() && place.workload.job.is_bare_get() {
        true => launch::verify(place.address, &place.workload.path, &place.arm.expect),
        false => other_requests(place),
    }
}

/// What is checked of requests other than a GET: that each is answered, and as expected.
fn other_requests(place: &Place<'_>) -> Vec<Check> {
    let check = |ok, text| Check { name: "answer", ok, text };
    let answers = match place.answers(&AtomicBool::new(false)) {
        Ok(answers) => answers,
        Err(why) => return vec![check(false, why)],
    };
    if let Some(what) = place.wrong(&answers) {
        return vec![check(false, what)];
    }
    let line = |answer: &RequestAnswers| {
        let ways: BTreeSet<String> = answer
            .replies
            .iter()
            .map(|reply| format!("status {}, {} bytes", status_name(reply.status), reply.body_bytes))
            .collect();
        let good =
            answer.replies.iter().all(|reply| reply.status < FIRST_ERROR || place.expects(reply.status));
        check(good, format!("{}: {}", answer.request, ways.into_iter().collect::<Vec<_>>().join("; ")))
    };
    answers.iter().map(line).collect()
}
