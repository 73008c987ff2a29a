//! What a handler answers.

use super::exchange::{Exchange, Progress};
use super::limits::{COPIED_BODY_BYTES, OUTPUT_BYTES};
use super::request::Request;
use super::upgrade::Upgraded;
use http1::write;
use std::fmt;
use std::io::{self, Write};

/// Most data of one chunk, in bytes: four hexadecimal digits hold its size, and the client has not long to wait.
const CHUNK_BYTES: usize = 16 * 1024;
/// Room left for the size of a chunk until it is known.
const CHUNK_HEAD: &[u8; 6] = b"0000\r\n";

/// State of a [`Response`] of which nothing was sent: status and fields can be set.
#[derive(Debug)]
pub struct Fresh {
    status: u16,
    promised: Option<u64>,
    dated: bool,
}

/// State of a [`Response`] whose head is on the way: only its body can follow.
#[derive(Debug)]
pub struct Streaming {
    framing: Framing,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Chunked,
    /// So many bytes are promised still.
    Left(u64),
    UntilClose,
    /// What is written goes nowhere, for there is to be no body: so many bytes are promised still, if any are.
    Nothing(Option<u64>),
}

/// Says that a request was answered. Only a complete answer gives one, so that a handler cannot forget it.
#[derive(Debug)]
#[must_use = "a handler returns it"]
pub struct Done {
    pub(crate) _made_here: (),
}

/// An answer, which is sent whole by [`send`](Response::send), or begun by [`start`](Response::start) and written.
///
/// Fields cannot follow the body:
///
/// ```compile_fail
/// # use straightline::{Done, Request, Response};
/// fn late(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
///     response.start()?.header("too", "late")?.end()
/// }
/// ```
pub struct Response<'a, S = Fresh> {
    exchange: &'a Exchange<'a>,
    state: S,
}

impl<S: fmt::Debug> fmt::Debug for Response<'_, S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Response").field("state", &self.state).finish_non_exhaustive()
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// Whether a response of this status never has a body.
fn is_bodiless(status: u16) -> bool {
    status == 204 || status == 304
}

impl<'a> Response<'a, Fresh> {
    #[inline]
    pub(crate) fn new(exchange: &'a Exchange<'a>) -> Self {
        Self { exchange, state: Fresh { status: 200, promised: None, dated: false } }
    }

    /// Sets the status, 200 to 599; 200 if it is never set. What cannot be one is an error of sending.
    pub fn status(mut self, status: u16) -> Self {
        self.state.status = status;
        let mut output = self.exchange.conn.output().borrow_mut();
        let line = output.open().iter().position(|&byte| byte == b'\n').map(|end| end + 1);
        if let Some(length) = line {
            let mut replacement = Vec::new();
            // A wrong status is refused when the head is ended.
            if write::status_line(&mut replacement, status).is_ok() {
                output.replace_open(length, &replacement);
            }
        }
        drop(output);
        self
    }

    /// Adds a field.
    ///
    /// `Content-Length` promises a length, which is then enforced; `Connection: close` closes the connection after
    /// this answer. `Date` is added if it is not given.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the name is not a token, the value has a control character (a line end, say), or the field
    /// is `Transfer-Encoding` or another `Connection`, which are the server's own.
    #[inline]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> io::Result<Self> {
        let value = value.as_ref();
        if self.is_special(name, value)? {
            return Ok(self);
        }
        let mut output = self.exchange.conn.output().borrow_mut();
        if output.open().is_empty() {
            write::status_line(output.bytes_mut(), self.state.status).map_err(invalid)?;
        }
        write::header(output.bytes_mut(), name, value).map_err(invalid)?;
        drop(output);
        Ok(self)
    }

    /// Deals with the fields that the server writes itself.
    #[inline]
    fn is_special(&mut self, name: &str, value: &[u8]) -> io::Result<bool> {
        match name.len() {
            4 if name.eq_ignore_ascii_case("date") => self.state.dated = true,
            10 if name.eq_ignore_ascii_case("connection") => return self.connection(value),
            14 if name.eq_ignore_ascii_case("content-length") => return self.promise(value),
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                return Err(invalid("Transfer-Encoding is the server's own"));
            }
            _ => {}
        }
        Ok(false)
    }

    fn connection(&self, value: &[u8]) -> io::Result<bool> {
        if value.eq_ignore_ascii_case(b"close") {
            self.exchange.keep.set(false);
        } else if !value.eq_ignore_ascii_case(b"keep-alive") {
            return Err(invalid("of Connection only `close` can be set"));
        }
        Ok(true)
    }

    fn promise(&mut self, value: &[u8]) -> io::Result<bool> {
        let digits = value.iter().all(u8::is_ascii_digit).then_some(value);
        let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let length = length.ok_or_else(|| invalid("Content-Length is not a decimal number"))?;
        if self.state.promised.replace(length).is_some_and(|before| before != length) {
            return Err(invalid("Content-Length is given twice, and differs"));
        }
        Ok(true)
    }

    /// Sends the answer with the whole of its body, and a `Content-Length`.
    ///
    /// A small body waits for the answers to other requests that came together with this one; a large one waits
    /// until the client takes it, without holding up the shard.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the status is none, allows no body, or another length was promised; those of the connection.
    #[inline]
    pub fn send(self, body: &[u8]) -> io::Result<Done> {
        let (exchange, conn) = (self.exchange, self.exchange.conn);
        let length = self.length_of(body)?;
        self.end_head(length)?;
        let has_body = !exchange.is_head && !body.is_empty();
        let mut output = conn.output().borrow_mut();
        if has_body && body.len() <= COPIED_BODY_BYTES {
            output.push(body);
        }
        output.seal();
        drop(output);
        if has_body && body.len() > COPIED_BODY_BYTES {
            exchange.progress.set(Progress::Started);
            conn.flush_with(body)?;
        }
        exchange.progress.set(Progress::Done);
        Ok(Done { _made_here: () })
    }

    /// The `Content-Length` to say of a whole body; `None` if there is to be none.
    #[inline]
    fn length_of(&self, body: &[u8]) -> io::Result<Option<u64>> {
        let length = body.len() as u64;
        if is_bodiless(self.state.status) {
            return if body.is_empty() { Ok(None) } else { Err(invalid("this status allows no body")) };
        }
        match self.state.promised {
            Some(promised) if self.exchange.is_head && body.is_empty() => Ok(Some(promised)),
            Some(promised) if promised != length => Err(invalid("another Content-Length was promised")),
            _ => Ok(Some(length)),
        }
    }

    /// Writes what is left of the head, with a `Content-Length` or without.
    #[inline]
    fn end_head(&self, length: Option<u64>) -> io::Result<()> {
        let (exchange, status) = (self.exchange, self.state.status);
        if !(200..=599).contains(&status) {
            return Err(invalid("the status is not from 200 to 599"));
        }
        if exchange.is_connect && status < 300 {
            return Err(invalid("a tunnel cannot be granted"));
        }
        exchange.settle_keep();
        let worker = exchange.conn.worker();
        exchange.conn.ensure_output();
        let mut output = exchange.conn.output().borrow_mut();
        let fresh = output.open().is_empty();
        let out = output.bytes_mut();
        if fresh {
            write::status_line(out, status).map_err(invalid)?;
        }
        if !exchange.keep.get() {
            out.extend_from_slice(b"Connection: close\r\n");
        } else if exchange.minor_version == 0 {
            out.extend_from_slice(b"Connection: keep-alive\r\n");
        }
        match length {
            Some(length) if !self.state.dated => worker.push_length_and_date(out, length),
            Some(length) => write::content_length(out, length),
            None if !self.state.dated => worker.push_date(out),
            None => {}
        }
        write::end_of_head(out);
        worker.counters().count_status(status);
        Ok(())
    }

    /// Sends the head; the body is then written, and ended by [`end`](Response::end).
    ///
    /// Without a promised `Content-Length` the body is chunked, or on HTTP/1.0 ended by closing the connection.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the status is none.
    pub fn start(self) -> io::Result<Response<'a, Streaming>> {
        let exchange = self.exchange;
        let promised = self.state.promised;
        let framing = match promised {
            _ if is_bodiless(self.state.status) => Framing::Nothing(None),
            _ if exchange.is_head => Framing::Nothing(promised),
            Some(length) => Framing::Left(length),
            None if exchange.minor_version > 0 => Framing::Chunked,
            None => Framing::UntilClose,
        };
        let chunked = promised.is_none() && exchange.minor_version > 0 && !is_bodiless(self.state.status);
        if promised.is_none() && exchange.minor_version == 0 {
            exchange.keep.set(false);
        }
        let said = if is_bodiless(self.state.status) { None } else { promised };
        let begun = if chunked { self.header_of_chunked()? } else { self };
        begun.end_head(said)?;
        exchange.conn.output().borrow_mut().seal();
        exchange.progress.set(Progress::Started);
        Ok(Response { exchange, state: Streaming { framing } })
    }

    fn header_of_chunked(self) -> io::Result<Self> {
        self.exchange.conn.ensure_output();
        let mut output = self.exchange.conn.output().borrow_mut();
        if output.open().is_empty() {
            write::status_line(output.bytes_mut(), self.state.status).map_err(invalid)?;
        }
        write::chunked(output.bytes_mut());
        drop(output);
        Ok(self)
    }

    /// Answers `101 Switching Protocols` and hands over the connection, for a request that asked for `protocol`.
    ///
    /// The answer has gone out when this returns; what the client sent after its request comes from the
    /// [`Upgraded`] stream.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the request does not ask for `protocol` or has an unread body; those of the connection.
    pub fn upgrade<'r>(self, request: &'r mut Request<'a>, protocol: &str) -> io::Result<Upgraded<'r, 'a>> {
        let exchange = self.exchange;
        let offered = request.header("upgrade").unwrap_or_default();
        let asked = offered.split(',').any(|offer| offer.trim().eq_ignore_ascii_case(protocol));
        if !exchange.upgrade || !asked {
            return Err(invalid("the client does not ask for this protocol"));
        }
        if !request.body_mut().is_done() {
            return Err(invalid("the body of the request must be read before the protocol is changed"));
        }
        let response = self.header("Upgrade", protocol)?.status_101();
        let mut output = exchange.conn.output().borrow_mut();
        output.push(b"Connection: upgrade\r\n\r\n");
        output.seal();
        drop(output);
        response.exchange.keep.set(false);
        exchange.progress.set(Progress::Upgraded);
        exchange.conn.worker().counters().count_status(101);
        exchange.conn.flush()?;
        Ok(Upgraded::new(exchange, request.body_mut()))
    }

    fn status_101(self) -> Self {
        self.status(101)
    }
}

impl Response<'_, Streaming> {
    /// Ends the body. Nothing waits: what is left goes out with the answers that follow, or when the handler waits.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if fewer bytes were written than promised; the connection is then closed, for the client must
    /// not take them for all. Those of the connection.
    pub fn end(self) -> io::Result<Done> {
        self.end_with([])
    }

    /// [`Response::end`] with trailer fields, which only a chunked body carries.
    ///
    /// # Errors
    ///
    /// As [`Response::end`], and `InvalidInput` for a bad field.
    pub fn end_with_trailers(self, trailers: &[(&str, &str)]) -> io::Result<Done> {
        self.end_with(trailers.iter().map(|(name, value)| (*name, value.as_bytes())))
    }

    fn end_with<'t>(mut self, trailers: impl IntoIterator<Item = (&'t str, &'t [u8])>) -> io::Result<Done> {
        match self.state.framing {
            Framing::Chunked => {
                self.seal_chunk();
                let mut output = self.exchange.conn.output().borrow_mut();
                write::last_chunk_with_trailers(output.bytes_mut(), trailers).map_err(invalid)?;
                output.seal();
            }
            Framing::Left(1..) => return Err(invalid("fewer bytes were written than promised")),
            Framing::Left(0) | Framing::UntilClose | Framing::Nothing(_) => {}
        }
        self.exchange.progress.set(Progress::Done);
        Ok(Done { _made_here: () })
    }

    /// Lets the chunk that is being filled go out.
    fn seal_chunk(&mut self) {
        let mut output = self.exchange.conn.output().borrow_mut();
        let Some(size) = output.open().len().checked_sub(CHUNK_HEAD.len()) else { return };
        let mut size = size;
        for digit in output.open_mut()[..4].iter_mut().rev() {
            *digit = b"0123456789abcdef"[size & 15];
            size >>= 4;
        }
        output.push(b"\r\n");
        output.seal();
    }

    /// Fills the present chunk from `bytes`; how many of them.
    fn fill_chunk(&mut self, bytes: &[u8]) -> usize {
        let mut output = self.exchange.conn.output().borrow_mut();
        if output.open().is_empty() {
            output.push(CHUNK_HEAD);
        }
        let room = CHUNK_BYTES + CHUNK_HEAD.len() - output.open().len();
        let count = bytes.len().min(room);
        output.push(&bytes[..count]);
        let full = count == room;
        drop(output);
        if full {
            self.seal_chunk();
        }
        count
    }

    fn write_plain(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > COPIED_BODY_BYTES {
            self.exchange.conn.flush_with(bytes)?;
            return Ok(bytes.len());
        }
        let mut output = self.exchange.conn.output().borrow_mut();
        output.push(bytes);
        output.seal();
        Ok(bytes.len())
    }
}

impl Write for Response<'_, Streaming> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        self.exchange.conn.ensure_output();
        let count = match &mut self.state.framing {
            _ if bytes.is_empty() => return Ok(0),
            Framing::Nothing(Some(left)) | Framing::Left(left) if *left < length => {
                return Err(invalid("more bytes are written than promised"));
            }
            Framing::Nothing(left) => {
                *left = left.map(|left| left - length);
                return Ok(bytes.len());
            }
            Framing::Left(left) => {
                *left -= length;
                self.write_plain(bytes)?
            }
            Framing::UntilClose => self.write_plain(bytes)?,
            Framing::Chunked => self.fill_chunk(bytes),
        };
        if self.exchange.conn.holds() >= OUTPUT_BYTES {
            self.exchange.conn.flush()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        if matches!(self.state.framing, Framing::Chunked) {
            self.seal_chunk();
        }
        self.exchange.conn.flush()
    }
}
