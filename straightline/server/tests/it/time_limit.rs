//! How long handlers may take.

use crate::support::{Client, MODELS, Model, TestServer};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::{Done, Event, Limits, Request, Response, rt};

const SHORT: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(60);

type Handler = for<'a> fn(&mut Request<'a>, Response<'a>) -> io::Result<Done>;

fn limited(model: Model, handler: Handler) -> TestServer {
    let limits = Limits { handler_time: Some(SHORT), ..Limits::default() };
    TestServer::with(|server| model.apply_to(server).limits(limits), handler)
}

fn ask(client: &mut Client, path: &str) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
}

fn late<'a>(request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
    match request.path() {
        "/sleep" => rt::sleep(LONG)?,
        "/lock" => {
            let (_sender, receiver) = rt::channel::<()>(1);
            receiver.recv()?;
        }
        "/body" => {
            request.read_to_end(&mut Vec::new())?;
        }
        "/begun" => {
            let mut response = response.start()?;
            response.write_all(b"some")?;
            response.flush()?;
            rt::sleep(LONG)?;
            return response.end();
        }
        "/computes" => {
            // The thread is held, and the next call that waits is told.
            std::thread::sleep(SHORT * 2);
            rt::sleep(Duration::from_millis(1))?;
        }
        "/again" => {
            let first = rt::sleep(LONG).unwrap_err();
            assert!(first.kind() == ErrorKind::TimedOut && rt::is_cancelled(&first), "{first:?}");
            assert_eq!(rt::sleep(LONG).unwrap_err().kind(), ErrorKind::TimedOut);
            return response.status(504).send(b"what there was");
        }
        _ => {}
    }
    response.send(b"in time")
}

#[test]
fn a_handler_that_waits_longer_than_it_may_is_answered_with_503() {
    for model in MODELS {
        let server = limited(model, late);
        for path in ["/sleep", "/lock", "/computes"] {
            let (mut client, start) = (server.connect(), Instant::now());
            ask(&mut client, path);
            let answer = client.response();
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (503, "the request took too long\n"),
                "{path}"
            );
            assert!((SHORT..LONG / 6).contains(&start.elapsed()), "{model}: {path}");
            // The connection goes on, and so does the limit: with each request from its beginning.
            for path in ["/", "/", "/sleep"] {
                ask(&mut client, path);
                assert_eq!(client.response().status, if path == "/" { 200 } else { 503 }, "{model}: {path}");
            }
        }
        let told = |event: &Event| matches!(event, Event::HandlerFailed { status: 503, error, .. } if error.contains("time"));
        assert_eq!(server.events.lock().unwrap().iter().filter(|event| told(event)).count(), 6);
        assert_eq!(server.metric("timeouts_total"), 0, "no client was too slow");
    }
}

#[test]
fn a_handler_may_say_something_itself_when_its_time_is_over() {
    for model in MODELS {
        let server = limited(model, late);
        let mut client = server.connect();
        ask(&mut client, "/again");
        let answer = client.response();
        assert_eq!((answer.status, answer.text().as_str()), (504, "what there was"), "{model}");
    }
}

#[test]
fn an_answer_that_has_begun_is_cut_short_when_the_time_is_over() {
    for model in MODELS {
        let server = limited(model, late);
        let mut client = server.connect();
        ask(&mut client, "/begun");
        let mut bytes = Vec::new();
        let end = client.stream.read_to_end(&mut bytes);
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "{model}: it seems whole");
        assert!(end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset), "{model}");
    }
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for_beyond_the_limit() {
    for model in MODELS {
        let server = limited(model, late);
        let mut client = server.connect();
        client.send(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe");
        let answer = client.response();
        assert_eq!((answer.status, answer.keep_alive), (503, false), "{model}");
        assert_eq!(server.metric("timeouts_total"), 0, "{model}");
    }
}

#[test]
fn a_request_can_have_a_limit_of_its_own() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            assert_eq!(request.deadline(), None, "none unless said");
            match request.path() {
                "/short" => request.limit_time(SHORT),
                "/lifted" => {
                    request.limit_time(SHORT);
                    assert!(request.deadline().is_some_and(|at| at <= Instant::now() + SHORT));
                    request.limit_time(None);
                }
                _ => {}
            }
            rt::sleep(SHORT * 2)?;
            response.send(b"")
        });
        let mut client = server.connect();
        for (path, status) in [("/short", 503), ("/none", 200), ("/lifted", 200), ("/short", 503)] {
            ask(&mut client, path);
            assert_eq!(client.response().status, status, "{model}: {path}");
        }
    }
}

#[test]
fn what_is_upgraded_has_no_limit() {
    for model in MODELS {
        let server = limited(model, |request, response| {
            let mut upgraded = response.upgrade(request, "echo")?;
            rt::sleep(SHORT * 3)?;
            upgraded.write_all(b"still there")?;
            Ok(upgraded.finish())
        });
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        assert!(client.switching().starts_with("HTTP/1.1 101"));
        assert_eq!(client.rest(), b"still there", "{model}");
    }
}

#[test]
fn what_a_handler_spawned_is_not_limited() {
    let (done, seen) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(false)));
    let (told, kept) = (Arc::clone(&done), Arc::clone(&seen));
    let limits = Limits { handler_time: Some(SHORT), ..Limits::default() };
    let server = TestServer::with(
        |server| server.workers(1).limits(limits),
        move |_, response| {
            let told = Arc::clone(&told);
            drop(rt::spawn(move || *told.lock().unwrap() = Some(rt::sleep(SHORT * 3).is_ok())));
            *kept.lock().unwrap() = rt::sleep(LONG).is_err();
            response.send(b"")
        },
    );
    let mut client = server.connect();
    ask(&mut client, "/");
    assert_eq!(client.response().status, 200);
    assert!(*seen.lock().unwrap());
    server.until("the spawned one ends", |_| done.lock().unwrap().is_some());
    assert_eq!(*done.lock().unwrap(), Some(true));
}
