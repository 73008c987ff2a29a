//! A whole comparison, from the command line to the page and back from the run directory.

use model::record::{RunDir, RunStatus};

use crate::support::{FIXTURE, SHORT, arm, assert_schema, fresh_folder, whyslow_in};

/// Undecided after one block: these tests look at the structure and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];

#[test]
fn the_built_in_servers_are_compared_and_analysed_again() {
    let folder = fresh_folder();
    let args = [
        "compare",
        "threads",
        "futures",
        "--equal-rates",
        "none",
        "--seed",
        "42",
        "--format",
        "json",
        "--out",
        "run",
    ];
    let printed = whyslow_in(&folder, &[&args[..], &SHORT].concat());
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    assert_eq!(printed.err, "run kept in run\n", "no progress without a terminal");
    let json = printed.json();
    assert_schema("compare", &json);
    assert_eq!((&json["seed"], &json["baseline"]), (&42.into(), &"threads".into()));
    for arm in json["arms"].as_array().unwrap() {
        assert_eq!(arm["error"], serde_json::Value::Null, "{arm}");
    }
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    assert_eq!(run.manifest.status, RunStatus::Complete);
    assert!(run.rounds.len() >= 2 && run.damaged.is_empty(), "{} rounds", run.rounds.len());
    for record in &run.rounds {
        assert_eq!(record.windows.len(), 1);
        let window = &record.windows[0];
        assert!(window.load.requests > 0 && window.target.cpu.total_ns > 0, "{window:?}");
        assert_eq!(record.answer.as_ref().unwrap().body_bytes, 13);
    }
    assert!(run.manifest.builds.iter().all(|build| build.sha256.as_ref().unwrap().len() == 64));

    let again = whyslow_in(&folder, &["analyse", "run", "--format", "json"]);
    assert_eq!(again.out, printed.out, "the directory alone gives the same bytes");
    let first = whyslow_in(&folder, &["analyse", "run"]).out;
    assert!(first.lines().count() <= 20, "{first}");
    assert!(first.lines().all(|line| line.chars().count() <= 100 && !line.contains('\u{1b}')), "{first}");
    let details = json["text"].as_str().unwrap();
    assert!(details.lines().all(|line| line.chars().count() <= 80), "{details}");
    let both = whyslow_in(&folder, &["analyse", "run", "--details"]).out;
    assert_eq!(both, format!("{first}\n{details}"));
}

#[test]
fn a_run_is_not_written_over() {
    let folder = fresh_folder();
    std::fs::create_dir(folder.join("run")).unwrap();
    std::fs::write(folder.join("run/manifest.json"), "{}").unwrap();
    let printed = whyslow_in(&folder, &["compare", "--out", "run"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains("give another place with --out"), "{printed:?}");
}

#[test]
fn forty_bytes_more_of_headers_are_caught_and_named() {
    let folder = fresh_folder();
    let (main, pr) = (arm("main", "none"), arm("pr", "header"));
    let files = ["--comment", "comment.md", "--junit", "junit.xml", "--fail-if", "pr p99 > 1ns"];
    let args = ["compare", &main, &pr, "--out", "run", "--format", "json"];
    let printed = whyslow_in(&folder, &[&args[..], &SHORT, &files].concat());
    assert_eq!(printed.code, Some(5), "{printed:?}");
    assert!(
        printed.err.contains("--fail-if 'pr p99 > 1ns' cannot be judged: p99 of 'pr' is void: gate parity"),
        "{printed:?}"
    );
    let written = ["comment.md", "junit.xml"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    assert!(
        written[0].starts_with("<!-- whyslow -->\n### whyslow: pr invalid against main\n"),
        "{}",
        written[0]
    );
    assert!(written[1].contains("<skipped message=\"invalid: ") && written[1].contains("gate FAILED parity"));
    // The same again from the directory; a condition of it decides the exit there, too.
    let args =
        ["analyse", "run", "--comment", "again.md", "--junit", "again.xml", "--fail-if", "pr p99 > 1ns"];
    let again = whyslow_in(&folder, &args);
    assert_eq!(again.code, Some(5), "{again:?}");
    let read = ["again.md", "again.xml"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    assert_eq!(read, written);
    let json = printed.json();
    assert_schema("compare", &json);
    assert_eq!(json["fail_if"][0]["outcome"], "void");
    let gates = json["gates"].as_array().unwrap();
    let parity = gates.iter().find(|gate| gate["id"] == "parity").unwrap();
    assert_eq!((&parity["ok"], &parity["arm"]), (&false.into(), &"pr".into()));
    let text = parity["text"].as_str().unwrap();
    assert!(text.contains("'pr' sends a field x-padding and 'main' does not"), "{text}");
    assert!(text.contains("--allow-difference"), "{text}");
    for row in json["comparisons"].as_array().unwrap() {
        assert_eq!(row["verdict"], "invalid", "{row}");
    }
}

#[test]
fn the_dearer_server_is_slower_and_with_the_arms_swapped_faster() {
    let (dear, plain) = (arm("dear", "busy"), arm("plain", "none"));
    for (arms, verdict, sentence) in
        [([&plain, &dear], "slower", "dearer than plain"), ([&dear, &plain], "faster", "cheaper than dear")]
    {
        let mut args =
            vec!["compare", arms[0], arms[1], "--equal-rates", "none", "--no-why", "--format", "json"];
        args.extend(["--blocks", "6", "--cycles", "3", "--slice", "50ms", "--connections", "4"]);
        args.extend(["--warmup", "200ms", "--warmup-cap", "600ms"]);
        let printed = whyslow_in(&fresh_folder(), &args);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let json = printed.json();
        let row = &json["comparisons"][0];
        assert_eq!((&row["metric"], &row["verdict"]), (&"cpu_per_request".into(), &verdict.into()), "{row}");
        assert!(json["text"].as_str().unwrap().contains(sentence), "{}", json["text"]);
    }
}

#[test]
fn what_is_expected_is_the_users_and_a_condition_decides_the_exit() {
    let folder = fresh_folder();
    std::fs::write(folder.join("body"), "Hello, World!").unwrap();
    let command = |name: &str| format!("{name}='{FIXTURE}' 1 port-env");
    let missing = |name: &str| arm(name, "missing");
    let cases = [
        // The port comes by the environment; the baseline is not the first.
        (vec![command("pr"), command("main")], vec!["--port-env", "--baseline", "main"]),
        (vec![missing("pr"), missing("main")], vec!["--expect-status", "404", "--expect-body", "body"]),
    ];
    for (arms, flags) in cases {
        let mut args = vec!["compare", "--equal-rates", "none", "--no-why", "--format", "json"];
        args.extend(arms.iter().map(String::as_str));
        args.extend(flags);
        // One block decides nothing: where the server was the limit this holds.
        let conditions = ["--fail-if", "ARM inconclusive", "--fail-if", "ARM invalid"];
        let other = if args.contains(&"--baseline") { "pr" } else { "main" };
        let conditions = conditions.map(|word| word.replace("ARM", other));
        args.extend(conditions.iter().map(String::as_str));
        args.extend(["--out", other]);
        let printed = whyslow_in(&folder, &[&args[..], &SHORT].concat());
        assert_eq!(printed.code, Some(3), "{printed:?}");
        let json = printed.json();
        assert!(json["arms"].as_array().unwrap().iter().all(|arm| arm["ok"] == true), "{json}");
        let run = model::record::RunDir::open(&folder.join(other)).read().unwrap();
        let windows: Vec<_> = run.rounds.iter().flat_map(|record| &record.windows).collect();
        assert!(windows.len() >= 2 && windows.iter().all(|window| window.load.errors.total() == 0));
        assert_eq!(json["comparisons"][0]["arm"], other);
    }
}

#[test]
fn verify_prints_what_each_arm_did_and_takes_any_server_that_answers() {
    let (main, bad) = (arm("main", "none"), arm("bad", "status"));
    let printed = whyslow_in(&fresh_folder(), &["compare", &main, &bad, "--verify", "--format", "json"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let json = printed.json();
    assert_eq!((&json[0]["arm"], &json[0]["ok"]), (&"main".into(), &true.into()), "no Date, no 404: notes");
    let notes = json[0]["checks"].as_array().unwrap().iter().filter(|check| check["ok"] == false);
    assert!(notes.clone().count() > 0 && notes.clone().all(|check| check["optional"] == true));
    assert!(json[1]["error"].as_str().unwrap().contains("status 500 instead of 200"), "{json}");
}

#[test]
fn an_allowed_difference_is_measured_at_a_rate_and_told() {
    let folder = fresh_folder();
    let (main, pr) = (arm("main", "none"), arm("pr", "header"));
    let args = ["compare", &main, &pr, "--allow-difference", "--rate", "200", "--format", "json"];
    let printed = whyslow_in(&folder, &[&args[..], &["--no-why"], &SHORT].concat());
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    let json = printed.json();
    assert_eq!(json["condition"], "200 requests/s");
    let gates = json["gates"].as_array().unwrap();
    let parity = gates.iter().find(|gate| gate["id"] == "parity").unwrap();
    assert_eq!(parity["ok"], true);
    assert!(parity["text"].as_str().unwrap().contains("x-padding"), "{parity}");
    let runs = std::fs::read_dir(folder.join("whyslow-runs")).unwrap();
    assert_eq!(runs.count(), 1, "without --out a run has a place of its own");
}

#[test]
fn the_built_in_servers_pass_every_check_of_verify() {
    let printed = whyslow_in(&fresh_folder(), &["compare", "--verify"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.lines().count() >= 10, "{}", printed.out);
    assert!(printed.out.lines().all(|line| line.starts_with("ok ")), "{}", printed.out);
}
