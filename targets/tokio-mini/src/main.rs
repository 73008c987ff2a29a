//! tokio and httparse with nothing between them: what tokio_minihttp was. One task per connection,
//! one write for all requests that one read brought.

#[path = "../../common/target.rs"]
mod target;

use std::cell::RefCell;
use std::io;
use std::time::SystemTime;

use httparse::{EMPTY_HEADER, Request, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// What tokio_minihttp took, too.
const HEADERS_MAX: usize = 16;
/// The longest head; what nginx takes.
const HEAD_BYTES_MAX: usize = 8192;

fn main() -> io::Result<()> {
    runtime(target::option("--workers", 1))?.block_on(accept())
}

fn runtime(workers: usize) -> io::Result<Runtime> {
    match workers {
        1 => Builder::new_current_thread().enable_io().build(),
        n => Builder::new_multi_thread().worker_threads(n).enable_io().build(),
    }
}

async fn accept() -> io::Result<()> {
    let listener = TcpListener::bind(target::address()).await?;
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        tokio::spawn(serve(socket));
    }
}

/// Any error ends the connection, and is no concern of a server under test.
async fn serve(mut socket: TcpStream) -> io::Result<()> {
    let mut input = Vec::with_capacity(HEAD_BYTES_MAX);
    let mut output = Vec::new();
    while input.len() < HEAD_BYTES_MAX && socket.read_buf(&mut input).await? > 0 {
        let mut at = 0;
        let mut keep = true;
        while keep && let Some(head) = read_head(&input[at..])? {
            at += head.length;
            keep = head.keep;
            write_answer(&mut output, &head);
        }
        input.drain(..at);
        socket.write_all(&output).await?;
        output.clear();
        if !keep {
            break;
        }
    }
    Ok(())
}

struct Head {
    length: usize,
    found: bool,
    body: bool,
    keep: bool,
}

/// `None` when the head is not all there yet.
fn read_head(input: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    let Status::Complete(length) = request.parse(input).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let says_close = |header: &httparse::Header| {
        header.name.eq_ignore_ascii_case("connection") && header.value.eq_ignore_ascii_case(b"close")
    };
    Ok(Some(Head {
        length,
        found: request.path == Some("/plaintext"),
        body: request.method != Some("HEAD"),
        keep: request.version == Some(1) && !request.headers.iter().any(says_close),
    }))
}

fn write_answer(output: &mut Vec<u8>, head: &Head) {
    let (status, body) = match head.found {
        true => ("200 OK", target::BODY),
        false => ("404 Not Found", "Not Found"),
    };
    for part in ["HTTP/1.1 ", status, "\r\nServer: ", target::SERVER, "\r\nDate: "] {
        output.extend_from_slice(part.as_bytes());
    }
    append_date(output);
    let length = body.len().to_string();
    for part in ["\r\nContent-Type: text/plain\r\nContent-Length: ", &length, "\r\n\r\n"] {
        output.extend_from_slice(part.as_bytes());
    }
    if head.body {
        output.extend_from_slice(body.as_bytes());
    }
}

/// The text of the date is kept for the second that it holds.
fn append_date(output: &mut Vec<u8>) {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now();
    let second = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    DATE.with_borrow_mut(|(made_at, text)| {
        if *made_at != second {
            *made_at = second;
            *text = httpdate::fmt_http_date(now);
        }
        output.extend_from_slice(text.as_bytes());
    });
}
