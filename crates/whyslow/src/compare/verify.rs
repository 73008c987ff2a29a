//! `--verify` and `targets verify`: each arm started once and its answers checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use launch::{Launcher, Spec, free_port, wait_ready};
use plan::{Arm, Placement, Plan};

use super::round::placeholders;
use crate::exit::{Exit, Outcome};

/// Longest wait for the first right answer.
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut good = true;
    for arm in &plan.arms {
        good &= verify(arm, &plan.workload.path, &plan.placement)?;
    }
    Ok(if good { Exit::Done } else { Exit::Failed })
}

/// Whether `arm` starts and passes every check; each is a printed line.
pub(crate) fn verify(arm: &Arm, path: &str, placement: &Placement) -> anyhow::Result<bool> {
    match checks_of(arm, path, placement) {
        Ok(checks) => {
            let mut good = true;
            for check in checks {
                good &= check.ok;
                let word = if check.ok { "ok    " } else { "FAILED" };
                crate::print(&format!("{word} {}: {}: {}\n", arm.name, check.name, check.text))?;
            }
            Ok(good)
        }
        Err(error) => {
            crate::print(&format!("FAILED {}: {error:#}\n", arm.name))?;
            Ok(false)
        }
    }
}

/// Starts `arm` and makes every check.
pub(crate) fn checks_of(arm: &Arm, path: &str, placement: &Placement) -> anyhow::Result<Vec<launch::Check>> {
    let log = std::env::temp_dir().join(format!("whyslow-verify-{}-{}.log", std::process::id(), arm.name));
    let outcome = checks(arm, path, placement, &log);
    // The log is for the failure's text only, which has its last lines by now.
    let _ = std::fs::remove_file(&log);
    outcome
}

fn checks(arm: &Arm, path: &str, placement: &Placement, log: &Path) -> anyhow::Result<Vec<launch::Check>> {
    let launcher = Launcher::this_program();
    // Any port will do: nothing is measured.
    let port = free_port(u64::from(std::process::id()))?;
    let values = placeholders(arm, placement, port);
    let spec = Spec { cpus: Some(placement.server.clone()), ..Spec::of_arm(arm, &values, log) };
    let mut process = launcher.start(&spec)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let ready = wait_ready(&mut process, address, path, &arm.expect, READY_LIMIT);
    let checks = ready.map(|_| launch::verify(address, path, &arm.expect));
    let _ = process.stop();
    checks.context("it is not ready")
}
