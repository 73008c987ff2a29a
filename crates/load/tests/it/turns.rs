//! Several endpoints in turns: each server's own log against what was reported of its turns.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use load::{LoadError, Turns, serve};
use model::job::{
    Endpoint, Job, JobPart, Protocol, Request, Requests, Reuse, Tls, Turn, TurnPace, TurnReport,
};
use model::units::{Rate, Span};
use testkit::{Behaviour, Log, Server, ServerSpec};

const MILLI: u64 = 1_000_000;
const POOL: u32 = 7;

fn job(servers: &[&Server], connections: u32) -> Job {
    let endpoint = |(index, server): (usize, &&Server)| Endpoint {
        name: format!("s{index}"),
        url: server.url(),
        unix: None,
        expected_status: Some(200),
    };
    Job {
        endpoints: servers.iter().enumerate().map(endpoint).collect(),
        requests: Requests::Same(Request::get()),
        data: None,
        protocol: Protocol::Http1 { pipeline: 1 },
        tls: Tls::default(),
        connections,
        threads: 1,
        reuse: Reuse::All,
        timeout: Span::from_secs(60),
        part: JobPart::default(),
    }
}

fn closed(endpoint: usize, length_ms: u64) -> Turn {
    Turn {
        endpoint,
        pace: TurnPace::Closed { poll: false },
        seed: 1,
        begin_ns: None,
        length_ns: length_ms * MILLI,
        requests: None,
        drain_ns: 2_000 * MILLI,
        pool: Some(POOL + endpoint as u32),
    }
}

fn open(endpoint: usize, length_ms: u64, per_s: f64) -> Turn {
    let rate = Rate::per_s(per_s).unwrap();
    Turn { pace: TurnPace::Open { rate, poisson: false }, ..closed(endpoint, length_ms) }
}

/// What turns reported, and what `more` made of the generator after them.
fn drive<T>(job: &Job, turns: &[Turn], more: impl FnOnce(&mut Turns<'_, '_>) -> T) -> (Vec<TurnReport>, T) {
    serve(job, |generator| {
        let reports = turns.iter().map(|turn| generator.turn(turn)).collect::<Result<Vec<_>, _>>()?;
        Ok((reports, more(generator)))
    })
    .unwrap()
}

fn start(behaviour: Behaviour) -> Server {
    Server::start(ServerSpec::new(behaviour))
}

/// Requests that a server received within a turn.
fn within(log: &Log, report: &TurnReport) -> u64 {
    let inside =
        log.entries.iter().filter(|entry| (report.start_ns..=report.quiet_ns).contains(&entry.received_ns));
    inside.count() as u64
}

#[test]
fn each_server_gets_exactly_the_requests_of_its_own_turns_on_the_connections_it_had() {
    let servers = [start(Behaviour::Prompt), start(Behaviour::Delay { by_ns: 3 * MILLI })];
    let turns = [0, 1, 1, 0, 0, 1].map(|endpoint| closed(endpoint, 60));
    let (reports, pooled) =
        drive(&job(&[&servers[0], &servers[1]], 8), &turns, |generator| generator.pooled(POOL).unwrap());
    for (index, log) in servers.map(Server::finish).iter().enumerate() {
        let own = || reports.iter().filter(|report| report.endpoint == index);
        assert_eq!(log.connections, 8, "connections stay open");
        assert_eq!(log.entries.len() as u64, own().map(|report| report.requests).sum::<u64>());
        for report in own() {
            assert_eq!(within(log, report), report.requests, "all of it is in the turn itself");
            assert!(report.in_time <= report.requests && report.requests - report.in_time <= 8, "{report:?}");
            assert_eq!((report.errors.total(), report.given_up, report.unsent), (0, 0, 0));
            assert!(report.quiet_ns >= report.end_ns && report.due.is_none(), "{report:?}");
        }
    }
    let first: Vec<&TurnReport> = reports.iter().filter(|report| report.endpoint == 0).collect();
    let report = &pooled.report;
    assert_eq!(report.requests, first.iter().map(|report| report.requests).sum::<u64>());
    assert_eq!(report.window_ns, 3 * 60 * MILLI);
    let in_time: u64 = first.iter().map(|report| report.in_time).sum();
    assert!((report.rate_per_s - in_time as f64 / 0.18).abs() < 1.0, "{} {in_time}", report.rate_per_s);
    assert_eq!((report.response_ns.count, report.connections.established), (report.requests, 8));
    assert!(report.seconds.is_empty() && report.warnings.iter().all(|warning| warning.id != "drift"));
}

#[test]
fn an_open_turn_has_exactly_what_was_due_and_the_lateness_of_a_server_is_charged() {
    let servers = [start(Behaviour::Prompt), start(Behaviour::Queue { service_ns: 2 * MILLI })];
    let turns = [open(0, 100, 5_000.0), open(1, 100, 1_000.0), open(0, 100, 5_000.0)];
    let (reports, pooled) =
        drive(&job(&[&servers[0], &servers[1]], 4), &turns, |generator| generator.pooled(POOL + 1).unwrap());
    assert_eq!(
        reports.iter().map(|report| report.due).collect::<Vec<_>>(),
        [Some(500), Some(100), Some(500)]
    );
    // What is due when the turn ends is sent then or, on a machine that is busy with other things, not at all.
    for prompt in [&reports[0], &reports[2]] {
        assert_eq!(prompt.requests + prompt.unsent, 500, "{prompt:?}");
    }
    // Half of what is due can be served in the time: four are answered after it, and the rest was never sent.
    let slow = &reports[1];
    assert_eq!(slow.requests + slow.unsent, 100, "{slow:?}");
    assert!((40..=60).contains(&slow.requests) && slow.requests - slow.in_time <= 4, "{slow:?}");
    assert!(pooled.report.response_ns.max >= 40 * MILLI, "the queue is in the latencies");
    assert!(pooled.report.rate_ratio.unwrap() < 0.7, "{:?}", pooled.report.rate_ratio);
    let log = servers.map(Server::finish);
    assert_eq!(log[0].entries.len() as u64, reports[0].requests + reports[2].requests);
}

#[test]
fn an_answer_that_takes_longer_than_it_is_waited_for_comes_in_no_later_turn() {
    let servers = [start(Behaviour::Slow { one_in: 50, by_ns: 400 * MILLI }), start(Behaviour::Prompt)];
    let hasty = Turn { drain_ns: 20 * MILLI, ..closed(0, 50) };
    let turns = [hasty, closed(1, 50), hasty, hasty];
    let (reports, ()) = drive(&job(&[&servers[0], &servers[1]], 4), &turns, |_| ());
    let given_up: u64 = reports.iter().map(|report| report.given_up).sum();
    assert!(given_up > 0, "{reports:?}");
    let logs = servers.map(Server::finish);
    for report in reports.iter().filter(|report| report.endpoint == 0) {
        assert!(report.quiet_ns - report.end_ns <= 30 * MILLI, "{report:?}");
        assert_eq!(within(&logs[0], report), report.requests + report.given_up);
        assert_eq!(report.errors.total(), 0, "{report:?}");
    }
    assert!(u64::from(logs[0].connections) >= 4 + given_up.min(4), "its connection is another afterwards");
    assert_eq!(reports[1].given_up, 0);
}

#[test]
fn a_turn_tells_what_was_answered_after_it_and_what_a_server_left_that_stays_with_one_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut chunk = [0; 4096];
            // A request is one write here.
            while stream.read(&mut chunk).is_ok_and(|bytes| bytes > 0)
                && stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_ok()
            {}
        }
    });
    let prompt = start(Behaviour::Prompt);
    let mut job = job(&[&prompt, &prompt], 4);
    job.endpoints[0].url = url;
    let patient = Turn { drain_ns: 500 * MILLI, ..closed(0, 50) };
    let (reports, ()) = drive(&job, &[patient, closed(1, 50), patient], |_| ());
    for report in &reports {
        let late = &report.late_ns;
        assert_eq!(late.len() as u64, report.requests - report.in_time, "{report:?}");
        assert!(
            late.is_sorted() && late.iter().all(|ns| *ns <= report.quiet_ns - report.end_ns),
            "{report:?}"
        );
    }
    // What is in flight when a turn ends is one request on each connection at most.
    let late = |report: &TurnReport| (report.late_ns.len(), report.given_up);
    assert!(late(&reports[1]).0 <= 4 && late(&reports[1]).1 == 0, "{reports:?}");
    for stays in [&reports[0], &reports[2]] {
        assert!(late(stays).0 <= 1 && late(stays).1 > 0 && stays.requests > 1, "{reports:?}");
    }
}

#[test]
fn a_server_that_dies_in_anothers_turn_fails_its_own_and_no_other() {
    let servers = [start(Behaviour::Prompt), start(Behaviour::Prompt)];
    let job = job(&[&servers[0], &servers[1]], 4);
    let [alive, dying] = servers;
    let reports = serve(&job, |generator| {
        let mut reports = vec![generator.turn(&closed(1, 30))?, generator.turn(&closed(0, 30))?];
        let _ = dying.finish();
        // Connections to a server that is gone are tried again after a pause, which is longer than a short turn.
        for (endpoint, millis) in [(0, 30), (1, 500), (0, 30)] {
            reports.push(generator.turn(&Turn { drain_ns: 50 * MILLI, ..closed(endpoint, millis) })?);
        }
        Ok(reports)
    })
    .unwrap();
    assert!(reports[0].requests > 0 && reports[2].requests > 0 && reports[4].requests > 0);
    assert_eq!((reports[2].errors.total(), reports[4].errors.total()), (0, 0));
    let dead = &reports[3];
    assert!(dead.requests == 0 && dead.errors.connect > 0, "{dead:?}");
    drop(alive);
}

#[test]
fn a_connection_that_a_server_closes_between_turns_is_no_error() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    // Closes each connection that was idle for 40 ms.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(40))).unwrap();
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                while matches!(stream.read(&mut buf), Ok(1..)) {
                    stream.write_all(testkit::ANSWER).unwrap();
                }
            });
        }
    });
    let steady = start(Behaviour::Prompt);
    let mut job = job(&[&steady, &steady], 4);
    job.endpoints[1].url = url;
    let turns = [closed(1, 20), closed(0, 100), closed(1, 20), closed(0, 100), closed(1, 20)];
    let (reports, ()) = drive(&job, &turns, |_| ());
    for report in reports {
        assert!(report.requests > 0 && report.errors.total() == 0 && report.given_up == 0, "{report:?}");
    }
}

#[test]
fn turns_that_poll_and_turns_that_wait_for_a_schedule_take_turns() {
    let server = start(Behaviour::Prompt);
    let polling = Turn { pace: TurnPace::Closed { poll: true }, ..closed(0, 40) };
    let turns = [polling, open(0, 40, 2_000.0), polling, Turn { requests: Some(17), ..closed(0, 1_000) }];
    let (reports, ()) = drive(&job(&[&server], 2), &turns, |_| ());
    assert!(reports[0].cpu.polled_ns > 0 && reports[2].requests > 0, "{reports:?}");
    // What was due at the very end of a turn may not have been sent any more.
    let scheduled = &reports[1];
    assert_eq!(
        (scheduled.requests + scheduled.unsent, scheduled.cpu.polled_ns, reports[3].requests),
        (80, 0, 17)
    );
    assert!(reports[3].end_ns - reports[3].start_ns < 500 * MILLI, "it ends when all are answered");
    let log = server.finish();
    assert_eq!(log.entries.len() as u64, reports.iter().map(|report| report.requests).sum::<u64>());
}

#[test]
fn a_connection_is_closed_by_us_after_as_many_requests_as_it_may_serve() {
    for (reuse, requests, connections) in [(1, 60, 60), (4, 60, 15)] {
        let server = start(Behaviour::Prompt);
        let job = Job { reuse: Reuse::Requests(reuse), ..job(&[&server], 2) };
        let turn = Turn { requests: Some(requests), ..closed(0, 5_000) };
        let (reports, ()) = drive(&job, &[turn], |_| ());
        assert_eq!((reports[0].requests, reports[0].errors.total()), (requests, 0));
        let log = server.finish();
        // Those that are open for what comes next have served nothing.
        let used: std::collections::BTreeSet<u32> =
            log.entries.iter().map(|entry| entry.connection).collect();
        assert!((connections..=connections + 2).contains(&used.len()), "{reuse}: {}", used.len());
        let most = log.entries.iter().filter(|entry| entry.connection == 0).count();
        assert!(most <= reuse as usize, "{most}");
    }
}

#[test]
fn what_is_drawn_is_drawn_alike_for_every_endpoint() {
    let servers = [0, 1].map(|_| testkit::Recorder::start(|_| testkit::ANSWER.to_vec()));
    let mut job = job(&[], 1);
    job.endpoints = servers
        .iter()
        .map(|server| Endpoint { name: "s".into(), url: server.url(), unix: None, expected_status: None })
        .collect();
    let named = |name: &str, weight| model::job::NamedRequest {
        name: name.to_owned(),
        weight,
        request: Request { target: Some(format!("/{name}")), ..Request::get() },
        expected_status: None,
    };
    job.requests = Requests::Drawn(vec![named("often", 3.0), named("seldom", 1.0)]);
    let turns = [0, 1].map(|endpoint| Turn { requests: Some(40), ..closed(endpoint, 5_000) });
    drive(&job, &turns, |_| ());
    let paths = servers.map(|server| {
        let requests = server.finish().concat();
        let path = |request: &Vec<u8>| String::from_utf8_lossy(request).split(' ').nth(1).unwrap().to_owned();
        requests.iter().map(path).collect::<Vec<_>>()
    });
    assert_eq!(paths[0], paths[1]);
    assert!((20..=38).contains(&paths[0].iter().filter(|path| *path == "/often").count()), "{:?}", paths[0]);
}

#[test]
fn a_server_that_is_gone_before_the_first_turn_is_told_with_the_reason() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let job = job(&[&server], 2);
    drop(server.finish());
    let refused = serve(&job, |_| Ok(())).unwrap_err();
    assert!(matches!(&refused, LoadError::Connect { why, .. } if why.contains("refused")), "{refused}");
}
