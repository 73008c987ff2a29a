//! Messages made at random: mostly good ones from common parts, some with faults, some with bytes changed.

use crate::support::Random;

const METHODS: &[&str] = &["GET", "POST", "HEAD", "OPTIONS", "CONNECT", "get", "M-SEARCH", "A", "PRI"];

const TARGETS: &[&str] = &[
    "/",
    "/a/b?c=d",
    "*",
    "http://a.example/b",
    "https://h:8080?q",
    "a.example:443",
    "[::1]:80",
    "//",
    "/a#b",
    "/%zz",
    "http://u@h/",
    "/|{}\"",
    "",
];

const VERSIONS: &[&str] =
    &["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/1.10"];

const STATUSES: &[&str] =
    &["200 OK", "404 Not Found", "204 No Content", "304 ", "100 Continue", "101", "200", "099 X"];

const NAMES: &[&str] = &[
    "Host",
    "host",
    "Content-Length",
    "CONTENT-LENGTH",
    "Transfer-Encoding",
    "transfer-encoding",
    "Connection",
    "Expect",
    "Upgrade",
    "Accept",
    "User-Agent",
    "Cookie",
    "X",
    "x_y.z~1",
    "Date",
    "Server",
    "Content-Type",
];

const VALUES: &[&str] = &[
    "h",
    "127.0.0.1:8080",
    "0",
    "5",
    "13",
    "007",
    "9223372036854775807",
    "9223372036854775808",
    "+5",
    "5, 5",
    "chunked",
    "Chunked",
    "gzip, chunked",
    "identity",
    "close",
    "keep-alive",
    "keep-alive, Upgrade",
    "upgrade",
    "websocket",
    "100-continue",
    "text/html,application/xhtml+xml;q=0.9",
    "a\tb",
    "\u{e9}~",
    "",
    "  padded \t",
    "[::1]",
    "a b",
];

const SIZES: &[&str] =
    &["0", "1", "5", "a", "D", "10", "00", "+1", "0x1", "1_0", " 1", "ffffffffffffffff", ""];

const EXTENSIONS: &[&str] = &["", "", "", "", ";", ";a=b", ";a=\"b c\"", " ;a", ";\u{e9}\t", ";\u{7f}"];

/// Bytes that parsers treat apart.
const BYTES: &[u8] = b"\r\n\0\t :;,#?@/%*[]\"+-_09afxzAZ~\x0b\x1f\x7f\x80\xff";

/// A request head and a few bytes after it.
pub(crate) fn request(random: &mut Random) -> Vec<u8> {
    let mut text = String::new();
    if random.once_in(10) {
        text.push_str(line_end(random));
    }
    let target = if random.once_in(3) { random.pick(TARGETS) } else { "/plaintext" };
    let method = if random.once_in(3) { random.pick(METHODS) } else { "GET" };
    text.push_str(&format!("{method} {target} {}", random.pick(VERSIONS)));
    text.push_str(line_end(random));
    if !random.once_in(8) {
        text.push_str("Host: h\r\n");
    }
    head_and_tail(text, random)
}

/// A response head and a few bytes after it.
pub(crate) fn response(random: &mut Random) -> Vec<u8> {
    let version = if random.once_in(6) { random.pick(VERSIONS) } else { "HTTP/1.1" };
    let mut text = format!("{version} {}", random.pick(STATUSES));
    text.push_str(line_end(random));
    head_and_tail(text, random)
}

/// A chunked body and a few bytes after it.
pub(crate) fn chunked(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(5) {
        let length = random.below(40);
        let size = if random.once_in(12) { random.pick(SIZES).to_string() } else { format!("{length:x}") };
        bytes.extend_from_slice(size.as_bytes());
        bytes.extend_from_slice(random.pick(EXTENSIONS).as_bytes());
        bytes.extend_from_slice(line_end(random).as_bytes());
        bytes.extend((0..length).map(|_| random.next() as u8));
        bytes.extend_from_slice(line_end(random).as_bytes());
    }
    bytes.extend_from_slice(b"0\r\n");
    let trailers = random.below(3);
    bytes.extend_from_slice(fields(trailers, random).as_bytes());
    bytes.extend_from_slice(b"\r\nGET");
    mutated(bytes, random)
}

fn head_and_tail(mut text: String, random: &mut Random) -> Vec<u8> {
    let count = if random.once_in(200) { 95 + random.below(10) } else { random.below(6) };
    text.push_str(&fields(count, random));
    text.push_str("\r\n");
    text.push_str(random.pick(&["", "", "x", "\r\n", "GET / HTTP/1.1\r\n"]));
    mutated(text.into_bytes(), random)
}

fn fields(count: usize, random: &mut Random) -> String {
    let colons: &[&str] = &[": ", ": ", ": ", ": ", ": ", ":", ":\t", " : ", ""];
    (0..count)
        .map(|_| {
            let (name, colon, value) = (random.pick(NAMES), random.pick(colons), random.pick(VALUES));
            format!("{name}{colon}{value}{}", line_end(random))
        })
        .collect()
}

fn line_end(random: &mut Random) -> &'static str {
    if random.once_in(40) { random.pick(&["\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\0\r\n"]) } else { "\r\n" }
}

/// `bytes`, every other time with up to four changes.
fn mutated(mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if random.once_in(2) {
        for _ in 0..=random.below(4) {
            mutate(&mut bytes, random);
        }
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let byte = if random.once_in(4) { random.next() as u8 } else { BYTES[random.below(BYTES.len())] };
    let end = bytes.len().min(at + random.below(20));
    match random.below(6) {
        0 => bytes.insert(at, byte),
        1 if at < bytes.len() => bytes[at] = byte,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        _ if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        _ => bytes.push(byte),
    }
}
