//! Questions whose answers are kept whole, over each protocol.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::{LoadError, ask};
use model::job::{Endpoint, Job, Protocol, Request, Requests};
use rustls::version::TLS13;

use crate::quic;
use crate::serving::certificates::Authority;
use crate::serving::streams::{self, Conduct};
use crate::serving::{self, Manner, requests};

const PATIENCE: Duration = Duration::from_secs(20);

fn endpoint(url: String) -> Endpoint {
    Endpoint { name: String::new(), url, unix: None, expected_status: None }
}

/// The job of a search with many connections, which are not what is asked with.
fn job(protocol: Protocol) -> Job {
    let request = Request { target: Some("/items/{n}?of={random 9 9}".to_owned()), ..Request::get() };
    Job { requests: Requests::Same(request), protocol, ..Job::get(64) }
}

#[test]
fn answers_are_heard_over_http1_on_one_connection() {
    let answer = "HTTP/1.1 404 Not Found\r\nX-A: b\r\nContent-Length: 2\r\n\r\nhi";
    let (address, log) =
        serving::tcp("127.0.0.1", Manner { answer: answer.as_bytes().to_vec(), ..Manner::default() });
    let job = job(Protocol::Http1 { pipeline: 16 });
    let heard =
        ask(&job, &endpoint(format!("http://{address}/")), 3, PATIENCE, &AtomicBool::new(false)).unwrap();
    assert_eq!((heard.len(), requests(&log)), (3, 3));
    for one in &heard {
        assert_eq!((one.status, one.body.as_slice()), (404, &b"hi"[..]));
        assert_eq!(one.head, &answer.as_bytes()[..answer.len() - 2]);
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 1, "one connection");
    assert_eq!(log[0].lines, [0, 1, 2].map(|n| format!("GET /items/{n}?of=9 HTTP/1.1")));
}

#[test]
fn answers_are_heard_over_http2() {
    let (address, count) = streams::serve(Conduct { body: 70_000, ..Conduct::default() });
    let job = job(Protocol::Http2 { streams: 8 });
    let heard =
        ask(&job, &endpoint(format!("http://{address}/")), 3, PATIENCE, &AtomicBool::new(false)).unwrap();
    assert_eq!((heard.len(), count.requests(), count.connections()), (3, 3, 1));
    for one in &heard {
        assert_eq!((one.status, one.body.len()), (200, 70_000));
        assert!(one.head.starts_with(b"HTTP/1.1 200 \r\n") && one.head.ends_with(b"\r\n\r\n"), "{one:?}");
    }
    assert_eq!(count.paths().len(), 3, "{:?}", count.paths());
}

#[test]
fn answers_are_heard_over_http3() {
    let authority = Authority::new("ask-http3");
    let tls = authority.server(&authority.certify("localhost", 4000), &TLS13, false);
    let (address, count) = quic::serve(tls, Conduct { body: 70_000, ..Conduct::default() });
    let mut job = job(Protocol::Http3 { streams: 8 });
    job.tls.authorities = Some(authority.file());
    // Of the two addresses of this name one is tried first on which nobody is.
    let endpoint = endpoint(format!("https://localhost:{}/", address.port()));
    let heard = ask(&job, &endpoint, 3, PATIENCE, &AtomicBool::new(false)).unwrap();
    assert_eq!((heard.len(), count.requests()), (3, 3));
    for one in &heard {
        assert_eq!((one.status, one.body.len()), (200, 70_000));
        assert_eq!(one.head, b"HTTP/1.1 200 \r\nserver: witness\r\n\r\n");
    }
    assert_eq!(count.paths().len(), 3, "{:?}", count.paths());
}

#[test]
fn nobody_who_listens_is_an_error_at_once() {
    let refused = ask(
        &job(Protocol::Http1 { pipeline: 1 }),
        &endpoint("http://127.0.0.1:9/".to_owned()),
        1,
        PATIENCE,
        &AtomicBool::new(false),
    );
    assert!(matches!(refused, Err(LoadError::Connect { .. })), "{refused:?}");
}
