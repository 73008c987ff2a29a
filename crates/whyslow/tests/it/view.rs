//! `whyslow view` and `whyslow history`: an index that can be lost, and pages for their own reader only.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::report::{kept_run, spoil};
use crate::revisions::Repository;
use crate::support::{WHYSLOW, fresh_folder, whyslow_in};

/// Longest wait for an answer: pages are analysed while they are asked for, by a program without optimisation.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder with so many runs, a day apart; from `changed` on, threads cost a third less.
fn runs(count: usize, changed: usize) -> PathBuf {
    let folder = fresh_folder();
    for index in 0..count {
        let run = kept_run();
        spoil(
            &run.join("manifest.json"),
            "started_unix_s",
            Value::from(1_800_000_000 + 86_400 * index as u64),
        );
        for entry in fs::read_dir(run.join("rounds")).unwrap() {
            let path = entry.unwrap().path();
            let mut round: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let better = round["arm"] == "threads" && index >= changed;
            let cpu = &mut round["windows"][0]["target"]["cpu"]["total_ns"];
            let factor = if better { 0.7 } else { 1.0 } * (1.0 + (index * 37 % 10) as f64 / 1000.0);
            *cpu = Value::from((cpu.as_f64().unwrap() * factor) as u64);
            fs::write(&path, round.to_string()).unwrap();
        }
        fs::rename(&run, folder.join(format!("run-{index:02}"))).unwrap();
    }
    folder
}

fn history(folder: &Path, more: &[&str]) -> Vec<Value> {
    let args = [&["history", "--runs", ".", "--format", "json"], more].concat();
    let printed = whyslow_in(folder, &args);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    printed.json().as_array().unwrap().clone()
}

#[test]
fn a_change_is_found_at_its_run_and_the_index_can_be_lost() {
    let folder = runs(12, 7);
    let all = history(&folder, &["--metric", "cpu_per_request"]);
    assert_eq!(all.len(), 3, "one series for each arm");
    let threads = history(&folder, &["threads", "--metric", "cpu_per_request"]);
    let points = threads[0]["points"].as_array().unwrap();
    let changed: Vec<&str> = points
        .iter()
        .filter(|point| !point["change_p"].is_null())
        .map(|point| point["run"].as_str().unwrap())
        .collect();
    assert_eq!((points.len(), changed), (12, vec!["run-07"]));
    assert!(folder.join("index.sqlite").exists());
    fs::remove_file(folder.join("index.sqlite")).unwrap();
    assert_eq!(history(&folder, &["--metric", "cpu_per_request"]), all, "the index is made anew");
    fs::write(folder.join("index.sqlite"), "this is no index").unwrap();
    assert_eq!(history(&folder, &["--metric", "cpu_per_request"]), all, "without an index it takes longer");
}

#[test]
fn runs_of_commits_are_in_the_order_of_the_commits() {
    let folder = runs(12, 7);
    let repository = Repository::new();
    let mut hashes = vec![repository.git(&["rev-parse", "HEAD"])];
    for number in 1..12 {
        repository.write("number", &format!("{number}\n"));
        repository.commit("next");
        hashes.push(repository.git(&["rev-parse", "HEAD"]));
    }
    // The later a commit the earlier it was measured.
    for (index, hash) in hashes.iter().rev().enumerate() {
        let file = folder.join(format!("run-{index:02}/manifest.json"));
        let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let arms = manifest["plan"]["arms"].as_array_mut().unwrap();
        let arm = arms.iter_mut().find(|arm| arm["name"] == "threads").unwrap();
        arm["source"] = serde_json::json!({
            "kind": "git", "asked": "main", "commit": hash, "tree": hash, "changed": false, "git_dir": "/r/.git",
            "checkout": "/r",
        });
        fs::write(&file, manifest.to_string()).unwrap();
    }
    let runs = folder.to_str().unwrap();
    let args = ["history", "threads", "--metric", "cpu_per_request", "--runs", runs, "--format"];
    let printed = repository.whyslow(&[&args[..], &["json"]].concat());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    let points = json[0]["points"].as_array().unwrap();
    let commits: Vec<&str> = points.iter().map(|point| point["commit"].as_str().unwrap()).collect();
    assert_eq!(commits, hashes);
    let changed: Vec<&Value> = points.iter().filter(|point| !point["change_p"].is_null()).collect();
    assert_eq!(changed.len(), 1, "{json}");
    assert_eq!((&changed[0]["run"], &changed[0]["commit"]), (&"run-06".into(), &hashes[5].clone().into()));
    let text = repository.whyslow(&[&args[..], &["text"]].concat());
    assert!(text.out.contains(&hashes[5][..7]), "{text:?}");
    // Where the repository is not, they are in the order of time, with their commits.
    let elsewhere = history(&folder, &["threads", "--metric", "cpu_per_request"]);
    assert_eq!(
        (&elsewhere[0]["points"][0]["run"], &elsewhere[0]["points"][0]["commit"]),
        (&"run-00".into(), &hashes[11].clone().into())
    );
}

#[test]
fn what_changed_or_went_away_is_noticed() {
    let folder = runs(3, 9);
    let count = |folder: &Path| {
        history(folder, &["futures", "--metric", "rate"])[0]["points"].as_array().unwrap().len()
    };
    assert_eq!(count(&folder), 3);
    fs::remove_dir_all(folder.join("run-01")).unwrap();
    spoil(&folder.join("run-02/manifest.json"), "status", Value::from("partial"));
    assert_eq!(count(&folder), 1, "one is gone, and one is not complete");
    // One figure, unless more are asked for.
    let titles = |more: &[&str]| {
        let printed = whyslow_in(&folder, &[&["history", "futures", "--runs", "."], more].concat());
        (printed.out.contains("CPU per request at"), printed.out.contains("rate at"), printed.err)
    };
    let (cpu, rate, err) = titles(&[]);
    assert!(
        cpu && !rate && err.contains(" more tables of other metrics: --metric NAME, or --details for all"),
        "{err}"
    );
    assert_eq!(titles(&["--details"]), (true, true, String::new()));
    let printed = whyslow_in(&folder, &["history", "--metric", "speed"]);
    assert_eq!(printed.code, Some(2));
    assert!(printed.err.contains("there is no metric 'speed'"), "{printed:?}");
}

struct Viewer {
    process: Child,
    address: String,
}

impl Viewer {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(WHYSLOW)
            .args(["view", "--runs", ".", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Self { process, address }
    }

    fn connect(&self, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        stream
    }

    fn ask(&self, path: &str, host: &str) -> String {
        let mut answer = String::new();
        self.connect(path, host).read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn pages_are_for_their_own_reader_and_lead_nowhere_else() {
    let folder = runs(1, 9);
    fs::write(folder.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink(kept_run(), folder.join("link")).unwrap();
    let viewer = Viewer::start(&folder);
    let history = viewer.ask("/history", "localhost");
    assert!(history.contains("href=\"/run/run-00\""), "{history}");
    let list = viewer.ask("/", "localhost");
    assert!(list.starts_with("HTTP/1.1 200") && list.contains("/run/run-00") && !list.contains("/run/link"));
    let page = viewer.ask("/run/run-00", "127.0.0.1");
    assert!(page.contains("frame-ancestors 'none'") && page.contains("<section id=\"verdict\""));
    assert!(viewer.ask("/history", "[::1]:80").starts_with("HTTP/1.1 200"));
    assert!(viewer.ask("/", "attacker.example").starts_with("HTTP/1.1 421"));
    for path in [
        "/run/..",
        "/run/%2e%2e",
        "/run/..%2fsecret",
        "/secret",
        "/run/link",
        "/run/run-00/manifest.json",
        "/index.sqlite",
    ] {
        assert!(viewer.ask(path, "localhost").starts_with("HTTP/1.1 404"), "{path}");
    }
}

#[test]
fn a_run_in_progress_tells_of_each_round_until_it_ends() {
    let folder = runs(1, 9);
    let run = folder.join("run-00");
    let manifest = run.join("manifest.json");
    spoil(&manifest, "status", Value::from("running"));
    let kept = fs::read(run.join("rounds/b005-p2.json")).unwrap();
    fs::remove_file(run.join("rounds/b005-p2.json")).unwrap();
    let viewer = Viewer::start(&folder);
    let mut events = BufReader::new(viewer.connect("/run/run-00/events", "localhost")).lines();
    let mut next = || {
        let line = events.by_ref().map_while(Result::ok).find(|line| line.starts_with("data: "))?;
        serde_json::from_str::<Value>(&line["data: ".len()..]).ok()
    };
    let first = next().unwrap();
    assert_eq!((&first["status"], &first["rounds"]), (&Value::from("running"), &Value::from(17)));
    let courses = first["courses"].as_array().unwrap();
    assert_eq!(courses.len(), 4, "two arms and two primary metrics");
    for course in courses {
        let points = course["points"].as_array().unwrap();
        let pairs: Vec<u64> = points.iter().map(|point| point["pairs"].as_u64().unwrap()).collect();
        assert!(pairs == [3, 4, 5] || pairs == [3, 4, 5, 6], "{course}");
    }
    fs::write(run.join("rounds/b005-p2.json"), kept).unwrap();
    spoil(&manifest, "status", Value::from("complete"));
    let last = std::iter::from_fn(next).last().unwrap();
    assert_eq!((&last["status"], &last["rounds"]), (&Value::from("complete"), &Value::from(18)));
}
