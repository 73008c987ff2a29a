//! The protocol, line by line: what is refused, what is tolerated, and where a message ends.

pub(crate) mod cases;

use crate::support::{Client, MODELS, TestServer, echo};
use cases::{ACCEPTED, ADVISORIES, BAD_CHUNKS, CHUNK_ADVISORIES, Case, REFUSED};
use std::io;
use std::time::Duration;

#[test]
fn hostile_heads_are_refused_and_the_client_can_read_why() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        for Case { name, request, status } in REFUSED {
            let mut client = server.connect();
            client.send(request);
            let answer = client.response();
            assert_eq!(answer.status, *status, "{model:?}: {name}: {}", answer.text());
            assert!(!answer.keep_alive, "{model:?}: {name}");
            client.assert_closed(name);
        }
        server.assert_serves("hostile heads");
        assert_eq!(server.metric("requests_total"), 1, "{model:?}: one of them reached the handler");
        assert_eq!(server.metric("refused_total"), REFUSED.len() as u64);
    }
}

/// However it comes: what no head may have is refused when it is there.
#[test]
fn hostile_heads_in_two_pieces_are_refused_alike() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let refused = |name: &str, first: &[u8], second: &[u8], status: u16| {
            let mut client = server.connect();
            client.stream.set_nodelay(true).unwrap();
            client.send(first);
            std::thread::sleep(Duration::from_millis(2));
            client.send(second);
            assert_eq!(client.response().status, status, "{model:?}: {name}, cut at {}", first.len());
            client.assert_closed(name);
        };
        for Case { name, request, status } in REFUSED {
            for cut in [request.len() / 2, request.len() - 1] {
                refused(name, &request[..cut], &request[cut..], *status);
            }
        }
        // No line ends after the cut.
        refused("a bare CR", b"GET / HTTP/1.1", b"\rHost: x", 400);
        refused("a NUL", b"GET /", b"\0", 400);
        assert_eq!(server.metric("requests_total"), 0, "{model:?}: one of them reached the handler");
    }
}

#[test]
fn a_refusal_is_readable_also_while_the_client_still_sends() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        let mut request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\n".to_vec();
        request.resize(4 * 1024 * 1024, b'x');
        client.send(&request);
        assert_eq!(client.response().status, 400, "{model}");
    }
}

#[test]
fn hostile_chunks_are_refused() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        for (name, body) in BAD_CHUNKS {
            let mut client = server.connect();
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(body);
            let answer = client.response();
            assert_eq!(answer.status, 400, "{model:?}: {name}");
            assert!(!answer.keep_alive, "{model:?}: {name}");
            client.assert_closed(name);
        }
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;");
        client.send(&vec![b'a'; 5 * 1024]);
        assert_eq!(client.response().status, 400, "{model:?}: an extension of 5 KiB");
        server.assert_serves("hostile chunks");
    }
}

#[test]
fn good_requests_are_answered_however_they_are_cut() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        for (name, request, seen) in ACCEPTED {
            client.send(request);
            let answer = client.response();
            assert_eq!((answer.status, answer.text()), (200, seen.to_string()), "{model:?}: {name}");
            assert!(answer.keep_alive, "{model:?}: {name}");
            client.send_slowly(request);
            assert_eq!(client.response().text(), *seen, "{model:?}: {name}, byte by byte");
        }
    }
}

#[test]
fn path_query_and_host_are_told_apart() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let said = format!("{:?} {:?} {:?}", request.path(), request.query(), request.host());
            // One that CONNECT allows as well.
            response.status(404).send(said.as_bytes())
        });
        for (request, path, query, host) in [
            ("GET /a/b HTTP/1.1\r\nHost: x", "/a/b", None, "x"),
            ("GET /a?b=c&d HTTP/1.1\r\nHost: example.com:8080", "/a", Some("b=c&d"), "example.com:8080"),
            ("GET /a? HTTP/1.1\r\nHost: \t [::1]:80 \t ", "/a", Some(""), "[::1]:80"),
            ("GET /?/b?c=%3F/../d HTTP/1.1\r\nHost: X.y", "/", Some("/b?c=%3F/../d"), "X.y"),
            ("GET //a%3Fb/../c HTTP/1.1\r\nHost: 1.2.3.4", "//a%3Fb/../c", None, "1.2.3.4"),
            ("GET http://o:81/p?q HTTP/1.1\r\nHost: x", "/p", Some("q"), "o:81"),
            ("GET http://o HTTP/1.1\r\nHost: x", "/", None, "o"),
            ("GET HTTPS://o?q HTTP/1.1\r\nHost: x", "/", Some("q"), "o"),
            ("OPTIONS * HTTP/1.1\r\nHost: x", "*", None, "x"),
            ("CONNECT o:443 HTTP/1.1\r\nHost: x", "", None, "o:443"),
            ("GET /a?b HTTP/1.0", "/a", Some("b"), ""),
            ("GET /a?b HTTP/1.0\r\nHost: x", "/a", Some("b"), "x"),
        ] {
            let mut client = server.connect();
            client.send(format!("{request}\r\n\r\n").as_bytes());
            let answer = client.response();
            let seen = format!("{path:?} {query:?} {host:?}");
            assert_eq!((answer.status, answer.text()), (404, seen), "{model}: {request}");
        }
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_and_every_body_ends_where_it_says() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        // More than a batch, so that the connection has to wait for its next turn.
        const ROUNDS: usize = 20;
        let mut all = Vec::new();
        for _ in 0..ROUNDS {
            ACCEPTED.iter().for_each(|(_, request, _)| all.extend_from_slice(request));
        }
        let mut sender = client.stream.try_clone().unwrap();
        let writer = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &all).unwrap());
        for round in 0..ROUNDS {
            for (name, _, seen) in ACCEPTED {
                assert_eq!(client.response().text(), *seen, "{model:?}: {name} in round {round}");
            }
        }
        writer.join().unwrap();
    }
}

#[test]
fn requests_that_come_together_are_answered_by_one_write() {
    const TOGETHER: usize = 16;
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(TOGETHER));
        let mut first = [0; 64 * 1024];
        let count = std::io::Read::read(&mut client.stream, &mut first).unwrap();
        let answers = String::from_utf8_lossy(&first[..count]).matches("HTTP/1.1 200 OK").count();
        assert_eq!(answers, TOGETHER, "{model:?}: in the first of what came");
    }
}

#[test]
fn a_head_may_be_in_pieces_at_every_place() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let request =
            b"POST /cut HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        for cut in 1..request.len() {
            let mut client = server.connect();
            client.send(&request[..cut]);
            if cut % 8 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            client.send(&request[cut..]);
            assert_eq!(client.response().text(), "POST /cut 3", "{model}: cut at {cut}");
        }
    }
}

#[test]
fn http_1_0_closes_unless_asked() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(b"GET /one HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let answer = client.response();
        assert_eq!(answer.header("connection").as_deref(), Some("keep-alive"));
        client.send(b"GET /two HTTP/1.0\r\n\r\n");
        let answer = client.response();
        assert_eq!((answer.text().as_str(), answer.keep_alive), ("GET /two 0", false));
        client.assert_closed("HTTP/1.0 without keep-alive");
    }
}

#[test]
fn connection_close_is_honoured() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\nGET /no HTTP/1.1\r\nHost: x\r\n\r\n",
        );
        let answer = client.response();
        assert_eq!(answer.header("connection").as_deref(), Some("close"));
        client.assert_closed("the request after it is not answered");
        server.until("the connection is gone", |server| server.metric("open_connections") == 0);
        assert_eq!(server.metric("requests_total"), 1, "{model}");
    }
}

#[test]
fn expect_is_answered_at_the_first_read_and_not_before() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| match request.path() {
            "/refuse" => response.status(401).send(b"no"),
            "/begun" => {
                let response = response.status(202).header("a", "b")?;
                let read = io::copy(request, &mut io::sink())?;
                response.send(read.to_string().as_bytes())
            }
            _ => echo(request, response),
        });
        let mut client = server.connect();
        client.send(b"POST /begun HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        let go_on = client.response();
        assert_eq!(
            (go_on.status, go_on.header("a")),
            (100, None),
            "{model:?}: before the head that was begun"
        );
        client.send(b"abc");
        let answer = client.response();
        assert_eq!(
            (answer.status, answer.header("a"), answer.text()),
            (202, Some("b".to_owned()), "3".to_owned())
        );

        client.send(b"POST /read HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        assert_eq!(client.response().status, 100, "{model:?}");
        client.send(b"abc");
        assert_eq!(client.response().text(), "POST /read 3", "{model:?}");

        client.send(b"POST /refuse HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
        let answer = client.response();
        assert_eq!(
            (answer.status, answer.keep_alive),
            (401, false),
            "{model:?}: whether a body follows is unknown"
        );
        client.assert_closed("after an expectation that was not met");
    }
}

#[test]
fn expect_is_not_answered_when_the_body_is_there_already() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
        assert_eq!(client.response().text(), "POST / 3", "{model}");
    }
}

#[test]
fn unread_bodies_are_drained_up_to_the_limit() {
    for model in MODELS {
        let server = TestServer::of_model(model, |_, response| response.send(b"unread"));
        let mut client = server.connect();
        let mut request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n".to_vec();
        request.resize(request.len() + 200_000, b'x');
        request.extend_from_slice(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n");
        client.send(&request);
        assert!(client.response().keep_alive, "{model:?}");
        assert_eq!(client.response().text(), "unread", "{model:?}: the body was not taken for a request");

        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n");
        let answer = client.response();
        assert!(!answer.keep_alive, "{model:?}: more than is drained");

        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(client.response().text(), "unread", "{model:?}");
        for _ in 0..40 {
            client.send(b"4000\r\n");
            client.send(&[b'x'; 0x4000]);
            client.send(b"\r\n");
        }
        client.assert_ends();
    }
}

#[test]
fn each_advisory_is_refused() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        for Case { name, request, status } in ADVISORIES {
            let mut client = server.connect();
            client.send(request);
            assert_eq!(client.response().status, *status, "{model}: {name}");
            client.assert_closed(name);
        }
        for (name, body) in CHUNK_ADVISORIES {
            let mut client = server.connect();
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(body);
            assert_eq!(client.response().status, 400, "{model}: {name}");
            client.assert_closed(name);
        }
    }
}

/// CVE-2023-39326 (Go): many small chunks with long extensions cost much and carry little.
#[test]
fn a_flood_of_extensions_is_refused() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        let mut chunk = b"1;".to_vec();
        chunk.resize(102, b'e');
        chunk.extend_from_slice(b"\r\na\r\n");
        for _ in 0..200 {
            client.send(&chunk);
        }
        assert_eq!(client.response().status, 400, "{model}");
    }
}

/// CVE-2020-26281 (async-h1) and CVE-2025-4366 (pingora): a body the handler left unread, taken for a request.
#[test]
fn an_unread_body_is_never_a_request() {
    for model in MODELS {
        let server =
            TestServer::of_model(model, |request, response| response.send(request.path().as_bytes()));
        let mut client = server.connect();
        let forged = b"GET /forged HTTP/1.1\r\nHost: x\r\n\r\n";
        client.send(
            format!("POST /one HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", forged.len()).as_bytes(),
        );
        client.send(forged);
        client.send(b"GET /two HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.response().text(), "/one");
        assert_eq!(client.response().text(), "/two", "{model:?}");
    }
}

/// CVE-2020-35863 (hyper): the body of a GET, taken for a request.
#[test]
fn the_body_of_a_get_is_never_a_request() {
    let forged = "GET /forged HTTP/1.1\r\nHost: x\r\n\r\n";
    let length = forged.len();
    let bodies = [
        format!("Content-Length: {length}\r\n\r\n{forged}"),
        format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{forged}\r\n0\r\n\r\n"),
    ];
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| match request.path() {
            "/unread" => response.send(b"unread"),
            _ => echo(request, response),
        });
        let mut client = server.connect();
        for body in &bodies {
            for (path, seen) in [("/unread", "unread".to_owned()), ("/read", format!("GET /read {length}"))] {
                client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n{body}").as_bytes());
                client.send(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n");
                assert_eq!(client.response().text(), seen, "{model:?}");
                assert_eq!(client.response().text(), "GET /next 0", "{model:?}: after {path}");
            }
        }
    }
}

/// CVE-2017-18587 (hyper): a line end in the value of a field of the answer, which began a field of the client's choice.
#[test]
fn a_value_with_a_line_end_is_never_sent() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let name = request.path()[1..].replace("%0D", "\r").replace("%0A", "\n");
            response.header("set-cookie", format!("name={name}"))?.send(b"")
        });
        let mut client = server.connect();
        for (path, status) in [
            ("/Sean", 200),
            ("/Sean%0D%0ALocation:/", 500),
            ("/Sean%0ALocation:/", 500),
            ("/Sean%0DLocation:/", 500),
            ("/Sean%0D%0A%0D%0A<p>", 500),
        ] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            let answer = client.response();
            assert_eq!((answer.status, answer.header("location")), (status, None), "{model}: {path}");
            assert_eq!(answer.header("set-cookie").is_some(), status == 200, "{model}: {path}");
        }
    }
}

/// CVE-2026-2833 (pingora): bytes after a request that asks for an upgrade are HTTP until the upgrade was granted.
#[test]
fn a_refused_upgrade_leaves_http() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client = server.connect();
        client.send(b"GET /one HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        client.send(b"GET /two HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.response().text(), "GET /one 0", "{model}");
        assert_eq!(client.response().text(), "GET /two 0", "{model}");
    }
}

/// CVE-2023-38697 (protocol-http1 of Ruby): sizes and lengths that are not plain digits, and an empty `0x` chunk.
#[test]
fn numbers_are_plain_digits() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        for length in ["0x3", "3_0", "3,", "\u{663}", "3.0", "3e0"] {
            let mut client = server.connect();
            client.send(
                format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\nabc").as_bytes(),
            );
            assert_eq!(client.response().status, 400, "{model}: Content-Length: {length}");
        }
        for size in ["0x0", "0X3", "+0", "0_0"] {
            let mut client = server.connect();
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(format!("{size}\r\n\r\n").as_bytes());
            assert_eq!(client.response().status, 400, "{model}: a chunk of size {size}");
        }
    }
}

#[test]
fn trailers_never_become_headers() {
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let mut body = Vec::new();
            std::io::Read::read_to_end(request, &mut body)?;
            let trailers: Vec<String> = request
                .trailers()
                .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value)))
                .collect();
            let header = request.header("x-admin").unwrap_or("none");
            response.send(format!("{header}; {}", trailers.join(",")).as_bytes())
        });
        let mut client = server.connect();
        client.send(
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Admin: yes\r\nB: c\r\n\r\n",
    );
        assert_eq!(client.response().text(), "none; X-Admin=yes,B=c", "{model}");
    }
}

#[test]
fn a_half_closed_client_gets_its_answer() {
    for model in MODELS {
        let server = TestServer::of_model(model, echo);
        let mut client: Client = server.connect();
        client.send(b"GET /half HTTP/1.1\r\nHost: x\r\n\r\n");
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.response().text(), "GET /half 0", "{model:?}");
        client.assert_closed("nothing more was asked");
    }
}
