//! What a handler answers.

use super::exchange::{Exchange, Progress, Way};
use super::http2::Stream;
use super::limits::COPIED_BODY_BYTES;
use super::output::Output;
use super::request::Request;
use super::streaming::{Framing, Streaming};
use super::upgrade::Upgraded;
use http1::write::{self, FieldLine};
use std::cell::RefMut;
use std::fmt;
use std::io;

/// State of a [`Response`] of which nothing was sent: status and fields can be set.
#[derive(Debug)]
pub struct Fresh {
    status: u16,
    promised: Option<u64>,
    dated: bool,
}

/// Says that a request was answered. Only a complete answer gives one, so that a handler cannot forget it.
#[derive(Debug)]
#[must_use = "a handler returns it"]
pub struct Done {
    status: u16,
    body_bytes: u64,
}

impl Done {
    #[inline]
    pub(crate) fn new(status: u16, body_bytes: u64) -> Self {
        Self { status, body_bytes }
    }

    /// The end of a connection that spoke another protocol.
    #[cfg(feature = "websocket")]
    pub(crate) fn upgraded() -> Self {
        Self::new(101, 0)
    }

    /// The status that was answered.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Length of the body as the handler wrote it, in bytes; also where HEAD or a status kept it from being sent.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }
}

/// An answer, which is sent whole by [`send`](Response::send), or begun by [`start`](Response::start) and written.
///
/// Fields come before the body:
///
/// ```
/// # use straightline::{Done, Request, Response};
/// fn early(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
///     response.header("in", "time")?.start()?.end()
/// }
/// ```
///
/// and cannot follow it:
///
/// ```compile_fail,E0599
/// # use straightline::{Done, Request, Response};
/// fn late(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
///     response.start()?.header("too", "late")?.end()
/// }
/// ```
pub struct Response<'a, S = Fresh> {
    pub(crate) exchange: &'a Exchange<'a>,
    pub(crate) state: S,
}

impl<S: fmt::Debug> fmt::Debug for Response<'_, S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Response").field("state", &self.state).finish_non_exhaustive()
    }
}

pub(crate) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The status whose body has no bytes, which its head has to say.
///
/// Source: RFC 9110, section 15.3.6.
const RESET_CONTENT: u16 = 205;

/// What describes the text that the server answers an error with.
const OF_ERRORS: [&str; 7] = [
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
];

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
    #[inline]
    pub fn status(mut self, status: u16) -> Self {
        self.state.status = status;
        if !self.exchange.output.borrow().open().is_empty() {
            self.restate();
        }
        self
    }

    /// Writes the status line again, which stands before fields that came first.
    #[cold]
    fn restate(&self) {
        let mut output = self.exchange.output.borrow_mut();
        let line = output.open().iter().position(|&byte| byte == b'\n').map(|end| end + 1);
        let mut replacement = Vec::new();
        // A wrong status is refused when the head is ended.
        if let (Some(length), Ok(())) = (line, write::status_line(&mut replacement, self.state.status)) {
            output.replace_open(length, &replacement);
        }
    }

    /// Adds a field.
    ///
    /// `Content-Length` promises a length, which is then enforced; `Connection: close` closes the connection after
    /// this answer, and `Connection: upgrade` goes with an `Upgrade` field (HTTP/2 has neither). `Date` is added if it is not given.
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
        write::header(self.begun_head()?.bytes_mut(), name, value).map_err(invalid)?;
        Ok(self)
    }

    /// Adds a field that stays if the handler fails: the answer that the server makes of an error or a panic has it as well. For
    /// what is put around handlers: who may read answers, the number of a request, what a browser may do with them.
    ///
    /// ```
    /// # use straightline::{Done, Request, Response, StatusError};
    /// fn numbered<'a>(_: &mut Request<'a>, response: Response<'a>) -> std::io::Result<Done> {
    ///     let response = response.lasting_header("x-request-id", "17")?;
    ///     drop(response); // whatever becomes of it
    ///     Err(StatusError::new(404, "there is no such book").into()) // answered with the number
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Response::header`]; `InvalidInput` also for what the server says of the text of an error itself: `Connection`, `Date`, and
    /// fields that begin with `Content-` and are about the body.
    pub fn lasting_header(self, name: &str, value: impl AsRef<[u8]>) -> io::Result<Self> {
        if OF_ERRORS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(invalid("this field is the server's own where the handler fails"));
        }
        let (value, lasting) = (value.as_ref(), self.exchange.keep_lasting());
        let response = self.header(name, value)?;
        write::header(&mut lasting.borrow_mut(), name, value).map_err(invalid)?;
        Ok(response)
    }

    /// Adds a field that was checked before, and is copied.
    ///
    /// ```
    /// # use straightline::{Done, FieldLine, Request, Response};
    /// const PLAIN: FieldLine = FieldLine::new("Content-Type: text/plain");
    ///
    /// fn hello(_: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    ///     response.field(PLAIN)?.send(b"Hello, World!")
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the status set before is none.
    // Inlined, so that a constant line is copied without a call.
    #[inline(always)]
    pub fn field(self, line: FieldLine) -> io::Result<Self> {
        line.write(self.begun_head()?.bytes_mut());
        Ok(self)
    }

    /// The output, with a status line at least in it.
    #[inline]
    fn begun_head(&self) -> io::Result<RefMut<'a, Output>> {
        let mut output = self.exchange.output.borrow_mut();
        if output.open().is_empty() {
            self.begin_head(&mut output)?;
        }
        Ok(output)
    }

    #[inline(never)]
    fn begin_head(&self, output: &mut Output) -> io::Result<()> {
        write::status_line(output.bytes_mut(), self.state.status).map_err(invalid)
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
        } else if value.eq_ignore_ascii_case(b"upgrade") {
            return Ok(false); // it is written as it is, and left out by streams
        } else if !value.eq_ignore_ascii_case(b"keep-alive") {
            return Err(invalid("of Connection only `close` and `upgrade` can be set"));
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
        let length = self.length_of(body)?;
        match self.exchange.way {
            Way::Usual => self.send_as_usual(length, body),
            _ => self.send_otherwise(length, body),
        }
    }

    #[inline]
    fn send_as_usual(self, length: Option<u64>, body: &[u8]) -> io::Result<Done> {
        let (exchange, conn) = (self.exchange, self.exchange.conn);
        self.end_head(length)?;
        exchange.add_body(body.len() as u64);
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
        Ok(Done::new(self.state.status, body.len() as u64))
    }

    #[cold]
    fn send_otherwise(self, length: Option<u64>, body: &[u8]) -> io::Result<Done> {
        let Way::Stream(stream) = self.exchange.way else {
            self.refuse_tunnel()?;
            return self.send_as_usual(length, body);
        };
        let body_bytes = body.len() as u64;
        let body = if self.exchange.is_head { &[] } else { body };
        self.end_head_of_stream(stream, length, body.is_empty())?;
        self.exchange.add_body(body_bytes);
        if !body.is_empty() {
            self.exchange.progress.set(Progress::Started);
            stream.write(body, true)?;
        }
        self.exchange.progress.set(Progress::Done);
        Ok(Done::new(self.state.status, body_bytes))
    }

    /// The `Content-Length` to say of a whole body; `None` if there is to be none.
    #[inline]
    fn length_of(&self, body: &[u8]) -> io::Result<Option<u64>> {
        let length = body.len() as u64;
        if is_bodiless(self.state.status) {
            return if body.is_empty() { Ok(None) } else { Err(invalid("this status allows no body")) };
        }
        if self.state.status == RESET_CONTENT && !body.is_empty() {
            return Err(invalid("this status allows no body"));
        }
        match self.promised()? {
            Some(promised) if self.exchange.is_head && body.is_empty() => Ok(Some(promised)),
            Some(promised) if promised != length => Err(invalid("another Content-Length was promised")),
            _ => Ok(Some(length)),
        }
    }

    /// The length of the body as it was promised, or as the status has it.
    #[inline]
    fn promised(&self) -> io::Result<Option<u64>> {
        match (self.state.status, self.state.promised) {
            (RESET_CONTENT, Some(1..)) => Err(invalid("this status allows no body")),
            (RESET_CONTENT, _) => Ok(Some(0)),
            (_, promised) => Ok(promised),
        }
    }

    /// Writes what is left of the head, with a `Content-Length` or without.
    #[inline]
    fn end_head(&self, length: Option<u64>) -> io::Result<()> {
        let exchange = self.exchange;
        self.check_status()?;
        exchange.settle_keep();
        let worker = exchange.conn.worker();
        exchange.conn.ensure_output();
        let mut output = self.begun_head()?;
        let out = output.bytes_mut();
        let connection = exchange.connection_line();
        if !connection.is_empty() {
            out.extend_from_slice(connection);
        }
        match length {
            Some(length) if !self.state.dated => worker.push_length_and_date(out, length),
            Some(length) => write::content_length(out, length),
            None if !self.state.dated => worker.push_date(out),
            None => {}
        }
        write::end_of_head(out);
        exchange.status.set(self.state.status);
        worker.counters().count_status(self.state.status);
        Ok(())
    }

    #[inline]
    fn check_status(&self) -> io::Result<()> {
        match self.state.status {
            200..=599 => Ok(()),
            _ => Err(invalid("the status is not from 200 to 599")),
        }
    }

    /// Answers as the service says errors, or with `usual` and its type where it does not say how.
    #[cfg(any(feature = "files", feature = "router"))]
    pub(crate) fn send_error(self, message: &str, usual: Option<FieldLine>, body: &[u8]) -> io::Result<Done> {
        let own = self.exchange.conn.worker().service().own_error_body(self.state.status, message);
        match (own, usual) {
            (Some((kind, body)), _) => self.field(kind)?.send(&body),
            (None, Some(kind)) => self.field(kind)?.send(body),
            (None, None) => self.send(body),
        }
    }

    fn refuse_tunnel(&self) -> io::Result<()> {
        if self.state.status < 300 { Err(invalid("a tunnel cannot be granted")) } else { Ok(()) }
    }

    /// Sends the head by a stream; with it the end of the stream, if nothing follows.
    fn end_head_of_stream(&self, stream: &Stream, length: Option<u64>, end: bool) -> io::Result<()> {
        self.check_status()?;
        if stream.is_tunnel() {
            self.refuse_tunnel()?;
        }
        let worker = self.exchange.conn.worker();
        let mut output = self.begun_head()?;
        if let Some(length) = length {
            write::content_length(output.bytes_mut(), length);
        }
        if !self.state.dated {
            worker.push_date(output.bytes_mut());
        }
        stream.answer(self.state.status, output.open(), end);
        output.discard_open();
        self.exchange.status.set(self.state.status);
        worker.counters().count_status(self.state.status);
        Ok(())
    }

    /// Sends the head; the body is then written, and ended by [`end`](Response::end).
    ///
    /// Without a promised `Content-Length` the body is chunked, or on HTTP/1.0 ended by closing the connection, which
    /// is reset instead if the end is never reached.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the status is none, or is 205 and a body was promised.
    pub fn start(self) -> io::Result<Response<'a, Streaming>> {
        match self.exchange.way {
            Way::Usual => self.start_as_usual(),
            _ => self.start_otherwise(),
        }
    }

    #[cold]
    fn start_otherwise(self) -> io::Result<Response<'a, Streaming>> {
        let exchange = self.exchange;
        let Way::Stream(stream) = exchange.way else {
            self.refuse_tunnel()?;
            return self.start_as_usual();
        };
        let (framing, said) = match self.promised()? {
            _ if is_bodiless(self.state.status) => (Framing::Nothing(None), None),
            promised if exchange.is_head => (Framing::Nothing(promised), promised),
            promised => (Framing::Stream(promised), promised),
        };
        self.end_head_of_stream(stream, said, matches!(framing, Framing::Nothing(_)))?;
        exchange.progress.set(Progress::Started);
        Ok(Response { exchange, state: Streaming::new(framing) })
    }

    fn start_as_usual(self) -> io::Result<Response<'a, Streaming>> {
        let exchange = self.exchange;
        let promised = self.promised()?;
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
        if matches!(framing, Framing::UntilClose) {
            // Whatever ends the process or the handler before the body ends: the client must not take it for whole.
            exchange.conn.reset_on_close();
        }
        Ok(Response { exchange, state: Streaming::new(framing) })
    }

    fn header_of_chunked(self) -> io::Result<Self> {
        self.exchange.conn.ensure_output();
        write::chunked(self.begun_head()?.bytes_mut());
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
        exchange.lift_time_limit();
        exchange.progress.set(Progress::Upgraded);
        exchange.status.set(101);
        exchange.conn.worker().counters().count_status(101);
        exchange.conn.flush()?;
        Ok(Upgraded::new(exchange, request.body_mut()))
    }

    fn status_101(self) -> Self {
        self.status(101)
    }
}
