//! Threads: one for each connection, over the standard library.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use http1::HeadLimits;
use http1::chunked::{ChunkedDecoder, Event};
use http1::request::{Framing, NO_SLOTS, RequestHead, parse};
use http1::write;

use super::Reply;

/// One read, in bytes: room for a batch of 64 small requests.
const READ_BYTES: usize = 16 * 1024;
/// Stack of a connection's thread; its buffers are on the heap.
const STACK_BYTES: usize = 128 * 1024;

/// Accepts on `workers` threads; each connection gets a thread of its own.
pub(super) fn serve(listener: &TcpListener, workers: u32) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers).map(|_| scope.spawn(|| accept(listener))).collect();
        running.into_iter().try_for_each(|worker| worker.join().expect("an acceptor returns its error"))
    })
}

fn accept(listener: &TcpListener) -> anyhow::Result<()> {
    loop {
        // One connection that fails before it is accepted says nothing of the next.
        let Ok((stream, _)) = listener.accept() else { continue };
        let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
        // A client that goes away or breaks the protocol is the client's affair.
        let connection = move || drop(Connection::new(stream).serve());
        builder.spawn(connection).context("cannot start a thread for a connection")?;
    }
}

struct Connection {
    stream: TcpStream,
    /// What reads go into: kept, so that no read has to be given memory that was zeroed for it.
    scratch: Box<[u8]>,
    /// Bytes read and not yet used.
    input: Vec<u8>,
    /// Answers to all requests of one read, sent by one write.
    output: Vec<u8>,
    date: CachedDate,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let scratch = vec![0; READ_BYTES].into();
        Self { stream, scratch, input: Vec::new(), output: Vec::new(), date: CachedDate::default() }
    }

    fn serve(mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let mut slots = NO_SLOTS;
        loop {
            match parse(&self.input, &mut slots, &HeadLimits::DEFAULT) {
                Ok(Some(head)) => {
                    let request = head.view(&self.input, &slots);
                    let reply = super::handle(request.path());
                    let with_body = request.method() != "HEAD";
                    self.skip_request(&head)?;
                    self.answer(&reply, with_body, head.keep_alive);
                    if !head.keep_alive {
                        return self.flush();
                    }
                }
                Ok(None) => {
                    self.flush()?;
                    if self.read()? == 0 {
                        return Ok(());
                    }
                }
                Err(error) => {
                    let reply = Reply { status: error.status(), content_type: "text/plain", body: b"" };
                    self.answer(&reply, true, false);
                    return self.flush();
                }
            }
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        let read = self.stream.read(&mut self.scratch)?;
        self.input.extend_from_slice(&self.scratch[..read]);
        Ok(read)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    fn answer(&mut self, reply: &Reply, with_body: bool, keep_alive: bool) {
        let out = &mut self.output;
        write::status_line(out, reply.status).expect("the handler answers with real statuses");
        write::header(out, "Content-Type", reply.content_type.as_bytes())
            .expect("content types are constants");
        write::content_length(out, reply.body.len() as u64);
        if !keep_alive {
            write::header(out, "Connection", b"close").expect("a constant");
        }
        write::header(out, "Date", self.date.now()).expect("a date has no control characters");
        write::end_of_head(out);
        if with_body {
            out.extend_from_slice(reply.body);
        }
    }

    /// Takes the request off the input, its body too, which no handler here reads.
    fn skip_request(&mut self, head: &RequestHead) -> io::Result<()> {
        self.input.drain(..head.head_bytes);
        if head.expect_continue && head.framing != Framing::None {
            self.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.flush()?;
        }
        match head.framing {
            Framing::None => Ok(()),
            Framing::Length(length) => self.skip_bytes(length),
            Framing::Chunked => self.skip_chunks(),
        }
    }

    fn skip_bytes(&mut self, mut left: u64) -> io::Result<()> {
        loop {
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.input.len());
            self.input.drain(..here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            self.read_more()?;
        }
    }

    fn skip_chunks(&mut self) -> io::Result<()> {
        let mut decoder = ChunkedDecoder::new();
        loop {
            let step = decoder.decode(&self.input).map_err(io::Error::other)?;
            self.input.drain(..step.consumed);
            match step.event {
                Event::Done => return Ok(()),
                Event::Partial => self.read_more()?,
                Event::Data(_) | Event::Trailer(_) => {}
            }
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.read()? == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// The `Date` value, made anew each second.
#[derive(Default)]
struct CachedDate {
    second: u64,
    text: [u8; write::DATE_BYTES],
}

impl CachedDate {
    fn now(&mut self) -> &[u8] {
        let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if second != self.second {
            *self = Self { second, text: write::date(second) };
        }
        &self.text
    }
}
