//! Requests from files: every example of `docs/requests.md`, as the server saw it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use testkit::{ANSWER, Recorder};

use crate::support::{Printed, WHYSLOW, assert_schema, fresh_folder, repository, whyslow_in};

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
    let printed = Printed::from_output(shell.unwrap());
    assert_eq!(printed.code, Some(0), "{command}: {printed:?}");
    let report = printed.json();
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
        let printed = whyslow_in(&folder, &flags);
        assert!(
            printed.out.contains(row) && printed.out.contains("requests  errors") || format == "md",
            "{printed:?}"
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
    std::fs::write(folder.join("notes.txt"), "Bearer t0ken of somebody\n").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (
            &["--requests", "notes.txt"],
            "notes.txt:1: it is no list of '[WEIGHT] [METHOD] PATH', no .http file, no HAR and no curl command (the log of a \
             server is for --replay): its first line begins with 'Bearer'",
        ),
        (&["--body", "@gone.json"], "cannot read --body @gone.json: No such file"),
        (&["--requests", "bad.http"], "bad.http:2: {{gone}} is not a variable of this file"),
        (&["--data", "short.csv"], "short.csv:3: it has 1 cells, and the header has 2"),
        (&["--data", "good.csv", "--body", "{c}"], "{c} is no column of the data (it has a, b)"),
    ];
    for (flags, words) in cases {
        let printed = whyslow_in(&folder, &[&["load"], flags, &["http://127.0.0.1:9/"]].concat());
        assert_eq!(
            (printed.code, printed.out.as_str(), printed.err.lines().count()),
            (Some(2), "", 1),
            "{printed:?}"
        );
        assert!(printed.err.contains(words) && !printed.err.contains("t0ken"), "{flags:?}: {printed:?}");
    }
}

#[test]
fn the_scenario_of_the_page_gives_each_user_what_its_login_gave() {
    let folder = fresh_folder();
    let page = std::fs::read_to_string(repository("docs/scenarios.md")).unwrap();
    let shop = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    std::fs::write(folder.join("shop.toml"), shop).unwrap();
    std::fs::write(folder.join("users.csv"), "id\n7\n8\n").unwrap();
    let recorder = Recorder::start(|request| match request.starts_with(b"POST /login ") {
        true => b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"token\": \"t-1\"}".to_vec(),
        false => ANSWER.to_vec(),
    });
    let url = recorder.url();
    let scenario =
        ["load", "-t1", "-c2", "--scenario", "shop.toml", "--data", "users.csv", "--requests", "10"];
    let printed = whyslow_in(&folder, &[&scenario[..], &["--format", "json", &url]].concat());
    let report = printed.json();
    assert_schema("load", &report);
    let users = &report["users"];
    assert_eq!((&users["begun"], &users["finished"]), (&10.into(), &10.into()), "{report}");
    assert_eq!(report["requests_by_name"]["order"]["requests"], 10);
    let connections = recorder.finish();
    let requests = connections.iter().flatten().map(|bytes| String::from_utf8(bytes.clone()).unwrap());
    let orders: Vec<String> = requests.filter(|request| request.starts_with("GET /orders?of=")).collect();
    assert_eq!(orders.len(), 10);
    assert!(orders.iter().all(|order| order.contains("Authorization: Bearer t-1\r\n")), "{}", orders[0]);
    let text = whyslow_in(&folder, &[&scenario[..], &["--format", "text", "http://127.0.0.1:1/"]].concat());
    assert_eq!(text.code, Some(2), "nobody is there: {text:?}");
    for (more, words) in [
        (&["--requests", "shop.toml"][..], "both say what is asked"),
        (&["-X", "PUT"], "whose steps have their own methods"),
        (&["--pipeline", "2"], "leave --pipeline and --schedule out"),
    ] {
        let refused = whyslow_in(&folder, &[&scenario[..], more, &[&url]].concat());
        assert!(refused.code == Some(2) && refused.err.contains(words), "{refused:?}");
    }
}
