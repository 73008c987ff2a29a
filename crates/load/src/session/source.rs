/// Most bytes that one write offers: more than a socket's default send buffer takes is only copied in vain.
const BATCH_BYTES: usize = 64 * 1024;

/// The bytes of the requests: one, rendered once, and as many copies of it as one write may carry.
#[derive(Debug)]
pub(crate) struct Source {
    batch: Box<[u8]>,
    request_bytes: usize,
}

impl Source {
    pub(crate) fn new(request: &[u8], depth: u32) -> Self {
        let copies = (BATCH_BYTES / request.len().max(1)).clamp(1, depth as usize);
        Self { batch: request.repeat(copies).into(), request_bytes: request.len() }
    }

    pub(crate) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// The next bytes of `unwritten` requests, of the first of which `offset` bytes were written.
    #[inline]
    pub(crate) fn bytes(&self, unwritten: u32, offset: usize) -> &[u8] {
        let end = (unwritten as usize * self.request_bytes).min(self.batch.len());
        &self.batch[offset.min(end)..end]
    }
}
