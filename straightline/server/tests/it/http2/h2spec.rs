//! The suite h2spec, where it is installed (`go install github.com/summerwind/h2spec/cmd/h2spec@latest`).

use super::raw;
use crate::support::TestServer;
use crate::tls;
use std::process::{Command, Stdio};
use straightline::{Done, Request, Response, Server};

/// Longest wait of h2spec for an answer, in seconds. Only what fails takes so long.
const PATIENCE_S: &str = "10";
/// The one case that a port fails which speaks HTTP/1.1 as well: it answers 400 before it closes.
const OF_ONE_PROTOCOL: &str = "Sends invalid connection preface";

/// Answers before it has read anything.
fn early(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    response.send(b"early")
}

fn is_installed() -> bool {
    Command::new("h2spec").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The cases that fail, each by its title, and how many there were.
fn failures(server: &TestServer, more: &[&str]) -> (Vec<String>, String) {
    let port = server.address.port().to_string();
    let output = Command::new("h2spec")
        .args(["--strict", "-h", "127.0.0.1", "-p", &port, "-o", PATIENCE_S])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // Each is told of twice: where it stands, and in the list at the end.
    let all = text.rsplit("Failures:").next().unwrap_or_default();
    let found = all
        .lines()
        .filter_map(|line| line.split_once('×'))
        .filter_map(|(_, rest)| rest.split_once(": ").map(|(_, title)| title.to_owned()));
    let last = text.trim_end().rsplit('\n').next().unwrap_or_default().to_owned();
    (found.collect(), last)
}

#[test]
fn every_case_of_h2spec_passes() {
    if !is_installed() {
        return testkit::skipped("h2spec is not installed");
    }
    let (config, _) = tls::halves();
    let over_tls = |server: Server| server.workers(1).tls(config.clone());
    for server in [TestServer::with(over_tls, early), TestServer::with(over_tls, raw::handle)] {
        let (failed, sum) = failures(&server, &["--tls", "--insecure"]);
        assert!(failed.is_empty() && sum.ends_with(" 0 failed"), "{failed:?}: {sum}");
    }
    for server in [TestServer::new(early), TestServer::new(raw::handle)] {
        let (failed, sum) = failures(&server, &[]);
        assert_eq!(failed, [OF_ONE_PROTOCOL], "{sum}");
        server.assert_serves("h2spec");
    }
}
