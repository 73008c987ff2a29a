//! Scenarios: users who go through steps, against a server that keeps its own log.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use load::schedule::{Arrival, Dispatch, Intensity, Pace};
use load::{Config, Event, LoadError, Outcome, Roots, Scenario, Target, run};
use model::job::{self, Data, Request};
use rustls::version::TLS13;
use testkit::now_ns;

use crate::quic;
use crate::serving::certificates::Authority;
use crate::serving::streams::{self, Conduct};

const MILLI: u64 = 1_000_000;

/// A user logs in, thinks, and asks for something with what the login gave.
const SHOP: &str = r#"
[[step]]
name = "login"
request = "POST /login"
body = '{"user": "{name}"}'
take = { token = { json = "/auth/token" }, session = { header = "X-Session" }, shelf = { after = "shelf:", before = ";" }, visit = { regex = '"visit": "([^"]+)"' } }

[[step]]
name = "items"
request = "GET /items/{shelf}?of={session}&in={visit}"
headers = { Authorization = "Bearer {token}" }
think = "30ms"
"#;

/// One request as the server saw it.
#[derive(Debug, Clone)]
struct Seen {
    line: String,
    bearer: String,
    body: String,
    received_ns: u64,
    answered_ns: u64,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// How the server treats users.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    Good,
    /// It gives no token.
    Forgetful,
    /// It hangs up on the second step.
    Rude,
    /// It refuses the second step.
    Strict,
    /// It closes each connection after its answer.
    Closing,
    /// It closes a connection that was idle when the next request comes, which it does not answer.
    Sleepy,
}

fn serve(manner: Manner, takes: Duration) -> (SocketAddr, Log) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Log::default());
    let shared = Arc::clone(&log);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let log = Arc::clone(&shared);
            thread::spawn(move || talk(stream.unwrap(), manner, takes, &log));
        }
    });
    (address, log)
}

fn talk(mut stream: TcpStream, manner: Manner, takes: Duration, log: &Log) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut free_ns = None;
    while let Some(mut seen) = read(&mut reader) {
        let idle_ns = free_ns.map_or(0, |free_ns| seen.received_ns.saturating_sub(free_ns));
        if manner == Manner::Sleepy && !seen.body.contains("user") && idle_ns > 20 * MILLI {
            return;
        }
        thread::sleep(takes);
        let login = seen.line.starts_with("POST /login ");
        let number = {
            let mut log = log.lock().unwrap();
            seen.answered_ns = now_ns();
            log.push(seen);
            log.len()
        };
        let body = match manner {
            Manner::Forgetful => r#"{"auth": {}}"#.to_owned(),
            _ => format!(
                r#"{{"auth": {{"token": "t{number}"}}, "note": "shelf:a b{number};", "visit": "v{number}"}}"#
            ),
        };
        let status = if manner == Manner::Strict && !login { "403 Forbidden" } else { "200 OK" };
        let close = if manner == Manner::Closing { "Connection: close\r\n" } else { "" };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nX-Session: s{number}\r\n{close}Content-Length: {length}\r\n\r\n{body}"
        );
        let rude = manner == Manner::Rude && !login;
        free_ns = Some(now_ns());
        if rude || stream.write_all(answer.as_bytes()).is_err() || manner == Manner::Closing {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        (reader.read_line(&mut line).ok()? > 0).then_some(())?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let field = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).unwrap_or("").to_owned();
    let mut body = vec![0; field("Content-Length: ").parse().unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).unwrap();
    let (line, bearer) = (lines[0].clone(), field("Authorization: Bearer "));
    Some(Seen { line, bearer, body, received_ns: now_ns(), answered_ns: 0 })
}

fn names() -> Data {
    Data::csv("names.csv", "name\nAnn\nBob\n").unwrap()
}

fn drive(address: SocketAddr, text: &str, change: impl FnOnce(&mut Config)) -> (Outcome, u64) {
    let mut config = Config::new(Target::resolve(&format!("http://{address}/")).unwrap());
    let scenario = job::scenario::Scenario::read("shop.toml", text, &Request::get(), Some(&names())).unwrap();
    config.scenario = Some(Arc::new(Scenario::new(&scenario, &config.target).unwrap()));
    (config.threads, config.connections) = (1, 3);
    config.window = Duration::from_secs(20);
    change(&mut config);
    let mut start_ns = 0;
    let outcome = run(&config, &AtomicBool::new(false), &mut |event| {
        if let Event::WindowStart { at_ns, .. } = event {
            start_ns = at_ns;
        }
    });
    (outcome.unwrap(), start_ns)
}

fn users(outcome: &Outcome) -> (u64, u64, u64, u64) {
    let users = outcome.report.users.as_ref().unwrap();
    (users.begun, users.finished, users.failed, users.under_way)
}

#[test]
fn each_user_goes_on_with_what_was_given_to_it() {
    for (manner, threads) in [(Manner::Good, 1), (Manner::Good, 2), (Manner::Closing, 1)] {
        let (address, log) = serve(manner, Duration::from_millis(2));
        let (outcome, _) = drive(address, SHOP, |config| {
            (config.requests, config.threads) = (Some(20), threads);
        });
        assert_eq!(users(&outcome), (20, 20, 0, 0), "{manner:?}: {:?}", outcome.report);
        assert_eq!((outcome.report.requests, outcome.report.errors.total()), (40, 0));
        let rows = &outcome.report.requests_by_name;
        assert_eq!((rows["login"].requests, rows["items"].requests), (20, 20));
        let log = log.lock().unwrap();
        let names: Vec<&str> =
            log.iter().map(|seen| seen.body.as_str()).filter(|body| !body.is_empty()).collect();
        let anns = names.iter().filter(|body| **body == r#"{"user": "Ann"}"#).count();
        assert_eq!((names.len(), anns), (20, 10), "a row for each user, in turn");
        let mut under_way: BTreeMap<String, u64> = BTreeMap::new();
        let mut most = 0;
        for (number, seen) in (1..).zip(&*log) {
            if seen.line.starts_with("POST") {
                under_way.insert(format!("t{number}"), seen.answered_ns);
                most = most.max(under_way.len());
                continue;
            }
            let login_ns = under_way.remove(&seen.bearer).expect("a token is used once, after it was given");
            let number = &seen.bearer[1..];
            assert_eq!(seen.line, format!("GET /items/a%20b{number}?of=s{number}&in=v{number} HTTP/1.1"));
            assert!(seen.received_ns - login_ns >= 30 * MILLI, "it thought for less than 30 ms");
        }
        assert!(most <= 3, "{most} users at a time, and there are 3 connections");
    }
}

#[test]
fn responses_of_users_who_arrive_count_from_when_each_step_was_due() {
    const EVERY_NS: u64 = 50 * MILLI;
    let attempt = || {
        // One connection, which is taken for 18 ms by each request: a step often waits for it.
        let (address, log) = serve(Manner::Good, Duration::from_millis(18));
        let (outcome, start_ns) = drive(address, SHOP, |config| {
            config.pace = Pace::open(20.0, Arrival::Constant);
            (config.connections, config.window) = (1, Duration::from_millis(2_000));
        });
        let log = log.lock().unwrap();
        let (mut users, mut truth) = (0, Vec::new());
        let mut logins = BTreeMap::new();
        for (number, seen) in (1..).zip(&*log) {
            let due_ns = match logins.remove(&seen.bearer) {
                Some(login_ns) => login_ns + 30 * MILLI,
                None => start_ns + users * EVERY_NS,
            };
            if seen.line.starts_with("POST") {
                users += 1;
                logins.insert(format!("t{number}"), seen.answered_ns);
            }
            truth.push(seen.answered_ns.min(start_ns + 2_000 * MILLI).saturating_sub(due_ns));
        }
        truth.sort_unstable();
        let report = &outcome.report;
        assert_eq!(
            report.users.as_ref().unwrap().begun,
            40,
            "as the schedule says, whatever the server does"
        );
        assert!(report.requests + report.unfinished <= truth.len() as u64 + 1);
        let (want, got) = (truth[truth.len() / 2] as f64, outcome.response.value_at_quantile(0.5) as f64);
        ((want - got).abs() <= 0.1 * want).then_some(()).ok_or(format!("the median is {want} ns, not {got}"))
    };
    // Other work on the machine delays the client where the server's log cannot see it.
    let lies: Vec<String> = (0..3).map_while(|_| attempt().err()).collect();
    assert!(lies.len() < 3, "{lies:?}");
}

#[test]
fn a_value_that_is_not_there_ends_its_user_after_one_request() {
    let (address, log) = serve(Manner::Forgetful, Duration::ZERO);
    let (outcome, _) = drive(address, SHOP, |config| config.requests = Some(25));
    let report = &outcome.report;
    assert_eq!((users(&outcome), report.errors.value, report.errors.total()), ((25, 0, 25, 0), 25, 25));
    assert_eq!(log.lock().unwrap().len(), 25, "one request each");
    let warning = report.warnings.iter().find(|warning| warning.id == "values").unwrap();
    assert!(
        warning.text.contains("'login' had no token (JSON /auth/token)") || warning.text.contains("no shelf"),
        "{}",
        warning.text
    );
    assert_eq!(report.requests_by_name["login"].errors, 25);
}

#[test]
fn a_step_that_fails_ends_its_user_and_no_other() {
    // What is not safe to repeat is asked once, however long its connection was idle.
    let order = SHOP.replace("GET /items", "POST /items");
    for manner in [Manner::Rude, Manner::Strict] {
        let (address, log) = serve(manner, Duration::ZERO);
        let (outcome, _) = drive(address, &order, |config| config.requests = Some(12));
        assert_eq!(users(&outcome), (12, 0, 12, 0), "{manner:?}: {:?}", outcome.report);
        let errors = &outcome.report.errors;
        assert_eq!((errors.read + errors.status, errors.total()), (12, 12));
        assert_eq!(log.lock().unwrap().len(), 24, "nothing is asked twice");
    }
}

#[test]
fn a_step_that_meets_the_closing_of_an_idle_connection_is_sent_again() {
    let (address, log) = serve(Manner::Sleepy, Duration::ZERO);
    let (outcome, _) = drive(address, SHOP, |config| {
        (config.connections, config.requests) = (1, Some(12));
    });
    let report = &outcome.report;
    // A user thinks for 30 ms, so that each second step comes too late for its connection.
    assert_eq!(
        (users(&outcome), report.errors.total(), report.resent),
        ((12, 12, 0, 0), 0, 12),
        "{report:?}"
    );
    assert_eq!((report.requests, log.lock().unwrap().len()), (24, 24), "each is answered once");
    // The server may have had an order: a second one is not for us to place.
    let order = SHOP.replace("GET /items", "POST /items");
    let (outcome, _) = drive(address, &order, |config| {
        (config.connections, config.requests) = (1, Some(12));
    });
    assert_eq!((users(&outcome), outcome.report.errors.read), ((12, 0, 12, 0), 12), "{:?}", outcome.report);
}

/// A scenario whose second step needs a field of the first one's answer.
const PAIR: &str = r#"
[[step]]
request = "GET /first"
take = { number = { header = "X-Number" } }

[[step]]
request = "GET /second/{number}"
"#;

#[test]
fn users_go_on_over_streams_with_what_was_given_to_them() {
    for http3 in [false, true] {
        let authority = Authority::new("scenario");
        let tls = authority.server(&authority.certify("localhost", 4000), &TLS13, false);
        let conduct = Conduct { numbered: true, ..Conduct::default() };
        let (address, count) = match http3 {
            true => quic::serve(tls, conduct),
            false => streams::serve_tls(tls, conduct),
        };
        let url = format!("https://localhost:{}/", address.port());
        let mut config = Config::new(Target::resolve(&url).unwrap());
        config.target.addresses.retain(|other| *other == load::Address::Tcp(address));
        let scenario = job::scenario::Scenario::read("pair.toml", PAIR, &Request::get(), None).unwrap();
        config.scenario = Some(Arc::new(Scenario::new(&scenario, &config.target).unwrap()));
        config.tls.roots = Roots::File(authority.file());
        (config.threads, config.connections, config.requests) = (1, 2, Some(50));
        config.window = Duration::from_secs(20);
        if http3 {
            config.http3 = Some(4)
        } else {
            config.http2 = Some(4)
        }
        let outcome = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(users(&outcome), (50, 50, 0, 0), "HTTP/3: {http3}, {:?}", outcome.report);
        assert_eq!((outcome.report.requests, outcome.report.errors.total()), (100, 0));
        assert_eq!(count.connections(), 2);
        let paths = count.paths();
        assert_eq!((paths["/first"], paths.len()), (50, 51), "each number is used once: {paths:?}");
    }
}

#[test]
fn a_scenario_goes_only_with_what_it_can() {
    let target = Target::resolve("http://127.0.0.1:9/").unwrap();
    let scenario =
        job::scenario::Scenario::read("a.toml", "[[step]]\nrequest = 'GET /'", &Request::get(), None);
    let scenario = Arc::new(Scenario::new(&scenario.unwrap(), &target).unwrap());
    let intensity = Intensity::Flat { per_s: 10.0 };
    let own = Pace::Open { intensity, arrival: Arrival::Constant, dispatch: Dispatch::Connection };
    type Change<'a> = &'a dyn Fn(&mut Config);
    let changes: [(Change<'_>, &str); 3] = [
        (&|config| config.pipeline = 2, "leave --pipeline and --schedule out"),
        (&|config| config.pace = own.clone(), "leave --pipeline and --schedule out"),
        (&|config| config.websocket = true, "goes over HTTP alone"),
    ];
    for (change, words) in changes {
        let mut config = Config::new(target.clone());
        config.scenario = Some(Arc::clone(&scenario));
        change(&mut config);
        let refused = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(matches!(refused, LoadError::Config(text) if text.contains(words)), "{refused:?}");
    }
}
