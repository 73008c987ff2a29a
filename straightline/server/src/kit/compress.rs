//! Answers in Brotli or gzip, as the client likes.

use super::coding::{Coding, preferred};
use crate::{Done, Request, Response, Streaming, rt};
use std::fmt;
use std::io::{self, Write};

/// Effort of Brotli, 0 to 11: about as fast as gzip at its usual 6, and smaller.
const BROTLI_QUALITY: u32 = 5;
/// Reach of Brotli, as a power of two in bytes: 1 MiB of memory for each answer under way, not 4.
const BROTLI_WINDOW: u32 = 20;
/// Room between Brotli and the connection, in bytes.
const BUFFER_BYTES: usize = 4096;
/// Stack for beginning to compress, in bytes: the tables are made on it before they move to the heap.
const STACK_BYTES: usize = 1024 * 1024;

/// The body of an answer, compressed as it is written. [`flush`](Write::flush) sends what there is, at some cost in
/// size.
pub struct Compressed<'a> {
    /// `None` only while it ends.
    encoder: Option<Encoder<'a>>,
}

enum Encoder<'a> {
    Brotli(Box<brotli::CompressorWriter<Sink<'a>>>),
    Gzip(Box<flate2::write::GzEncoder<Sink<'a>>>),
    Identity(Sink<'a>),
}

/// The answer below an encoder. It remembers an error, which not every encoder passes on when it ends.
struct Sink<'a> {
    response: Response<'a, Streaming>,
    failure: Option<io::Error>,
}

impl fmt::Debug for Compressed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Compressed").finish_non_exhaustive()
    }
}

impl<'a> Compressed<'a> {
    /// Begins an answer in the coding that the client likes best.
    ///
    /// Secrets and what a stranger chose do not belong into one compressed answer: its length tells of both (BREACH).
    ///
    /// # Errors
    ///
    /// Those of [`Response::start`].
    pub fn start(request: &Request<'_>, response: Response<'a>) -> io::Result<Self> {
        let coding = preferred(request.header("accept-encoding"));
        let response = response.header("vary", "accept-encoding")?;
        let response = match coding.name() {
            Some(name) => response.header("content-encoding", name)?,
            None => response,
        };
        let sink = Sink { response: response.start()?, failure: None };
        let encoder = rt::with_big_stack(STACK_BYTES, || Encoder::new(coding, sink))?;
        Ok(Self { encoder: Some(encoder) })
    }

    /// Ends the body.
    ///
    /// # Errors
    ///
    /// Those of the connection, of this call or an earlier one.
    pub fn end(mut self) -> io::Result<Done> {
        let encoder = self.encoder.take().expect("nothing else takes it");
        let sink = rt::with_big_stack(STACK_BYTES, || encoder.finish())??;
        match sink.failure {
            None => sink.response.end(),
            Some(failure) => Err(failure),
        }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> io::Result<T> {
        match self.encoder.as_mut().expect("it is there until the end") {
            Encoder::Identity(sink) => call(sink),
            Encoder::Brotli(encoder) => rt::with_big_stack(STACK_BYTES, || call(encoder))?,
            Encoder::Gzip(encoder) => rt::with_big_stack(STACK_BYTES, || call(encoder))?,
        }
    }
}

impl Drop for Compressed<'_> {
    fn drop(&mut self) {
        // An encoder that is dropped finishes first, and that takes a large stack too.
        let encoder = self.encoder.take();
        if encoder.is_some() {
            rt::with_big_stack(STACK_BYTES, || drop(encoder)).ok();
        }
    }
}

impl<'a> Encoder<'a> {
    fn new(coding: Coding, sink: Sink<'a>) -> Self {
        match coding {
            Coding::Brotli => {
                let encoder =
                    brotli::CompressorWriter::new(sink, BUFFER_BYTES, BROTLI_QUALITY, BROTLI_WINDOW);
                Self::Brotli(Box::new(encoder))
            }
            Coding::Gzip => {
                Self::Gzip(Box::new(flate2::write::GzEncoder::new(sink, flate2::Compression::default())))
            }
            Coding::Identity => Self::Identity(sink),
        }
    }

    fn finish(self) -> io::Result<Sink<'a>> {
        match self {
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Identity(sink) => Ok(sink),
        }
    }
}

impl Write for Compressed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|encoder| encoder.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(|encoder| encoder.flush())
    }
}

impl Sink<'_> {
    fn note<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        if let (Err(error), None) = (&outcome, &self.failure) {
            self.failure = Some(io::Error::new(error.kind(), error.to_string()));
        }
        outcome
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.response.write(bytes);
        self.note(outcome)
    }

    fn flush(&mut self) -> io::Result<()> {
        let outcome = self.response.flush();
        self.note(outcome)
    }
}
