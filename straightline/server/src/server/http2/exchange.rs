//! One request of HTTP/2 and its answer, in a coroutine.

use super::{Session, Stream};
use crate::rt::waker::discard;
use crate::server::body::Body;
use crate::server::exchange::{Exchange, Progress};
use crate::server::output::Output;
use crate::server::request::Request;
use crate::server::response::Response;
use crate::server::turn::{Outcome, call, note_failure, tell_refusal};
use ::http2::ErrorCode;
use http1::request::{NO_SLOTS, parse};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Serves one stream, from its head to its end.
pub(super) fn serve(session: Rc<Session>, id: u32) {
    let served = catch_unwind(AssertUnwindSafe(|| answer_one(&session, id)));
    let code = served.unwrap_or_else(|panic| {
        // Of the user's code beside the handler: the drop of what it panicked with.
        discard(panic);
        ErrorCode::InternalError
    });
    session.conn.ensure_output();
    session.with_core(|core, out| core.release(id, code, out));
    session.flush_soon();
}

/// Answers a request; what its client is told if that came to no end.
fn answer_one(session: &Rc<Session>, id: u32) -> ErrorCode {
    let text = session.core.borrow_mut().take_head(id);
    let code = answer_head(session, id, &text);
    session.core.borrow_mut().give_head(text);
    code
}

fn answer_head(session: &Rc<Session>, id: u32, text: &[u8]) -> ErrorCode {
    let worker = session.conn.worker();
    let mut slots = NO_SLOTS;
    let parsed = parse(text, &mut slots, &worker.limits().head);
    let head = match &parsed {
        Ok(Some(head)) if head.head_bytes == text.len() => head,
        Ok(_) => return refuse(session, id, 431, "the fields are longer than they may be"),
        Err(error) => return refuse(session, id, error.status(), &error.to_string()),
    };
    worker.counters().requests.add(1);
    let view = head.view(text, &slots);
    let stream = Stream::new(Rc::clone(session), id, view.has_method(b"CONNECT"));
    let output = RefCell::new(Output::over(worker.take_output()));
    let code = {
        let exchange = Exchange::on_stream(&stream, &output, head, &view);
        let promised = match head.framing {
            http1::request::Framing::Length(length) => Some(length),
            _ => None,
        };
        let bare = session.core.borrow().is_bare(id);
        let body = Body::of_stream((!bare).then_some(promised), worker.limits().body_bytes);
        let mut request = Request::new(&exchange, view, body);
        let outcome = call(&exchange, &mut request, Response::new(&exchange));
        if let Some(late) = request.into_body().into_late() {
            worker.give_input(late);
        }
        conclude(&exchange, &stream, &outcome)
    };
    worker.give_output(std::mem::take(output.borrow_mut().bytes_mut()));
    code
}

/// Answers for a handler that did not; what the client is told if it is too late for that.
fn conclude(exchange: &Exchange<'_>, stream: &Stream, outcome: &Outcome) -> ErrorCode {
    match (outcome, exchange.progress.get()) {
        (Outcome::Answered, Progress::Done) => ErrorCode::NoError,
        (_, Progress::Fresh) => {
            let (status, message) = note_failure(exchange, outcome);
            own_answer(stream, status, &message, &exchange.lasting(), exchange.is_head);
            ErrorCode::InternalError
        }
        _ => {
            note_failure(exchange, outcome);
            ErrorCode::InternalError
        }
    }
}

/// Answers a request that reaches no handler.
fn refuse(session: &Rc<Session>, id: u32, status: u16, message: &str) -> ErrorCode {
    session.conn.worker().counters().refused.add(1);
    tell_refusal(&session.conn, status, message);
    own_answer(&Stream::new(Rc::clone(session), id, false), status, message, b"", false);
    ErrorCode::NoError
}

/// An answer of the server's own, with these lines in its head.
fn own_answer(stream: &Stream, status: u16, message: &str, lines: &[u8], is_head: bool) {
    let worker = stream.conn().worker();
    let (kind, body) = worker.service().error_body(status, message);
    let mut head = b"\n".to_vec();
    kind.write(&mut head);
    head.extend_from_slice(lines);
    worker.push_length_and_date(&mut head, body.len() as u64);
    stream.answer(status, &head, is_head);
    worker.counters().count_status(status);
    if !is_head {
        // A client that does not take it has broken off the stream.
        stream.write(&body, true).ok();
    }
}
