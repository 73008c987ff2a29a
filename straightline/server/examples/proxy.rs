//! A proxy by reading and writing: `proxy UPSTREAM [ADDRESS]`, such as `proxy 127.0.0.1:9000`.
//!
//! Each request has a connection of its own to the server behind. Bodies pass through in pieces, both ways.

use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::time::Duration;
use straightline::http1::chunked::{ChunkedDecoder, Event};
use straightline::http1::response::{Framing, ResponseHead, headers, parse_head};
use straightline::http1::write;
use straightline::{Done, HeadLimits, Request, Response, Running, Server, StatusError, rt};

/// Longest wait for the server behind to answer, or to go on.
const PATIENCE: Duration = Duration::from_secs(30);
/// Fields about one connection, which end with it, as do those that `Connection` names. Source: RFC 9110, section 7.6.1.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];

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
    let bad_gateway = |error: io::Error| StatusError::new(502, format!("the server behind: {error}"));
    let stream = rt::TcpStream::connect_timeout(upstream, PATIENCE).map_err(bad_gateway)?;
    stream.set_read_timeout(Some(PATIENCE));
    stream.set_write_timeout(Some(PATIENCE));
    ask(request, &stream)?;
    let mut stream = BufReader::with_capacity(64 * 1024, stream);
    let head = answer_head(&mut stream, request.method() == "HEAD").map_err(bad_gateway)?;
    reply(&mut stream, &head, response)
}

/// Sends the request on: its head, and its body in chunks unless its length is known.
fn ask(request: &mut Request<'_>, mut stream: &rt::TcpStream) -> io::Result<()> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method(), request.target()).into_bytes();
    let named = named_by_connection(request.headers().map(|(name, value)| (name.as_bytes(), value)));
    let stays = |name: &str| !is_hop_by_hop(name, &named) && !is("expect", name);
    for (name, value) in request.headers().filter(|(name, _)| stays(name)) {
        write::header(&mut bytes, name, value).map_err(io::Error::other)?;
    }
    let chunked = request.header("transfer-encoding").is_some();
    bytes.extend_from_slice(b"Connection: close\r\n");
    if chunked {
        write::chunked(&mut bytes);
    }
    write::end_of_head(&mut bytes);
    stream.write_all(&bytes)?;
    if chunked {
        send_chunks(request, stream)
    } else {
        // Without a length there is no body, and nothing is read.
        io::copy(request, &mut stream).map(|_| ())
    }
}

fn send_chunks(request: &mut Request<'_>, mut stream: &rt::TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let piece = request.fill_buf()?;
        if piece.is_empty() {
            return stream.write_all(b"0\r\n\r\n");
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
        Framing::Chunked => unchunk(stream, &mut response)?,
    }
    response.end()
}

fn unchunk(stream: &mut BufReader<rt::TcpStream>, response: &mut impl Write) -> io::Result<()> {
    let mut decoder = ChunkedDecoder::new();
    loop {
        let bytes = stream.fill_buf()?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let step = decoder.decode(bytes).map_err(io::Error::other)?;
        let done = step.event == Event::Done;
        if let Event::Data(range) = step.event {
            response.write_all(&bytes[range])?;
        }
        stream.consume(step.consumed);
        if done {
            return Ok(());
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
    HOP_BY_HOP.iter().any(|hop| is(hop, name)) || named.split(',').any(|one| is(one.trim(), name))
}
