//! The built-in servers give the same bytes, whatever they are asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::WHYSLOW;

const MODELS: [&str; 3] = ["threads", "futures", "coroutines"];
/// Longest wait for bytes: far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A built-in server on a port of its own; ends with the test.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start(model: &str) -> Self {
        let mut command = Command::new(WHYSLOW);
        let mut child =
            command.args(["serve", "--model", model, "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").unwrap().parse().unwrap();
        Self { child, port }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answers to `request`, one for each element of `bodies`, which says whether a body follows the head.
    fn answers(&self, request: &[u8], bodies: &[bool]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        let mut answers = String::new();
        let mut reader = BufReader::new(stream);
        for with_body in bodies {
            answers += &answer(&mut reader, *with_body);
        }
        answers
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One answer; the value of its `Date` is replaced.
fn answer(reader: &mut impl BufRead, with_body: bool) -> String {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "closed after {text:?}");
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().unwrap();
        }
        if line.starts_with("Date: ") {
            assert_eq!(line.len(), "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n".len(), "{line}");
            line = "Date: then\r\n".to_owned();
        }
        text += &line;
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; if with_body { length } else { 0 }];
    reader.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// What is asked, and for each answer whether it has a body.
fn questions() -> Vec<(&'static str, String, Vec<bool>)> {
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nhello\r\n10;a=b\r\n0123456789abcdef\r\n0\r\nX-Sum: 1\r\n\r\n";
    let length = "POST /plaintext HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    vec![
        ("GET", GET.to_owned(), vec![true]),
        ("a query", "GET /plaintext?a=b HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), vec![true]),
        ("404", "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), vec![true]),
        ("HEAD, then GET", format!("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n{GET}"), vec![false, true]),
        ("16 at once", GET.repeat(16), vec![true; 16]),
        ("a body, then GET", format!("{length}{GET}"), vec![true, true]),
        ("a chunked body, then GET", format!("{chunked}{GET}"), vec![true, true]),
    ]
}

#[test]
fn all_models_answer_byte_for_byte_alike() {
    let [first, others @ ..] = MODELS.map(Server::start);
    for (name, request, bodies) in questions() {
        let expected = first.answers(request.as_bytes(), &bodies);
        for (other, model) in others.iter().zip(&MODELS[1..]) {
            assert_eq!(other.answers(request.as_bytes(), &bodies), expected, "{name}, {model}");
        }
        assert_eq!(expected.matches("HTTP/1.1 ").count(), bodies.len(), "{name}: {expected}");
        // The body follows the blank line in as many answers as should have one.
        let full = expected.matches("\r\n\r\nHello, World!").count()
            + expected.matches("\r\n\r\nnot found\n").count();
        assert_eq!(full, bodies.iter().filter(|with_body| **with_body).count(), "{name}: {expected}");
    }
}

#[test]
fn a_request_in_pieces_is_answered_once_it_is_whole() {
    for model in MODELS {
        let server = Server::start(model);
        let mut stream = server.connect();
        stream.set_nodelay(true).unwrap();
        for byte in GET.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        let answer = answer(&mut BufReader::new(stream), true);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("Hello, World!"),
            "{model}: {answer}"
        );
    }
}

#[test]
fn a_connection_that_is_to_be_closed_is_closed() {
    for model in MODELS {
        let mut stream = Server::start(model).connect_and_keep();
        stream.1.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut all = String::new();
        stream.1.read_to_string(&mut all).unwrap();
        assert!(
            all.contains("\r\nConnection: close\r\n") && all.ends_with("Hello, World!"),
            "{model}: {all}"
        );
    }
}

impl Server {
    /// A connection together with its server, which lives as long.
    fn connect_and_keep(self) -> (Self, TcpStream) {
        let stream = self.connect();
        (self, stream)
    }
}
