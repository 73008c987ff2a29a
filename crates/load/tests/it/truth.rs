//! What is reported against what the server's own log and the schedule say.

mod protocols;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use load::schedule::{Arrival, Dispatch, Intensity, Pace, Part, Schedule};
use load::{Config, Event, Idle, Outcome, Target, Warmup, run};
use testkit::{Behaviour, Log, Reply, Server, ServerSpec};

use crate::tries::one_is_right;

const MILLI: u64 = 1_000_000;
/// The way through the kernel, in neither log nor schedule. Above the 5 to 20 µs that it takes, for the server may be
/// interrupted between noting the time and writing.
const UNSEEN_NS: f64 = 50_000.0;

/// Tests of time run one after the other: a client and a server take the two cores that any machine has.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Run {
    outcome: Outcome,
    log: Log,
    start_ns: u64,
}

fn drive(spec: ServerSpec, change: impl FnOnce(&mut Config)) -> Run {
    let _alone = alone();
    let server = Server::start(spec);
    let mut config = Config::new(Target::resolve(&server.url()).unwrap());
    config.threads = 1;
    config.connections = 32;
    config.window = Duration::from_secs(3);
    change(&mut config);
    let (outcome, start_ns) = outcome(&config);
    Run { outcome, log: server.finish(), start_ns }
}

/// What a window brought, and when it began.
fn outcome(config: &Config) -> (Outcome, u64) {
    let mut start_ns = 0;
    let outcome = run(config, &AtomicBool::new(false), &mut |event| {
        if let Event::WindowStart { at_ns, .. } = event {
            start_ns = at_ns;
        }
    });
    (outcome.unwrap(), start_ns)
}

/// done − intended of every arrival in the window, as the server's log and the schedule have it; one that was not
/// answered in the window took at least until its end. Arrivals are received in the order in which they are due.
fn true_responses(run: &Run, pace: &Pace, seed: u64) -> Vec<u64> {
    let Pace::Open { intensity, arrival, .. } = pace else { panic!("a closed loop has no schedule") };
    let window_ns = run.outcome.report.window_ns;
    let mut answers = run.log.entries.iter().map(|entry| entry.answered_ns);
    let schedule = Schedule::new(intensity.clone(), *arrival, seed, Part { part: 0, parts: 1 });
    let mut responses: Vec<u64> = schedule
        .take_while(|intended| *intended < window_ns)
        .map(|intended| {
            let end = run.start_ns + window_ns;
            answers.next().unwrap_or(u64::MAX).min(end) - (run.start_ns + intended)
        })
        .collect();
    responses.sort_unstable();
    responses
}

const ARRIVALS: [Arrival; 2] = [Arrival::Constant, Arrival::Poisson];
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Of sorted values.
fn quantiles(sorted: &[u64]) -> [u64; 3] {
    QUANTILES.map(|quantile| sorted[((sorted.len() as f64 * quantile).ceil() as usize).max(1) - 1])
}

/// The first percentile that is not the truth, as a sentence; so much of an answer's way is in no log.
fn lie(run: &Run, truth: &[u64], unseen_ns: f64) -> Option<String> {
    let report = &run.outcome.report;
    assert_eq!(report.response_ns.count, truth.len() as u64, "every arrival is in the histogram");
    QUANTILES.into_iter().zip(quantiles(truth)).find_map(|(quantile, truth)| {
        let (reported, truth) = (run.outcome.response.value_at_quantile(quantile) as f64, truth as f64);
        let off = (reported - truth).abs();
        (off > 0.05 * truth && off > unseen_ns)
            .then(|| format!("the {quantile} quantile is {truth} ns and was reported as {reported} ns"))
    })
}

/// What wrk says of such a server: p50, p99, p99.9 in milliseconds.
fn of_wrk(spec: &ServerSpec) -> Option<String> {
    const SCRIPT: &str = "done = function(_, latency) io.write(string.format('WITNESS %.2f, %.2f, %.2f\\n', \
                          latency:percentile(50)/1e3, latency:percentile(99)/1e3, latency:percentile(99.9)/1e3)) end";
    let script = std::env::temp_dir().join(format!("truth-{}.lua", std::process::id()));
    std::fs::write(&script, SCRIPT).unwrap();
    let server = Server::start(spec.clone());
    let words = ["-t", "1", "-c", "32", "-d", "3", "-s"];
    let output = Command::new("wrk").args(words).arg(&script).arg(server.url()).output();
    let _ = std::fs::remove_file(&script);
    let text = String::from_utf8_lossy(&output.ok()?.stdout).into_owned();
    text.lines().find_map(|line| line.strip_prefix("WITNESS ").map(str::to_owned))
}

/// Truth, our answer and wrk's, for a person (`--nocapture`).
#[expect(clippy::print_stderr, reason = "it is for a person who looks")]
fn print_answers(name: &str, run: &Run, truth: &[u64], spec: &ServerSpec) {
    let ms = |values: [u64; 3]| values.map(|ns| format!("{:.2}", ns as f64 / 1e6)).join(", ");
    let ours = QUANTILES.map(|quantile| run.outcome.response.value_at_quantile(quantile));
    eprintln!(
        "{name}, ms at p50, p99, p99.9: truth {}; whyslow {}; wrk {}",
        ms(quantiles(truth)),
        ms(ours),
        of_wrk(spec).unwrap_or_else(|| "is not here".to_owned())
    );
}

#[test]
fn percentiles_are_those_of_the_servers_own_log() {
    let behaviours = [
        ("prompt", Behaviour::Prompt, 0),
        ("stall", Behaviour::Stall { every_ns: 1_000 * MILLI, for_ns: 100 * MILLI }, 0),
        ("freeze", Behaviour::Freeze { after_ns: 1_000 * MILLI }, 0),
        ("slow", Behaviour::Slow { one_in: 100, by_ns: 20 * MILLI }, 0),
        ("queue", Behaviour::Queue { service_ns: MILLI / 5 }, 0),
        ("late accept", Behaviour::Prompt, 400),
    ];
    for arrival in ARRIVALS {
        for (name, behaviour, late_ms) in behaviours {
            let spec =
                ServerSpec { accept_after: Duration::from_millis(late_ms), ..ServerSpec::new(behaviour) };
            let pace = Pace::open(4_000.0, arrival);
            let attempt = || {
                let run = drive(spec.clone(), |config| config.pace = pace.clone());
                let truth = true_responses(&run, &pace, 1);
                let lie = lie(&run, &truth, UNSEEN_NS);
                // Once is enough: wrk takes as long again.
                if lie.is_none() && arrival == Arrival::Constant && !cfg!(debug_assertions) {
                    print_answers(name, &run, &truth, &spec);
                }
                lie
            };
            // Other work on the machine delays the client where the server's log cannot see it.
            if !one_is_right(&format!("{name}, {arrival:?}"), attempt) {
                return;
            }
        }
    }
}

/// Two threads, each with connections of its own: a silence is one of both.
#[test]
fn a_server_that_stops_is_silent_for_as_long_as_it_does() {
    let stall = Behaviour::Stall { every_ns: 500 * MILLI, for_ns: 100 * MILLI };
    one_is_right("two threads", || {
        let run = drive(ServerSpec::new(stall), |config| config.threads = 2);
        let lengths = run.outcome.silences.iter().map(|span| (span.end_ns - span.start_ns) / MILLI);
        let long: Vec<u64> = lengths.filter(|ms| *ms >= 50).collect();
        let right = (5..=6).contains(&long.len()) && long.iter().all(|ms| (98..130).contains(ms));
        (!right).then_some(long)
    });
}

#[test]
fn a_prime_number_asked_for_is_counted_on_both_sides() {
    for (pace, pipeline, threads, count) in [
        (Pace::Closed, 1, 1, 10_007),
        (Pace::Closed, 16, 2, 100_003),
        (Pace::open(20_000.0, Arrival::Poisson), 1, 2, 5_003),
        (Pace::open(20_000.0, Arrival::Constant), 4, 1, 7_919),
    ] {
        let run = drive(ServerSpec::new(Behaviour::Prompt), |config| {
            config.pace = pace.clone();
            config.pipeline = pipeline;
            config.threads = threads;
            config.requests = Some(count);
            config.window = Duration::from_secs(20);
        });
        let report = &run.outcome.report;
        let ours = (report.requests, report.errors.total(), report.unfinished, report.unsent);
        assert_eq!(ours, (count, 0, 0, 0), "{pace:?}");
        assert_eq!(run.log.entries.len() as u64, count, "{pace:?}: the server's count");
        assert_eq!(run.log.connections, 32, "{pace:?}");
        assert_eq!(report.response_ns.count, count);
    }
}

#[test]
fn bad_answers_cost_one_request_each_and_the_run_goes_on() {
    let head = "HTTP/1.1 200 OK\r\n";
    let endless = format!("{head}X: {}", "x".repeat(200_000));
    let bad = [
        ("garbage", "\0\x01\x02 garbage\r\n\r\n".to_owned(), true),
        ("an endless head", endless, true),
        ("a wrong length", format!("{head}Content-Length: 2\r\n\r\nhello"), true),
        ("a huge chunk", format!("{head}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"), true),
        ("a close in the middle", format!("{head}Content-Length: 100\r\n\r\nhello"), false),
    ];
    for (name, bytes, parse) in bad {
        let close = !parse;
        let mut replies = vec![Reply::good(); 9];
        replies.push(Reply { bytes: bytes.into_bytes(), close });
        let spec = ServerSpec { replies, ..ServerSpec::new(Behaviour::Prompt) };
        let run = drive(spec, |config| {
            config.connections = 4;
            config.requests = Some(1_009);
            config.window = Duration::from_secs(10);
        });
        let report = run.outcome.report;
        let errors = if parse { report.errors.parse } else { report.errors.read };
        // What answers nothing after a wrong length is an error of its own, and fails no request.
        let told = name == "a wrong length";
        let (failed, surplus) = if told { (0, 100) } else { (100, 0) };
        assert_eq!((errors, report.errors.surplus), (failed, surplus), "{name}: {:?}", report.errors);
        assert_eq!(report.errors.total(), 100, "{name}: {:?}", report.errors);
        let warned =
            report.warnings.iter().any(|warning| warning.text.contains("more bytes than Content-Length"));
        assert_eq!(warned, told, "{name}: {:?}", report.warnings);
        assert_eq!(report.requests + errors, 1_009, "{name}: {:?}", report.errors);
    }
}

#[test]
fn connections_that_close_in_order_are_opened_again() {
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec();
    let spec = ServerSpec {
        replies: vec![Reply { bytes: last, close: true }],
        ..ServerSpec::new(Behaviour::Prompt)
    };
    for pace in [Pace::Closed, Pace::open(4_000.0, Arrival::Poisson)] {
        let run = drive(spec.clone(), |config| {
            config.pace = pace.clone();
            config.requests = Some(503);
            config.window = Duration::from_secs(20);
        });
        assert_eq!((run.outcome.report.requests, run.outcome.report.errors.total()), (503, 0), "{pace:?}");
        assert_eq!(run.log.entries.len(), 503, "{pace:?}");
    }
}

#[test]
fn an_answer_that_ends_with_its_connection_is_timed_when_it_ends() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nuntil the end".to_vec();
    let spec =
        ServerSpec { replies: vec![Reply { bytes, close: true }], ..ServerSpec::new(Behaviour::Prompt) };
    // A request is due every 0.48 ms: so late would answers be that are read only then.
    let pace = Pace::open(2_100.0, Arrival::Constant);
    // As above, other work may delay the client.
    one_is_right("answers that end with their connection", || {
        let run = drive(spec.clone(), |config| {
            config.pace = pace.clone();
            config.connections = 64;
            config.window = Duration::from_secs(1);
        });
        assert_eq!(run.outcome.report.errors.total(), 0, "{:?}", run.outcome.report.errors);
        let truth = quantiles(&true_responses(&run, &pace, 1))[0];
        let reported = run.outcome.response.value_at_quantile(0.5);
        (reported as f64 > truth as f64 + 5.0 * UNSEEN_NS)
            .then(|| format!("{truth} was said to be {reported}"))
    });
}

#[test]
fn however_a_worker_waits_and_whoever_serves_an_arrival_all_are_counted() {
    for (idle, dispatch, connections, slack_ms) in [
        (Idle::Sleep, Dispatch::Shared, 1_000, 0),
        // More requests come due in a slack than there are connections.
        (Idle::Sleep, Dispatch::Shared, 32, 10),
        (Idle::Sleep, Dispatch::Connection, 32, 0),
        (Idle::Sleep, Dispatch::Connection, 32, 1),
        (Idle::Spin, Dispatch::Shared, 32, 0),
        (Idle::Poll, Dispatch::Connection, 32, 0),
    ] {
        let run = drive(ServerSpec::new(Behaviour::Prompt), |config| {
            let intensity = Intensity::Flat { per_s: 10_000.0 };
            config.pace = Pace::Open { intensity, arrival: Arrival::Poisson, dispatch };
            (config.idle, config.slack) = (idle, Duration::from_millis(slack_ms));
            (config.threads, config.connections) = (2, connections);
            config.requests = Some(2_003);
            config.window = Duration::from_secs(20);
        });
        let report = &run.outcome.report;
        let counts = (report.requests, report.errors.total(), report.response_ns.count);
        assert_eq!(counts, (2_003, 0, 2_003), "{idle:?} {dispatch:?} {slack_ms} ms");
        assert_eq!(run.log.entries.len(), 2_003, "{idle:?} {dispatch:?}");
    }
}

#[test]
fn in_an_open_loop_a_timeout_counts_once_on_both_sides() {
    const TIMEOUT_NS: u64 = 1_000 * MILLI;
    let slow = Behaviour::Slow { one_in: 100, by_ns: 3 * TIMEOUT_NS };
    let run = drive(ServerSpec::new(slow), |config| {
        config.pace = Pace::open(2_000.0, Arrival::Constant);
        config.timeout = Some(Duration::from_nanos(TIMEOUT_NS));
        config.requests = Some(1_009);
        config.window = Duration::from_secs(20);
    });
    let report = &run.outcome.report;
    let late = run.log.entries.iter().filter(|entry| entry.answered_ns - entry.received_ns > TIMEOUT_NS);
    assert_eq!(report.errors.timeout, late.count() as u64);
    assert!(report.errors.timeout >= 10, "{:?}", report.errors);
    assert_eq!(report.requests + report.errors.timeout, 1_009);
    assert_eq!(report.errors.total(), report.errors.timeout);
    assert_eq!(report.response_ns.count, 1_009, "a timeout is in the histogram with its age");
    assert!(report.response_ns.max >= TIMEOUT_NS);
}

#[test]
fn a_refused_connection_is_an_error_before_anything_is_sent() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let _ = server.finish();
    let config = Config::new(Target::resolve(&url).unwrap());
    let error = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("is the server listening there?"), "{error}");
}

#[test]
fn a_stopped_run_reports_what_it_measured() {
    let _alone = alone();
    let stop = AtomicBool::new(false);
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let mut config = Config::new(Target::resolve(&server.url()).unwrap());
    config.window = Duration::from_secs(60);
    let outcome = run(&config, &stop, &mut |event| {
        if matches!(event, Event::Second { index: 0, .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let report = outcome.unwrap().report;
    assert!(report.partial && report.requests > 0);
    assert!((1_000 * MILLI..2_000 * MILLI).contains(&report.window_ns), "{}", report.window_ns);
    assert!(report.warnings.iter().any(|warning| warning.id == "partial"));
}

#[test]
fn events_tell_the_phases_in_order() {
    let _alone = alone();
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let mut config = Config::new(Target::resolve(&server.url()).unwrap());
    config.window = Duration::from_secs(2);
    config.warmup = Warmup {
        min: Duration::from_secs(1),
        max: Duration::from_secs(30),
        steady: |seconds| seconds.len() == 2 && seconds.iter().all(|count| *count > 0),
    };
    let mut story = String::new();
    let outcome = run(&config, &AtomicBool::new(false), &mut |event| {
        story.push(match event {
            Event::Connected { established: 10, requested: 10 } => 'c',
            Event::WarmupSecond { completed } if completed > 0 => 'w',
            Event::WindowStart { steady: true, .. } => '[',
            Event::Second { .. } => 's',
            Event::WindowEnd { .. } => ']',
            _ => '?',
        });
    });
    assert!(outcome.is_ok());
    assert!(story == "cww[s]s" || story == "cww[ss]", "{story}");
    assert_eq!(outcome.unwrap().report.seconds.len(), 2);
}

#[test]
fn a_thread_waits_as_it_is_told() {
    // Share of the window that was polled in vain.
    let polled = |idle| {
        let run = drive(ServerSpec::new(Behaviour::Prompt), |config| {
            (config.connections, config.window, config.idle) = (4, Duration::from_secs(1), idle);
            config.pace = Pace::open(200.0, Arrival::Constant);
        });
        run.outcome.shard.polled_ns as f64 / run.outcome.report.window_ns as f64
    };
    let (sleep, spin, poll) = (polled(Idle::Sleep), polled(Idle::Spin), polled(Idle::Poll));
    // Of each 5 ms, spinning takes what a late timer leaves of the last 50 µs, and polling all that the machine gives.
    assert!(sleep < 0.01 && spin < 0.3 && poll > 0.3, "sleep {sleep}, spin {spin}, poll {poll}");
}
