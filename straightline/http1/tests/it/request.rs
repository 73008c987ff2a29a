//! Heads of requests: what is accepted and as what, what is refused and why.

use crate::parsing::{describe, every_prefix, request};
use http1::FieldError::{self, *};
use http1::request::RequestError::{self, *};

/// Input, and what a handler sees of it. `\n` stands for CRLF, `␍` for a bare CR and `␊` for a bare LF.
const ACCEPTED: &[(&str, &str)] = &[
    ("GET / HTTP/1.1\nHost: h\n\n", "GET Origin / 1.1 @h keep"),
    ("GET /plaintext HTTP/1.1\nHost: 127.0.0.1:8080\n\n", "GET Origin /plaintext 1.1 @127.0.0.1:8080 keep"),
    ("\nGET / HTTP/1.1\nHost: h\n\n", "GET Origin / 1.1 @h keep"),
    ("GET /a/b?c=d&e?f HTTP/1.1\nHost: h\n\n", "GET Origin /a/b 1.1 ?c=d&e?f @h keep"),
    ("GET /? HTTP/1.1\nHost: h\n\n", "GET Origin / 1.1 ? @h keep"),
    ("GET //a HTTP/1.1\nHost: h\n\n", "GET Origin //a 1.1 @h keep"),
    ("GET /%20{}[]|\\^`\"<> HTTP/1.1\nHost: h\n\n", "GET Origin /%20{}[]|\\^`\"<> 1.1 @h keep"),
    ("M-_.!#$%&'*+^`|~9 / HTTP/1.1\nHost: h\n\n", "M-_.!#$%&'*+^`|~9 Origin / 1.1 @h keep"),
    ("get / HTTP/1.1\nHost: h\n\n", "get Origin / 1.1 @h keep"),
    // The other forms.
    ("GET http://a.example/b?c HTTP/1.1\nHost: h\n\n", "GET Absolute /b 1.1 ?c @a.example keep"),
    ("GET HTTPS://a.example:1 HTTP/1.1\nHost: h\n\n", "GET Absolute / 1.1 @a.example:1 keep"),
    ("GET http://a?q HTTP/1.1\nHost: h\n\n", "GET Absolute / 1.1 ?q @a keep"),
    ("CONNECT a.example:443 HTTP/1.1\nHost: h\n\n", "CONNECT Authority  1.1 @a.example:443 keep"),
    ("CONNECT [::1]:443 HTTP/1.1\nHost: h\n\n", "CONNECT Authority  1.1 @[::1]:443 keep"),
    ("OPTIONS * HTTP/1.1\nHost: h\n\n", "OPTIONS Asterisk * 1.1 @h keep"),
    ("OPTIONS /a HTTP/1.1\nHost: h\n\n", "OPTIONS Origin /a 1.1 @h keep"),
    // Versions and connections.
    ("GET / HTTP/1.0\n\n", "GET Origin / 1.0 @ close"),
    ("GET / HTTP/1.0\nConnection: keep-alive\n\n", "GET Origin / 1.0 @ keep"),
    ("GET / HTTP/1.0\nConnection: Keep-Alive, close\n\n", "GET Origin / 1.0 @ close"),
    ("GET / HTTP/1.2\nHost: h\n\n", "GET Origin / 1.2 @h keep"),
    ("GET / HTTP/1.1\nHost: h\nConnection: close\n\n", "GET Origin / 1.1 @h close"),
    ("GET / HTTP/1.1\nHost: h\nconnection: a , CLOSE ,\t\n\n", "GET Origin / 1.1 @h close"),
    ("GET / HTTP/1.1\nHost: h\nConnection: te\nConnection: close\n\n", "GET Origin / 1.1 @h close"),
    ("GET / HTTP/1.1\nHost: h\nConnection: not-close, closed\n\n", "GET Origin / 1.1 @h keep"),
    // Bodies.
    ("GET / HTTP/1.1\nHost: h\nContent-Length: 0\n\n", "GET Origin / 1.1 @h length=0 keep"),
    ("PUT / HTTP/1.1\nHost: h\ncOnTeNt-LeNgTh:\t42 \n\n", "PUT Origin / 1.1 @h length=42 keep"),
    (
        "PUT / HTTP/1.1\nHost: h\nContent-Length: 9223372036854775807\n\n",
        "PUT Origin / 1.1 @h length=9223372036854775807 keep",
    ),
    ("PUT / HTTP/1.1\nHost: h\nContent-Length: 0007\n\n", "PUT Origin / 1.1 @h length=7 keep"),
    ("PUT / HTTP/1.0\nContent-Length: 5\n\n", "PUT Origin / 1.0 @ length=5 close"),
    ("PUT / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n", "PUT Origin / 1.1 @h chunked keep"),
    ("PUT / HTTP/1.1\nHost: h\nTransfer-Encoding: CHUNKED\n\n", "PUT Origin / 1.1 @h chunked keep"),
    (
        "PUT / HTTP/1.1\nHost: h\nContent-Length: 5\nExpect: 100-Continue\n\n",
        "PUT Origin / 1.1 @h length=5 keep expect",
    ),
    ("PUT / HTTP/1.0\nContent-Length: 5\nExpect: 100-continue\n\n", "PUT Origin / 1.0 @ length=5 close"),
    ("GET / HTTP/1.1\nHost: h\nExpect: 100-continue\n\n", "GET Origin / 1.1 @h keep"),
    // Other protocols.
    (
        "GET / HTTP/1.1\nHost: h\nConnection: Upgrade\nUpgrade: websocket\n\n",
        "GET Origin / 1.1 @h keep upgrade",
    ),
    (
        "GET / HTTP/1.1\nHost: h\nUpgrade: websocket\nConnection: keep-alive, Upgrade\n\n",
        "GET Origin / 1.1 @h keep upgrade",
    ),
    ("GET / HTTP/1.1\nHost: h\nConnection: Upgrade\n\n", "GET Origin / 1.1 @h keep"),
    ("GET / HTTP/1.1\nHost: h\nUpgrade: websocket\n\n", "GET Origin / 1.1 @h keep"),
    ("GET / HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket\n\n", "GET Origin / 1.0 @ close"),
    // Hosts.
    ("GET / HTTP/1.1\nHost:\t[2001:db8::1]:80 \n\n", "GET Origin / 1.1 @[2001:db8::1]:80 keep"),
    ("GET / HTTP/1.1\nHost: h:\n\n", "GET Origin / 1.1 @h: keep"),
    ("GET / HTTP/1.1\nHost: h:65535\n\n", "GET Origin / 1.1 @h:65535 keep"),
    ("GET / HTTP/1.1\nHost: a%2Fb_~.!$&'()*+,;=\n\n", "GET Origin / 1.1 @a%2Fb_~.!$&'()*+,;= keep"),
    // Fields that mean nothing here, with all that a value may hold.
    ("GET / HTTP/1.1\nHost: h\nX:\nY: \n~!#$%&'*+-.^_`|9: z\n\n", "GET Origin / 1.1 @h keep"),
    ("GET / HTTP/1.1\nHost: h\nX: a\tb \"é\u{80}ÿ~\" :c\n\n", "GET Origin / 1.1 @h keep"),
    (
        "GET / HTTP/1.1\nHost: h\nX-Content-Length: 5\nContent-Length-X: -1\nTE: gzip\n\n",
        "GET Origin / 1.1 @h keep",
    ),
];

/// Input, and why it is refused.
const REFUSED: &[(&str, RequestError)] = &[
    // The method.
    (" GET / HTTP/1.1\nHost: h\n\n", Method),
    ("\n\nGET / HTTP/1.1\nHost: h\n\n", Method),
    ("␊GET / HTTP/1.1\nHost: h\n\n", Method),
    ("␍GET / HTTP/1.1\nHost: h\n\n", Method),
    ("G\u{0}T / HTTP/1.1\nHost: h\n\n", Method),
    ("G(T / HTTP/1.1\nHost: h\n\n", Method),
    ("GET\t/ HTTP/1.1\nHost: h\n\n", Method),
    ("GET\n\n", Method),
    ("É / HTTP/1.1\nHost: h\n\n", Method),
    // Lengths that agree, which a response may have.
    (
        "GET / HTTP/1.1\nHost: h\nContent-Length: 5\nContent-Length: 5\n\n",
        Field(FieldError::ContentLengthRepeated),
    ),
    // The target.
    ("GET  / HTTP/1.1\nHost: h\n\n", Target),
    ("GET  HTTP/1.1\nHost: h\n\n", Target),
    ("GET a HTTP/1.1\nHost: h\n\n", Target),
    ("GET * HTTP/1.1\nHost: h\n\n", Target),
    ("OPTIONS ** HTTP/1.1\nHost: h\n\n", Target),
    ("GET h:80 HTTP/1.1\nHost: h\n\n", Target),
    ("GET ftp://h/ HTTP/1.1\nHost: h\n\n", Target),
    ("GET http:///a HTTP/1.1\nHost: h\n\n", Target),
    ("GET http://h:x/ HTTP/1.1\nHost: h\n\n", Target),
    ("CONNECT / HTTP/1.1\nHost: h\n\n", Target),
    ("CONNECT h HTTP/1.1\nHost: h\n\n", Target),
    ("CONNECT h: HTTP/1.1\nHost: h\n\n", Target),
    ("CONNECT :80 HTTP/1.1\nHost: h\n\n", Target),
    ("CONNECT http://h:80 HTTP/1.1\nHost: h\n\n", Target),
    ("GET /\tb HTTP/1.1\nHost: h\n\n", Target),
    ("GET /\u{0} HTTP/1.1\nHost: h\n\n", Target),
    ("GET /\u{7f} HTTP/1.1\nHost: h\n\n", Target),
    ("GET /é HTTP/1.1\nHost: h\n\n", TargetNotAscii),
    ("GET /a#b HTTP/1.1\nHost: h\n\n", TargetFragment),
    ("GET http://u@h/ HTTP/1.1\nHost: h\n\n", TargetUserInfo),
    ("GET http://u:p@h/ HTTP/1.1\nHost: h\n\n", TargetUserInfo),
    ("CONNECT u@h:80 HTTP/1.1\nHost: h\n\n", TargetUserInfo),
    // The version, and the end of the request line.
    ("GET /\n\n", Version),
    ("GET /a b HTTP/1.1\nHost: h\n\n", Version),
    ("GET /  HTTP/1.1\nHost: h\n\n", Version),
    ("GET / HTTP/1.1 \nHost: h\n\n", Version),
    ("GET / HTTP/1.1␊Host: h\n\n", Version),
    ("GET / HTTP/1.1␍Host: h\n\n", Version),
    ("GET / HTTP/1.1x\nHost: h\n\n", Version),
    ("GET / http/1.1\nHost: h\n\n", Version),
    ("GET / HTTP/\nHost: h\n\n", Version),
    ("GET / HTTPS/1.1\nHost: h\n\n", Version),
    ("GET / HTTP/0.9\nHost: h\n\n", VersionUnsupported),
    ("GET / HTTP/2.0\nHost: h\n\n", VersionUnsupported),
    ("GET / HTTP/2\nHost: h\n\n", VersionUnsupported),
    ("GET / HTTP/1.10\nHost: h\n\n", VersionUnsupported),
    ("GET / HTTP/11.1\nHost: h\n\n", VersionUnsupported),
    ("PRI * HTTP/2.0\n\nSM\n\n", VersionUnsupported),
    // The host.
    ("GET / HTTP/1.1\n\n", HostMissing),
    ("GET http://h/ HTTP/1.1\n\n", HostMissing),
    ("GET / HTTP/1.1\nHost: h\nHost: h\n\n", HostRepeated),
    ("GET / HTTP/1.0\nHost: h\nhost: i\n\n", HostRepeated),
    ("GET / HTTP/1.1\nHost:\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: a b\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: a/b\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: u@h\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h:80:90\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h:65536\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h:000080\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h:9223372036854775807\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h:+80\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: :80\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: h%2\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: [::1\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: [127.0.0.1]\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: [::1]a\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: [fe80::1%25eth0]\n\n", HostInvalid),
    ("GET / HTTP/1.1\nHost: é\n\n", HostInvalid),
    ("GET / HTTP/1.0\nHost: a b\n\n", HostInvalid),
];

/// Field lines after a good request line and host, and why they are refused.
pub(crate) const REFUSED_FIELDS: &[(&str, FieldError)] = &[
    (": x\n", EmptyName),
    ("X\n", BadName),
    ("X y\n", SpaceBeforeColon),
    ("X : y\n", SpaceBeforeColon),
    ("X\t: y\n", SpaceBeforeColon),
    ("Content-Length : 5\n", SpaceBeforeColon),
    ("X(: y\n", BadName),
    ("X\u{0}: y\n", Control),
    ("é: y\n", BadName),
    ("[X]: y\n", BadName),
    ("X: a\n b\n", Folded),
    ("X: a\n\tb\n", Folded),
    (" X: a\n", Folded),
    ("X: a␊Y: b\n", BareLf),
    ("X: a␍b\n", BareCr),
    ("X: a␍␍\n", BareCr),
    ("␊", BareLf),
    ("␍", BareCr),
    ("X␊", BareLf),
    ("X: \u{0}\n", Control),
    ("X: \u{1}\n", Control),
    ("X: \u{b}\n", Control),
    ("X: \u{1f}\n", Control),
    ("X: \u{7f}\n", Control),
    ("Content-Length:\n", ContentLengthInvalid),
    ("Content-Length: +5\n", ContentLengthInvalid),
    ("Content-Length: -5\n", ContentLengthInvalid),
    ("Content-Length: 0x5\n", ContentLengthInvalid),
    ("Content-Length: 5 5\n", ContentLengthInvalid),
    ("Content-Length: 1_000\n", ContentLengthInvalid),
    ("Content-Length: 5.0\n", ContentLengthInvalid),
    ("Content-Length: five\n", ContentLengthInvalid),
    ("Content-Length: \u{663}\n", ContentLengthInvalid),
    ("Content-Length: 9223372036854775808\n", ContentLengthInvalid),
    ("Content-Length: 18446744073709551621\n", ContentLengthInvalid),
    ("Content-Length: 00000000000000000005\n", ContentLengthInvalid),
    ("Content-Length: 5, 5\n", ContentLengthRepeated),
    ("Content-Length: 5,\n", ContentLengthRepeated),
    ("Content-Length: 5\nX: y\ncontent-length: 6\n", ContentLengthRepeated),
    ("Content-Length: 5\nTransfer-Encoding: chunked\n", LengthAndEncoding),
    ("Transfer-Encoding: chunked\nContent-Length: 5\n", LengthAndEncoding),
    ("Transfer-Encoding:\n", TransferEncodingUnknown),
    ("Transfer-Encoding: gzip\n", TransferEncodingUnknown),
    ("Transfer-Encoding: identity\n", TransferEncodingUnknown),
    ("Transfer-Encoding: gzip, chunked\n", TransferEncodingUnknown),
    ("Transfer-Encoding: chunked, gzip\n", TransferEncodingUnknown),
    ("Transfer-Encoding: chunked,\n", TransferEncodingUnknown),
    ("Transfer-Encoding: ,chunked\n", TransferEncodingUnknown),
    ("Transfer-Encoding: xchunked\n", TransferEncodingUnknown),
    ("Transfer-Encoding: \"chunked\"\n", TransferEncodingUnknown),
    ("Transfer-Encoding: chunked;a=b\n", TransferEncodingUnknown),
    ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n", TransferEncodingUnknown),
    ("Transfer-Encoding: chunked\nTransfer-Encoding: identity\n", TransferEncodingUnknown),
    ("Transfer-Encoding: identity\nTransfer-Encoding: chunked\n", TransferEncodingUnknown),
];

/// `text` with its stand-ins for line ends replaced.
pub(crate) fn wire(text: &str) -> Vec<u8> {
    text.replace('\n', "\r\n").replace('␍', "\r").replace('␊', "\n").into_bytes()
}

/// All inputs of this table with the reason for each that is refused.
pub(crate) fn refused() -> Vec<(Vec<u8>, RequestError)> {
    let lines = REFUSED.iter().map(|(text, error)| (wire(text), *error));
    let fields = REFUSED_FIELDS.iter().map(|(fields, error)| {
        (wire(&format!("POST / HTTP/1.1\nHost: h\n{fields}\n")), RequestError::Field(*error))
    });
    let old = "POST / HTTP/1.0\nTransfer-Encoding: chunked\n\n";
    lines.chain(fields).chain([(wire(old), RequestError::Field(TransferEncodingOn10))]).collect()
}

#[test]
fn accepts_as_the_table_says() {
    for (text, expected) in ACCEPTED {
        let bytes = wire(text);
        let (head, slots) = request(&bytes).unwrap().unwrap();
        assert_eq!(describe(&bytes, &head, &slots), *expected, "{text}");
        assert_eq!(head.head_bytes, bytes.len(), "{text}");
        every_prefix(&bytes, request);
    }
    println!("{} requests accepted", ACCEPTED.len());
}

#[test]
fn refuses_as_the_table_says() {
    let table = refused();
    for (bytes, expected) in &table {
        assert_eq!(request(bytes).unwrap_err(), *expected, "{}", bytes.escape_ascii());
        every_prefix(bytes, request);
    }
    println!("{} requests refused", table.len());
}

#[test]
fn what_follows_a_head_changes_nothing() {
    for (text, _) in ACCEPTED {
        let bytes = wire(text);
        let alone = request(&bytes).unwrap().unwrap();
        for tail in ["GET / HTTP/1.1\n\n", "\u{0}", "␊␊", " folded: ?\n"] {
            let longer = [bytes.as_slice(), &wire(tail)].concat();
            assert_eq!(request(&longer).unwrap().unwrap(), alone, "{text} and {tail:?}");
        }
    }
}

#[test]
fn statuses_are_those_of_the_protocol() {
    let expected = |error| match error {
        RequestError::Field(TransferEncodingUnknown) => 501,
        VersionUnsupported => 505,
        TargetTooLong => 414,
        HeadTooLong | TooManyHeaders => 431,
        _ => 400,
    };
    for error in
        refused().into_iter().map(|(_, error)| error).chain([TargetTooLong, HeadTooLong, TooManyHeaders])
    {
        assert_eq!(error.status(), expected(error), "{error}");
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn fields_are_found_by_name_in_any_case() {
    let bytes = wire("GET / HTTP/1.1\nHost: h\nX-A: 1\nx-b:\t 2 \nX-A: 3\n\n");
    let (head, slots) = request(&bytes).unwrap().unwrap();
    let view = head.view(&bytes, &slots);
    assert_eq!(view.header("x-a"), Some(&b"1"[..]));
    assert_eq!(view.header("X-B"), Some(&b"2"[..]));
    assert_eq!(view.header("x-c"), None);
    assert_eq!(view.target(), "/");
    let names: Vec<_> = view.headers().map(|(name, _)| name).collect();
    assert_eq!(names, ["Host", "X-A", "x-b", "X-A"]);
    assert_eq!(head.headers, 4);
}
