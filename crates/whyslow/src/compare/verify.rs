//! `--verify` and `targets verify`: each arm started once and its answers checked.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, anyhow};
use launch::{BuildStep, Check, LaunchError, Launcher, Spec, free_port};
use model::plan::{Arm, Placement, Plan, Workload};
use model::record::{RequestAnswers, status_name};
use serde::Serialize;

use super::contained;
use super::reach::{Place, Starting, on_loopback};
use super::server::placeholders;
use super::services::InTurn;
use crate::cli::Format;
use crate::exit::{Exit, Outcome};
use crate::interrupt::Interrupt;

/// A status from which on an answer is an error.
const FIRST_ERROR: u16 = 400;
/// What stands for a run in the name of a container.
const VERIFYING: &str = "verify";
/// Lines of a log that are shown of a failure.
const LOG_LINES: usize = 5;
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
    let interrupt = Interrupt::listen()?;
    let launcher = Launcher::this_program().until(interrupt.flag().clone());
    let mut seen = Vec::new();
    let mut beside = InTurn::new();
    for (arm, workload) in arms {
        let with = With { launcher: &launcher, limit, beside: &mut beside };
        let verified = Verified::for_arm(&arm, &workload, placement, with);
        if interrupt.is_set() {
            return Err(anyhow!("interrupted while '{}' was checked", arm.name).into());
        }
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
    /// The last lines of its log then.
    log: Vec<String>,
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
        let (checks, error, log) = match checks_within(arm, workload, placement, with) {
            Ok(checks) => (checks, None, Vec::new()),
            Err(error) => {
                let log = error.downcast_ref::<LaunchError>().map(|error| error.failure().log);
                (Vec::new(), Some(crate::exit::told(&error)), log.unwrap_or_default())
            }
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
        Self { arm: arm.name.clone(), ok, error, log, checks }
    }

    fn lines(&self) -> String {
        let failed =
            self.error.iter().map(|error| format!("FAILED {}: {error}{}\n", self.arm, log_end(&self.log)));
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

/// The last of these lines of a log, below what is said of it; nothing where there are none.
pub(crate) fn log_end(log: &[String]) -> String {
    let last = &log[log.len().saturating_sub(LOG_LINES)..];
    let lines: String =
        last.iter().map(|line| format!("\n    {}", line.replace(char::is_control, ""))).collect();
    if lines.is_empty() { lines } else { format!("; its log ends:{lines}") }
}

/// What an arm is started with.
struct With<'w> {
    launcher: &'w Launcher,
    /// How long may pass until the first right answer.
    limit: Duration,
    /// What runs beside.
    beside: &'w mut InTurn,
}

/// Starts `arm` and makes every check.
pub(crate) fn checks_of(
    arm: &Arm,
    workload: &Workload,
    placement: &Placement,
    (launcher, beside): (&Launcher, &mut InTurn),
) -> anyhow::Result<Vec<launch::Check>> {
    checks_within(arm, workload, placement, With { launcher, limit: READY_LIMIT, beside })
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
    With { launcher, limit, beside }: With<'_>,
    log: &Path,
) -> anyhow::Result<Vec<launch::Check>> {
    if let Some(running) = arm.source.running() {
        let place = Place { workload, arm, placement, address: running.address, services: Vec::new() };
        place.meet()?;
        return Ok(every(&place));
    }
    let mut say = |step: &BuildStep| {
        if step.step == 1 {
            crate::say(&format!("building {}", arm.name));
        }
    };
    launcher.build(arm, &placeholders(arm, placement, 0), log, &mut say).context("it does not build")?;
    // Any port will do: nothing is measured.
    let port = free_port(u64::from(std::process::id()))?;
    let services = beside.places(arm, launcher, placement, limit)?;
    let address = on_loopback(port.number());
    let mut place = Place { workload, arm, placement, address, services };
    let spec = Spec { cpus: Some(placement.server.clone()), ..Spec::of_arm(arm, &place.values(), log) };
    let mut process = contained::start(launcher, arm, spec, VERIFYING, limit)?.process;
    let ready = place.wait_ready(&mut process, &Starting { launcher, log, limit });
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
