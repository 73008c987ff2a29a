//! Serving a connection: everything between the first byte of a request and the last of its answer.
//!
//! It runs in a coroutine, or on a thread of the connection's own, and may wait.

use super::body::{After as AfterBody, Body};
use super::buffer::Input;
use super::conn::{After, Conn, Start};
use super::error::answer_to;
use super::event::Event;
use super::exchange::{CONNECTION_CLOSE, Exchange, Progress};
use super::limits::OUTPUT_BYTES;
use super::request::Request;
use super::response::{Done, Response};
use super::transport::Agreed;
use crate::rt::waker::discard;
use http1::HeadLimits;
use http1::request::{RequestHead, parse};
use rustix::io::Errno;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Serves what can be received now, and says what is to become of the connection.
pub(crate) fn serve(conn: &Conn) -> After {
    catch_unwind(AssertUnwindSafe(|| serve_all(conn))).unwrap_or_else(|panic| {
        // Of the user's code beside the handler: the drop of what it panicked with.
        discard(panic);
        give_up(conn)
    })
}

fn serve_all(conn: &Conn) -> After {
    conn.ensure_output();
    let mut input = conn.unstash();
    let mut served = 0;
    let start = conn.take_start();
    if start != Start::Usual
        && let Some(after) = begin(conn, &mut input, &mut served, start)
    {
        return leave(conn, input, after);
    }
    while conn.may_receive() {
        input.make_room();
        match conn.recv(input.room()) {
            Ok(0) => return leave(conn, input, After::Close),
            Ok(count) => input.add(count),
            Err(Errno::AGAIN) => break,
            Err(_) => return leave(conn, input, After::Close),
        }
        if let Some(after) = batch(conn, &mut input, &mut served) {
            return leave(conn, input, after);
        }
    }
    leave(conn, input, After::Receive)
}

/// Serves what was received already, once it is known what the client speaks.
#[cold]
fn begin(conn: &Conn, input: &mut Input, served: &mut u16, start: Start) -> Option<After> {
    input.looked_at = 0;
    if start == Start::First
        && let Some(after) = first(conn, input)
    {
        return Some(after);
    }
    batch(conn, input, served)
}

/// Finds out which protocol the client speaks; `None` if it is HTTP/1.
fn first(conn: &Conn, input: &mut Input) -> Option<After> {
    loop {
        let bytes = input.bytes();
        match conn.agreed_on() {
            // A thread of its own is no place for many streams.
            _ if conn.is_on_thread() => return None,
            #[cfg(feature = "tls")]
            Agreed::Http2 => return Some(After::Http2),
            Agreed::Nothing if bytes.starts_with(http2::PREFACE) => return Some(After::Http2),
            _ if !http2::PREFACE.starts_with(bytes) => return None,
            _ => {}
        }
        if !conn.may_receive() {
            conn.set_start(Start::First);
            return Some(After::Receive);
        }
        match conn.recv(input.room()) {
            Ok(0) => return Some(After::Close),
            Ok(count) => input.add(count),
            Err(Errno::AGAIN) => {}
            Err(_) => return Some(After::Close),
        }
    }
}

#[inline]
fn leave(conn: &Conn, input: Input, after: After) -> After {
    match after {
        After::Receive | After::Again | After::Http2 => conn.put_back(input),
        After::Linger | After::Close => conn.worker().give_input(input),
    }
    after
}

/// Answers every whole request in `input`; `None` when more bytes are needed.
fn batch(conn: &Conn, input: &mut Input, served: &mut u16) -> Option<After> {
    let limits = conn.worker().limits();
    while needs_a_look(input, &limits.head) {
        if *served == limits.pipelined {
            return Some(After::Again);
        }
        let (start, end) = (input.start, input.end);
        let buffer = &mut *input.buffer;
        let bytes = &buffer.bytes[start..end];
        let parsed = parse(bytes, &mut buffer.slots[..], &limits.head);
        // By reference: to move what was written field by field a moment ago stalls the CPU.
        let head = match &parsed {
            Ok(Some(head)) => head,
            Ok(None) => {
                input.looked_at = end - start;
                return None;
            }
            Err(error) => {
                conn.worker().counters().refused.add(1);
                refuse(conn, error.status(), &error.to_string());
                return Some(After::Linger);
            }
        };
        let (after, rest) = exchange(conn, head, bytes, &buffer.slots[..]);
        *served += 1;
        conn.served_one();
        match rest {
            AfterBody::Early(left) => input.consume(end - start - left),
            AfterBody::Late(late) => conn.worker().give_input(std::mem::replace(input, late)),
        }
        if let Some(after) = after {
            return Some(readably(conn, input, after));
        }
        if conn.holds() >= OUTPUT_BYTES && conn.flush().is_err() {
            return Some(give_up(conn));
        }
    }
    None
}

/// `after`, but that what the client sent beyond its last request does not reset the connection before it has read the
/// answer.
fn readably(conn: &Conn, input: &Input, after: After) -> After {
    let unread = !input.bytes().is_empty() || conn.has_unread();
    if after == After::Close && unread && !conn.is_cut() { After::Linger } else { after }
}

/// Whether the bytes can hold a whole head, a byte that no head may have, or too long a target: those seen before did not. Of
/// what makes it look there is no more than two a line in a good head, so that nobody makes it look at each byte.
#[inline]
fn needs_a_look(input: &Input, limits: &HeadLimits) -> bool {
    /// More than a method takes of the line.
    const METHOD_BYTES: usize = 32;
    let bytes = input.bytes();
    let reaches = |count: usize| bytes.len() >= count;
    let longest = usize::from(limits.target_bytes) + METHOD_BYTES;
    match input.looked_at {
        0 => reaches(1),
        seen => {
            reaches(usize::from(limits.head_bytes))
                || (seen < longest && reaches(longest))
                || bytes[seen..].iter().any(is_telling)
        }
    }
}

fn is_telling(byte: &u8) -> bool {
    byte.is_ascii_control() && *byte != b'\t'
}

/// One request and its answer: what is to become of the connection if it is not kept, and what follows the body.
#[inline]
fn exchange<'b>(
    conn: &'b Conn,
    head: &'b RequestHead,
    bytes: &'b [u8],
    slots: &'b [http1::request::Slot],
) -> (Option<After>, AfterBody) {
    let view = head.view(bytes, slots);
    let exchange = Exchange::new(conn, head, &view);
    let limit = conn.worker().limits().body_bytes;
    let early = &bytes[head.head_bytes..];
    let mut request = Request::new(&exchange, view, Body::new(head.framing, early, limit, &exchange));
    conn.worker().counters().requests.add(1);
    let outcome = call(&exchange, &mut request, Response::new(&exchange));
    let after = conclude(&exchange, request.body_mut(), outcome);
    (after, request.into_body().finish())
}

/// What came of calling the handler.
pub(super) enum Outcome {
    Answered,
    Failed(io::Error),
    Panicked,
}

// For two callers the compiler would not do it, and every request would pay for the call.
#[inline(always)]
pub(super) fn call<'a>(
    exchange: &'a Exchange<'a>,
    request: &mut Request<'a>,
    response: Response<'a>,
) -> Outcome {
    let worker = exchange.conn.worker();
    let handler = worker.handler();
    if let Some(time) = worker.limits().handler_time {
        exchange.limit_time(Some(time));
    }
    let returned = catch_unwind(AssertUnwindSafe(|| handler(request, response)));
    exchange.leave_handler();
    match returned {
        Ok(Ok(Done { .. })) => Outcome::Answered,
        Ok(Err(error)) => Outcome::Failed(error),
        Err(_) => Outcome::Panicked,
    }
}

/// What is to become of the connection; `None` if it carries another request.
#[inline]
fn conclude(exchange: &Exchange<'_>, body: &mut Body<'_>, outcome: Outcome) -> Option<After> {
    if !matches!((&outcome, exchange.progress.get()), (Outcome::Answered, Progress::Done)) {
        return fail(exchange, body, outcome);
    }
    if !exchange.keep.get() {
        return Some(if body.is_done() { After::Close } else { After::Linger });
    }
    if body.is_done() {
        return None;
    }
    drain(exchange, body)
}

/// Reads what the handler left of the body.
#[cold]
fn drain(exchange: &Exchange<'_>, body: &mut Body<'_>) -> Option<After> {
    let limit = exchange.conn.worker().limits().drain_bytes;
    if body.drain(exchange, limit) { None } else { Some(After::Linger) }
}

/// Answers for a handler that did not, or gives the connection up if it is too late for that.
#[cold]
fn fail(exchange: &Exchange<'_>, body: &mut Body<'_>, outcome: Outcome) -> Option<After> {
    let conn = exchange.conn;
    let (status, message) = note_failure(exchange, &outcome);
    let sound = !matches!(outcome, Outcome::Panicked);
    match exchange.progress.get() {
        Progress::Fresh => {}
        Progress::Upgraded if matches!(outcome, Outcome::Answered) => return Some(After::Close),
        // The client must not take what it has for a whole answer.
        _ => return Some(give_up(conn)),
    }
    conn.output().borrow_mut().discard_open();
    exchange.settle_keep();
    exchange.keep.set(sound && exchange.keep.get());
    let own = [exchange.connection_line(), &*exchange.lasting()].concat();
    answer(conn, status, &message, &own, exchange.is_head);
    match exchange.keep.get() {
        true if body.is_done() => None,
        true => drain(exchange, body),
        false => Some(After::Linger),
    }
}

/// Counts a handler that did not answer, and says what its client is told.
pub(super) fn note_failure(exchange: &Exchange<'_>, outcome: &Outcome) -> (u16, String) {
    let worker = exchange.conn.worker();
    let counters = worker.counters();
    match outcome {
        Outcome::Panicked => {
            counters.handler_panics.add(1);
            worker.tell(Event::HandlerPanicked { handler: exchange.name() });
            (500, "the handler panicked".to_owned())
        }
        Outcome::Failed(error) => {
            counters.handler_errors.add(1);
            let (status, message) = answer_to(error);
            tell_failure(exchange, error, status);
            (status, message.to_owned())
        }
        Outcome::Answered => (500, "the handler did not answer".to_owned()),
    }
}

/// Tells why a handler failed, unless the error is an answer to its client.
fn tell_failure(exchange: &Exchange<'_>, error: &io::Error, status: u16) {
    let begun = exchange.status.get();
    if status >= 500 || begun != 0 {
        let (handler, status) = (exchange.name(), if begun == 0 { status } else { begun });
        exchange.conn.worker().tell(Event::HandlerFailed { handler, status, error: error.to_string() });
    }
}

/// Closes a connection whose answer was cut short.
fn give_up(conn: &Conn) -> After {
    conn.output().borrow_mut().discard_open();
    conn.reset_on_close();
    After::Close
}

/// Answers a request that reaches no handler, and says that the connection closes.
pub(crate) fn refuse(conn: &Conn, status: u16, message: &str) {
    tell_refusal(conn, status, message);
    conn.ensure_output();
    answer(conn, status, message, CONNECTION_CLOSE, false);
}

/// Tells of a request that reaches no handler.
pub(super) fn tell_refusal(conn: &Conn, status: u16, message: &str) {
    let (peer, reason) = (conn.peer_addr().ok(), message.to_owned());
    conn.worker().tell(Event::RequestRefused { peer, status, reason });
}

/// Appends an answer of the server's own, with these lines in its head: whether the connection is kept, and what lasts.
fn answer(conn: &Conn, status: u16, message: &str, lines: &[u8], is_head: bool) {
    let worker = conn.worker();
    let (kind, body) = worker.service().error_body(status, message);
    let mut output = conn.output().borrow_mut();
    let out = output.bytes_mut();
    if http1::write::status_line(out, status).is_err() {
        out.extend_from_slice(b"HTTP/1.1 500 Internal Server Error\r\n");
    }
    kind.write(out);
    out.extend_from_slice(lines);
    worker.push_length_and_date(out, body.len() as u64);
    http1::write::end_of_head(out);
    if !is_head {
        out.extend_from_slice(&body);
    }
    output.seal();
    worker.counters().count_status(status);
}
