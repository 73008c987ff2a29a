//! A proxy by reading and writing: `proxy UPSTREAM [ADDRESS]`, such as `proxy 127.0.0.1:9000`.
//!
//! Each request has a connection of its own to the server behind. Bodies pass through in pieces, both ways, and the fields after
//! them. What delimits a body is never copied but said anew, so that no two servers can disagree about where it ends. `CONNECT` is
//! refused, and no other protocol is passed on.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::time::Duration;
use straightline::http1::chunked::{ChunkedDecoder, Event, trailers};
use straightline::http1::response::{Framing, ResponseHead, headers, parse_head};
use straightline::http1::write;
use straightline::{Done, HeadLimits, Request, Response, Running, Server, StatusError, rt};

/// Longest wait for the server behind to answer, or to go on.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fields about one connection, which end with it, as do those that `Connection` names. Source: RFC 9110, section 7.6.1.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
/// Fields for whoever answers in the end. A client that names one in `Connection` does not take it away from there: a server
/// behind would miss whom the request is for, or who sent it. All that begin with `content-` are among them.
const END_TO_END: &[&str] = &[
    "authorization",
    "cache-control",
    "cookie",
    "forwarded",
    "host",
    "origin",
    "set-cookie",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
];
/// Fields that are written anew for the server behind.
const OWN: &[&str] = &["content-length", "expect", "host"];
/// Most bytes of the fields after an answer.
const TRAILER_BYTES: usize = 16 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let upstream = arguments.next().ok_or("proxy UPSTREAM [ADDRESS]")?.parse()?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    start(Server::bind(address.as_str())?.on_signals(Duration::from_secs(5)), upstream)?.join();
    Ok(())
}

/// Begins to pass requests on.
pub(crate) fn start(server: Server, upstream: SocketAddr) -> Result<Running, straightline::Error> {
    server.spawn(move |request, response| pass(request, response, upstream))
}

fn pass(request: &mut Request<'_>, response: Response<'_>, upstream: SocketAddr) -> io::Result<Done> {
    let bad_gateway =
        |error: io::Error| StatusError::new(502, "the server behind does not answer").because(error);
    if request.method() == "CONNECT" {
        return Err(StatusError::new(501, "there are no tunnels here").into());
    }
    let size = size_of(request)?;
    let stream = rt::TcpStream::connect_timeout(upstream, PATIENCE).map_err(bad_gateway)?;
    stream.set_read_timeout(Some(PATIENCE));
    stream.set_write_timeout(Some(PATIENCE));
    ask(request, &stream, size, upstream)?;
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let head = answer_head(&mut stream, request.method() == "HEAD").map_err(bad_gateway)?;
    reply(&mut stream, &head, response)
}

/// How much of a body a request has.
#[derive(Clone, Copy)]
enum Size {
    None,
    Bytes(u64),
    /// As much as comes: chunked in HTTP/1, or a stream of HTTP/2, which need not say.
    Unknown,
}

/// What is known of the body. The server has checked the fields that say it; where none does, a look tells.
fn size_of(request: &mut Request<'_>) -> io::Result<Size> {
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    Ok(match length {
        Some(length) => Size::Bytes(length),
        None if request.header("transfer-encoding").is_some() || !request.fill_buf()?.is_empty() => {
            Size::Unknown
        }
        None => Size::None,
    })
}

/// Sends the request on: its head, and its body in chunks unless its length is known.
fn ask(
    request: &mut Request<'_>,
    mut stream: &rt::TcpStream,
    size: Size,
    upstream: SocketAddr,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    write_head(&mut bytes, request, upstream)?;
    match size {
        Size::None => {}
        Size::Bytes(length) => write::content_length(&mut bytes, length),
        Size::Unknown => write::chunked(&mut bytes),
    }
    write::end_of_head(&mut bytes);
    stream.write_all(&bytes)?;
    match size {
        Size::None => Ok(()),
        // It is an error if the client sends less.
        Size::Bytes(_) => io::copy(request, &mut stream).map(|_| ()),
        Size::Unknown => send_chunks(request, stream),
    }
}

/// All of the head but what delimits the body: that is said by whoever sends it.
fn write_head(bytes: &mut Vec<u8>, request: &Request<'_>, upstream: SocketAddr) -> io::Result<()> {
    write!(bytes, "{} {} HTTP/1.1\r\n", request.method(), origin_form(request))?;
    let named = named_by_connection(request.headers().map(|(name, value)| (name.as_bytes(), value)));
    let stays = |name: &str| !is_hop_by_hop(name, &named) && !OWN.iter().any(|own| is(own, name));
    for (name, value) in request.headers().filter(|(name, _)| stays(name)) {
        write::header(bytes, name, value).map_err(io::Error::other)?;
    }
    // That of an absolute target, if there is one. Source: RFC 9112, section 3.2.2.
    match request.host() {
        "" => write!(bytes, "Host: {upstream}\r\n")?,
        host => write!(bytes, "Host: {host}\r\n")?,
    }
    // Source: RFC 9110, section 7.6.3.
    let version = request.version().trim_start_matches("HTTP/");
    write!(bytes, "Via: {version} straightline\r\nConnection: close\r\n")
}

/// The target as a server is asked, without scheme and authority. Source: RFC 9112, section 3.2.
fn origin_form(request: &Request<'_>) -> String {
    let absolute = request.target().strip_prefix("http").and_then(|rest| rest.split_once("://"));
    if request.method() == "OPTIONS" && absolute.is_some_and(|(_, rest)| !rest.contains(['/', '?'])) {
        return "*".to_owned();
    }
    let path = request.path();
    request.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

fn send_chunks(request: &mut Request<'_>, mut stream: &rt::TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let piece = request.fill_buf()?;
        if piece.is_empty() {
            bytes.clear();
            let trailers = request.trailers().filter(|(name, _)| !write::is_reserved(name));
            write::last_chunk_with_trailers(&mut bytes, trailers).map_err(io::Error::other)?;
            return stream.write_all(&bytes);
        }
        bytes.clear();
        write::chunk(&mut bytes, piece);
        let length = piece.len();
        stream.write_all(&bytes)?;
        request.consume(length);
    }
}

/// The head of an answer, with its bytes.
struct Head {
    parsed: ResponseHead,
    bytes: Vec<u8>,
}

/// The head of the final answer; those before it, `100 Continue` say, are dropped.
fn answer_head(stream: &mut BufReader<rt::TcpStream>, was_head: bool) -> io::Result<Head> {
    let mut bytes = Vec::new();
    loop {
        let parsed = parse_head(&bytes, was_head, &HeadLimits::DEFAULT).map_err(io::Error::other)?;
        match parsed {
            Some(parsed) if parsed.status < 200 => bytes.clear(),
            Some(parsed) => return Ok(Head { parsed, bytes }),
            None => {
                // Line by line, so that nothing of the body is taken with it.
                if stream.read_until(b'\n', &mut bytes)? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

/// Sends the answer on.
fn reply(stream: &mut BufReader<rt::TcpStream>, head: &Head, response: Response<'_>) -> io::Result<Done> {
    if head.parsed.status > 599 {
        return Err(
            StatusError::new(502, "the server behind answers with a status that means nothing").into()
        );
    }
    let mut response = response.status(head.parsed.status);
    let named = named_by_connection(headers(&head.bytes));
    for (name, value) in headers(&head.bytes) {
        let name = String::from_utf8_lossy(name);
        if !is_hop_by_hop(&name, &named) {
            response = response.header(&name, value)?;
        }
    }
    let mut response = response.start()?;
    match head.parsed.framing {
        Framing::None => {}
        Framing::Length(length) => {
            let copied = io::copy(&mut io::Read::take(stream, length), &mut response)?;
            if copied < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Framing::UntilClose => drop(io::copy(stream, &mut response)?),
        Framing::Chunked => {
            let section = unchunk(stream, &mut response)?;
            let fields =
                trailers(&section).filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, value)));
            let fields: Vec<_> = fields.filter(|(name, _)| !write::is_reserved(name)).collect();
            return response.end_with_trailers(&fields);
        }
    }
    response.end()
}

/// Passes a chunked body on; the fields after it, as they came.
fn unchunk(stream: &mut BufReader<rt::TcpStream>, response: &mut impl Write) -> io::Result<Vec<u8>> {
    let (mut decoder, mut section) = (ChunkedDecoder::new(), Vec::new());
    loop {
        let bytes = stream.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let step = decoder.decode(bytes).map_err(io::Error::other)?;
        let done = step.event == Event::Done;
        match step.event {
            Event::Data(range) => response.write_all(&bytes[range])?,
            Event::Trailer(range) => section.extend_from_slice(&bytes[range]),
            Event::Partial | Event::Done => {}
        }
        stream.consume(step.consumed);
        if done {
            return Ok(section);
        }
        if section.len() > TRAILER_BYTES {
            return Err(io::Error::other("the fields after the answer are longer than they may be"));
        }
        response.flush()?;
    }
}

fn is(name: &str, other: &str) -> bool {
    name.eq_ignore_ascii_case(other)
}

/// The values of all `Connection` fields, as one list.
fn named_by_connection<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> String {
    let lists = fields.filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"));
    lists.map(|(_, value)| String::from_utf8_lossy(value) + ",").collect()
}

fn is_hop_by_hop(name: &str, named: &str) -> bool {
    let is_named = || named.split(',').any(|one| is(one.trim(), name));
    HOP_BY_HOP.iter().any(|hop| is(hop, name)) || (!is_end_to_end(name) && is_named())
}

fn is_end_to_end(name: &str) -> bool {
    let is_of_content = name.get(..8).is_some_and(|start| is(start, "content-"));
    is_of_content || END_TO_END.iter().any(|field| is(field, name))
}
