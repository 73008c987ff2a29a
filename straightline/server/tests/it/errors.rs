//! What the server answers by itself, in the words of the service, and data that goes with a request.

use crate::support::{Client, MODELS, Model, TestServer};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use straightline::{Done, ERROR_BODY_BYTES, ErrorAnswer, FieldLine, Request, Response, StatusError, kit};

const JSON: FieldLine = FieldLine::new("Content-Type: application/json");

fn as_json(error: &ErrorAnswer<'_>, body: &mut dyn Write) -> io::Result<()> {
    let said = serde_json::json!({ "status": error.status, "error": error.message });
    Ok(serde_json::to_writer(body, &said)?)
}

fn failing<'a>(request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
    match request.path() {
        "/missing" => Err(StatusError::new(404, "no \"book\"").into()),
        "/large" => {
            request.limit_body(2)?;
            response.send(b"")
        }
        "/panic" => panic!("meant to"),
        "/own" => response.status(404).send(b"of the handler"),
        _ => Err(io::Error::other("secret")),
    }
}

fn ask(client: &mut Client, method: &str, path: &str) {
    let body = if method == "POST" { "Content-Length: 5\r\n\r\nhello" } else { "\r\n" };
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{body}").as_bytes());
}

fn server(model: Model) -> TestServer {
    TestServer::with(|server| model.apply_to(server).error_bodies(JSON, as_json), failing)
}

#[test]
fn errors_are_said_as_the_service_likes() {
    for model in MODELS {
        let server = server(model);
        for (method, path, status, error) in [
            ("GET", "/missing", 404, "no \"book\""),
            ("POST", "/large", 413, "the body is larger than it may be"),
            ("GET", "/panic", 500, "the handler panicked"),
            ("GET", "/", 500, "the handler failed"),
        ] {
            let mut client = server.connect();
            ask(&mut client, method, path);
            let answer = client.response();
            let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(said, serde_json::json!({ "status": status, "error": error }), "{model}");
            assert_eq!(answer.status, status, "{model}: {path}");
            assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
        }
        let mut client = server.connect();
        ask(&mut client, "GET", "/own");
        assert_eq!(client.response().text(), "of the handler", "{model}");
        ask(&mut client, "HEAD", "/missing");
        let answer = client.response_to(true);
        assert_eq!((answer.status, answer.body.len()), (404, 0), "{model}");
        assert!(answer.header("content-length").is_some_and(|length| length != "0"), "{model}");
        client.send(b"BAD\r\n\r\n");
        let answer = client.response();
        assert_eq!((answer.status, answer.keep_alive), (400, false), "{model}");
        assert!(answer.text().starts_with("{\"error\":"), "{model}: {}", answer.text());
    }
}

#[test]
fn bodies_of_errors_that_are_too_long_or_fail_are_a_line_of_text() {
    for model in MODELS {
        let write = |error: &ErrorAnswer<'_>, body: &mut dyn Write| match error.message {
            "most" => body.write_all(&[b'x'; ERROR_BODY_BYTES]),
            "more" => body.write_all(&[b'x'; ERROR_BODY_BYTES + 1]),
            "fails" => {
                body.write_all(b"half of")?;
                Err(io::Error::other("no more"))
            }
            _ => panic!("meant to"),
        };
        let server = TestServer::with(
            |server| model.apply_to(server).error_bodies(JSON, write),
            |request, _| Err(StatusError::new(404, request.path()[1..].to_owned()).into()),
        );
        let mut client = server.connect();
        for (path, length, kind) in [
            ("/most", ERROR_BODY_BYTES, "application/json"),
            ("/more", 5, "text/plain; charset=utf-8"),
            ("/fails", 6, "text/plain; charset=utf-8"),
            ("/panics", 7, "text/plain; charset=utf-8"),
        ] {
            ask(&mut client, "GET", path);
            let answer = client.response();
            assert_eq!((answer.status, answer.body.len()), (404, length), "{model}: {path}");
            assert_eq!(answer.header("content-type").as_deref(), Some(kind), "{model}: {path}");
        }
    }
}

#[test]
fn what_the_kit_does_not_find_is_said_likewise_and_as_before_unless_asked() {
    let router = || {
        let files = kit::Files::new(std::env::temp_dir()).unwrap();
        let routes = kit::Router::new().route("GET", "/a", |_, response, _| response.send(b"a")).unwrap();
        routes.route("GET", "/files/{*path}", move |request, response, params| {
            files.serve(params.get("path").unwrap_or_default(), request, response)
        })
    };
    let (own, usual) = (router().unwrap(), router().unwrap());
    let own = TestServer::with(
        |server| server.workers(1).error_bodies(JSON, as_json),
        move |request, response| own.serve(request, response),
    );
    let usual = TestServer::new(move |request, response| usual.serve(request, response));
    for (method, path, status, text) in [
        ("GET", "/b", 404, "there is nothing here\n"),
        ("DELETE", "/a", 405, ""),
        ("GET", "/files/there-is-no-such-file", 404, "there is no such file\n"),
    ] {
        let (mut client, mut other) = (own.connect(), usual.connect());
        ask(&mut client, method, path);
        let answer = client.response();
        assert_eq!(answer.header("content-type").as_deref(), Some("application/json"), "{path}");
        assert!(answer.text().contains(&format!("\"status\":{status}")), "{}", answer.text());
        ask(&mut other, method, path);
        let before = other.response();
        assert_eq!((answer.status, before.status, before.text().as_str()), (status, status, text));
        assert_eq!(before.header("content-type").as_deref(), (!text.is_empty()).then_some("text/plain"));
        assert_eq!(answer.header("allow"), before.header("allow"));
    }
}

/// What a handler finds of those that were called before it.
struct Visits(u32);

#[test]
fn what_is_kept_with_a_request_is_found_by_its_type_and_goes_with_it() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Counted(Arc<str>);
    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    for model in MODELS {
        DROPPED.store(0, Ordering::SeqCst);
        let inner = |request: &mut Request<'_>, response: Response<'_>| {
            request.local_mut::<Visits>().unwrap().0 += 1;
            let name = Arc::clone(&request.local::<Counted>().unwrap().0);
            let visits = request.take_local::<Visits>().unwrap().0;
            assert!(request.local::<Visits>().is_none() && request.take_local::<Visits>().is_none());
            response.send(format!("{name} {visits}").as_bytes())
        };
        let server = TestServer::of_model(model, move |request, response| {
            assert!(request.local::<Counted>().is_none(), "nothing is left of the request before");
            let name = request.path().into();
            assert!(request.set_local(Counted(name)).is_none());
            assert!(request.set_local(Visits(1)).is_none());
            assert_eq!(request.set_local(Visits(41)).map(|before| before.0), Some(1));
            inner(request, response)
        });
        let mut client = server.connect();
        for path in ["/a", "/b"] {
            ask(&mut client, "GET", path);
            assert_eq!(client.response().text(), format!("{path} 42"), "{model}");
        }
        server.until("both are dropped", |_| DROPPED.load(Ordering::SeqCst) == 2);
    }
}
