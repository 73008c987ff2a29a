//! Requests, good and bad, and what must come of each.

/// One request, and what must come of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) request: &'static [u8],
    pub(crate) status: u16,
}

const fn case(name: &'static str, request: &'static [u8], status: u16) -> Case {
    Case { name, request, status }
}

/// Requests that are refused, each with what follows it: the answer says `Connection: close`, and nothing of the
/// rest is taken for another request.
pub(crate) const REFUSED: &[Case] = &[
    case(
        "Content-Length together with Transfer-Encoding",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    case(
        "Transfer-Encoding together with Content-Length",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
        400,
    ),
    case(
        "Transfer-Encoding: gzip, chunked",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "Transfer-Encoding: identity",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n\r\n",
        501,
    ),
    case(
        "Transfer-Encoding: xchunked",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "Transfer-Encoding: chunked twice on one line",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "Transfer-Encoding: chunked on two lines",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "an empty Transfer-Encoding",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "Transfer-Encoding on HTTP/1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    case(
        "Content-Length repeated, the same",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
        400,
    ),
    case(
        "Content-Length repeated, different",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
    ),
    case("Content-Length listed", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\na", 400),
    case("Content-Length +1", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na", 400),
    case("Content-Length -1", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\na", 400),
    case("Content-Length with a space", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1 0\r\n\r\na", 400),
    case("Content-Length 0x1", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0x1\r\n\r\na", 400),
    case("an empty Content-Length", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n", 400),
    case(
        "Content-Length of 2^63",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9223372036854775808\r\n\r\n",
        400,
    ),
    case(
        "Content-Length of 2^64",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551616\r\n\r\n",
        400,
    ),
    case("a bare CR in a value", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n", 400),
    case("a bare CR as line end", b"GET / HTTP/1.1\rHost: x\r\r", 400),
    case("a bare LF after the request line", b"GET / HTTP/1.1\nHost: x\r\n\r\n", 400),
    case("a bare LF after a field", b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    case("a bare LF as blank line", b"GET / HTTP/1.1\r\nHost: x\r\n\n", 400),
    case("NUL in a value", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
    case("NUL in a name", b"GET / HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n", 400),
    case("NUL in the target", b"GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("a control character in a value", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x01c\r\n\r\n", 400),
    case("DEL in a value", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x7f\r\n\r\n", 400),
    case("a space before the colon", b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
    case("a tab before the colon", b"GET / HTTP/1.1\r\nHost: x\r\nA\t: b\r\n\r\n", 400),
    case("a folded field", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n", 400),
    case("a field that begins folded", b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    case("an empty name", b"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", 400),
    case("a field without a colon", b"GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", 400),
    case("a bad method token", b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("no method", b" / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("two spaces before the target", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("two spaces after the target", b"GET /  HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("Host missing", b"GET / HTTP/1.1\r\nA: b\r\n\r\n", 400),
    case("Host repeated", b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    case("an empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    case("Host with a path", b"GET / HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
    case("Host with a space", b"GET / HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
    case("Host with user information", b"GET / HTTP/1.1\r\nHost: user@x\r\n\r\n", 400),
    case("user information in the target", b"GET http://user:pw@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("a fragment", b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("a target that is not ASCII", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("a target without a slash", b"GET a HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("HTTP/2.0", b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    case("half of the preface of HTTP/2", b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    case("HTTP/0.9", b"GET / HTTP/0.9\r\n\r\n", 505),
    case("no version", b"GET /\r\n\r\n", 400),
    case("lower-case http", b"GET / http/1.1\r\nHost: x\r\n\r\n", 400),
    case("two CRLF before a request", b"\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    case("the hello of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
];

/// Chunked bodies that are refused.
pub(crate) const BAD_CHUNKS: &[(&str, &[u8])] = &[
    ("a size with a plus", b"+1\r\na\r\n0\r\n\r\n"),
    ("a size with a minus", b"-1\r\na\r\n0\r\n\r\n"),
    ("a size of 0x1", b"0x1\r\na\r\n0\r\n\r\n"),
    ("a size with an underscore", b"1_0\r\na\r\n0\r\n\r\n"),
    ("a size with a space before it", b" 1\r\na\r\n0\r\n\r\n"),
    ("a size with a space after it", b"1 \r\na\r\n0\r\n\r\n"),
    ("a size of 17 digits", b"00000000000000001\r\na\r\n0\r\n\r\n"),
    ("a size over 2^63", b"ffffffffffffffff\r\na\r\n0\r\n\r\n"),
    ("an empty size", b"\r\na\r\n0\r\n\r\n"),
    ("an empty size with an extension", b";a=b\r\na\r\n0\r\n\r\n"),
    ("a bare LF after a size", b"1\na\r\n0\r\n\r\n"),
    ("a bare LF in an extension", b"1;a\nb\r\na\r\n0\r\n\r\n"),
    ("a bare CR in an extension", b"1;a\rb\r\na\r\n0\r\n\r\n"),
    ("data not followed by CRLF", b"1\r\nab\r\n0\r\n\r\n"),
    ("data followed by a bare LF", b"1\r\na\n0\r\n\r\n"),
    ("a bare LF after the last chunk", b"0\n\r\n"),
    ("a bare LF as the end", b"0\r\n\n"),
    ("a trailer without a colon", b"0\r\nbad\r\n\r\n"),
];

/// Requests that are accepted, and what the handler sees.
pub(super) const ACCEPTED: &[(&str, &[u8], &str)] = &[
    ("a plain GET", b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b=c 0"),
    ("one CRLF before a request", b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "GET / 0"),
    ("blank space around a value", b"GET / HTTP/1.1\r\nHost: \t x \t \r\n\r\n", "GET / 0"),
    ("an absolute target", b"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://x/a 0"),
    ("OPTIONS of the server", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "OPTIONS * 0"),
    ("an unknown method", b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", "BREW / 0"),
    ("HTTP/1.2", b"GET / HTTP/1.2\r\nHost: x\r\n\r\n", "GET / 0"),
    ("a body with a length", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", "POST / 3"),
    (
        "a chunked body",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\n\r\n2\r\nab\r\n00A;x=y\r\n0123456789\r\n0\r\n\r\n",
        "POST / 12",
    ),
    (
        "trailers",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n\r\n",
        "POST / 1",
    ),
    ("a value that is not ASCII", b"GET / HTTP/1.1\r\nHost: x\r\nA: \xff\r\n\r\n", "GET / 0"),
];

/// What was wrong in other servers, each with the request that shows it.
pub(super) const ADVISORIES: &[Case] = &[
    case(
        "CVE-2021-21299 (hyper): several Transfer-Encoding lines and a Content-Length",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "CVE-2021-32715 (hyper): a plus before the length",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
        400,
    ),
    case(
        "CVE-2021-38512 (actix-http): a length and chunked on one request",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
        400,
    ),
    case(
        "CVE-2020-35884 (tiny_http): a Transfer-Encoding that only ends in chunked",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zchunked\r\n\r\n0\r\n\r\n",
        501,
    ),
    case(
        "CVE-2026-2835 (pingora): HTTP/1.0 with chunked, whose body would be read until the end",
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\nGET /no HTTP/1.1\r\nHost: x\r\n\r\n",
        400,
    ),
];

/// The same for chunked bodies.
pub(super) const CHUNK_ADVISORIES: &[(&str, &[u8])] = &[
    ("CVE-2021-32714 (hyper): a size that overflows", b"f0000000000000003\r\nabc\r\n0\r\n\r\n"),
    ("CVE-2025-22871 (Go): a bare LF after a size", b"3\nabc\r\n0\r\n\r\n"),
    ("CVE-2025-55315 (Kestrel): a bare LF in an extension", b"3;\nxx\r\nabc\r\n0\r\n\r\n"),
];
