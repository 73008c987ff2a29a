//! Messages from others to a client.

use super::Message;
use crate::rt::waker::{Waker, unpoisoned};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Messages that may wait for one client: one that takes none for so long is slower than what it is told.
const MAIL_MAX: usize = 256;

/// Sends messages to the client of a [`WebSocket`](super::WebSocket) from anywhere. They go out while its handler waits in
/// [`recv`](super::WebSocket::recv).
#[derive(Clone, Debug)]
pub struct Mailbox {
    pub(super) shared: Arc<Shared>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undelivered {
    /// 256 messages wait for the client already.
    Full,
    /// The client is gone.
    Closed,
}

impl std::fmt::Display for Undelivered {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Full => "too many messages wait for this client",
            Self::Closed => "this client is gone",
        })
    }
}

impl std::error::Error for Undelivered {}

#[derive(Debug)]
pub(super) struct Shared {
    waker: Waker,
    /// `None` once the connection ended.
    mail: Mutex<Option<VecDeque<Message>>>,
}

impl Shared {
    /// Of the running handler.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { waker: Waker::current(), mail: Mutex::new(Some(VecDeque::new())) })
    }

    pub(super) fn has_mail(&self) -> bool {
        unpoisoned(&self.mail).as_ref().is_some_and(|mail| !mail.is_empty())
    }

    pub(super) fn take(&self) -> Option<Message> {
        unpoisoned(&self.mail).as_mut()?.pop_front()
    }

    pub(super) fn close(&self) {
        *unpoisoned(&self.mail) = None;
    }
}

impl Mailbox {
    /// Hands over a message, without waiting for it to be sent.
    ///
    /// # Errors
    ///
    /// [`Undelivered`] says why it was not taken.
    pub fn post(&self, message: Message) -> Result<(), Undelivered> {
        let mut mail = unpoisoned(&self.shared.mail);
        let waiting = mail.as_mut().ok_or(Undelivered::Closed)?;
        if waiting.len() >= MAIL_MAX {
            return Err(Undelivered::Full);
        }
        waiting.push_back(message);
        drop(mail);
        self.shared.waker.wake();
        Ok(())
    }
}
