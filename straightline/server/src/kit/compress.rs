//! Answers in Brotli or gzip, as the client likes.

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

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `br`
    Brotli,
    /// `gzip`
    Gzip,
    /// Not at all.
    Identity,
}

impl Coding {
    /// Its name in `Content-Encoding`; `None` where that field is left out.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Brotli => Some("br"),
            Self::Gzip => Some("gzip"),
            Self::Identity => None,
        }
    }
}

/// The best coding that a client takes, by the value of its `Accept-Encoding`.
///
/// Source: RFC 9110, section 12.5.3; among equals Brotli before gzip, and gzip before nothing.
pub fn preferred(accept_encoding: Option<&str>) -> Coding {
    let field = accept_encoding.unwrap_or_default();
    let weight = |names: &[&str]| {
        let of = |wanted: &str| {
            field.split(',').find_map(|item| {
                let mut parts = item.split(';').map(str::trim);
                parts.next().filter(|coding| coding.eq_ignore_ascii_case(wanted))?;
                Some(parts.find_map(weight_of).unwrap_or(1.0_f32))
            })
        };
        names.iter().find_map(|name| of(name)).or_else(|| of("*")).unwrap_or(0.0)
    };
    let (brotli, gzip, identity) = (weight(&["br"]), weight(&["gzip", "x-gzip"]), weight(&["identity"]));
    if brotli > 0.0 && brotli >= gzip.max(identity) {
        Coding::Brotli
    } else if gzip > 0.0 && gzip >= identity {
        Coding::Gzip
    } else {
        Coding::Identity
    }
}

/// The number of `q=0.5`.
fn weight_of(parameter: &str) -> Option<f32> {
    let (name, value) = parameter.split_once('=')?;
    if name.eq_ignore_ascii_case("q") { value.parse().ok() } else { None }
}

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

#[cfg(test)]
mod tests {
    use super::{Coding, preferred};

    #[test]
    fn the_client_says_what_it_likes() {
        for (field, wanted) in [
            (None, Coding::Identity),
            (Some(""), Coding::Identity),
            (Some("gzip, deflate, br"), Coding::Brotli),
            (Some("gzip"), Coding::Gzip),
            (Some("GZIP;q=0.5, br;q=0.4"), Coding::Gzip),
            (Some("br;q=0, gzip;q=0"), Coding::Identity),
            (Some("br;q=0, *"), Coding::Gzip),
            (Some("*"), Coding::Brotli),
            (Some("brotli, gzipped"), Coding::Identity),
            (Some("identity"), Coding::Identity),
            (Some("identity;q=1, gzip;q=0.1"), Coding::Identity),
            (Some("identity;q=0.5, gzip;q=0.5"), Coding::Gzip),
            (Some("identity;q=0.5, gzip;q=0.1, br;q=0.6"), Coding::Brotli),
            (Some("gzip;q=0.1"), Coding::Gzip),
            (Some("x-gzip"), Coding::Gzip),
            (Some("br;q=0, gzip;q=0, *"), Coding::Identity),
            (Some("br;Q=0"), Coding::Identity),
            (Some("br;Q=0.2, gzip;q=0.3"), Coding::Gzip),
        ] {
            assert_eq!(preferred(field), wanted, "{field:?}");
        }
    }
}
