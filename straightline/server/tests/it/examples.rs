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

use crate::support::{Client, PATIENCE, TestServer, echo};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use straightline::Server;
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
