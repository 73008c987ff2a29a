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

/// Both are valid YAML, and every input that either of them uses is one of the action's.
pub(crate) fn read(_: &[Source]) -> anyhow::Result<Finding> {
    let text =
        |path: &str| fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"));
    Ok(finding(&text(ACTION)?, &text(WORKFLOW)?))
}

fn finding(action: &str, workflow: &str) -> Finding {
    let mut breaches = Vec::new();
    let mut yaml = |path: &str, text: &str| {
        serde_saphyr::from_str(text).unwrap_or_else(|error| {
            breaches.push(format!("{path}: {error}"));
            Value::Null
        })
    };
    let (inputs, jobs) = (yaml(ACTION, action)["inputs"].take(), yaml(WORKFLOW, workflow)["jobs"].take());
    let used = [named(action), given(&jobs)].concat();
    let unknown = used.iter().filter(|name| inputs.get(name.as_str()).is_none());
    breaches.extend(unknown.map(|name| format!("{ACTION}: there is no input '{name}'")));
    Finding { checked: used.len(), what: "uses of inputs", breaches }
}

/// The inputs that the steps of an action name.
fn named(action: &str) -> Vec<String> {
    let name = Regex::new(r"inputs\.([a-z-]+)").expect("the pattern is whole");
    name.captures_iter(action).map(|found| found[1].to_owned()).collect()
}

/// The inputs that steps give to the action of this folder.
fn given(jobs: &Value) -> Vec<String> {
    let jobs = jobs.as_object().into_iter().flat_map(|jobs| jobs.values());
    let steps = jobs.filter_map(|job| job["steps"].as_array()).flatten();
    let ours = steps.filter(|step| step["uses"] == "./");
    ours.filter_map(|step| step["with"].as_object()).flat_map(|with| with.keys().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTION: &str = "inputs:\n  run:\n    description: how\nruns: ${{ inputs.run }}\n";
    const WORKFLOW: &str = "jobs:\n  one:\n    steps:\n      - uses: ./\n        with:\n          run: a\n";

    #[test]
    fn what_is_no_yaml_and_inputs_that_are_not_there_are_found() {
        let sound = finding(ACTION, WORKFLOW);
        assert_eq!((sound.checked, sound.breaches), (2, Vec::new()));
        for (action, workflow, breach) in [
            (ACTION.replace("how", "as in 'A: b'"), WORKFLOW.to_owned(), "action.yml: "),
            (
                ACTION.replace("inputs.run", "inputs.ran"),
                WORKFLOW.to_owned(),
                "action.yml: there is no input 'ran'",
            ),
            (ACTION.to_owned(), WORKFLOW.replace("run:", "go:"), "action.yml: there is no input 'go'"),
            (ACTION.to_owned(), WORKFLOW.replace("one:", "one: two:"), "docs/ci/github.yml: "),
        ] {
            let found = finding(&action, &workflow).breaches;
            assert!(found.first().is_some_and(|found| found.starts_with(breach)), "{breach}: {found:?}");
        }
    }
}
