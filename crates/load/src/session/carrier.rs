//! What a protocol with streams does on one connection: HTTP/2 and HTTP/3, as [`super::multiplexed`] drives them.

use std::fmt;

use super::{Heard, Malformed, Reason};

/// What came of a stream; all but the first end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Its answer has begun.
    Begun,
    /// It was answered with this status.
    Answered(u16),
    /// It was answered with what is no answer.
    Malformed(Malformed),
    /// It was reset, or will never be answered.
    Reset,
    /// The server has not looked at it, on a connection that it ends or that is full, so that it may be asked elsewhere;
    /// `farewell` is whether it ends the connection, and in good order.
    Refused { farewell: bool },
}

/// A connection that carries streams, each by its number among the lanes of the connection.
pub trait Carrier: fmt::Debug + Sized {
    /// What is spoken, in words.
    const NAME: &'static str;
    /// Whether its connections have timers of their own.
    const TIMED: bool;
    /// What all connections of a session have in common.
    type Common: fmt::Debug;
    /// A request, ready to be sent.
    type Request: fmt::Debug;
    /// What the server did that ends the connection.
    type Fault: Copy;

    /// A connection begins, with so many lanes. With `hears` answers are kept for [`Carrier::take_heard`].
    fn open(common: &Self::Common, lanes: u32, hears: bool) -> Self;

    /// A request of HTTP/1.1 as it would go over the wire, made ready; nothing if it is none.
    fn request(common: &Self::Common, bytes: &[u8]) -> Option<Self::Request>;

    /// Whether the server takes another request now.
    fn has_room(&self) -> bool;

    /// Whether the server has said farewell and answered what it was to answer.
    fn is_over(&self) -> bool;

    /// Whether the server has answered any request on it.
    fn is_proven(&self) -> bool;

    /// What the server did, in words; nothing where it has not shown that it speaks the protocol at all.
    fn breach(&self, fault: Self::Fault) -> Option<&'static str>;

    /// Sends a request, for which there is room; it is `alike` if it is that of all others.
    fn ask(&mut self, lane: u32, request: &Self::Request, alike: bool);

    /// Gives up what was asked, and tells the server.
    fn cancel(&mut self, lane: u32);

    /// Takes in what came; `report` is called with what came of each stream. Bytes of streams are counted in `bytes`.
    ///
    /// # Errors
    /// What the server did, where the connection is over by that.
    fn receive(
        &mut self,
        common: &mut Self::Common,
        received: &[u8],
        bytes: &mut usize,
        report: impl FnMut(u32, Came),
    ) -> Result<(), Self::Fault>;

    /// Says why the connection ends, or farewell, and nothing else any more.
    fn close(&mut self, fault: Option<Self::Fault>);

    /// What is to be sent.
    fn outgoing(&mut self) -> &mut Vec<u8>;

    /// Why the server failed a request or ends the connection, as it said itself; each once.
    fn take_reason(&mut self) -> Option<Reason>;

    /// The whole answer of a lane, where answers are kept.
    fn take_heard(&mut self, lane: u32) -> Option<Heard>;
}
