//! Requests from files: every example of `docs/requests.md`, as the server saw it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::{ANSWER, Recorder};

use crate::support::{Said, WHYSLOW, assert_schema, fresh_folder, repository, whyslow_in};

/// Requests of each example: prime, and enough that each request of a file is drawn.
const PRIME: u64 = 101;

/// Files and commands of the page.
fn examples(folder: &Path) -> Vec<String> {
    let page = std::fs::read_to_string(repository("docs/requests.md")).unwrap();
    let mut file: Option<(String, String)> = None;
    let mut commands = Vec::new();
    for line in page.lines() {
        match (&mut file, line.strip_prefix("```"), line.strip_prefix("    whyslow ")) {
            (Some((name, text)), Some(""), _) => {
                std::fs::write(folder.join(&*name), &*text).unwrap();
                file = None;
            }
            (Some((_, text)), _, _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, Some(kind), _) => {
                let (_, name) = kind.split_once(' ').expect("a block has the name of its file");
                file = Some((name.to_owned(), String::new()));
            }
            (None, None, Some(command)) => commands.push(command.to_owned()),
            _ => {}
        }
    }
    commands
}

/// Runs one of the commands against a server that keeps what it gets.
fn run(folder: &Path, command: &str) -> (serde_json::Value, Vec<String>, usize) {
    let recorder = Recorder::start(|_| ANSWER.to_vec());
    let flags = format!("-t1 -c2 -d60s --requests {PRIME} --format json");
    let command = command.replacen("load", &format!("load {flags}"), 1).replace("URL", &recorder.url());
    let shell =
        Command::new("sh").args(["-c", &format!("exec {WHYSLOW} {command}")]).current_dir(folder).output();
    let said = Said::of(shell.unwrap());
    assert_eq!(said.code, Some(0), "{command}: {said:?}");
    let report = said.json();
    assert_schema("load", &report);
    assert_eq!(report["requests"], PRIME, "{command}");
    let connections = recorder.finish();
    let requests = connections.iter().flatten().map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    (report, requests.collect(), connections.len())
}

/// What each command of the page brings: parts of requests that are seen, and the names that have rows.
const SEEN: [(&str, &[&str], &[&str]); 6] = [
    ("list.txt", &["GET /users HTTP/1.1", "DELETE /users/7 HTTP/1.1"], &[]),
    (
        "shop.http",
        &["GET /v1/items?limit=20 HTTP/1.1", "POST /v1/orders", "{\"item\": {\"id\": 7}, \"key\": \""],
        &["list", "order"],
    ),
    (
        "page.har",
        &["GET /a?b=c HTTP/1.1", "Cookie: x=y", "POST /c HTTP/1.1", "\r\n\r\nhi"],
        &["GET /a", "POST /c"],
    ),
    (
        "login.sh",
        &[
            "POST /login",
            "Authorization: Basic bWU6c2VjcmV0",
            "\r\n\r\nname=O'Brien",
            "Accept-Encoding: deflate",
        ],
        &["login"],
    ),
    (
        "users.csv",
        &[
            "Content-Length: 35\r\n",
            "{\"id\": 1, \"name\": \"Ann, the first\"}",
            "{\"id\": 2, \"name\": \"Bob\"}",
        ],
        &[],
    ),
    ("per-connection", &["GET / HTTP/1.1"], &[]),
];

#[test]
fn every_example_of_the_page_does_what_it_says() {
    let folder = fresh_folder();
    let commands = examples(&folder);
    assert_eq!(commands.len(), SEEN.len());
    for (command, (file, parts, names)) in commands.iter().zip(SEEN) {
        assert!(command.contains(file), "{command}");
        let (report, requests, connections) = run(&folder, command);
        for part in parts {
            assert!(
                requests.iter().any(|request| request.contains(part)),
                "{command}: no {part} in {:?}",
                requests[0]
            );
        }
        assert!(requests.iter().all(|request| request.contains("Host: 127.0.0.1")), "{command}");
        let rows: BTreeSet<&str> = report["requests_by_name"]
            .as_object()
            .map(|rows| rows.keys().map(String::as_str).collect())
            .unwrap_or_default();
        assert_eq!(rows, names.iter().copied().collect(), "{command}");
        if file == "per-connection" {
            assert!(connections > 20, "{connections} connections for {PRIME} requests, five on each");
        }
    }
}

#[test]
fn rows_of_names_are_in_the_text_and_in_markdown() {
    let folder = fresh_folder();
    examples(&folder);
    let recorder = Recorder::start(|_| ANSWER.to_vec());
    let url = recorder.url();
    for (format, row) in [("text", "order "), ("md", "| order |")] {
        let flags = ["load", "--requests", "101", "--requests", "shop.http", "--format", format, &url];
        let said = whyslow_in(&folder, &flags);
        assert!(
            said.out.contains(row) && said.out.contains("requests  errors") || format == "md",
            "{said:?}"
        );
    }
    let without = whyslow_in(&folder, &["load", "--requests", "11", "--requests", "list.txt", &url]);
    assert!(!without.out.contains("errors  p50"), "{without:?}");
}

#[test]
fn a_file_that_cannot_be_used_is_refused_in_one_sentence_before_anything_is_sent() {
    let folder = fresh_folder();
    std::fs::write(folder.join("bad.http"), "###\nGET /{{gone}}\n").unwrap();
    std::fs::write(folder.join("short.csv"), "a,b\n1,2\n3\n").unwrap();
    std::fs::write(folder.join("good.csv"), "a,b\n1,2\n").unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["--requests", "bad.http"], "bad.http:2: {{gone}} is not a variable of this file"),
        (&["--data", "short.csv"], "short.csv:3: it has 1 cells, and the header has 2"),
        (&["--data", "good.csv", "--body", "{c}"], "{c} is no column of the data (it has a, b)"),
    ];
    for (flags, words) in cases {
        let said = whyslow_in(&folder, &[&["load"], flags, &["http://127.0.0.1:9/"]].concat());
        assert_eq!((said.code, said.out.as_str(), said.err.lines().count()), (Some(2), "", 1), "{said:?}");
        assert!(said.err.contains(words), "{flags:?}: {said:?}");
    }
}
