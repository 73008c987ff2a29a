//! WebSocket in `compare` and `capacity`, as the servers counted messages.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use model::record::RunDir;
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;
use tungstenite::Message;

use crate::support::{FIXTURE, SHORT, Said, WHYSLOW, assert_schema, fresh_folder};

/// Undecided after one block, or void: these tests look at what was asked and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];
/// Where a server that is a test of this program writes its log.
const FOLDER: &str = "WHYSLOW_TEST_FOLDER";

#[test]
#[ignore = "it is the server of the other tests, which start it"]
fn arm_that_echoes() {
    let folder = std::env::var(FOLDER).expect("it is started by another test");
    // What tests have no such name is passed over.
    let args: Vec<String> = std::env::args().collect();
    let [.., manner, port] = args.as_slice() else { panic!("{args:?}") };
    let shouts = manner == "shouting";
    let log = Arc::new(Mutex::new(std::fs::File::create(format!("{folder}/{port}.log")).unwrap()));
    for stream in TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap().incoming().flatten() {
        let log = Arc::clone(&log);
        std::thread::spawn(move || echo(stream, shouts, &log));
    }
}

fn echo(stream: TcpStream, shouts: bool, log: &Mutex<std::fs::File>) {
    stream.set_nodelay(true).unwrap();
    let Ok(mut socket) = tungstenite::accept(stream) else { return };
    while let Ok(Message::Text(text)) = socket.read() {
        let now = clock_gettime(ClockId::Monotonic);
        let line = format!("{}\n", now.tv_sec * 1_000_000_000 + now.tv_nsec);
        log.lock().unwrap().write_all(line.as_bytes()).unwrap();
        let answer = if shouts { format!("{text}!{}", "!".repeat(99)) } else { text.to_string() };
        if socket.send(Message::text(answer)).is_err() {
            return;
        }
    }
}

/// The words that start a server of this kind.
fn arm(name: &str, manner: &str) -> String {
    let own = std::env::current_exe().unwrap();
    format!("{name}='{}' --ignored --exact messages::arm_that_echoes {manner} {{port}}", own.display())
}

fn run(folder: &Path, args: &[&str]) -> Said {
    Said::of(Command::new(WHYSLOW).args(args).current_dir(folder).env(FOLDER, folder).output().unwrap())
}

fn compare(folder: &Path, arms: [String; 2], flags: &[&str]) -> Said {
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
    let said = compare(&folder, [arm("main", "calm"), arm("pr", "calm")], &flags);
    assert!(NO_VERDICT.contains(&said.code), "{said:?}");
    let json = said.json();
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
    let said = compare(&folder, [arm("main", "calm"), arm("pr", "shouting")], &["--equal-rates", "none"]);
    let json = said.json();
    assert_eq!((said.code, &parity(&json)["ok"]), (Some(5), &Value::Bool(false)), "{said:?}");
    let folder = fresh_folder();
    let plain = |name| format!("{name}='{FIXTURE}' {{port}} none");
    let said = compare(&folder, [plain("main"), plain("pr")], &["--ready-limit", "1s"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let why = "the server answers 200 where it is asked to speak WebSocket";
    assert!(said.json()["arms"][0]["error"].as_str().unwrap().contains(why), "{said:?}");
    let said = run(&folder, &["compare", &plain("a"), &plain("b"), "--ws", "--expect-status", "101"]);
    assert!(said.code == Some(2) && said.err.contains("messages of WebSocket have no status"), "{said:?}");
}

#[test]
fn a_search_for_capacity_sends_messages() {
    let folder = fresh_folder();
    let search =
        ["--window", "200ms", "--warmup", "50ms", "--slo", "p50 < 1s", "--from", "200", "--max-rate", "400"];
    let head = ["capacity", &arm("main", "calm"), "--ws", "-c", "4", "--format", "json"];
    let said = run(&folder, &[&head[..], &search].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let logs = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let lines: usize = logs
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count())
        .sum();
    assert!(lines > 100, "{lines}");
}
