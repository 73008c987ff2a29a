//! Real runs that cannot be believed, and say so.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use load::schedule::{Arrival, Pace};
use load::session::{Batch, Feed, FeedError};
use load::{Config, Idle, Requests, Supply, Target, Warmup, run, run_fed};
use model::record::LoadReport;
use testkit::{ANSWER, Behaviour, Server, ServerSpec};

fn report(url: &str, change: impl FnOnce(&mut Config)) -> LoadReport {
    let mut config = Config::new(Target::resolve(url).unwrap());
    (config.threads, config.connections) = (1, 8);
    config.window = Duration::from_secs(1);
    change(&mut config);
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report
}

fn warning<'a>(report: &'a LoadReport, id: &str) -> &'a str {
    let found = report.warnings.iter().find(|warning| warning.id == id);
    &found.unwrap_or_else(|| panic!("no warning '{id}': {report:?}")).text
}

/// A server that takes `most` connections and then listens no more.
fn full_after(most: usize) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(most).map(Result::unwrap) {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

/// One answer for each read: requests come one at a time.
fn answer(mut stream: TcpStream) {
    let mut buf = [0; 4096];
    while stream.read(&mut buf).is_ok_and(|bytes| bytes > 0) && stream.write_all(ANSWER).is_ok() {}
}

#[test]
fn connections_that_could_not_be_opened_are_told() {
    let report = report(&format!("http://{}/", full_after(3)), |config| {
        // What the kernel accepted for a listener that is gone is broken off again by then.
        config.warmup = Warmup::fixed(Duration::from_millis(500));
    });
    assert_eq!((report.connections.requested, report.connections.established), (8, 3));
    let text = warning(&report, "connections");
    assert!(
        text.starts_with("Only 3 of 8 connections were open when the window began (Connection re"),
        "{text}"
    );
    assert!(report.errors.connect > 0 && report.requests > 0, "{report:?}");
}

#[test]
fn a_rate_that_is_twice_what_the_server_can_do_is_half_kept() {
    let server = Server::start(ServerSpec::new(Behaviour::Queue { service_ns: 1_000_000 }));
    let report = report(&server.url(), |config| config.pace = Pace::open(2_000.0, Arrival::Constant));
    let ratio = report.rate_ratio.unwrap();
    assert!((0.45..0.52).contains(&ratio), "{ratio}");
    let text = warning(&report, "rate");
    assert!(text.contains("the server does not keep up with 2000/s"), "{text}");
}

/// Requests each of which takes the thread a millisecond to make.
#[derive(Debug)]
struct Laborious;

impl Feed for Laborious {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1) {}
        batch.push(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        Ok(())
    }
}

#[test]
fn a_thread_that_never_rests_is_found_busy() {
    /// From here on a closed loop is said to be the generator's.
    const BUSY: f64 = 0.95;
    const TRIES: usize = 10;
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    // Other work on the machine takes the CPU away: it has some tries.
    let attempt = |_| {
        let mut config = Config::new(Target::resolve(&server.url()).unwrap());
        (config.threads, config.connections, config.window) = (1, 8, Duration::from_secs(1));
        let supplies = vec![Supply { requests: Requests::Each(Box::new(Laborious)), address: None }];
        let report = run_fed(&config, supplies, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
        if report.busiest_thread <= BUSY {
            return Some(report.busiest_thread);
        }
        assert!(report.busiest_thread < 1.05, "{}", report.busiest_thread);
        assert!(warning(&report, "generator_busy").contains("% busy"));
        None
    };
    let idle: Vec<f64> = (0..TRIES).map_while(attempt).collect();
    assert!(idle.len() < TRIES, "{idle:?}");
}

#[test]
fn polling_in_vain_is_no_work() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    for (pace, idle) in [
        (Pace::open(100.0, Arrival::Constant), Idle::Poll),
        (Pace::open(20_000.0, Arrival::Constant), Idle::Spin),
    ] {
        let mut config = Config::new(Target::resolve(&server.url()).unwrap());
        (config.threads, config.connections, config.window) = (1, 8, Duration::from_secs(1));
        (config.pace, config.idle) = (pace, idle);
        let outcome = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap();
        let (busy, polled) = (outcome.report.busiest_thread, outcome.shard.polled_ns as f64 / 1e9);
        // It polls for whatever it does not work, but for what other work on the machine takes from it.
        assert!(polled > 0.1 && busy + polled < 1.05, "{idle:?}: {busy} busy, {polled} in vain");
        assert!(idle == Idle::Spin || busy < 0.2, "100 requests a second are {busy} of a thread");
    }
}
