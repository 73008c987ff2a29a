//! `whyslow doctor`: what this machine can and cannot measure, one line each.

use observe::Capability;
use serde_json::json;

use crate::cli::{DoctorArgs, Format};
use crate::exit::{Exit, Outcome};

pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    let found = observe::capabilities();
    crate::print(&match args.format {
        Format::Text => text(&found),
        Format::Md => markdown(&found),
        Format::Json => as_json(&found)?,
    })?;
    Ok(Exit::Done)
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
