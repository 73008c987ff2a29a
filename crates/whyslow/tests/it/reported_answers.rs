//! Answers that other tools were reported to read wrongly. docs/benchmarks/reports.md lists them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::reported::{errors, load};
use crate::support::whyslow;

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// It waits for the next request.
    Waits,
    /// It is closed in good order after so many answers.
    Closes(u32),
    /// It is reset after so many answers, when the next request has come.
    Resets(u32),
}

/// Answers each head by `answer`, cut into two writes at `cut`.
fn answering(answer: Vec<u8>, cut: usize, after: After) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || talk(stream, &answer, cut, after));
        }
    });
    address
}

fn talk(mut stream: TcpStream, answer: &[u8], cut: usize, after: After) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut unread, mut buf, mut answered) = (Vec::new(), [0; 4096], 0);
    loop {
        if after == After::Resets(answered) {
            // What is not read when a socket is closed makes the kernel reset the connection.
            stream.read_exact(&mut [0]).ok()?;
            return None;
        }
        match stream.read(&mut buf).ok()? {
            0 => return None,
            bytes => unread.extend_from_slice(&buf[..bytes]),
        }
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            unread.drain(..end + 4);
            let (first, rest) = answer.split_at(cut.min(answer.len()));
            stream.write_all(first).ok()?;
            stream.write_all(rest).ok()?;
            answered += 1;
            if after == After::Closes(answered) {
                return None;
            }
        }
    }
}

#[test]
fn answers_without_a_body_are_whole() {
    for head in [
        "204 No Content\r\nContent-Encoding: gzip",
        "204 No Content\r\nContent-Length: 5",
        "204 No Content\r\nTransfer-Encoding: chunked",
        "304 Not Modified\r\nContent-Length: 5",
        "304 Not Modified\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip",
        "200 OK\r\nContent-Length: 0\r\nContent-Encoding: gzip",
    ] {
        let address = answering(format!("HTTP/1.1 {head}\r\n\r\n").into_bytes(), 9, After::Waits);
        let json = load(address, &["-t1", "-c2", "--requests", "40", "-d20s"]);
        assert_eq!((json["requests"].as_u64(), errors(&json)), (Some(40), 0), "{head}: {json}");
        assert_eq!(json["connections"]["established"], 2, "{head}: no connection is given up: {json}");
    }
}

#[test]
fn interim_answers_are_none() {
    let length = "Content-Length: 0\r\n\r\n";
    for (answer, after) in [
        (
            format!(
                "HTTP/1.0 102 PROCESSING\r\n{length}HTTP/1.0 303 SEE_OTHER\r\nConnection: close\r\n{length}"
            ),
            After::Closes(1),
        ),
        (format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n{length}"), After::Waits),
        (
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n{length}"
            ),
            After::Waits,
        ),
    ] {
        for cut in [1, 30, answer.len()] {
            let address = answering(answer.clone().into_bytes(), cut, after);
            let json = load(address, &["-t1", "-c2", "--requests", "30", "-d20s"]);
            assert_eq!((json["requests"].as_u64(), errors(&json)), (Some(30), 0), "{answer:?}: {json}");
        }
    }
}

#[test]
fn an_answer_may_be_framed_in_any_way_and_be_of_any_length() {
    let big = 4_000_000;
    let chunk = format!("{big:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(big));
    let cases: [(String, &str, After); 5] = [
        ("Transfer-Encoding: chunked".into(), "2\r\nok\r\n0\r\n\r\n", After::Waits),
        ("Transfer-Encoding: chunked".into(), &chunk, After::Waits),
        (format!("Content-Length: {big}"), &"x".repeat(big), After::Waits),
        ("Connection: close".into(), "until the end", After::Closes(1)),
        ("Connection: close\r\nTransfer-Encoding: chunked".into(), "2\r\nok\r\n0\r\n\r\n", After::Closes(1)),
    ];
    for (field, body, after) in cases {
        let answer = format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n{body}").into_bytes();
        let bytes = answer.len() as u64;
        let address = answering(answer, 20, after);
        let json = load(address, &["-t1", "-c2", "--requests", "12", "-d30s"]);
        assert_eq!((json["requests"].as_u64(), errors(&json)), (Some(12), 0), "{field}: {json}");
        assert_eq!(json["bytes_read"].as_u64(), Some(12 * bytes), "{field}: {json}");
    }
}

#[test]
fn a_server_that_closes_or_resets_connections_ends_no_run() {
    // What is safe to repeat is sent again where its connection was idle before.
    for (after, method) in [(After::Closes(5), "GET"), (After::Resets(5), "POST")] {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec();
        let json = load(answering(answer, 99, after), &["-t2", "-c4", "-R", "100", "-d2s", "-X", method]);
        let number = |name: &str| json[name].as_u64().unwrap();
        assert_eq!(number("requests") + number("unfinished") + errors(&json), 200, "{after:?}: {json}");
        assert!(number("requests") > 100, "most are answered: {json}");
        assert_eq!(errors(&json) > 0, after == After::Resets(5), "{after:?}: {json}");
        assert!(errors(&json) == 0 || json["warnings"].to_string().contains("read"), "{json}");
    }
}

#[test]
fn a_window_over_connections_that_all_close_ends_in_time() {
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok".to_vec();
    let address = answering(answer, 99, After::Closes(1));
    let json = load(address, &["-t1", "-c50", "-d1s", "-H", "Connection: close"]);
    assert!((900_000_000..1_300_000_000).contains(&json["window_ns"].as_u64().unwrap()), "{json}");
    assert!(json["requests"].as_u64() > Some(50) && errors(&json) == 0, "{json}");
}

#[test]
fn a_line_that_is_no_field_is_refused_and_said() {
    // What a line of a configuration that quotes the whole field makes of it.
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\"Connection: close\"\r\n\r\n".to_vec();
    let json = load(answering(answer, 99, After::Waits), &["-t1", "-c1", "--requests", "3", "-d20s"]);
    assert_eq!(json["errors"]["parse"], 3, "{json}");
    assert!(
        json["warnings"].to_string().contains("a field name has a character that is not allowed"),
        "{json}"
    );
}

#[test]
fn connections_that_cannot_be_opened_are_said() {
    // Three are taken; who comes later is refused.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let kept: Vec<TcpStream> =
            (0..3).filter_map(|_| listener.accept().ok()).map(|(stream, _)| stream).collect();
        drop(listener);
        for stream in kept {
            std::thread::spawn(move || {
                talk(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 99, After::Waits)
            });
        }
    });
    let url = format!("http://{address}/");
    let printed = whyslow(&["load", "-t1", "-c200", "-R", "200", "-d1s", "--format", "json", &url]);
    match printed.code {
        Some(0) => {
            let json = printed.json();
            let failed = errors(&json);
            assert!(failed > 0 && !json["warnings"].as_array().unwrap().is_empty(), "{json}");
        }
        _ => assert!(printed.err.lines().count() == 1 && printed.err.contains("connection"), "{printed:?}"),
    }
}
