//! Arms that fail: a row each with the last lines of the log, and the others go on.

use record::{FailureKind, RunDir};

use crate::support::{SHORT, arm, assert_schema, fresh_folder, whyslow_in};

/// An arm's fault, the kind of failure, and what is said of it.
const FAULTS: [(&str, FailureKind, &str); 5] = [
    ("exit", FailureKind::Exited, "before it was ready"),
    ("silent", FailureKind::NotReady, "it listens on no TCP port"),
    ("elsewhere", FailureKind::NotReady, "it listens on 127.0.0.1:"),
    ("status", FailureKind::WrongAnswer, "status 500 instead of 200"),
    ("crash", FailureKind::Crashed, "under load"),
];

#[test]
fn each_is_a_typed_row_and_the_others_go_on() {
    let folder = fresh_folder();
    let mut args: Vec<String> =
        ["compare", "--equal-rates", "none", "--ready-limit", "2s"].map(str::to_owned).to_vec();
    args.extend(["--out", "run", "--format", "json"].map(str::to_owned));
    args.extend(SHORT.map(str::to_owned));
    args.push(arm("main", "none"));
    args.extend(FAULTS.map(|(fault, ..)| arm(fault, fault)));
    args.push(arm("good", "none"));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = whyslow_in(&folder, &args);
    assert_eq!(said.code, Some(1), "{said:?}");
    let json = said.json();
    assert_schema("compare", &json);

    let run = RunDir::open(&folder.join("run")).read().unwrap();
    let row = |name: &str| json["arms"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    for (fault, kind, want) in FAULTS {
        let failures = run.rounds.iter().filter(|record| record.arm == fault);
        let failures: Vec<_> = failures.filter_map(|record| record.failure.as_ref()).collect();
        assert_eq!(failures.len(), 1, "{fault} fails once and is left out then");
        assert_eq!(failures[0].kind, kind, "{fault}: {}", failures[0].text);
        assert!(failures[0].text.contains(want), "{fault}: {}", failures[0].text);
        assert_eq!(
            (&row(fault)["ok"], &row(fault)["error"]),
            (&false.into(), &failures[0].text.clone().into())
        );
        assert!(json["text"].as_str().unwrap().contains(&format!("{fault} gave no verdict")), "{fault}");
    }
    let log = row("exit")["log"].as_array().unwrap();
    assert_eq!(log, &["reading the configuration", "no database: giving up"]);
    for name in ["main", "good"] {
        let measured = run.rounds.iter().filter(|record| record.arm == name && record.failure.is_none());
        assert!(measured.count() >= 1, "{name} was not measured");
        assert_eq!(row(name)["error"], serde_json::Value::Null, "{name}");
    }
}

#[test]
fn without_a_baseline_nothing_more_is_run_and_it_is_said() {
    let folder = fresh_folder();
    let (main, pr) = (arm("main", "exit"), arm("pr", "none"));
    let args = ["compare", &main, &pr, "--out", "run"];
    let said = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("log: no database: giving up"), "{}", said.out);
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.rounds.len(), 1, "only the failed round is kept");
}
