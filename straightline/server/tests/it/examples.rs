//! The examples, each started and asked as its first lines say.

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/database.rs"]
mod database;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/hello.rs"]
mod hello;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/measured.rs"]
mod measured;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/proxy.rs"]
mod proxy;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/site.rs"]
pub(crate) mod site;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/tls.rs"]
mod tls;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/websocket.rs"]
mod websocket;

use crate::http2::raw::{Raw, asking, block, data, frame};
use crate::support::{Client, PATIENCE, TestServer, echo};
use http2::PREFACE;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use straightline::{Done, Request, Response, Server};
use tungstenite::Message;

fn server() -> Server {
    Server::bind("127.0.0.1:0").unwrap().workers(1)
}

#[test]
fn the_database_keeps_what_it_is_given() {
    let running = database::start(server(), rusqlite::Connection::open_in_memory().unwrap()).unwrap();
    let mut client = Client::new(running.local_addr());
    for (request, status, body) in [
        ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 404, ""),
        ("PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\none", 204, ""),
        ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 200, "one"),
        ("PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntwo", 204, ""),
        ("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", 200, "two"),
        ("DELETE /a HTTP/1.1\r\nHost: x\r\n\r\n", 405, ""),
    ] {
        client.send(request.as_bytes());
        let answer = client.response();
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{request}");
    }
}

#[test]
fn the_proxy_passes_bodies_of_every_kind_both_ways() {
    let behind = TestServer::new(|request, response| match request.path() {
        "/stream" => {
            let mut response = response.header("x-kept", "yes")?.start()?;
            for number in 0..1000 {
                writeln!(response, "{number}")?;
            }
            response.end()
        }
        "/hop" => {
            let passed = request.header("x-hop").is_some();
            response.send(passed.to_string().as_bytes())
        }
        _ => echo(request, response),
    });
    let running = proxy::start(server(), behind.address).unwrap();
    let mut client = Client::new(running.local_addr());
    for (request, seen) in [
        ("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b 0"),
        ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", "POST / 5"),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            "POST / 5",
        ),
    ] {
        client.send(request.as_bytes());
        assert_eq!(client.response().text(), seen, "{request}");
    }
    client.send(b"GET /hop HTTP/1.1\r\nHost: x\r\nConnection: x-hop\r\nX-Hop: 1\r\n\r\n");
    assert_eq!(client.response().text(), "false", "a field that `Connection` names is of one connection");
    client.send(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = client.response();
    assert_eq!((answer.body.len(), answer.header("x-kept").as_deref()), (3_890, Some("yes")));
    client.send(b"HEAD /h HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response_to(true).header("content-length").as_deref(), Some("9"));
    drop(behind);
    client.send(b"GET /gone HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().status, 502, "nobody is behind it any more");
}

/// What a server behind the proxy has seen of a request, all of it.
fn seen(request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    let mut body = String::new();
    request.read_to_string(&mut body)?;
    let field = |(name, value): (&str, &[u8])| format!("{name}: {}\n", String::from_utf8_lossy(value));
    let (fields, trailers): (String, String) =
        (request.headers().map(field).collect(), request.trailers().map(field).collect());
    let text = format!("{} {}\n{fields}\n{body}\n{trailers}", request.method(), request.target());
    response.send(text.to_ascii_lowercase().as_bytes())
}

#[test]
fn the_proxy_says_itself_where_a_request_ends_and_whom_it_is_for() {
    let behind = TestServer::new(seen);
    let running = proxy::start(server(), behind.address).unwrap();
    let ask = |request: &str| {
        let mut client = Client::new(running.local_addr());
        client.send(request.as_bytes());
        client.response()
    };
    let evil = "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = evil.len();
    for (request, wanted, unwanted) in [
        // A connection option takes away neither where the body ends, nor whom the request is for, nor who sends it.
        (
            format!("POST /a HTTP/1.1\r\nHost: a\r\nConnection: content-length\r\nContent-Length: {length}\r\n\r\n{evil}"),
            format!("content-length: {length}\n"),
            "transfer-encoding",
        ),
        (
            "GET /a HTTP/1.1\r\nHost: a\r\nConnection: host, Authorization, x-b\r\nAuthorization: me\r\nX-B: 1\r\n\r\n".into(),
            "host: a\n".into(),
            "x-b",
        ),
        ("GET /a HTTP/1.1\r\nHost: a\r\nConnection: authorization\r\nAuthorization: me\r\n\r\n".into(), "authorization: me\n".into(), "x-b"),
        (
            "POST /a HTTP/1.1\r\nHost: a\r\nConnection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\n".into(),
            "\n\nabc\nx-sum: 7\n".into(),
            "content-length",
        ),
        // Source: RFC 9112, section 3.2.2.
        ("GET http://b/a?c HTTP/1.1\r\nHost: c\r\n\r\n".into(), "get /a?c\nhost: b\n".into(), "host: c"),
        ("GET http://b HTTP/1.1\r\nHost: b\r\n\r\n".into(), "get /\nhost: b\n".into(), "http:"),
        ("OPTIONS http://b HTTP/1.1\r\nHost: b\r\n\r\n".into(), "options *\nhost: b\n".into(), "http:"),
        ("GET /a HTTP/1.0\r\n\r\n".into(), format!("host: {}\nvia: 1.0 straightline\n", behind.address), "x-b"),
    ] {
        let answer = ask(&request);
        let text = answer.text();
        assert!(answer.status == 200 && text.contains(&wanted) && !text.contains(unwanted), "{request}: {text}");
        let head = text.split("\n\n").next().unwrap();
        assert_eq!(head.matches("\nhost: ").count(), 1, "{text}");
    }
    assert_eq!(ask("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n").status, 501);
    // By HTTP/2 a body need not say its length.
    for (body, wanted) in [(Some(evil), "transfer-encoding: chunked\n"), (None, "connection: close\n\n\n")] {
        let mut raw = Raw::at(running.local_addr());
        raw.send(&[PREFACE.as_slice(), &frame(4, 0, 0, &[])].concat());
        let fields = block(&asking("POST", "/a"));
        raw.send(&frame(1, if body.is_some() { 4 } else { 5 }, 1, &fields));
        if let Some(body) = body {
            raw.send(&data(1, body.as_bytes(), true));
        }
        let answer = raw.answer(1);
        assert!(answer.status() == "200" && answer.text().contains(wanted), "{}", answer.text());
        assert!(answer.text().contains(&body.unwrap_or_default().to_ascii_lowercase()), "{}", answer.text());
    }
    assert_eq!(behind.metric("requests_total"), 10, "and what was in bodies became no request");
}

#[test]
fn the_proxy_passes_on_what_follows_an_answer_and_no_nonsense() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let running = proxy::start(server(), listener.local_addr().unwrap()).unwrap();
    for (said, status, wanted) in [
        (
            "HTTP/1.1 200 OK\r\nConnection: set-cookie, x-b\r\nSet-Cookie: a\r\nX-B: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n",
            "200",
            "2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
        ),
        ("HTTP/1.1 200 OK\r\nConnection: content-length\r\nContent-Length: 2\r\n\r\nok", "200", "\r\n\r\nok"),
        ("HTTP/1.1 999 What\r\nContent-Length: 2\r\n\r\nok", "502", "means nothing"),
        ("HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n", "205", "Content-Length: 0\r\n"),
    ] {
        let mut client = Client::new(running.local_addr());
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(said.as_bytes()).unwrap();
        drop(stream);
        let mut came = String::new();
        client.stream.read_to_string(&mut came).unwrap();
        assert!(came.starts_with(&format!("HTTP/1.1 {status} ")) && came.contains(wanted), "{said}: {came}");
        assert!(
            !came.contains("X-B") && came.contains("Set-Cookie") == said.contains("Set-Cookie"),
            "{came}"
        );
    }
}

#[test]
fn messages_come_back_over_websocket() {
    let running = websocket::start(server()).unwrap();
    let stream = TcpStream::connect(running.local_addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut socket, answer) = tungstenite::client("ws://localhost/", stream).unwrap();
    assert_eq!(answer.status(), 101);
    for message in [
        Message::text("hello"),
        Message::text(""),
        Message::binary(vec![7; 200_000]),
        Message::text("é".repeat(40_000)),
    ] {
        socket.send(message.clone()).unwrap();
        assert!(socket.read().unwrap() == message, "it came back as another");
    }
    socket.send(Message::Ping(vec![1, 2].into())).unwrap();
    assert_eq!(socket.read().unwrap(), Message::Pong(vec![1, 2].into()));
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    let mut plain = Client::new(running.local_addr());
    plain.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(plain.response().status, 400);
}

#[test]
fn the_tls_example_answers() {
    use crate::tls::{answer, connect, identity, trusting};
    let (certificate, key) = identity();
    let trusts = Arc::new(trusting(certificate.clone()));
    let running = tls::start(server(), vec![certificate], key).unwrap();
    let mut client = connect(running.local_addr(), trusts);
    client.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!(answer(&mut client), b"Hello, TLS! 5 bytes came.\n");

    // Whoever trusts another certificate does not take it for this one.
    let stranger = Arc::new(trusting(identity().0));
    assert!(connect(running.local_addr(), stranger).write_all(b"GET").is_err());
    let mut plain = Client::new(running.local_addr());
    plain.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    plain.assert_ends();
}

#[test]
fn the_smallest_server_says_hello() {
    let running = hello::start(server()).unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = client.response();
    assert_eq!(
        (answer.text().as_str(), answer.header("content-type").as_deref()),
        ("Hello, World!", Some("text/plain"))
    );
}

#[test]
fn the_measured_server_answers() {
    let running = measured::start(server()).unwrap();
    let mut client = Client::new(running.local_addr());
    client.send(b"GET /plaintext HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().text(), "Hello, World!");
    client.send(b"POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().text(), "5");
    client.send(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().text(), "Hello, World!");
    client.send(b"GET /shard HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().text(), "straightline-0");
}
