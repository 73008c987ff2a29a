//! Arms that fail: a row each with the last lines of the log, and the others go on.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use model::record::{FailureKind, RunDir};

use crate::cgroup::Cgroup;
use crate::support::{FIXTURE, SHORT, WHYSLOW, arm, assert_schema, fresh_folder, whyslow_in};

/// An arm's fault, the kind of failure, and what is said of it.
const FAULTS: [(&str, FailureKind, &str); 6] = [
    ("exit", FailureKind::Exited, "before it was ready"),
    ("silent", FailureKind::NotReady, "it listens on no TCP port"),
    ("status", FailureKind::WrongAnswer, "status 500 instead of 200"),
    ("crash", FailureKind::Crashed, "while it was measured"),
    ("idle", FailureKind::Crashed, "it exited with code 9 while it was measured"),
    ("once", FailureKind::Crashed, "it exited with code 3 while it was measured"),
];

#[test]
fn each_is_a_typed_row_and_the_others_go_on() {
    let folder = fresh_folder();
    let mut args: Vec<String> =
        ["compare", "--equal-rates", "none", "--no-why", "--ready-limit", "2s"].map(str::to_owned).to_vec();
    args.extend(["--out", "run", "--format", "json"].map(str::to_owned));
    args.extend(SHORT.map(str::to_owned));
    args.push(arm("main", "none"));
    args.extend(FAULTS.map(|(fault, ..)| arm(fault, fault)));
    args.push(arm("other", "header"));
    args.push("broken".to_owned());
    args.push(arm("good", "none"));
    let target = folder.join("targets/broken");
    std::fs::create_dir_all(&target).unwrap();
    std::fs::write(target.join("target.toml"), BROKEN).unwrap();
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
    let broken = row("broken");
    assert_eq!(broken["error"], "the build command 'sh -c echo no compiler; exit 2' exited with code 2");
    assert_eq!((&broken["ok"], &broken["log"][0]), (&false.into(), &"no compiler".into()));
    let rows = json["comparisons"].as_array().unwrap().iter().filter(|row| row["arm"] == "other");
    assert!(rows.clone().count() > 0 && rows.clone().all(|row| row["verdict"] == "invalid"));
    let log = row("exit")["log"].as_array().unwrap();
    assert_eq!(log, &["reading the configuration", "no database: giving up"]);
    for name in ["main", "good"] {
        let measured = run.rounds.iter().filter(|record| record.arm == name && record.failure.is_none());
        assert!(measured.count() >= 1, "{name} was not measured");
        assert_eq!(
            (&row(name)["ok"], &row(name)["error"]),
            (&true.into(), &serde_json::Value::Null),
            "{name}"
        );
    }
}

/// A target that does not build.
const BROKEN: &str = r#"
name = "broken"
language = "c"
about = "It does not build."
path = "/"
build = [["sh", "-c", "echo no compiler; exit 2"]]
run = ["{build}/broken", "{port}"]
"#;

#[test]
fn with_one_arm_left_nothing_more_is_run_and_what_it_answered_is_kept() {
    let folder = fresh_folder();
    let (main, pr) = (arm("main", "exit"), arm("pr", "none"));
    let args = ["compare", &main, &pr, "--out", "run"];
    let said = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains("; its log ends: no database: giving up"), "{}", said.out);
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.rounds.len(), 2, "the failed round, and the answer of the other arm");
    let json = whyslow_in(&folder, &["analyse", "run", "--format", "json"]).json();
    let arms = json["arms"].as_array().unwrap();
    assert_eq!((&arms[0]["ok"], &arms[1]["ok"]), (&false.into(), &true.into()), "{arms:?}");
}

#[test]
fn a_comment_that_cannot_be_written_any_more_takes_no_result_away() {
    let folder = fresh_folder();
    std::fs::create_dir(folder.join("gone")).unwrap();
    let main = format!("main=sh -c 'rm -rf gone; exec {FIXTURE} {{port}} none'");
    let pr = arm("pr", "none");
    let head = ["compare", &main, &pr, "--equal-rates", "none", "--no-why", "--format", "json"];
    let judged = ["--comment", "gone/comment.md", "--fail-if", "pr slower"];
    let said = whyslow_in(&folder, &[&head[..], &judged, &SHORT].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_schema("compare", &said.json());
    assert!(said.err.contains("--fail-if 'pr slower' is not decided: "), "{said:?}");
    assert!(said.err.contains("error: --comment is not written: cannot write gone/comment.md"), "{said:?}");
}

#[test]
fn a_server_that_begins_a_session_of_its_own_is_measured_like_any_other() {
    let folder = fresh_folder();
    let daemon = arm("main", "none").replacen("main=", "main=setsid --wait ", 1);
    let pr = arm("pr", "none");
    let args = ["compare", &daemon, &pr, "--equal-rates", "none", "--no-why", "--format", "json"];
    let said = whyslow_in(&folder, &[&args[..], &SHORT].concat()).json();
    for arm in said["arms"].as_array().unwrap() {
        assert_eq!((&arm["ok"], arm["requests"].as_u64() > Some(0)), (&true.into(), true), "{arm}");
    }
}

#[test]
fn a_server_that_ends_where_it_is_to_say_names_is_watched_without() {
    let folder = fresh_folder();
    let picky = |name: &str| {
        format!("{name}=sh -c 'test -z \"$NODE_OPTIONS\" || exit 3; exec {FIXTURE} {{port}} none'")
    };
    let (main, pr) = (picky("main"), picky("pr"));
    let args = ["compare", &main, &pr, "--equal-rates", "none", "--out", "run"];
    let said = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.diagnostics.len(), 2, "{said:?}");
    for record in &run.diagnostics {
        assert_eq!(record.failure, None, "{said:?}");
    }
}

#[test]
fn arms_for_which_the_memory_is_not_enough_together_are_run_one_at_a_time() {
    // One of them fits in beside what measures it, two do not.
    let Some(cgroup) = Cgroup::with_limits(1_000_000, 200 << 20) else {
        testkit::skipped("no cgroup can be made here");
        return;
    };
    let (a, b) = (arm("a", "big"), arm("b", "big"));
    let head = ["compare", &a, &b, "--equal-rates", "none", "--no-why", "--blocks", "1"];
    let short = ["--warmup", "50ms", "--warmup-cap", "100ms", "--connections", "4"];
    let mut command = Command::new("sh");
    command.args(["-c", "read line && exec \"$@\"", "sh", WHYSLOW]).args(head).args(short);
    command.current_dir(fresh_folder()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    cgroup.take(child.id());
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told = said.any(|line| line.contains("one arm at a time: together they need 1"));
    // What is measured then is not asked here.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let rest: Vec<String> = said.collect();
    assert!(child.wait().unwrap().code().is_some() && told, "nothing was said of the memory: {rest:?}");
}

/// An arm that listens on `port`, whatever it is given.
fn fixed(name: &str, port: u16) -> String {
    format!("{name}=sh -c \"exec '{FIXTURE}' {port} none\" {{port}}")
}

#[test]
fn servers_that_take_no_port_are_met_on_their_own_and_share_one_in_turn() {
    let port = |seed| launch::free_port(u64::from(std::process::id()) + seed).unwrap().number();
    let one_at_a_time =
        format!("one arm at a time: 'main' and 'pr' both listen on port {}, whatever", port(0));
    for (second, is_shared) in [(port(0), true), (port(1), false)] {
        let folder = fresh_folder();
        let (main, pr) = (fixed("main", port(0)), fixed("pr", second));
        let head = ["compare", &main, &pr, "--equal-rates", "none", "--no-why", "--ready-limit", "2s"];
        let said = whyslow_in(&folder, &[&head[..], &["--out", "run"], &SHORT].concat());
        assert_eq!(said.err.contains(&one_at_a_time), is_shared, "{said:?}");
        let run = RunDir::open(&folder.join("run")).read().unwrap();
        for record in &run.rounds {
            assert_eq!(record.failure, None, "{record:?}");
            assert_eq!(record.port, if record.arm == "main" { port(0) } else { second });
        }
        assert_eq!(run.rounds.len(), 2);
    }
}

/// An arm that listens on `address` alone.
fn on(name: &str, address: &str) -> String {
    format!("{name}='{FIXTURE}' {{port}} on {address} none")
}

#[test]
fn a_server_that_listens_on_another_loopback_address_alone_is_met_there() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return testkit::skipped("nothing can listen on ::1");
    }
    let folder = fresh_folder();
    let arms = [on("second", "127.0.0.2"), on("ipv6", "::1")];
    let head = ["compare", &arms[0], &arms[1], "--equal-rates", "none", "--no-why", "--out", "run"];
    let said = whyslow_in(&folder, &[&head[..], &["--ready-limit", "6s"], &SHORT].concat());
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.rounds.len(), 2, "{said:?}");
    for record in &run.rounds {
        assert_eq!(record.failure, None, "{record:?}");
        assert!(record.windows[0].load.requests > 0, "{record:?}");
    }
    let verified = whyslow_in(&folder, &["compare", &arms[0], &arms[1], "--verify"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");
}

#[test]
fn without_a_baseline_the_others_still_have_figures() {
    let folder = fresh_folder();
    let (main, one, two) = (arm("main", "exit"), arm("one", "none"), arm("two", "none"));
    let args = ["compare", &main, &one, &two, "--equal-rates", "none", "--out", "run", "--format", "json"];
    let said = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    assert_eq!(said.code, Some(1), "{said:?}");
    let json = said.json();
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    for name in ["one", "two"] {
        let mut windows =
            run.rounds.iter().filter(|record| record.arm == name).flat_map(|record| &record.windows);
        assert!(windows.any(|window| window.load.requests > 0), "{name}");
    }
    assert!(json["comparisons"].as_array().unwrap().iter().all(|row| row["ratio"].is_null()), "{json}");
}

/// A comparison of two servers over as many connections as there are by default; what was said of their number.
fn over_the_usual_connections(fault: &str) -> String {
    let (a, b) = (arm("a", fault), arm("b", fault));
    let short =
        ["--blocks", "1", "--cycles", "1", "--warmup", "50ms", "--warmup-cap", "100ms", "--slice", "50ms"];
    let head = ["compare", &a, &b, "--equal-rates", "none", "--no-why", "--format", "json"];
    let said = whyslow_in(&fresh_folder(), &[&head[..], &short].concat());
    let json = said.json();
    for arm in json["arms"].as_array().unwrap() {
        assert_eq!((&arm["ok"], &arm["error"]), (&true.into(), &serde_json::Value::Null), "{said:?}");
        assert!(arm["rate_per_s"].as_f64().unwrap() > 0.0, "{arm}");
    }
    let errors = json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "errors");
    assert!(errors.is_none_or(|gate| gate["ok"] == true), "{said:?}");
    said.err
}

#[test]
fn servers_too_slow_for_the_usual_connections_are_compared_over_fewer() {
    // A fifth of a second of CPU for each request, and more in a build for tests.
    let said = over_the_usual_connections("heavy-50000");
    assert!(said.contains(" instead of 64: the slowest arm does not answer more within a second"), "{said}");
}

/// Sees that the two are compared over one connection. Either may be named, and it may take a second try: on a busy machine a pilot may
/// not show it.
fn are_compared_over_one(fault: &str) {
    let is_over_one = |said: &str| {
        ["a", "b"].iter().any(|name| {
            said.contains(&format!("1 connection instead of 64: '{name}' answers on no more at a time"))
        })
    };
    let said = over_the_usual_connections(fault);
    assert!(is_over_one(&said) || is_over_one(&over_the_usual_connections(fault)), "{said}");
}

#[test]
fn servers_that_stay_with_one_connection_are_compared_over_fewer() {
    are_compared_over_one("one-at-a-time");
}

#[test]
fn servers_that_wait_for_a_connection_before_they_turn_to_another_are_compared_over_fewer() {
    are_compared_over_one("one-for-a-while");
}

/// What falls due while an arm has no turn is done before the turn that counts, and a median passes over what is in few turns.
#[test]
fn turns_are_long_enough_for_what_a_server_stops_for() {
    let (folder, none, stops) = (fresh_folder(), arm("none", "none"), arm("stops", "stops"));
    let head = ["compare", &none, &stops, "--equal-rates", "none", "--no-why", "--out", "run"];
    let short = ["--blocks", "1", "--warmup", "50ms", "--warmup-cap", "100ms"];
    let said = whyslow_in(&folder, &[&head[..], &short].concat());
    assert!(said.err.contains("'stops' stops answering everybody every "), "{said:?}");
    let manifest = RunDir::open(&folder.join("run")).read().unwrap().manifest;
    let [stopping] = &manifest.fitted.stopping[..] else { panic!("{said:?}") };
    assert_eq!(stopping.arm, "stops");
    // 60 of 200 ms; on a busy machine fewer of them are told from waits for a CPU.
    assert!(stopping.stops.share() > 0.05, "{stopping:?}");
    assert!(manifest.fitted.turn_ns > 300_000_000, "{:?}", manifest.fitted);
}

#[test]
fn windows_of_one_arm_at_a_time_are_long_enough_for_its_stops_and_a_given_number_of_turns_looks_for_none() {
    let (folder, none, stops) = (fresh_folder(), arm("none", "none"), arm("stops", "stops-5"));
    let fitted = |flags: &[&str]| {
        let head = ["compare", &none, &stops, "--equal-rates", "none", "--no-why", "--blocks", "1"];
        let short = ["--warmup", "50ms", "--warmup-cap", "100ms", "--format", "json", "--out", flags[0]];
        let said = whyslow_in(&folder, &[&head[..], &short, &flags[1..]].concat());
        (RunDir::open(&folder.join(flags[0])).read().unwrap().manifest.fitted, said.json())
    };
    let (alone, said) = fitted(&["alone", "--window", "1s"]);
    assert_eq!(alone.stopping.len(), 1, "{alone:?}");
    // 300 ms a second: a window holds nearly two.
    assert!((1_500_000_000..2_500_000_000).contains(&alone.turn_ns), "{alone:?}");
    assert_eq!(
        (&said["design"]["kind"], &said["design"]["slice_ns"]),
        (&"alone".into(), &alone.turn_ns.into())
    );
    let (fixed, _) = fitted(&["fixed", "--cycles", "2"]);
    assert!(fixed.stopping.is_empty() && (20_000_000..=50_000_000).contains(&fixed.turn_ns), "{fixed:?}");
}

#[test]
fn servers_whose_answers_take_longer_than_a_turn_keep_their_connections() {
    let said = over_the_usual_connections("sleep-long");
    assert!(!said.contains("instead of 64"), "{said}");
}
