//! What waits to be sent on a connection.
//!
//! ```text
//! | sent already | sealed: may go out now | open: the answer being made |
//!                ^ sent                   ^ sealed                       ^ end
//! ```
//!
//! A head is open until the handler has said all of it, so that an error can still replace it. A chunk is open until
//! its size is known.

/// Memory is traded for so many times less: the head of an answer, say, for a fresh buffer.
const MUCH_LESS: usize = 8;

/// Bytes for a client, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    bytes: Vec<u8>,
    sent: usize,
    sealed: usize,
    /// Whether the client took anything since that was last asked.
    moved: bool,
}

impl Output {
    /// An output that uses the memory of `bytes`.
    pub(crate) fn over(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, sent: 0, sealed: 0, moved: false }
    }

    /// The memory, if nothing is left in it that anyone needs.
    pub(crate) fn take_memory(&mut self) -> Option<Vec<u8>> {
        if !self.bytes.is_empty() || self.bytes.capacity() == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.bytes))
    }

    /// The memory in exchange for as little as holds what is left, where that is much less.
    pub(crate) fn trade_memory(&mut self) -> Option<Vec<u8>> {
        if self.bytes.capacity() < MUCH_LESS * self.held().max(1) {
            return None;
        }
        let rest = self.bytes[self.sent..].to_vec();
        self.sealed -= self.sent;
        self.sent = 0;
        Some(std::mem::replace(&mut self.bytes, rest))
    }

    pub(crate) fn has_memory(&self) -> bool {
        self.bytes.capacity() > 0
    }

    /// What may go out now.
    #[inline]
    pub(crate) fn sendable(&self) -> &[u8] {
        &self.bytes[self.sent..self.sealed]
    }

    /// Bytes held, sendable or not.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// So many sendable bytes went out, or others in their place.
    #[inline]
    pub(crate) fn mark_sent(&mut self, count: usize) {
        self.moved = true;
        self.sent += count;
        debug_assert!(self.sent <= self.sealed);
        self.forget_sent();
    }

    #[inline]
    fn forget_sent(&mut self) {
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            (self.sent, self.sealed) = (0, 0);
        }
    }

    /// Whether the client took anything since that was last asked.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The part that cannot go out yet.
    #[inline]
    pub(crate) fn open(&self) -> &[u8] {
        &self.bytes[self.sealed..]
    }

    #[inline]
    pub(crate) fn open_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.sealed..]
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the open part back.
    pub(crate) fn discard_open(&mut self) {
        self.bytes.truncate(self.sealed);
        self.forget_sent();
    }

    /// Replaces the first `length` bytes of the open part.
    pub(crate) fn replace_open(&mut self, length: usize, with: &[u8]) {
        let range = self.sealed..self.sealed + length;
        self.bytes.splice(range, with.iter().copied());
    }

    /// Lets `bytes` go out before the open part.
    pub(crate) fn insert_sealed(&mut self, bytes: &[u8]) {
        self.bytes.splice(self.sealed..self.sealed, bytes.iter().copied());
        self.sealed += bytes.len();
    }

    /// Lets the open part go out.
    #[inline]
    pub(crate) fn seal(&mut self) {
        self.sealed = self.bytes.len();
    }

    /// Access to the bytes for those who append to them.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Output;

    #[test]
    fn only_what_is_sealed_goes_out_and_the_rest_can_be_taken_back() {
        let mut output = Output::over(Vec::with_capacity(64));
        output.push(b"one");
        output.seal();
        output.push(b"200 two");
        assert_eq!((output.sendable(), output.open()), (&b"one"[..], &b"200 two"[..]));
        output.mark_sent(3);
        assert_eq!(output.sendable(), b"");
        output.replace_open(3, b"4040");
        assert_eq!(output.open(), b"4040 two");
        assert_eq!((output.held(), output.open()), (8, &b"4040 two"[..]));
        assert!(output.take_memory().is_none(), "it is in use");
        output.discard_open();
        assert_eq!(output.held(), 0);
        assert!(output.take_memory().is_some_and(|memory| memory.capacity() >= 64));
    }

    #[test]
    fn memory_that_is_hardly_used_is_traded() {
        let mut output = Output::over(Vec::with_capacity(4096));
        output.push(b"sent");
        output.seal();
        output.push(b"open");
        output.mark_sent(2);
        assert_eq!(output.trade_memory().map(|memory| memory.capacity()), Some(4096));
        assert_eq!((output.sendable(), output.open()), (&b"nt"[..], &b"open"[..]));
        assert!(output.trade_memory().is_none(), "it has little already");
    }

    #[test]
    fn what_was_sent_is_forgotten_once_nothing_else_is_held() {
        let mut output = Output::over(Vec::new());
        output.push(b"abc");
        output.seal();
        output.mark_sent(2);
        assert_eq!(output.sendable(), b"c");
        output.mark_sent(1);
        assert_eq!((output.held(), output.sendable()), (0, &b""[..]));
    }
}
