//! Where one request ends and the next begins.

use script::{CutError, requests};

fn cut(text: &str) -> Result<Vec<String>, CutError> {
    requests(text.as_bytes())
        .map(|part| part.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
        .collect()
}

const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const POST: &str = "POST /a HTTP/1.1\r\nhost: x\r\ncontent-length:  5 \r\n\r\nhel\r\n";
const CHUNKED: &str =
    "PUT /a HTTP/1.1\r\nTransfer-Encoding: Chunked\r\nContent-Length: 1\r\n\r\n3\r\nabc\r\n0\r\nT: x\r\n\r\n";
const BARE: &str = "GET / HTTP/1.0\nHost: x\n\n";

#[test]
fn requests_are_cut_at_their_ends() {
    let all = [GET, POST, CHUNKED, BARE];
    for first in all {
        for second in all {
            for third in all {
                assert_eq!(
                    cut(&[first, second, third].concat()),
                    Ok([first, second, third].map(str::to_owned).to_vec())
                );
            }
        }
    }
}

#[test]
fn blank_lines_stay_with_the_request_before() {
    assert_eq!(
        cut(&format!("\r\n{GET}\r\n\n{GET}\r\n")),
        Ok(vec![format!("\r\n{GET}\r\n\n"), format!("{GET}\r\n")])
    );
}

#[test]
fn what_does_not_end_is_refused() {
    let cases = [
        ("", CutError::Empty),
        ("\r\n", CutError::Empty),
        ("GET /\r\n\r\n", CutError::FirstLine),
        ("GET / FTP/1.1\r\n\r\n", CutError::FirstLine),
        ("G(T / HTTP/1.1\r\n\r\n", CutError::FirstLine),
        ("GET / HTTP/1.1", CutError::EndlessHead),
        ("GET / HTTP/1.1\r\nHost: x\r\n", CutError::EndlessHead),
        ("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", CutError::Length),
        ("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", CutError::Length),
        ("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhell", CutError::ShortBody),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhell", CutError::Chunks),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", CutError::Chunks),
    ];
    for (text, error) in cases {
        assert_eq!(cut(text), Err(error), "{text:?}");
        assert_eq!(
            cut(&format!("{GET}{text}")).err(),
            Some(error).filter(|_| !text.trim().is_empty()),
            "{text:?} as the second"
        );
    }
}
