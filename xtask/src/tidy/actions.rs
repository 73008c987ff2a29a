//! What GitHub reads: the action, and the workflow that shows its use.

use std::fs;

use anyhow::Context;
use regex::Regex;
use serde_json::Value;

use super::Finding;
use super::sources::Source;
use crate::shell::root;

/// The action.
const ACTION: &str = "action.yml";
/// A workflow that uses it, as `uses: ./`.
const WORKFLOW: &str = "docs/ci/github.yml";

/// Both read as YAML, and every input that one of them uses is an input of the action.
pub(crate) fn read(_: &[Source]) -> anyhow::Result<Finding> {
    let text =
        |path: &str| fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"));
    let (action, workflow) = (text(ACTION)?, text(WORKFLOW)?);
    let mut breaches = Vec::new();
    let mut yaml = |path: &str, text: &str| {
        serde_saphyr::from_str(text).unwrap_or_else(|error| {
            breaches.push(format!("{path}: {error}"));
            Value::Null
        })
    };
    let (inputs, jobs) = (yaml(ACTION, &action)["inputs"].take(), yaml(WORKFLOW, &workflow)["jobs"].take());
    let mut used = named(&action);
    used.extend(given(&jobs));
    let unknown = used.iter().filter(|name| inputs.get(name.as_str()).is_none());
    breaches.extend(unknown.map(|name| format!("{ACTION}: there is no input '{name}'")));
    Ok(Finding { checked: used.len(), what: "uses of inputs", breaches })
}

/// The inputs that the steps of an action name.
fn named(action: &str) -> Vec<String> {
    let name = Regex::new(r"inputs\.([a-z-]+)").expect("it was tried");
    name.captures_iter(action).map(|found| found[1].to_owned()).collect()
}

/// The inputs that steps give to the action of this folder.
fn given(jobs: &Value) -> Vec<String> {
    let jobs = jobs.as_object().into_iter().flat_map(|jobs| jobs.values());
    let steps = jobs.filter_map(|job| job["steps"].as_array()).flatten();
    let ours = steps.filter(|step| step["uses"] == "./");
    ours.filter_map(|step| step["with"].as_object()).flat_map(|with| with.keys().cloned()).collect()
}
