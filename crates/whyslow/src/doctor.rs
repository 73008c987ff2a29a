//! `whyslow doctor`: what this machine can and cannot measure, one line each.

use std::path::PathBuf;
use std::time::Duration;

use launch::{Launcher, Spec};
use observe::Capability;
use serde_json::json;

use crate::cli::{DoctorArgs, Format};
use crate::exit::{Exit, Outcome};

/// Longest wait for strace to trace a program that does nothing: some milliseconds where it may.
const TRY_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let mut found = observe::capabilities();
    found.iter_mut().filter(|one| one.id == "strace" && one.ok).for_each(try_strace);
    crate::print(&match args.format {
        Format::Text => text(&found),
        Format::Md => markdown(&found),
        Format::Json => as_json(&found)?,
    })?;
    Ok(Exit::Done)
}

/// Takes back that strace is possible where it is not: a filter of system calls shows in no setting.
fn try_strace(strace: &mut Capability) {
    if traces(&Launcher::this_program()) {
        return;
    }
    strace.ok = false;
    "No system calls by hand: strace is installed, but failed when it was tried: a seccomp filter is a likely reason, so \
     allow ptrace in it (containers have one)."
        .clone_into(&mut strace.text);
}

/// Whether strace can trace a program that does nothing.
fn traces(launcher: &Launcher) -> bool {
    let argv = ["strace", "-o", "/dev/null", "true"].map(str::to_owned).to_vec();
    let spec = Spec { argv, log: PathBuf::from("/dev/null"), ..Spec::default() };
    let Ok(mut process) = launcher.start(&spec) else { return false };
    let exit = process.wait(TRY_LIMIT);
    let _ = process.stop();
    exit.is_some_and(|exit| exit.is_success())
}

/// The word for a capability that is there, or not.
fn word(capability: &Capability) -> &'static str {
    if capability.ok { "yes" } else { "no" }
}

fn text(found: &[Capability]) -> String {
    let line = |capability: &Capability| {
        format!("{:3}  {:17}  {}\n", word(capability), capability.id, capability.text)
    };
    let missing = found.iter().filter(|capability| !capability.ok).count();
    let lines: String = found.iter().map(line).collect();
    format!("{lines}\n{} of {} can be measured here.\n", found.len() - missing, found.len())
}

fn markdown(found: &[Capability]) -> String {
    let line = |capability: &Capability| {
        format!("| {} | {} | {} |\n", capability.id, word(capability), capability.text)
    };
    let lines: String = found.iter().map(line).collect();
    format!("| capability | here | what it gives, or what would allow it |\n|---|---|---|\n{lines}")
}

fn as_json(found: &[Capability]) -> anyhow::Result<String> {
    let rows: Vec<_> = found
        .iter()
        .map(|capability| json!({ "id": capability.id, "ok": capability.ok, "text": capability.text }))
        .collect();
    Ok(format!("{}\n", serde_json::to_string_pretty(&json!({ "schema": 1, "capabilities": rows }))?))
}
