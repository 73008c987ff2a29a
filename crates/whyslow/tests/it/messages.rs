//! WebSocket in `compare` and `capacity`, as the servers counted messages.

use std::path::Path;
use std::process::Command;

use model::record::RunDir;
use serde_json::Value;

use crate::support::{FIXTURE, Printed, SHORT, WHYSLOW, arms, assert_schema, fresh_folder};

/// Undecided after one block, or void: these tests look at what was asked and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];

/// The words that start a server that echoes, and writes its log into `folder`.
fn arm(folder: &Path, name: &str, manner: &str) -> String {
    format!("{name}='{}' websocket {manner} {{port}} '{}'", arms().display(), folder.display())
}

fn run(folder: &Path, args: &[&str]) -> Printed {
    Printed::from_output(Command::new(WHYSLOW).args(args).current_dir(folder).output().unwrap())
}

fn compare(folder: &Path, arms: [String; 2], flags: &[&str]) -> Printed {
    let head = ["compare", &arms[0], &arms[1], "--ws", "--no-why", "--out", "run", "--format", "json"];
    run(folder, &[&head[..], flags, &SHORT].concat())
}

fn parity(json: &Value) -> &Value {
    json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "parity").unwrap()
}

#[test]
fn messages_are_compared_and_counted_as_the_servers_count_them() {
    let folder = fresh_folder();
    let flags = ["--body", "how are you", "--pipeline", "2", "--equal-rates", "25"];
    let printed = compare(&folder, [arm(&folder, "main", "calm"), arm(&folder, "pr", "calm")], &flags);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    assert!(json["workload"].as_str().unwrap().contains(" over WebSocket"), "{}", json["workload"]);
    assert_eq!(parity(&json)["text"], "2 arms answer alike: status 200, 11 bytes");
    let run = RunDir::open(&folder.join("run")).read().unwrap();
    for record in &run.rounds {
        let log = std::fs::read_to_string(folder.join(format!("{}.log", record.port))).unwrap();
        let at: Vec<u64> = log.lines().map(|line| line.parse().unwrap()).collect();
        for window in &record.windows {
            let within = |at: &u64| {
                window
                    .slices
                    .iter()
                    .any(|slice| (slice.start_ns..=slice.start_ns + slice.wall_ns).contains(at))
            };
            let (load, seen) = (&window.load, at.iter().filter(|at| within(at)).count() as u64);
            assert_eq!((load.errors.total(), load.requests), (0, seen), "{}: {load:?}", record.arm);
            assert!(seen > 100, "{seen}");
        }
    }
}

#[test]
fn other_messages_and_other_protocols_are_named() {
    let folder = fresh_folder();
    let printed = compare(
        &folder,
        [arm(&folder, "main", "calm"), arm(&folder, "pr", "shouting")],
        &["--equal-rates", "none"],
    );
    let json = printed.json();
    assert_eq!((printed.code, &parity(&json)["ok"]), (Some(5), &Value::Bool(false)), "{printed:?}");
    let folder = fresh_folder();
    let plain = |name| format!("{name}='{FIXTURE}' {{port}} none");
    let printed = compare(&folder, [plain("main"), plain("pr")], &["--ready-limit", "1s"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let why = "the server answers 200 where it is asked to speak WebSocket";
    assert!(printed.json()["arms"][0]["error"].as_str().unwrap().contains(why), "{printed:?}");
    let printed = run(&folder, &["compare", &plain("a"), &plain("b"), "--ws", "--expect-status", "101"]);
    assert!(
        printed.code == Some(2) && printed.err.contains("WebSocket messages have no status"),
        "{printed:?}"
    );
}

#[test]
fn a_search_for_capacity_sends_messages() {
    let folder = fresh_folder();
    let search =
        ["--window", "200ms", "--warmup", "50ms", "--slo", "p50 < 1s", "--from", "200", "--max-rate", "400"];
    let head = ["capacity", &arm(&folder, "main", "calm"), "--ws", "-c", "4", "--format", "json"];
    let printed = run(&folder, &[&head[..], &search].concat());
    // On a crowded machine the generator may have been late in a window of 200 ms, and says so.
    let late = printed.code == Some(5) && printed.out.contains("the generator, not the server");
    assert!(printed.code == Some(0) || late, "{printed:?}");
    let logs = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let lines: usize = logs
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert!(lines > 100, "{lines}");
}
