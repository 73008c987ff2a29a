//! Scripts loaded from text.

use std::sync::Arc;

use script::{Limit, Options, Script, ScriptError, Thread};

/// What a script is loaded with as `whyslow load http://127.0.0.1:8080/path?q=1 -- one two` would.
pub(crate) fn options(source: &str) -> Options {
    Options {
        file: "s.lua".to_owned(),
        source: source.as_bytes().to_vec(),
        scheme: "http".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: Some("8080".to_owned()),
        path: "/path?q=1".to_owned(),
        method: "GET".to_owned(),
        headers: vec![("X-Own".to_owned(), "a b".to_owned())],
        body: Vec::new(),
        args: ["http://127.0.0.1:8080/path?q=1", "one", "two"].map(str::to_owned).to_vec(),
        resolve: true,
    }
}

pub(crate) fn unlimited() -> Limit {
    Arc::new(|| None)
}

pub(crate) fn load(source: &str, threads: u32) -> Result<Script, ScriptError> {
    Script::load(&options(source), threads, &unlimited())
}

/// The only thread of a good script.
pub(crate) fn thread(source: &str) -> Thread {
    load(source, 1).unwrap().take_threads().remove(0)
}

/// The requests that one call of `request()` returns, as text.
pub(crate) fn requests(thread: &Thread) -> Vec<String> {
    let mut requests = Vec::new();
    thread.request(|request| requests.push(String::from_utf8(request.to_vec()).unwrap())).unwrap();
    requests
}

/// First line, fields in alphabetical order, body: scripts write fields in the order of a table, which is none.
pub(crate) fn parts(request: &str) -> (String, Vec<String>, String) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n").map(str::to_owned);
    let first = lines.next().unwrap();
    let mut fields: Vec<String> = lines.collect();
    fields.sort();
    (first, fields, body.to_owned())
}
