//! What handlers answer, and what becomes of handlers that break their word.

use crate::support::{Answer, MODELS, Model, TestServer};
use std::io::{self, Read, Write};
use std::time::{Duration, SystemTime};
use straightline::{Done, FieldLine, Request, Response};

const KNOWN: FieldLine = FieldLine::new("x-known: before");

/// What a path asks of the handler under test.
fn answer(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    match request.path() {
        "/small" => response.header("x-a", "b")?.send(b"small"),
        "/large" => response.send(&large()),
        "/empty" => response.send(b""),
        "/404" => response.header("x-a", "b")?.status(404).send(b"none"),
        "/field" => response.field(KNOWN)?.header("x-a", "b")?.status(404).send(b"none"),
        "/204" => response.status(204).send(b""),
        "/204-body" => response.status(204).send(b"body"),
        "/304" => response.status(304).header("etag", "\"a\"")?.send(b""),
        "/205" => response.status(205).send(b""),
        "/205-body" => response.status(205).send(b"body"),
        "/205-stream" => response.status(205).start()?.end(),
        "/205-stream-body" => stream(response.status(205), None),
        "/205-length" => stream(response.status(205), Some("30")),
        "/204-stream" => stream(response.status(204), None),
        "/304-stream" => stream(response.status(304), None),
        "/304-stream-length" => stream(response.status(304), Some("30")),
        "/dated" => response.header("Date", "Sun, 06 Nov 1994 08:49:37 GMT")?.send(b"old"),
        "/close" => response.header("Connection", "close")?.send(b"bye"),
        "/stream" => stream(response, None),
        "/stream-length" => stream(response, Some("30")),
        "/trailers" => {
            let mut response = response.start()?;
            response.write_all(b"body")?;
            response.end_with_trailers(&[("x-sum", "7")])
        }
        "/chunks" => {
            let mut response = response.start()?;
            for piece in large().chunks(7_001) {
                response.write_all(piece)?;
            }
            response.end()
        }
        "/split-head" => response.header("a", "b\r\nSet-Cookie: c").and_then(|response| response.send(b"")),
        other => broken(other, response),
    }
}

/// Handlers that do not do what they said, or what they may.
fn broken(path: &str, response: Response<'_>) -> io::Result<Done> {
    match path {
        "/less" => stream(response, Some("31")),
        "/more" => stream(response, Some("29")),
        "/bad-trailer" | "/forbidden-trailer" => {
            let name = if path == "/bad-trailer" { "a b" } else { "Content-Length" };
            let mut response = response.start()?;
            response.write_all(b"body")?;
            response.flush()?;
            response.end_with_trailers(&[("good", "1"), (name, "4")])
        }
        "/other-length" => response.header("Content-Length", "9")?.send(b"four"),
        "/bad-length" => response.header("Content-Length", "+4")?.send(b"four"),
        "/own-encoding" => response.header("Transfer-Encoding", "chunked")?.send(b""),
        "/lf" => response.header("a", "b\nc")?.send(b""),
        "/nul" => response.header("a", "b\0c")?.send(b""),
        "/name" => response.header("a b", "c")?.send(b""),
        "/304-body" => response.status(304).send(b"body"),
        "/100" => response.status(100).send(b""),
        "/101" => response.status(101).send(b""),
        "/101-stream" => stream(response.status(101), None),
        "/status" => response.status(99).send(b""),
        "/600" => response.status(600).send(b""),
        "/forgotten" => forget_a_failure(response, None),
        "/forgotten-length" => forget_a_failure(response, Some("30")),
        "/error" => Err(io::Error::other("a secret")),
        "/status-error-204" => Err(straightline::StatusError::new(204, "nothing").into()),
        "/status-error-101" => Err(straightline::StatusError::new(101, "a body").into()),
        "/status-error-600" => Err(straightline::StatusError::new(600, "too much").into()),
        "/status-error" => Err(straightline::StatusError::new(409, "twice").into()),
        "/error-after-header" => {
            let _response = response.header("x-gone", "yes")?;
            Err(io::Error::other("late"))
        }
        "/error-in-stream" => {
            let mut response = response.start()?;
            response.write_all(b"part of it")?;
            response.flush()?;
            Err(io::Error::other("too late"))
        }
        "/panic" => panic!("meant to"),
        "/panic-in-stream" => {
            let mut response = response.start()?;
            response.write_all(b"part of it")?;
            response.flush()?;
            panic!("meant to, in a stream")
        }
        _ => response.send(path.as_bytes()),
    }
}

/// Thirty bytes of a file that has ten; and does not look whether they could be written.
fn forget_a_failure(response: Response<'_>, length: Option<&str>) -> io::Result<Done> {
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))?;
    let end = file.metadata()?.len();
    let response = match length {
        Some(length) => response.header("content-length", length)?,
        None => response,
    };
    let mut response = response.start()?;
    response.write_file(&file, end - 10..end + 20).ok();
    response.end()
}

/// Thirty bytes in three writes.
fn stream(response: Response<'_>, length: Option<&str>) -> io::Result<Done> {
    let response = match length {
        Some(length) => response.header("content-length", length)?,
        None => response,
    };
    let mut response = response.start()?;
    for _ in 0..3 {
        response.write_all(b"0123456789")?;
    }
    response.end()
}

/// A body larger than every buffer on its way.
fn large() -> Vec<u8> {
    (0..3_000_000u32).map(|index| (index / 7) as u8).collect()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}

#[test]
fn good_answers_arrive_whole_and_keep_the_connection() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        let cases: &[(&str, u16, &[u8])] = &[
            ("/small", 200, b"small"),
            ("/large", 200, &large()),
            ("/empty", 200, b""),
            ("/404", 404, b"none"),
            ("/field", 404, b"none"),
            ("/204", 204, b""),
            ("/304", 304, b""),
            ("/204-stream", 204, b""),
            ("/304-stream", 304, b""),
            ("/304-stream-length", 304, b""),
            ("/stream", 200, b"012345678901234567890123456789"),
            ("/stream-length", 200, b"012345678901234567890123456789"),
            ("/trailers", 200, b"body"),
            ("/chunks", 200, &large()),
        ];
        for (path, status, body) in cases {
            client.send(&get(path));
            let answer = client.response();
            assert_eq!(answer.status, *status, "{model:?}: {path}");
            assert!(answer.body == *body, "{model:?}: {path}: {} bytes", answer.body.len());
            assert!(answer.keep_alive, "{model:?}: {path}");
            assert_eq!(answer.header("date").unwrap().len(), 29, "{path}");
        }
        // And all of them at once.
        for (path, ..) in cases {
            client.send(&get(path));
        }
        for (path, status, body) in cases {
            let answer = client.response();
            assert!(answer.status == *status && answer.body == *body, "{model:?}: {path}, pipelined");
        }
    }
}

#[test]
fn fields_are_those_that_were_set() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        client.send(&get("/404"));
        let head = client.response().head;
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\nx-a: b\r\nContent-Length: "), "{head}");
        client.send(&get("/field"));
        let head = client.response().head;
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\nx-known: before\r\nx-a: b\r\n"), "{head}");
        client.send(&get("/dated"));
        let head = client.response().head;
        assert_eq!(head.matches("ate: ").count(), 1, "{head}");
        for path in ["/204", "/204-stream", "/304", "/304-stream", "/304-stream-length"] {
            client.send(&get(path));
            let head = client.response().head;
            assert!(
                !head.contains("Content-Length") && !head.contains("Transfer-Encoding"),
                "{path}: {head}"
            );
        }
        client.send(&get("/close"));
        let answer = client.response();
        assert_eq!((answer.text().as_str(), answer.keep_alive), ("bye", false));
        client.assert_closed("the handler asked for it");
    }
}

#[test]
fn every_answer_says_when_it_was_made() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        for path in ["/small", "/large", "/stream", "/stream-length", "/204", "/304", "/304-stream", "/error"]
        {
            client.send(&get(path));
            date_of(&client.response(), path);
        }
        // A date is kept for a second at most.
        client.send(&get("/small"));
        let first = date_of(&client.response(), "/small");
        std::thread::sleep(Duration::from_millis(1_100));
        client.send(&get("/small"));
        let second = date_of(&client.response(), "/small");
        assert!(second > first, "{model}: {second:?} after {first:?}");
        client.send(b"no request\r\n\r\n");
        date_of(&client.response(), "a refusal");
    }
}

/// What `Date` says: the present, as an IMF-fixdate.
fn date_of(answer: &Answer, what: &str) -> SystemTime {
    let text = answer.header("date").unwrap();
    let date = httpdate::parse_http_date(&text).unwrap();
    assert_eq!(httpdate::fmt_http_date(date), text, "{what}: two other forms are for reading only");
    let age = SystemTime::now().duration_since(date);
    assert!(age.as_ref().is_ok_and(|age| *age < Duration::from_secs(2)), "{what}: {text}: {age:?}");
    date
}

#[test]
fn head_has_no_body_but_its_length() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        for path in ["/small", "/large", "/stream", "/stream-length", "/chunks", "/404", "/panic"] {
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let answer = client.response_to(true);
            if path == "/small" {
                assert_eq!(answer.header("content-length").as_deref(), Some("5"));
            }
            if path == "/panic" {
                assert_eq!(answer.status, 500);
                client.assert_closed("no body here either");
            }
        }
    }
}

#[test]
fn http_1_0_streams_end_with_the_connection() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        client.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.response();
        assert!(!answer.keep_alive && !answer.head.contains("chunked"), "{model:?}: {}", answer.head);
        assert_eq!(answer.body.len(), 30);
    }
}

/// Source: RFC 9110, section 15.3.6.
#[test]
fn a_reset_has_no_body_and_says_so() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut client = server.connect();
        for path in ["/205", "/205-stream"] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let answer = client.response();
            let length = answer.header("content-length");
            assert_eq!((answer.status, length.as_deref()), (205, Some("0")), "{model:?}: {path}");
        }
        client.send(b"GET /205-stream-body HTTP/1.1\r\nHost: x\r\n\r\n");
        client.assert_ends();
    }
}

#[test]
fn a_handler_that_errs_before_it_answers_gets_a_status() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        for (path, status) in [
            ("/split-head", 500),
            ("/204-body", 500),
            ("/304-body", 500),
            ("/205-body", 500),
            ("/205-length", 500),
            ("/100", 500),
            ("/101", 500),
            ("/101-stream", 500),
            ("/other-length", 500),
            ("/bad-length", 500),
            ("/own-encoding", 500),
            ("/lf", 500),
            ("/nul", 500),
            ("/name", 500),
            ("/status", 500),
            ("/600", 500),
            ("/error", 500),
            ("/status-error", 409),
            ("/status-error-204", 500),
            ("/status-error-101", 500),
            ("/status-error-600", 500),
            ("/error-after-header", 500),
            ("/panic", 500),
        ] {
            let mut client = server.connect();
            client.send(&get(path));
            let answer = client.response();
            assert_eq!(answer.status, status, "{model:?}: {path}");
            assert!(!answer.head.contains("Set-Cookie") && !answer.head.contains("x-gone"), "{path}");
            assert!(!answer.text().contains("secret"), "what an error says is for the server");
        }
        server.assert_serves("broken handlers");
    }
}

#[test]
fn a_handler_that_errs_amid_its_answer_cuts_it_short_visibly() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        for path in
            ["/less", "/more", "/error-in-stream", "/panic-in-stream", "/bad-trailer", "/forbidden-trailer"]
        {
            let mut client = server.connect();
            client.send(&get(path));
            let mut got = Vec::new();
            let outcome = client.stream.read_to_end(&mut got);
            assert!(!got.ends_with(b"0\r\n\r\n"), "{model:?}: {path}: it looks whole");
            assert!(
                !String::from_utf8_lossy(&got).contains("good"),
                "{model:?}: {path}: half of its trailers"
            );
            let head_end = got.windows(4).position(|window| window == b"\r\n\r\n");
            let body = head_end.map_or(0, |end| got.len() - end - 4);
            let promised = if path == "/less" { 31 } else { 29 };
            assert!(outcome.is_err() || path.contains("stream") || body < promised, "{model:?}: {path}");
        }
        server.assert_serves("answers cut short");
    }
}

/// On HTTP/1.0 a body ends with its connection, whose end must then say that it is not the whole; and a handler that
/// does not look whether it could write all of it does not make it whole.
#[test]
fn an_answer_cut_short_is_reset() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        for (path, version) in [
            ("/error-in-stream", "1.0"),
            ("/panic-in-stream", "1.0"),
            ("/forgotten", "1.0"),
            ("/forgotten", "1.1"),
            ("/forgotten-length", "1.0"),
            ("/forgotten-length", "1.1"),
        ] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/{version}\r\nHost: x\r\n\r\n").as_bytes());
            let ended = client.stream.read_to_end(&mut Vec::new());
            let reset = ended.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset);
            assert!(reset, "{model}: {path} on {version}: {ended:?}");
        }
        server.assert_serves("answers cut short");
    }
}

/// An answer that takes no more than its connection does for another one: so too if it says that something failed.
#[test]
fn an_error_keeps_a_connection_that_is_in_good_order() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| match request.path() {
            "/read" => {
                io::copy(request, &mut io::sink())?;
                Err(straightline::StatusError::new(404, "none").into())
            }
            "/unread" => Err(straightline::StatusError::new(404, "none").into()),
            "/too-large" if request.limit_body(3).is_err() => response.status(413).send(b"too large"),
            path => response.send(path.as_bytes()),
        });
        let plain = "Content-Length: 5\r\n\r\nhello".to_owned();
        let chunked = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned();
        let long = format!("Content-Length: 200000\r\n\r\n{}", "x".repeat(200_000));
        for body in ["\r\n", &plain, &chunked, &long] {
            let mut client = server.connect();
            for path in ["/read", "/unread"] {
                client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\n{body}").as_bytes());
                let answer = client.response();
                assert_eq!((answer.status, answer.keep_alive), (404, true), "{model}: {path} {body:.40}");
                client.send(&get("/next"));
                assert_eq!(client.response().text(), "/next", "{model}: after {path} {body:.40}");
            }
        }
        let mut old = server.connect();
        old.send(b"GET /unread HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(old.response().header("connection").as_deref(), Some("keep-alive"), "{model}");

        // Of these nobody knows where the next request begins, or it is not worth the reading.
        for request in [
            "POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n",
            "POST /unread HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
            "POST /too-large HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        ] {
            let mut client = server.connect();
            client.send(request.as_bytes());
            let answer = client.response();
            assert!(answer.status >= 400 && !answer.keep_alive, "{model}: {request}: {}", answer.head);
            client.assert_closed(request);
        }
    }
}

#[test]
fn the_answer_to_another_request_is_none() {
    for model in MODELS {
        let kept = std::sync::Mutex::new(None);
        let server = TestServer::of_model(model, move |request, response| match request.path() {
            "/keep" => {
                let (done, mut kept) = (response.send(b"")?, kept.lock().unwrap());
                *kept = Some(done);
                Err(io::Error::other("it was answered, and fails all the same"))
            }
            _ => Ok(kept.lock().unwrap().take().unwrap()),
        });
        let mut client = server.connect();
        client.send(&get("/keep"));
        client.assert_ends();
        let mut client = server.connect();
        client.send(&get("/use"));
        let answer = client.response();
        assert_eq!((answer.status, answer.text().as_str()), (500, "the handler did not answer\n"), "{model}");
    }
}

#[test]
fn an_upgrade_is_granted_after_101_and_hands_over_every_byte() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let mut stream =
                response.header("x-accept", "yes")?.upgrade(request, "echo").map_err(io::Error::other)?;
            let mut line = [0; 5];
            stream.read_exact(&mut line)?;
            stream.write_all(&line)?;
            stream.read_exact(&mut line)?;
            stream.write_all(&line)?;
            Ok(stream.finish())
        });
        let mut client = server.connect();
        // The first bytes of the new protocol come together with the request.
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c, Echo\r\n\r\nearly");
        let answer = client.response();
        assert_eq!((answer.status, answer.header("x-accept").as_deref()), (101, Some("yes")), "{model:?}");
        assert!(answer.head.contains("Connection: upgrade\r\n") && answer.head.contains("Upgrade: echo\r\n"));
        client.send(b"later");
        assert_eq!(client.rest(), b"earlylater", "{model:?}");

        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n");
        assert_eq!(client.response().status, 500, "{model:?}: another protocol was asked for");
    }
}

#[test]
fn a_tunnel_cannot_be_granted() {
    for model in MODELS {
        let server = TestServer::of_model(model, |_, response| response.send(b"tunnel"));
        let mut client = server.connect();
        client.send(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
        assert_eq!(client.response().status, 500, "{model}");
    }
}

/// A client that does not read makes the handler wait, and nobody else.
#[test]
fn a_full_socket_holds_up_only_its_own_handler() {
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        let mut slow = server.connect();
        for _ in 0..8 {
            slow.send(&get("/large"));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        server.assert_serves("a client that does not read");
        for _ in 0..8 {
            assert!(slow.response().body == large(), "{model:?}");
        }
    }
}

/// What is answered does not wait for what is not.
#[test]
fn an_answer_goes_out_while_the_next_handler_waits() {
    let server = TestServer::of_model(Model::Coroutines, |request, response| {
        if request.path() == "/wait" {
            straightline::rt::sleep(std::time::Duration::from_secs(2))?;
        }
        response.send(request.path().as_bytes())
    });
    let mut client = server.connect();
    let start = std::time::Instant::now();
    let mut both = get("/now");
    both.extend(get("/wait"));
    client.send(&both);
    assert_eq!(client.response().text(), "/now");
    assert!(start.elapsed() < std::time::Duration::from_millis(1_500), "it waited for the other");
    assert_eq!(client.response().text(), "/wait");
}

/// To close a socket with unread bytes resets the connection, and takes what is on its way along.
#[test]
fn a_last_answer_arrives_whole_though_more_follows_its_request() {
    let ms = std::time::Duration::from_millis;
    for model in MODELS {
        let server = TestServer::of_model(model, move |_, response| {
            straightline::rt::sleep(ms(60))?;
            response.send(&[b'x'; 1_000_000])
        });
        let mut client = server.connect();
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        std::thread::sleep(ms(20));
        client.send(&[b'y'; 1_000]);
        std::thread::sleep(ms(120));
        assert_eq!(client.response().body.len(), 1_000_000, "{model:?}");
        client.assert_closed("it was asked for");
    }
}

/// However fast the client takes it, a body does not hold the shard until its last byte.
#[test]
fn a_large_body_gives_others_their_turn() {
    let server = TestServer::new(|_, response| {
        let mut response = response.header("content-length", "1048576")?.start()?;
        (0..64).try_for_each(|_| response.write_all(&[b'x'; 16 * 1024]))?;
        response.end()
    });
    let mut client = server.connect();
    client.send(&get("/"));
    assert_eq!(client.response().body.len(), 1 << 20);
    assert!(server.metric("suspensions_total") >= 3, "one for each quarter but the last");
}

#[test]
fn an_upload_gives_others_their_turn() {
    const UPLOAD: usize = 8 << 20;
    let server = TestServer::new(|request, response| {
        // Slower than the client, so that there is always more to receive.
        let (mut piece, mut sum) = ([0; 512], 0);
        loop {
            match request.read(&mut piece)? {
                0 => return response.send(sum.to_string().as_bytes()),
                count => sum += piece[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>(),
            }
        }
    });
    let mut client = server.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {UPLOAD}\r\n\r\n").as_bytes());
    client.send(&vec![1; UPLOAD]);
    assert_eq!(client.response().text(), UPLOAD.to_string());
    // A read may take a buffer more than a quarter of a megabyte.
    assert!(server.metric("suspensions_total") >= 25, "{}", server.metric("suspensions_total"));
}
