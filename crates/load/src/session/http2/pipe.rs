use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection reads and writes: memory.
pub(super) struct Pipe(Arc<Mutex<Buffers>>);

/// The worker's end of a [`Pipe`].
pub(super) struct End {
    shared: Arc<Mutex<Buffers>>,
    /// Bytes that left the pipe and not yet the process.
    outgoing: Vec<u8>,
}

/// Both directions. The lock is never contended: both ends belong to one worker.
#[derive(Default)]
struct Buffers {
    inbound: Vec<u8>,
    read: usize,
    outbound: Vec<u8>,
}

pub(super) fn pipe() -> (Pipe, End) {
    let shared = Arc::<Mutex<Buffers>>::default();
    (Pipe(Arc::clone(&shared)), End { shared, outgoing: Vec::new() })
}

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    // Nothing in here panics while it holds the lock.
    buffers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl End {
    /// Bytes for the connection to read at its next turn.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        lock(&self.shared).inbound.extend_from_slice(bytes);
    }

    /// What the connection wrote, for the caller to take from the front.
    pub(super) fn outgoing(&mut self) -> &mut Vec<u8> {
        let mut buffers = lock(&self.shared);
        match self.outgoing.is_empty() {
            true => std::mem::swap(&mut self.outgoing, &mut buffers.outbound),
            false => self.outgoing.append(&mut buffers.outbound),
        }
        drop(buffers);
        &mut self.outgoing
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut guard = lock(&self.0);
        let Buffers { inbound, read, .. } = &mut *guard;
        let bytes = (inbound.len() - *read).min(buf.remaining());
        if bytes == 0 {
            // Whoever feeds it gives the connection its turn.
            return Poll::Pending;
        }
        buf.put_slice(&inbound[*read..*read + bytes]);
        *read += bytes;
        if *read == inbound.len() {
            inbound.clear();
            *read = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).outbound.extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
