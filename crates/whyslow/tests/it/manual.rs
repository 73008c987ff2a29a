//! What the program says of itself.

use std::process::{Command, Stdio};

use crate::support::{Printed, WHYSLOW, repository, whyslow};

/// The commands below `words`, as their help lists them.
fn commands(words: &[&str]) -> Vec<String> {
    let help = whyslow(&[words, &["--help"]].concat()).out;
    let listed = help.split_once("Commands:\n").map_or("", |(_, listed)| listed);
    let lines = listed.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn the_help_of_every_command_has_an_example() {
    let all = commands(&[]);
    assert!(all.len() > 17, "{all:?}");
    for command in &all {
        let below = commands(&[command.as_str()]);
        let with = below.iter().map(|name| vec![command.as_str(), name.as_str()]);
        for words in std::iter::once(vec![command.as_str()]).chain(with) {
            let help = whyslow(&[&words[..], &["--help"]].concat());
            assert_eq!(help.code, Some(0));
            let example = help.out.split_once("Example").map(|(_, example)| example).unwrap_or_default();
            assert!(example.contains(&format!("whyslow {}", words.join(" "))), "{words:?}: {}", help.out);
        }
    }
}

/// Clap takes `{n}` for the end of a line.
#[test]
fn the_number_of_a_request_is_shown_as_it_is_typed() {
    for args in [&["help", "--help"][..], &["help", "load", "-h"], &["man", "targets", "build"]] {
        assert_eq!(whyslow(args).code, Some(0), "{args:?}");
    }
    for args in [&["load", "-h"][..], &["load", "--help"], &["man", "load"]] {
        let words = whyslow(args).out.split_whitespace().collect::<Vec<_>>().join(" ");
        let want = "{uuid}, {random 1 100} and {n}, the number of the request, need no file";
        assert!(words.contains(want), "{args:?}: {words}");
    }
}

#[test]
fn every_command_has_a_man_page_and_every_shell_a_completion() {
    let all = commands(&[]);
    for command in &all {
        let page = whyslow(&["man", command.as_str()]);
        assert!(page.out.starts_with(".ie") && page.out.contains(".SH NAME"), "{command}: {page:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completion = whyslow(&["completions", shell]);
        assert!(all.iter().all(|command| completion.out.contains(command)), "{shell}: {completion:?}");
    }
}

#[test]
fn a_reader_who_has_enough_ends_it_quietly() {
    let mut child = Command::new(WHYSLOW);
    let mut child =
        child.args(["completions", "zsh"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Closed before anything is read of it, which is more than a pipe holds.
    drop(child.stdout.take());
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
}

#[test]
fn the_committed_schemas_are_those_that_are_printed() {
    for output in ["compare", "load", "capacity", "watch", "case", "whyslow"] {
        let file = repository(&format!("docs/schema/{output}.schema.json"));
        let committed: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert!(
            whyslow(&["schema", output]).json() == committed,
            "cargo run -p whyslow -- schema {output} > docs/schema/{output}.schema.json"
        );
    }
}

#[test]
fn the_plan_is_listed_and_nothing_is_started() {
    let args = ["compare", "threads", "futures", "--list", "--seed", "7", "--blocks", "4"];
    let listed = whyslow(&args);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for want in ["4 blocks of 2 arms", "seed 7", "threads (baseline)", "futures", "server on CPU "] {
        assert!(listed.out.contains(want), "'{want}' is not in {}", listed.out);
    }
    assert_eq!(listed.err, "");
    let quick = whyslow(&["compare", "threads", "futures", "--list", "--quick"]).out;
    assert!(
        quick.contains(" (8 to 32 by what a start takes) of 2 arms; arms take turns, 6 slices of 50ms, or as many of another length"),
        "{quick}"
    );
    assert!(quick.contains(" blocks together: p90 from "), "{quick}");
    let plan = whyslow(&[&args[..], &["--format", "json"]].concat()).json();
    let plan: model::plan::Plan = serde_json::from_value(plan).unwrap();
    assert_eq!((plan.seed, plan.arms.len(), plan.arms[1].name.as_str()), (7, 2, "futures"));
}

#[test]
fn the_targets_of_the_repository_are_listed() {
    let folder = repository("targets");
    let listed = whyslow_with_targets(&folder, &["targets", "list", "--format", "json"]);
    let text = listed.to_string();
    for name in ["threads", "futures", "planted", "nginx", "warp"] {
        assert!(text.contains(&format!("\"{name}\"")), "{name} is not in {text}");
    }
}

/// nginx has nothing to build: that it is missing has to be looked for.
#[test]
fn a_target_is_not_built_where_what_it_needs_is_missing() {
    let empty = crate::support::fresh_folder();
    let mut command = std::process::Command::new(crate::support::WHYSLOW);
    command.args(["targets", "build", "nginx", "threads", "--format", "json"]);
    command.env("WHYSLOW_TARGETS", repository("targets")).env("PATH", &empty);
    let said = crate::support::Printed::from_output(command.output().unwrap());
    assert_eq!(said.code, Some(1), "{said:?}");
    let want = serde_json::json!([
        { "name": "nginx", "ok": false, "error": "needs nginx: apt-get install nginx-light" },
        { "name": "threads", "ok": true, "error": null },
    ]);
    assert_eq!(said.json(), want);
}

fn whyslow_with_targets(folder: &std::path::Path, args: &[&str]) -> serde_json::Value {
    let mut command = std::process::Command::new(crate::support::WHYSLOW);
    let output = command.args(args).env("WHYSLOW_TARGETS", folder).output().unwrap();
    crate::support::Printed::from_output(output).json()
}
