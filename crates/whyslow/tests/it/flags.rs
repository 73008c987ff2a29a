//! Flags of `whyslow load` that say how a server is reached, what it is asked and how a thread waits: each does what it
//! says, as the server saw it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustls::version::TLS13;
use serde_json::Value;
use testkit::{Behaviour, Server, ServerSpec};

use crate::serving::certificates::Authority;
use crate::serving::streams::{self, Conduct, Count};
use crate::serving::{self, Log, Manner};
use crate::support::{assert_schema, fresh_folder, whyslow, whyslow_in};

/// Requests of a run: prime, so that no connection or stream divides them.
const PRIME: u64 = 211;
/// A year in which no certificate here has expired.
const FAR: i32 = 4000;

/// What a load of [`PRIME`] requests reports; the window is only the longest that a crowded machine may take.
fn load(flags: &[&str], url: &str) -> Value {
    let prime = PRIME.to_string();
    let common =
        ["load", "-t1", "-c4", "-d60s", "--timeout", "60s", "--requests", &prime, "--format", "json"];
    let printed = whyslow(&[&common, flags, &[url]].concat());
    assert_eq!(printed.code, Some(0), "{flags:?}: {printed:?}");
    let report = printed.json();
    assert_schema("load", &report);
    assert_eq!(report["requests"], PRIME, "{flags:?}");
    assert!(report["errors"].as_object().unwrap().values().all(|count| *count == 0), "{flags:?}: {report}");
    report
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/")
}

fn named(address: SocketAddr) -> String {
    format!("https://localhost:{}/", address.port())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_way_to_a_server_is_taken() {
    let socket = fresh_folder().join("socket");
    let authority = Authority::new("flags");
    let (certificate, key) = authority.files(&authority.certify("client.test", FAR));
    let tls =
        |ask| serving::tls(authority.server(&authority.certify("localhost", FAR), &TLS13, ask), answer());
    let root = authority.file();
    let (trusted, by_root) = tls(false);
    let (unknown, by_nobody) = tls(false);
    let (asking, by_key) = tls(true);
    let (sourced, by_source) = serving::tcp("127.0.0.1", answer());
    let mutual = ["--cacert", text(&root), "--cert", text(&certificate), "--key", text(&key)];
    let ways: [(&[&str], String, Log); 5] = [
        (&["--unix", text(&socket)], "http://any.test/".to_owned(), serving::unix(&socket, answer())),
        (&["--source", "127.0.0.2,127.0.0.3"], url(sourced), by_source.clone()),
        (&["--cacert", text(&root)], named(trusted), by_root),
        (&["--insecure"], named(unknown), by_nobody),
        (&mutual, named(asking), by_key.clone()),
    ];
    for (flags, url, log) in ways {
        load(flags, &url);
        assert_eq!(serving::requests(&log) as u64, PRIME, "{flags:?}: the server saw another number");
    }
    let peers: BTreeSet<String> =
        by_source.lock().unwrap().iter().map(|seen| seen.peer.unwrap().to_string()).collect();
    assert_eq!(peers.into_iter().collect::<Vec<_>>(), ["127.0.0.2", "127.0.0.3"]);
    assert!(by_key.lock().unwrap().iter().all(|seen| seen.certified), "it got our certificate");
}

fn answer() -> Manner {
    Manner::body(13)
}

#[test]
fn streams_of_http2_are_used_as_many_as_asked_for() {
    let authority = Authority::new("flags2");
    let server = authority.server(&authority.certify("localhost", FAR), &TLS13, false);
    let root = authority.file();
    // Answers that take several of the server's turns let requests meet.
    let slow = || Conduct { delay: Duration::from_millis(50), ..Conduct::default() };
    let (plain, one, several, agreed) = (
        streams::serve(Conduct::default()),
        streams::serve(slow()),
        streams::serve(slow()),
        streams::serve_tls(server, slow()),
    );
    let ways: [(&[&str], String, Count, usize); 4] = [
        (&["--http2"], url(plain.0), plain.1, 1),
        (&["--http2", "--streams", "1"], url(one.0), one.1, 1),
        (&["--http2", "--streams", "5"], url(several.0), several.1, 5),
        (&["--http2", "--streams", "3", "--cacert", text(&root)], named(agreed.0), agreed.1, 3),
    ];
    for (flags, url, count, most) in ways {
        load(flags, &url);
        let seen = (count.requests() as u64, count.connections(), count.most_at_once());
        assert_eq!(seen, (PRIME, 4, most), "{flags:?}: requests, connections, streams at once");
    }
}

#[test]
fn a_bad_certificate_is_refused_with_the_flag_that_would_allow_it() {
    let (authority, stranger) = (Authority::new("flags3"), Authority::new("stranger3"));
    let cases = [
        ("localhost", FAR, &stranger, "--cacert FILE names whom to trust, --insecure goes on"),
        ("localhost", 2001, &authority, "has expired; --insecure goes on"),
        ("elsewhere.test", FAR, &authority, "use its name in the URL; --insecure goes on"),
    ];
    for (name, year, trusted, want) in cases {
        let server = authority.server(&authority.certify(name, year), &TLS13, false);
        let (address, log) = serving::tls(server, answer());
        let printed = whyslow(&["load", "-d1s", "--cacert", text(&trusted.file()), &named(address)]);
        assert_eq!(
            (printed.code, printed.out.as_str(), printed.err.lines().count()),
            (Some(2), "", 1),
            "{printed:?}"
        );
        assert!(printed.err.starts_with("error: ") && printed.err.contains(want), "{name}: {printed:?}");
        assert_eq!(serving::requests(&log), 0, "nothing is sent to a server that is not the right one");
    }
}

/// A line of an access log, so many seconds after its first.
fn logged(second: u32, path: &str) -> String {
    format!("h - - [10/Oct/2000:13:55:{second:02} -0700] \"GET {path} HTTP/1.1\" 200 1 \"-\" \"x\"\n")
}

#[test]
fn lists_and_logs_are_what_is_asked() {
    let folder = fresh_folder();
    std::fs::write(folder.join("urls"), "2 GET /a\n/b\n0 /never\n").unwrap();
    std::fs::write(folder.join("log"), [logged(0, "/a"), logged(0, "/b"), logged(10, "/c")].concat())
        .unwrap();
    // Flags, requests, what was asked for, and how long that takes at least, in seconds.
    type Case = (&'static [&'static str], u64, &'static [&'static str], f64);
    let cases: [Case; 3] = [
        (&["--urls", "urls", "--requests", "211"], 211, &["GET /a HTTP/1.1", "GET /b HTTP/1.1"], 0.0),
        (&["--replay", "log", "-d1s"], 2, &["GET /a HTTP/1.1", "GET /b HTTP/1.1"], 1.0),
        (
            &["--replay", "log", "--speed", "10", "-d5s"],
            3,
            &["GET /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1"],
            1.0,
        ),
    ];
    for (flags, requests, paths, least_s) in cases {
        let (address, log) = serving::tcp("127.0.0.1", answer());
        let url = url(address);
        let printed =
            whyslow_in(&folder, &[&["load", "-t1", "-c2", "--format", "json"], flags, &[&url]].concat());
        let report = printed.json();
        assert_eq!(report["requests"], requests, "{flags:?}: {printed:?}");
        let log = log.lock().unwrap();
        let lines: BTreeSet<&str> = log.iter().flat_map(|seen| &seen.lines).map(String::as_str).collect();
        assert_eq!(lines.into_iter().collect::<Vec<_>>(), paths, "{flags:?}");
        let took_s = report["window_ns"].as_f64().unwrap() / 1e9;
        assert!((least_s..least_s + 4.0).contains(&took_s), "{flags:?}: {took_s} s");
    }
}

#[test]
fn schedules_have_their_names_and_wrk2s_its_alias() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    for (flag, kind) in [("shared", "open"), ("connection", "connection"), ("constant", "connection")] {
        let report = load(&["-R", "2k", "--schedule", flag], &server.url());
        assert_eq!(report["schedule"]["kind"], kind, "--schedule {flag}");
    }
}

#[test]
fn who_speaks_no_tls_needs_no_store_of_certificates() {
    let mut command = std::process::Command::new(crate::support::WHYSLOW);
    command.args(["compare", "threads", "futures", "--list"]);
    command.env("SSL_CERT_FILE", "/absent").env("SSL_CERT_DIR", "/absent");
    let printed = crate::support::Printed::from_output(command.output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
}
