//! The scripts of `docs/examples/lua`: on the wire they say what they say under wrk.

use std::path::PathBuf;
use std::process::Command;

use testkit::{ANSWER, Recorder};

use crate::support::{Printed, WHYSLOW, fresh_folder, repository};

/// wrk 4.1 as Debian has it; the witness.
const WRK: &str = "/usr/bin/wrk";
/// Requests that a connection must have sent for a comparison to mean something.
const ENOUGH: usize = 20;

/// One script and how it is run.
struct Case {
    script: &'static str,
    options: &'static [&'static str],
    args: &'static [&'static str],
    /// What the first connection's first requests are.
    first: &'static [&'static str],
    least: usize,
}

const ONE: &[&str] = &["-t1", "-c1"];
const TWO: &[&str] = &["-t2", "-c2"];

/// Every script. That of the first thread was asked for a request once before, as wrk does: a counter begins at 1.
const CASES: &[Case] = &[
    Case { script: "post", options: ONE, args: &[], first: &["POST / "], least: ENOUGH },
    Case { script: "report", options: ONE, args: &[], first: &["GET / "], least: ENOUGH },
    Case {
        script: "pipeline",
        options: ONE,
        args: &[],
        first: &["GET /first ", "GET /second ", "GET /third ", "GET /first "],
        least: ENOUGH,
    },
    Case {
        script: "counter",
        options: ONE,
        args: &[],
        first: &["GET /1 ", "GET /2 ", "GET /3 "],
        least: ENOUGH,
    },
    Case {
        script: "auth",
        options: ONE,
        args: &[],
        first: &["GET /authenticate ", "GET /resource "],
        least: ENOUGH,
    },
    Case { script: "addr", options: TWO, args: &[], first: &["GET / "], least: ENOUGH },
    Case { script: "delay", options: ONE, args: &[], first: &["GET / "], least: 10 },
    Case { script: "stop", options: ONE, args: &["30"], first: &["GET / "], least: 30 },
    Case { script: "setup", options: TWO, args: &[], first: &["GET /thread/1 "], least: ENOUGH },
    Case {
        script: "paths",
        options: TWO,
        args: &["PATHS"],
        first: &["GET /b?x=1 ", "GET /c ", "GET /a ", "GET /b?x=1 "],
        least: ENOUGH,
    },
];

fn answer(request: &[u8]) -> Vec<u8> {
    match request.starts_with(b"GET /authenticate ") {
        true => b"HTTP/1.1 200 OK\r\nX-Token: abc\r\nContent-Length: 0\r\n\r\n".to_vec(),
        false => ANSWER.to_vec(),
    }
}

/// What `program` sends when it runs a case for a second: the requests of each connection, and what it printed.
fn record(program: &[&str], case: &Case) -> (Vec<Vec<String>>, Printed) {
    let recorder = Recorder::start(answer);
    let script = repository(&format!("docs/examples/lua/{}.lua", case.script));
    let mut command = Command::new(program[0]);
    command
        .args(&program[1..])
        .args(case.options)
        .args(["-d1s", "-s"])
        .arg(script)
        .arg(recorder.url())
        .arg("--");
    command.args(case.args.iter().map(|word| if *word == "PATHS" { paths() } else { (*word).into() }));
    let printed = Printed::from_output(command.output().unwrap());
    let mut connections: Vec<Vec<String>> = recorder
        .finish()
        .iter()
        .map(|requests| requests.iter().map(|request| in_order(request)).collect())
        .collect();
    connections.sort_by(|a, b| a[0].cmp(&b[0]));
    (connections, printed)
}

/// A file of paths, made once.
fn paths() -> PathBuf {
    let file = fresh_folder().join("paths.txt");
    std::fs::write(&file, "/a\n/b?x=1\n\n/c\n").unwrap();
    file
}

/// A request with its fields in alphabetical order: scripts write them in the order of a table, which is none. The
/// host is the recorder's, which has another port each time.
fn in_order(request: &[u8]) -> String {
    let text = String::from_utf8(request.to_vec()).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<&str> = head.split("\r\n").collect();
    lines[1..].sort_unstable();
    let fields: Vec<String> =
        lines
            .iter()
            .map(|line| {
                if line.starts_with("Host: 127.0.0.1:") {
                    "Host: HERE".to_owned()
                } else {
                    (*line).to_owned()
                }
            })
            .collect();
    format!("{}\n\n{body}", fields.join("\n"))
}

#[test]
fn every_example_says_on_the_wire_what_it_says_under_wrk() {
    let witness = std::path::Path::new(WRK).exists();
    std::thread::scope(|scope| {
        for case in CASES {
            scope.spawn(move || {
                let (ours, printed) = record(&[WHYSLOW, "load", "--format", "wrk"], case);
                check(case, &ours, &printed);
                if witness {
                    let (theirs, _) = record(&[WRK], case);
                    compare(case, &ours, &theirs);
                }
            });
        }
    });
    if !witness {
        // The harness shows it with --nocapture; the checks above have run either way.
        testkit::skipped("no /usr/bin/wrk to compare with");
    }
}

fn check(case: &Case, ours: &[Vec<String>], printed: &Printed) {
    let script = case.script;
    assert_eq!(printed.code, Some(0), "{script}: {printed:?}");
    for connection in ours {
        assert!(connection.len() >= case.least, "{script}: only {} requests", connection.len());
    }
    for (request, first) in ours[0].iter().zip(case.first) {
        assert!(request.starts_with(first), "{script}: {request:?} does not begin with {first:?}");
    }
}

fn compare(case: &Case, ours: &[Vec<String>], theirs: &[Vec<String>]) {
    let script = case.script;
    assert_eq!(ours.len(), theirs.len(), "{script}: connections");
    for (ours, theirs) in ours.iter().zip(theirs) {
        let common = ours.len().min(theirs.len());
        assert!(common >= case.least, "{script}: only {common} requests to compare");
        for number in 0..common {
            assert_eq!(ours[number], theirs[number], "{script}: request {number}");
        }
    }
}
