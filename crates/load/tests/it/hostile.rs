//! Servers that send what they should not: each costs what it costs, wherever the bytes are cut.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use model::plan::SplitMix64;

use crate::framing::{Verdict, check};

const OK: &str = "HTTP/1.1 200 OK\r\n";

/// Answers, malformed ones, requests lost, and whether the connection could go on.
type Cost = (u64, u64, u64, bool);

fn cost(bytes: &[u8], head: bool) -> Cost {
    let Verdict { answers, malformed, lost, kept } = check(bytes, head);
    (answers, malformed, lost, kept)
}

/// What a server sends, whether to HEAD, and what that costs.
type Fault = (&'static str, String, bool, Cost);

/// Four requests were sent. What is malformed costs one, and those behind it are lost with the connection.
fn faults_of_heads() -> Vec<Fault> {
    let long = "x".repeat(40_000);
    vec![
        ("nothing", String::new(), false, (0, 0, 4, true)),
        ("four answers", format!("{OK}Content-Length: 1\r\n\r\nx").repeat(4), false, (4, 0, 0, true)),
        ("five answers", format!("{OK}Content-Length: 1\r\n\r\nx").repeat(5), false, (4, 1, 0, false)),
        ("garbage", "\0\u{1}\u{2}\r\n\r\n".to_owned(), false, (0, 1, 3, false)),
        ("another protocol", "SSH-2.0-OpenSSH_9.2\r\n".to_owned(), false, (0, 1, 3, false)),
        ("an endless head", format!("{OK}X: {long}"), false, (0, 1, 3, false)),
        ("an endless status line", format!("HTTP/1.1 200 {long}"), false, (0, 1, 3, false)),
        ("too many fields", format!("{OK}{}\r\n", "X: y\r\n".repeat(2_000)), false, (0, 1, 3, false)),
        ("a length that is none", format!("{OK}Content-Length: 1x\r\n\r\n"), false, (0, 1, 3, false)),
        (
            "two lengths",
            format!("{OK}Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a length beyond 64 bits",
            format!("{OK}Content-Length: 99999999999999999999\r\n\r\n"),
            false,
            (0, 1, 3, false),
        ),
    ]
}

/// Faults of the body, and answers that are right but rare.
fn faults_of_bodies() -> Vec<Fault> {
    let long = "x".repeat(40_000);
    vec![
        ("too short a length", format!("{OK}Content-Length: 2\r\n\r\nhello"), false, (1, 1, 2, false)),
        ("too long a length", format!("{OK}Content-Length: 9\r\n\r\nhello"), false, (0, 0, 4, true)),
        (
            "a huge chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a chunk size that is none",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "an endless chunk size",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n1;{long}"),
            false,
            (0, 1, 3, false),
        ),
        (
            "endless trailers",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n0\r\nX: {long}"),
            false,
            (0, 1, 3, false),
        ),
        (
            "no end of a chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n"),
            false,
            (0, 1, 3, false),
        ),
        (
            "a close in a chunk",
            format!("{OK}Transfer-Encoding: chunked\r\n\r\n5\r\nhe"),
            false,
            (0, 0, 4, true),
        ),
        ("a switch unasked", "HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(), false, (0, 1, 3, false)),
        ("early hints without end", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(500), false, (0, 0, 4, true)),
        ("a body until the end", format!("{OK}\r\nhello"), false, (1, 0, 0, true)),
        ("a body to HEAD", format!("{OK}Content-Length: 5\r\n\r\nhello"), true, (1, 1, 2, false)),
        ("no body to HEAD", format!("{OK}Content-Length: 5\r\n\r\n").repeat(4), true, (4, 0, 0, true)),
        (
            "a close announced",
            format!("{OK}Connection: close\r\nContent-Length: 0\r\n\r\n"),
            false,
            (1, 0, 0, false),
        ),
    ]
}

#[test]
fn each_fault_costs_what_it_must() {
    for (name, bytes, head, wanted) in faults_of_heads().into_iter().chain(faults_of_bodies()) {
        assert_eq!(cost(bytes.as_bytes(), head), wanted, "{name}");
    }
}

/// Whole answers, with which inputs begin.
const WHOLE: [&str; 4] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
];

/// Parts of answers, from which the rest is made.
const PARTS: [&str; 22] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 Not Modified\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "X: y\r\n",
    "\r\n",
    "hello",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "0\r\nX: y\r\n\r\n",
    "ffffffffffffffff\r\n",
    "1;a=b\r\nx\r\n",
    "\n",
    "\0",
];

/// What one input is made of: whole answers, parts of others, and bytes that were exchanged.
fn generated(random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(3) {
        bytes.extend_from_slice(WHOLE[random.below(WHOLE.len() as u64) as usize].as_bytes());
    }
    for _ in 0..=random.below(8) {
        bytes.extend_from_slice(PARTS[random.below(PARTS.len() as u64) as usize].as_bytes());
    }
    for _ in 0..random.below(3) {
        let place = random.below(bytes.len() as u64) as usize;
        bytes[place] = random.below(256) as u8;
    }
    bytes
}

/// Generated inputs for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (0 by default) on, and at least
/// so many. `FUZZ_SECONDS=60 cargo test --release -p whyslow-load hostile -- --nocapture` is what CI runs.
#[test]
#[expect(clippy::print_stdout, reason = "a check says how much it checked")]
fn no_bytes_at_all_do_more_than_end_a_connection() {
    const INPUTS: u64 = 1_000;
    let number =
        |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"));
    let (time, first) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 0));
    let (start, mut inputs, mut answered, mut refused) = (Instant::now(), 0, 0, 0);
    while inputs < INPUTS || start.elapsed() < time {
        let seed = first + inputs;
        let bytes = generated(&mut SplitMix64::fork(seed, "hostile", 0));
        let verdict = catch_unwind(|| check(&bytes, seed % 8 == 0))
            .unwrap_or_else(|_| panic!("seed {seed}: \"{}\"", bytes.escape_ascii()));
        inputs += 1;
        answered += u64::from(verdict.answers > 0);
        refused += u64::from(verdict.malformed > 0);
    }
    println!(
        "hostile answers, {} s: {inputs} inputs, {answered} answered, {refused} refused",
        time.as_secs()
    );
    // Inputs that say nothing of either would prove nothing.
    assert!(answered > inputs / 20 && refused > inputs / 20, "{answered} answered, {refused} refused");
}
