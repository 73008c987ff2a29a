//! Arms that run already: asked, watched, and left as they are.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use model::record::RunDir;

use crate::support::{FIXTURE, Printed, SHORT, arm, assert_schema, fresh_folder, whyslow_in};

/// A server that was started by somebody else.
struct Started {
    child: Child,
    port: u16,
}

impl Started {
    fn new() -> Self {
        let mut command = Command::new(FIXTURE);
        command.args(["0", "hosts", "127.0.0.1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().rsplit_once(':').unwrap().1.parse().unwrap(), child }
    }

    fn arm(&self, name: &str) -> String {
        format!("{name}=http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.stdin.take().map(|mut input| input.flush());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compare(args: &[&str]) -> (Printed, std::path::PathBuf) {
    let folder = fresh_folder();
    let head = ["compare", "--equal-rates", "25", "--format", "json", "--out", "run"];
    (whyslow_in(&folder, &[&head[..], &SHORT, args].concat()), folder.join("run"))
}

#[test]
fn a_server_that_runs_is_compared_with_one_that_is_started_and_runs_on() {
    let mut server = Started::new();
    let (printed, run) = compare(&[&server.arm("old"), &arm("new", "none")]);
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    assert_eq!(json["arms"][0]["command"], format!("http://127.0.0.1:{}", server.port));
    for arm in json["arms"].as_array().unwrap() {
        assert_eq!((&arm["ok"], &arm["error"]), (&true.into(), &serde_json::Value::Null), "{arm}");
        assert!(arm["cpu_ns_per_request"]["total"].as_f64().unwrap() > 1_000.0, "found by its port: {arm}");
    }
    assert_eq!(primary(&json), ["cpu_per_request", "rate"]);
    let run = RunDir::open(&run).read().unwrap();
    assert!(run.rounds.iter().all(|record| record.arm != "old" || record.port == server.port));
    assert!(server.child.try_wait().unwrap().is_none(), "it was not ended");
}

#[test]
fn a_server_that_is_started_anew_in_the_middle_is_a_failed_row() {
    let folder = fresh_folder();
    let mut first = Started::new();
    let port = first.port;
    let mut command = std::process::Command::new(crate::support::WHYSLOW);
    command.args(["compare", &first.arm("old"), &arm("new", "none"), "--equal-rates", "none", "--no-why"]);
    command.args([
        "--format",
        "json",
        "--out",
        "run",
        "--blocks",
        "1",
        "--cycles",
        "60",
        "--connections",
        "4",
    ]);
    let run = command.current_dir(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The generator writes its log once it is at work.
    let begun = || {
        let logs = std::fs::read_dir(folder.join("run/logs")).into_iter().flatten().flatten();
        logs.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("-generator"))
    };
    assert!(crate::support::within(std::time::Duration::from_secs(60), begun), "no block has begun");
    std::thread::sleep(std::time::Duration::from_millis(500));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut again = Command::new(FIXTURE);
    let mut again = again.args([&port.to_string(), "none"]).stdout(Stdio::null()).spawn().unwrap();
    let printed = Printed::from_output(run.wait_with_output().unwrap());
    again.kill().unwrap();
    again.wait().unwrap();
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert_eq!(printed.json()["arms"][0]["error"], "it ended while it was measured", "{printed:?}");
}

fn primary(json: &serde_json::Value) -> Vec<&str> {
    let rows = json["comparisons"].as_array().unwrap().iter().filter(|row| row["primary"] == true);
    rows.map(|row| row["metric"].as_str().unwrap()).collect()
}

#[test]
fn where_its_cpu_time_is_not_known_rate_and_response_decide_and_it_is_said() {
    let server = Started::new();
    // A process that does nothing stands for one that is not the server.
    let mut idle = Command::new("sleep").arg("600").spawn().unwrap();
    let watch = format!("old={}", idle.id());
    let (printed, _) = compare(&[&server.arm("old"), &arm("new", "none"), "--watch-pid", &watch, "--no-why"]);
    idle.kill().unwrap();
    idle.wait().unwrap();
    let json = printed.json();
    assert_schema("compare", &json);
    assert_eq!(primary(&json), ["rate", "p50"]);
    let gate = json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "running").unwrap();
    assert_eq!((&gate["ok"], &gate["arm"]), (&false.into(), &"old".into()));
    let text = gate["text"].as_str().unwrap();
    assert!(text.contains("rate and median response decide") && text.contains("--watch-pid"), "{text}");
    let cpu = json["comparisons"].as_array().unwrap().iter().find(|row| row["metric"] == "cpu_per_request");
    assert_eq!(cpu.unwrap()["verdict"], "invalid");
    let p50 = json["comparisons"].as_array().unwrap().iter().find(|row| row["metric"] == "p50").unwrap();
    assert_eq!(p50["blocks"], 1, "both have it: {p50}");
}

#[test]
fn a_server_that_is_not_there_is_a_failed_row() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (printed, _) = compare(&[&format!("old=http://localhost:{port}/"), &arm("new", "none")]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let error = printed.json()["arms"][0]["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with(&format!("nothing answers on 127.0.0.1:{port}, where it was to run")),
        "{error}"
    );
}
