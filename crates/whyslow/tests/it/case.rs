//! `whyslow case`: what is refused, and a small case of the built-in servers from its file to its answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::record::{RunDir, RunStatus};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Printed, WHYSLOW, assert_schema, fresh_folder, repository, whyslow, within};

/// Until a crowded machine has checked two servers and ended a first round.
const ROUND_LIMIT: Duration = Duration::from_secs(60);

const CASE: &str = r#"
name = "tiny"
question = "Do threads or futures cost less?"
source = "a document"
open = "everything"

[published]
machine = "a machine"
server_cpus = 1
command = "wrk -c 4"

[workload]
path = "/plaintext"
connections = 4

[[comparison]]
id = "models"
question = "which?"
arms = ["threads", "futures", "cohttp-async"]

[[comparison]]
id = "one"
question = "can one server be compared?"
arms = ["threads", "cohttp-async"]

[[figure]]
id = "threads"
system = "Threads"
arm = "threads"
rate_per_s = 1000.0

[[figure]]
id = "futures"
system = "Futures"
arm = "futures"
rate_per_s = 2000.0

[[claim]]
text = "futures serve more"
rule = { kind = "ratio", comparison = "models", figure = "futures", against = "threads", within = 2.0 }
"#;

/// A folder with `cases/tiny.toml`, and the command that works on it.
fn library(text: &str) -> PathBuf {
    let folder = fresh_folder();
    std::fs::create_dir(folder.join("cases")).unwrap();
    std::fs::write(folder.join("cases/tiny.toml"), text).unwrap();
    folder
}

fn case(folder: &Path, args: &[&str]) -> Printed {
    Printed::from_output(case_command(folder, args).output().unwrap())
}

fn case_command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(WHYSLOW);
    command.arg("case").args(args).current_dir(folder);
    command.env("WHYSLOW_CASES", folder.join("cases")).env("WHYSLOW_TARGETS", repository("targets"));
    command
}

#[test]
fn an_interrupted_case_goes_on_where_it_stopped() {
    let folder = library(CASE);
    let args = ["run", "tiny", "--smoke", "--out", "run"];
    let mut command = case_command(&folder, &args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The pilot has ended, and the block begun.
    let first = folder.join("run/models/logs/b000-p0-generator.log");
    let begun = within(ROUND_LIMIT, || first.exists() || child.try_wait().unwrap().is_some());
    assert!(begun && first.exists(), "no block began");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(
        printed.err.contains("interrupted: the same command with --out goes on from here"),
        "{printed:?}"
    );

    let dir = RunDir::open(&folder.join("run/models"));
    let before = dir.read().unwrap();
    assert_eq!((before.manifest.status, before.rounds.len()), (RunStatus::Partial, 0));
    let printed = case(&folder, &args);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let after = dir.read().unwrap();
    assert_eq!(after.manifest.status, RunStatus::Complete);
    assert_eq!(after.manifest.pilot_per_s, before.manifest.pilot_per_s, "there was one pilot");
    assert_eq!(after.manifest.fitted, before.manifest.fitted);
    let arms: Vec<&str> = after.rounds.iter().map(|record| record.arm.as_str()).collect();
    assert!(arms.contains(&"threads") && arms.contains(&"futures"), "{arms:?}");
}

#[test]
fn a_case_that_is_stopped_while_it_checks_a_target_ends_at_once_and_leaves_nothing() {
    let folder = library(CASE);
    let temporary = fresh_folder();
    let mut command = case_command(&folder, &["run", "tiny", "--smoke", "--out", "run"]);
    command.env("TMPDIR", &temporary);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The log of the first server that is checked.
    let checks = || std::fs::read_dir(&temporary).is_ok_and(|mut all| all.next().is_some());
    assert!(within(ROUND_LIMIT, || checks() || child.try_wait().unwrap().is_some()));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    assert!(printed.code == Some(1) && printed.err.contains("interrupted while '"), "{printed:?}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "something is left");
    assert!(!folder.join("run").exists(), "nothing was measured");
}

#[test]
fn a_small_case_is_run_to_its_answer_and_taken_up_again() {
    let folder = library(CASE);
    let args = ["run", "tiny", "--smoke", "--out", "run", "--answer", "answer.md", "--format", "json"];
    let printed = case(&folder, &args);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    assert_schema("case", &json);
    assert_eq!((&json["case"]["name"], &json["size"]), (&"tiny".into(), &"smoke".into()));
    let runs = json["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["id"]), (1, &"models".into()));
    assert_eq!(json["claims"][0]["reproduced"], "unknown", "one block decides nothing: {}", json["claims"]);
    assert_eq!(json["claims"][0]["published"], "x2.000");
    let left_out: Vec<&str> =
        json["left_out"].as_array().unwrap().iter().filter_map(|line| line.as_str()).collect();
    assert!(left_out[0].starts_with("cohttp-async: Async is in opam's repository"), "{left_out:?}");
    assert_eq!(left_out[1], "comparison 'one': fewer than two of its arms are there");
    let answer = std::fs::read_to_string(folder.join("answer.md")).unwrap();
    assert!(answer.starts_with("# tiny\n\n## What it means\n\nNot written yet.\n"), "{answer}");
    assert!(answer.contains("UNKNOWN: futures serve more"), "{answer}");

    std::fs::write(folder.join("answer.md"), answer.replace("Not written yet.", "By hand.")).unwrap();
    let again = case(&folder, &args);
    assert!(again.err.contains("is complete: taken as it is"), "{again:?}");
    assert_eq!(again.json()["claims"], json["claims"]);
    let kept = std::fs::read_to_string(folder.join("answer.md")).unwrap();
    assert!(kept.contains("By hand.") && !kept.contains("Not written yet."), "{kept}");
    let other = case(&folder, &["run", "tiny", "--smoke", "--out", "run", "--seed", "2"]);
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.err.contains("holds a run of another plan: choose another folder with --out"), "{other:?}");
}

#[test]
fn cases_are_listed_and_shown() {
    let list = whyslow_at_home(&["case", "list"]);
    for name in ["hyper-models", "hyper-why", "warp-vs-fasthttp", "h2o-vs-akka", "cohttp-queueing"] {
        assert!(list.out.contains(name), "{name} is not in {}", list.out);
        let shown = whyslow_at_home(&["case", "show", name]);
        assert_eq!(shown.code, Some(0), "{shown:?}");
        for want in ["published in ", " min)", "claims"] {
            assert!(shown.out.contains(want), "{name}: '{want}' is not in {}", shown.out);
        }
    }
}

#[test]
fn cases_and_targets_are_told_to_scripts_too() {
    let list = whyslow_at_home(&["case", "list", "--format", "json"]).json();
    assert!(list.as_array().unwrap().iter().any(|case| case["name"] == "hyper-why"), "{list}");
    let shown = whyslow_at_home(&["case", "show", "cohttp-queueing", "--format", "json"]).json();
    assert_eq!(shown["case"]["workload"]["connections"], 10_000, "{shown}");
    assert_eq!(shown["planned"][0]["id"], "overload", "{shown}");
    assert!(shown["planned"][0]["minutes"].as_f64().is_some_and(|minutes| minutes > 0.0), "{shown}");
    let built = whyslow_at_home(&["targets", "build", "threads", "--format", "json"]).json();
    assert_eq!(built, serde_json::json!([{ "name": "threads", "ok": true, "error": null }]));
    let verified = whyslow_at_home(&["targets", "verify", "threads", "--format", "json"]).json();
    assert_eq!((&verified[0]["arm"], &verified[0]["ok"]), (&"threads".into(), &true.into()), "{verified}");
    assert!(verified[0]["checks"].as_array().is_some_and(|checks| checks.len() > 4), "{verified}");
}

fn whyslow_at_home(args: &[&str]) -> Printed {
    Printed::from_output(Command::new(WHYSLOW).args(args).current_dir(repository("")).output().unwrap())
}

#[test]
fn what_a_case_cannot_mean_is_refused_before_anything_starts() {
    let table = [
        (
            CASE.replace("\"threads\", \"futures\"", "\"nothing\", \"futures\""),
            "comparison 'models' does not have 'threads' of figure 'threads'",
        ),
        (CASE.replace("against = \"threads\"", "against = \"z\""), "a claim names the unknown figure 'z'"),
        (CASE.replace("cohttp-async", "no-such-target"), "case 'tiny': there is no target 'no-such-target'"),
        (CASE.replace("name = \"tiny\"", "name = \"other\""), "make it the same as the file's"),
        (CASE.replace("path = \"/plaintext\"", "path = \"plaintext\""), "a path that begins with /"),
    ];
    for (text, want) in table {
        let folder = library(&text.replace("\"threads\", \"no-such", "\"futures\", \"no-such"));
        let printed = case(&folder, &["run", "tiny", "--smoke", "--out", "run"]);
        assert_eq!(printed.code, Some(2), "{want}: {printed:?}");
        assert!(printed.err.contains(want) && printed.err.lines().count() == 1, "{want}: {printed:?}");
        assert!(!folder.join("run").exists());
    }
    let folder = library(CASE);
    let printed = case(&folder, &["run", "nothing"]);
    assert_eq!(
        (printed.code, printed.err.as_str()),
        (Some(2), "error: there is no case 'nothing': choose one of tiny\n")
    );
    let printed = case(&folder, &["run", "tiny", "--comparison", "z"]);
    assert!(
        printed.err.contains("case 'tiny' has no comparison 'z': choose one of models, one"),
        "{printed:?}"
    );
    assert_eq!(whyslow(&["case", "run", "tiny", "--quick", "--smoke"]).code, Some(2));
}
