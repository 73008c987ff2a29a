//! Server-sent events against a server that logs when it sent each.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use load::schedule::{Arrival, Pace};
use load::{Config, Target, run};
use model::record::LoadReport;

/// How a server frames its streams, and after how many events it ends them.
#[derive(Debug, Clone, Copy)]
struct Manner {
    head: &'static str,
    chunked: bool,
    events: u64,
    first: Duration,
    gap: Duration,
    /// What comes after the events.
    rest: &'static str,
}

const PLAIN: Manner = Manner {
    head: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n",
    chunked: true,
    events: u64::MAX,
    first: Duration::from_millis(20),
    gap: Duration::from_millis(4),
    rest: "",
};

/// What a server sent: streams that had their first event, when that was sent since the request, and each later gap.
#[derive(Debug, Default)]
struct Log {
    first: Vec<Duration>,
    gaps: Vec<Duration>,
}

fn serve(manner: Manner) -> (SocketAddr, Arc<Mutex<Log>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Log::default())));
    let kept = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let log = Arc::clone(&kept);
            std::thread::spawn(move || while talk(&stream, manner, &log).is_ok_and(|goes_on| goes_on) {});
        }
    });
    (address, log)
}

fn talk(mut stream: &TcpStream, manner: Manner, log: &Mutex<Log>) -> std::io::Result<bool> {
    stream.set_nodelay(true)?;
    if stream.read(&mut [0; 4096])? == 0 {
        return Ok(false);
    }
    let mut last = Instant::now();
    let coding = if manner.chunked { "Transfer-Encoding: chunked\r\n" } else { "Connection: close\r\n" };
    stream.write_all(format!("{}{coding}\r\n", manner.head).as_bytes())?;
    for number in 0..manner.events {
        std::thread::sleep(if number == 0 { manner.first } else { manner.gap });
        let event = format!(": a comment\nid: {number}\ndata: event {number}\n\n");
        let now = Instant::now();
        match manner.chunked {
            true => write!(stream, "{:x}\r\n{event}\r\n", event.len())?,
            false => stream.write_all(event.as_bytes())?,
        }
        let mut log = log.lock().unwrap();
        if number == 0 { &mut log.first } else { &mut log.gaps }.push(now - last);
        last = now;
    }
    match manner.chunked {
        true if manner.rest.is_empty() => stream.write_all(b"0\r\n\r\n")?,
        true => write!(stream, "{:x}\r\n{}\r\n0\r\n\r\n", manner.rest.len(), manner.rest)?,
        false => stream.write_all(manner.rest.as_bytes())?,
    }
    Ok(manner.chunked)
}

fn report(manner: Manner, change: impl FnOnce(&mut Config)) -> (LoadReport, Arc<Mutex<Log>>) {
    let (address, log) = serve(manner);
    let mut config = Config::new(Target::resolve(&format!("http://{address}/events")).unwrap());
    (config.threads, config.connections, config.events) = (1, 2, Some(None));
    config.window = Duration::from_secs(10);
    change(&mut config);
    (run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report, log)
}

fn mean_ns(times: &[Duration]) -> f64 {
    times.iter().map(Duration::as_nanos).sum::<u128>() as f64 / times.len() as f64
}

#[test]
fn whole_streams_have_the_events_and_times_that_the_server_logged() {
    for chunked in [true, false] {
        let (report, log) =
            report(Manner { chunked, events: 10, ..PLAIN }, |config| config.requests = Some(11));
        let (events, log) = (report.events.unwrap(), log.lock().unwrap());
        assert_eq!((report.requests, report.errors.total()), (11, 0), "{:?}", report.errors);
        assert_eq!((events.count, events.first_ns.count, events.gap_ns.count), (110, 11, 99));
        for (times, figures) in [(&log.first, &events.first_ns), (&log.gaps, &events.gap_ns)] {
            let (truth, ours) = (mean_ns(times), figures.mean);
            assert!((ours - truth).abs() < 0.1 * truth + 1e6, "{chunked}: {ours} and not {truth}");
        }
        assert!(report.response_ns.mean > 20e6 + 9.0 * 4e6, "an answer ends with its stream");
    }
}

#[test]
fn streams_without_end_end_after_so_many_events_on_connections_of_their_own() {
    let (report, log) = report(PLAIN, |config| {
        (config.events, config.requests) = (Some(Some(5)), Some(13));
        config.pace = Pace::open(40.0, Arrival::Constant);
        config.connections = 4;
    });
    let events = report.events.unwrap();
    assert_eq!((report.requests, report.errors.total(), events.count), (13, 0, 65), "{:?}", report.errors);
    assert!(log.lock().unwrap().first.len() >= 13);
    assert!(events.first_ns.mean >= 20e6, "{events:?}");
}

#[test]
fn a_stream_that_goes_on_is_counted_while_the_window_lasts() {
    let (report, _) = report(PLAIN, |config| config.window = Duration::from_millis(500));
    let events = report.events.unwrap();
    assert_eq!((report.requests, report.unfinished, report.errors.total()), (0, 2, 0));
    // 480 ms of 4 ms each on two connections, on a machine that may be busy.
    assert!((60..=240).contains(&events.count) && events.first_ns.count == 2, "{events:?}");
}

#[test]
fn what_is_no_stream_or_too_short_is_named() {
    let html = Manner { head: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", events: 3, ..PLAIN };
    let missing = Manner { head: "HTTP/1.1 404 Not Found\r\n", events: 3, ..PLAIN };
    let short = Manner { events: 3, ..PLAIN };
    let zipped = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n";
    let zipped = Manner { head: zipped, ..short };
    let partial = Manner { head: "HTTP/1.1 206 Partial Content\r\n", ..short };
    let silent = Manner { events: 0, rest: ": nothing\n\n", ..PLAIN };
    let cut = Manner { rest: "data: half\n", ..short };
    let framed = [false, true].map(|chunked| [silent, cut].map(|manner| Manner { chunked, ..manner }));
    let [[silent_close, cut_close], [silent, cut]] = framed;
    for (manner, most, why, kind) in [
        (html, None, "the answer is no stream of events", "parse"),
        (short, Some(4), "a stream ends before it has had the events", "parse"),
        (Manner { chunked: false, ..short }, Some(4), "a stream ends before it has had the events", "parse"),
        (zipped, None, "compressed streams cannot be read", "parse"),
        (silent, None, "a stream of events ends without one event", "parse"),
        (silent_close, None, "a stream of events ends without one event", "parse"),
        (cut, None, "a stream ends in the middle of an event", "parse"),
        (cut_close, None, "a stream ends in the middle of an event", "parse"),
        (partial, Some(4), "a stream ends before it has had the events", "parse"),
        (missing, Some(4), "", "status"),
    ] {
        let (report, _) = report(manner, |config| {
            (config.events, config.window) = (Some(most), Duration::from_millis(300));
        });
        let counts = report.errors.kinds();
        for (name, count) in counts {
            assert_eq!(count > 0, name == kind, "{why}: {counts:?}");
        }
        assert!(report.warnings.iter().any(|warning| warning.text.contains(why)), "{:?}", report.warnings);
    }
}
