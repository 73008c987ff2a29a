//! What was reported against other tools, with this one: docs/benchmarks/reports.md lists them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{fresh_folder, whyslow};

/// An answer that ends before its connection does.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Connections and requests that a server had.
#[derive(Default)]
struct Counts {
    accepts: AtomicU64,
    requests: AtomicU64,
}

/// Answers each head by `answer`, and closes a connection that was idle for so long.
fn raw(answer: &'static [u8], idle: Option<Duration>) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Arc::new(Counts::default()));
    let kept = Arc::clone(&counts);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            kept.accepts.fetch_add(1, Ordering::Relaxed);
            let counts = Arc::clone(&kept);
            std::thread::spawn(move || talk(stream, answer, idle, &counts));
        }
    });
    (address, counts)
}

fn talk(mut stream: TcpStream, answer: &[u8], idle: Option<Duration>, counts: &Counts) -> Option<()> {
    stream.set_read_timeout(idle).ok()?;
    let (mut unread, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buf).ok()? {
            0 => return None,
            bytes => unread.extend_from_slice(&buf[..bytes]),
        }
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            unread.drain(..end + 4);
            counts.requests.fetch_add(1, Ordering::Relaxed);
            stream.write_all(answer).ok()?;
        }
    }
}

pub(crate) fn load(address: SocketAddr, flags: &[&str]) -> Value {
    let url = format!("http://{address}/");
    let printed = whyslow(&[&["load", "--format", "json", url.as_str()][..], flags].concat());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    printed.json()
}

pub(crate) fn errors(json: &Value) -> u64 {
    json["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

#[test]
fn whoever_says_that_a_connection_closes_closes_it_whatever_the_server_does() {
    let (address, counts) = raw(ANSWER, None);
    let json = load(address, &["-c8", "-t2", "--requests", "1000", "-d20s", "-H", "Connection: close"]);
    assert_eq!((&json["requests"], errors(&json)), (&Value::from(1000), 0), "{json}");
    assert_eq!(counts.requests.load(Ordering::Relaxed), 1000);
    // Each thread has connections open for requests that are not to be sent any more.
    let accepts = counts.accepts.load(Ordering::Relaxed);
    assert!((1000..=1008).contains(&accepts), "{accepts}");
}

#[test]
fn a_rate_below_one_for_each_thread_sends_exactly_what_is_due() {
    for (flags, due) in [
        (["-t4", "-c4", "-R", "2", "-d2s"], 4),
        (["-t4", "-c9", "-R", "7", "-d1s"], 7),
        (["-t1", "-c9", "-R", "10", "-d1s"], 10),
    ] {
        let (address, counts) = raw(ANSWER, None);
        let json = load(address, &flags);
        let sent = json["requests"].as_u64().unwrap() + json["unfinished"].as_u64().unwrap();
        assert_eq!((sent, counts.requests.load(Ordering::Relaxed)), (due, due), "{flags:?}: {json}");
    }
}

#[test]
fn a_rate_that_nobody_can_send_ends_in_time_and_says_so() {
    let (address, _) = raw(ANSWER, None);
    let json = load(address, &["-t8", "-c40", "-R", "10000000", "-d1s"]);
    assert!((900_000_000..1_300_000_000).contains(&json["window_ns"].as_u64().unwrap()), "{json}");
    assert!(json["rate_ratio"].as_f64().unwrap() < 0.5 && !json["warnings"].as_array().unwrap().is_empty());
}

#[test]
fn a_server_that_closes_idle_connections_costs_no_request() {
    // Each connection waits for 400 ms between two requests, and is closed after 100 ms.
    let (address, counts) = raw(ANSWER, Some(Duration::from_millis(100)));
    let json = load(address, &["-t1", "-c16", "-R", "40", "-d2s"]);
    assert_eq!((&json["requests"], errors(&json)), (&Value::from(80), 0), "{json}");
    assert!(counts.accepts.load(Ordering::Relaxed) > 32, "connections were closed and opened again");
}

/// Closes a connection that was idle for 200 ms at the very moment when the next request comes, which it does not answer.
fn closes_at_the_worst_moment() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                loop {
                    let free = Instant::now();
                    if stream.read(&mut buf).unwrap_or(0) == 0 || free.elapsed() > Duration::from_millis(200)
                    {
                        return;
                    }
                    let Ok(()) = stream.write_all(ANSWER) else { return };
                }
            });
        }
    });
    address
}

#[test]
fn a_request_that_meets_the_closing_of_an_idle_connection_is_sent_again_and_said() {
    let flags = ["-t1", "-c1", "-R", "2", "-d3s"];
    let json = load(closes_at_the_worst_moment(), &flags);
    let resent = json["resent"].as_u64().unwrap();
    assert!(resent >= 2 && errors(&json) == 0 && json["requests"].as_u64() >= Some(5), "{json}");
    // The server may have had it: a second order is not for us to place.
    let json = load(closes_at_the_worst_moment(), &[&flags[..], &["-X", "POST"]].concat());
    assert!(json["resent"] == 0 && json["errors"]["read"].as_u64() >= Some(1), "{json}");
}

#[test]
fn what_is_refused_is_refused_by_the_name_of_its_field() {
    for (answer, field) in [
        (
            &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                [..],
            "Transfer-Encoding",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\nX: a\n\r\n", "a line feed alone"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "is this the right port?"),
    ] {
        let (address, _) = raw(answer, None);
        let json = load(address, &["-t1", "-c1", "--requests", "3", "-d5s"]);
        let warnings = json["warnings"].to_string();
        assert!(json["errors"]["parse"] == 3 && warnings.contains(field), "{field}: {json}");
        assert_eq!(warnings.contains("right port"), field.contains("right port"), "{warnings}");
    }
    let (address, _) = raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", None);
    let json = load(address, &["-t1", "-c1", "--requests", "3", "-d5s"]);
    assert_eq!(
        (&json["requests"], errors(&json)),
        (&Value::from(3), 0),
        "lengths that agree are one: {json}"
    );
}

/// The wrapper for `git bisect run`, with a program in the place of whyslow that ends with each of its codes.
#[test]
fn a_bisection_by_git_is_told_by_its_codes_what_whyslow_found() {
    let folder = fresh_folder();
    let program = folder.join("whyslow");
    std::fs::write(&program, "#!/bin/sh\nexit $CODE\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ci/bisect-run.sh");
    for (code, wanted) in [(0, 0), (3, 1), (1, 125), (4, 125), (5, 125), (2, 255)] {
        let mut command = Command::new("bash");
        command
            .args([script, "v1", "make", "./server {port}"])
            .env("PATH", &path)
            .env("CODE", code.to_string());
        assert_eq!(command.status().unwrap().code(), Some(wanted), "of {code}");
    }
}

/// Sources of integration tests and of units, by the name of their file without its ending.
fn tests_of(module: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut folders, mut texts) = (vec![root.join("crates"), root.join("straightline")], String::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == format!("{module}.rs").as_str()) {
                texts += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    texts
}

#[test]
fn every_test_that_the_page_of_reports_names_is_there() {
    let page = include_str!("../../../../docs/benchmarks/reports.md");
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| report |"));
    let mut checked = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap();
        let names: Vec<&str> = last.split('`').filter(|name| name.contains("::")).collect();
        assert!(!names.is_empty() || last == "the same", "a row names no test: {row}");
        for name in names {
            let (module, function) = name.rsplit_once("::").unwrap();
            let there = tests_of(module).contains(&format!("#[test]\nfn {function}()"));
            assert!(there, "{name} is no test: {row}");
            checked += 1;
        }
    }
    assert!(checked > 40, "only {checked} names were looked at");
}
