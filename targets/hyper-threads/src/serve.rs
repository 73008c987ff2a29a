//! hyper 0.10's keep-alive loop over any socket, so that threads and coroutines run the same HTTP
//! code. It does what `Worker::handle_connection` of hyper 0.10.16 does, which is private to
//! hyper's own pool of threads.

use std::io::{self, BufWriter, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use hyper::buffer::BufReader;
use hyper::header::{Connection, ContentLength, Headers};
use hyper::http::should_keep_alive;
use hyper::method::Method;
use hyper::net::NetworkStream;
use hyper::server::{Request, Response};
use hyper::status::StatusCode;
use hyper::uri::RequestUri;

use crate::target::{BODY, SERVER};

/// How long hyper 0.10 waits for the next request, unless it is told otherwise.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Answers every request of one connection. hyper sets two read timeouts per request, which on a
/// socket of std are two system calls; `timeouts` says whether to.
pub fn serve<S: NetworkStream + Clone>(mut stream: S, timeouts: bool) {
    let Ok(peer) = stream.peer_addr() else { return };
    let mut read_half = stream.clone();
    let read_half: &mut dyn NetworkStream = &mut read_half;
    let mut reader = BufReader::new(read_half);
    let mut writer = BufWriter::new(stream);
    while answer_next(&mut reader, &mut writer, peer, timeouts).unwrap_or(false) {
        if timeouts && reader.get_ref().set_read_timeout(Some(KEEP_ALIVE)).is_err() {
            break;
        }
    }
    let _ = reader.get_mut().close(Shutdown::Both); // the peer may have been first
}

/// True when the connection is to be kept.
fn answer_next<W: Write>(
    reader: &mut BufReader<&mut dyn NetworkStream>,
    writer: &mut W,
    peer: SocketAddr,
    timeouts: bool,
) -> hyper::Result<bool> {
    let request = Request::new(reader, peer)?;
    if timeouts {
        request.set_read_timeout(None)?;
    }
    let keep = should_keep_alive(request.version, &request.headers);
    let mut headers = Headers::new();
    if !keep {
        headers.set(Connection::close());
    }
    let mut response = Response::new(writer, &mut headers);
    response.version = request.version;
    handle(request, response)?;
    Ok(keep)
}

/// The handler: what a user of hyper 0.10 writes.
pub fn handle(request: Request, mut response: Response) -> io::Result<()> {
    let found = matches!(&request.uri, RequestUri::AbsolutePath(path) if path == "/plaintext");
    let body = if found { BODY } else { "Not Found" };
    if !found {
        *response.status_mut() = StatusCode::NotFound;
    }
    let headers = response.headers_mut();
    headers.set_raw("Server", vec![SERVER.into()]);
    headers.set_raw("Content-Type", vec![b"text/plain".to_vec()]);
    if request.method == Method::Head {
        headers.set(ContentLength(body.len() as u64));
        return response.start()?.end();
    }
    response.send(body.as_bytes())
}
