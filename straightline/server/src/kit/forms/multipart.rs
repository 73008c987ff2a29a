//! `multipart/form-data`, part by part, in a few kilobytes of memory however large the parts are.
//!
//! Source: RFC 7578; RFC 2046, section 5.1.1. Nothing may stand before the first part, which no browser puts there.

use crate::kit::media;
use crate::{Request, StatusError};
use memchr::memmem;
use std::fmt;
use std::io::{self, BufRead, Read};

/// Most parts of a body: more than any form has.
pub const PARTS_MAX: usize = 256;
/// Longest head of a part in bytes: a name, the name of a file and its type.
const HEAD_BYTES_MAX: usize = 4 * 1024;
/// Longest boundary in bytes. Source: RFC 2046, section 5.1.1.
const BOUNDARY_BYTES_MAX: usize = 70;
/// Bytes of the body that are looked at together.
const WINDOW_BYTES: usize = 16 * 1024;

/// The parts of a form, in the order in which they come.
///
/// ```no_run
/// use straightline::kit::forms::Multipart;
///
/// straightline::Server::bind("127.0.0.1:8080")?.serve(|request, response| {
///     let mut form = Multipart::new(request, 1 << 30)?;
///     while let Some(mut part) = form.next()? {
///         match part.file_name() {
///             // To a file, say; but the name is the client's, and no path to write to.
///             Some(_) => drop(std::io::copy(&mut part, &mut std::io::sink())?),
///             None => drop(part.text(1000)?),
///         }
///     }
///     response.send(b"")
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
pub struct Multipart<'q, 'a> {
    parser: Parser<&'q mut Request<'a>>,
}

impl fmt::Debug for Multipart<'_, '_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Multipart").field("parts", &self.parser.parts).finish_non_exhaustive()
    }
}

impl<'q, 'a> Multipart<'q, 'a> {
    /// The parts of a body of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// Some that are answered with 415 (another type), 413 (too large) and 400 (no boundary).
    pub fn new(request: &'q mut Request<'a>, most: u64) -> io::Result<Self> {
        let boundary = boundary(media::expect(request, "multipart/form-data")?)?.to_owned();
        request.limit_body(most)?;
        Ok(Self { parser: Parser::new(request, &boundary) })
    }

    /// The next part; `None` after the last. What was not read of the one before is passed over.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 if the body is malformed or has more than [`PARTS_MAX`] parts, with 413 if it is too
    /// large; those of the connection.
    #[expect(
        clippy::should_implement_trait,
        reason = "a part borrows from it, and an iterator's items cannot"
    )]
    pub fn next(&mut self) -> io::Result<Option<Part<'_>>> {
        let head = self.parser.next()?;
        Ok(head.map(|head| Part { head, source: &mut self.parser }))
    }
}

/// A part of a form. Reading from it reads its value.
pub struct Part<'m> {
    head: Head,
    source: &'m mut dyn Read,
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head.fmt(out)
    }
}

impl Part<'_> {
    /// The name of its field.
    pub fn name(&self) -> &str {
        &self.head.name
    }

    /// What the client calls the file, if it is one: any text at all, and no path to be used.
    pub fn file_name(&self) -> Option<&str> {
        self.head.file_name.as_deref()
    }

    /// The type that the client says.
    pub fn content_type(&self) -> Option<&str> {
        self.head.content_type.as_deref()
    }

    /// The value as text of at most `most` bytes.
    ///
    /// # Errors
    ///
    /// Some that are answered with 413 if it is longer, and with 400 if it is not UTF-8; as [`Multipart::next`].
    pub fn text(mut self, most: usize) -> io::Result<String> {
        let mut bytes = Vec::new();
        let limit = (most as u64).saturating_add(1);
        (&mut self).take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            return Err(StatusError::new(413, format!("the field {} is too long", self.name())).into());
        }
        String::from_utf8(bytes).map_err(|_| malformed("a field is not UTF-8").into())
    }
}

impl Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.source.read(into)
    }
}

fn malformed(why: &'static str) -> StatusError {
    StatusError::new(400, format!("the form is malformed: {why}"))
}

/// The boundary that a type names.
fn boundary(content_type: &str) -> Result<&str, StatusError> {
    let mut parameters = content_type.split(';').skip(1).map(str::trim);
    let named = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    });
    let named = named.ok_or_else(|| malformed("it names no boundary"))?;
    let boundary = named.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(named);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    let good = (1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) && boundary.bytes().all(is_allowed);
    if good && !boundary.ends_with(' ') { Ok(boundary) } else { Err(malformed("the boundary cannot be one")) }
}

/// What a part says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Head {
    name: String,
    file_name: Option<String>,
    content_type: Option<String>,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, StatusError> {
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("a head is not UTF-8"))?;
        let mut head = Self::default();
        let mut disposed = false;
        for line in text.split("\r\n").filter(|line| !line.is_empty()) {
            if line.chars().any(|char| char.is_control() && char != '\t') {
                return Err(malformed("a head has control characters"));
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| malformed("a head has a line without a colon"))?;
            if name.eq_ignore_ascii_case("content-disposition") {
                if std::mem::replace(&mut disposed, true) {
                    return Err(malformed("a part has two names"));
                }
                head.dispose(value.trim())?;
            } else if name.eq_ignore_ascii_case("content-type") {
                head.content_type = Some(value.trim().to_owned());
            }
        }
        if disposed { Ok(head) } else { Err(malformed("a part has no name")) }
    }

    /// Takes up `form-data; name="a"; filename="b"`.
    fn dispose(&mut self, value: &str) -> Result<(), StatusError> {
        let (kind, mut rest) = value.split_once(';').unwrap_or((value, ""));
        if !kind.trim().eq_ignore_ascii_case("form-data") {
            return Err(malformed("a part is no field of a form"));
        }
        let mut name = None;
        while !rest.trim().is_empty() {
            let (parameter, after) =
                rest.split_once('=').ok_or_else(|| malformed("a parameter without a value"))?;
            let (text, after) = text_of(after)?;
            let known = match parameter.trim().to_ascii_lowercase().as_str() {
                "name" => Some(&mut name),
                "filename" => Some(&mut self.file_name),
                _ => None,
            };
            if let Some(known) = known
                && known.replace(text).is_some()
            {
                return Err(malformed("a part has two names"));
            }
            rest = match after.trim_start().strip_prefix(';') {
                Some(rest) => rest,
                None if after.trim().is_empty() => "",
                None => return Err(malformed("something follows a parameter")),
            };
        }
        self.name = name.ok_or_else(|| malformed("a part has no name"))?;
        Ok(())
    }
}

/// A value, in quotes or without, and what follows it.
fn text_of(value: &str) -> Result<(String, &str), StatusError> {
    let value = value.trim_start();
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find(';').unwrap_or(value.len());
        return Ok((value[..end].trim().to_owned(), &value[end..]));
    };
    let (mut text, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((text, &quoted[at + 1..])),
            // Browsers say %22 for a quote; some clients put a backslash before it, and others mean one by it.
            '\\' if quoted[at + 1..].starts_with('"') => {
                text.push('"');
                chars.next();
            }
            char => text.push(char),
        }
    }
    Err(malformed("a quotation has no end"))
}

/// Where the parser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first boundary.
    Start,
    /// In a value.
    Value,
    /// Behind a boundary.
    Boundary,
    End,
    /// Nobody knows what comes next.
    Lost,
}

/// Takes a body apart.
struct Parser<R> {
    source: R,
    /// A line end, two hyphens and the boundary.
    delimiter: Vec<u8>,
    window: Vec<u8>,
    /// What of the window was used.
    at: usize,
    place: Place,
    parts: usize,
}

impl<R: BufRead> Parser<R> {
    fn new(source: R, boundary: &str) -> Self {
        let delimiter = [b"\r\n--", boundary.as_bytes()].concat();
        // As if a line had ended before the first boundary.
        let window = b"\r\n".to_vec();
        Self { source, delimiter, window, at: 0, place: Place::Start, parts: 0 }
    }

    fn next(&mut self) -> io::Result<Option<Head>> {
        let outcome = self.find_next();
        if outcome.is_err() {
            self.place = Place::Lost;
        }
        outcome
    }

    fn find_next(&mut self) -> io::Result<Option<Head>> {
        match self.place {
            Place::Start => {
                self.need(self.delimiter.len())?;
                if !self.rest().starts_with(&self.delimiter) {
                    return Err(malformed("it does not begin with its boundary").into());
                }
                self.at += self.delimiter.len();
            }
            Place::Value => drop(io::copy(self, &mut io::sink())?),
            Place::Boundary => {}
            Place::End => return Ok(None),
            Place::Lost => return Err(malformed("what went before").into()),
        }
        let padded = self.skip_padding()?;
        self.at += 2;
        match &self.window[self.at - 2..self.at] {
            b"--" if !padded => {
                self.place = Place::End;
                Ok(None)
            }
            b"\r\n" if self.parts < PARTS_MAX => self.head().map(Some),
            b"\r\n" => Err(malformed("it has too many parts").into()),
            _ => Err(malformed("something follows a boundary").into()),
        }
    }

    /// Passes over blanks behind a boundary, and sees to it that two bytes of what follows are there; whether there were any.
    fn skip_padding(&mut self) -> io::Result<bool> {
        let mut padded = false;
        loop {
            self.need(2)?;
            if !matches!(self.window[self.at], b' ' | b'\t') {
                return Ok(padded);
            }
            self.at += 1;
            padded = true;
        }
    }

    /// Reads the head of a part.
    fn head(&mut self) -> io::Result<Head> {
        let end = loop {
            match memmem::find(self.rest(), b"\r\n\r\n") {
                Some(end) if end <= HEAD_BYTES_MAX => break end,
                None if self.rest().len() <= HEAD_BYTES_MAX => self.more()?,
                _ => return Err(malformed("a head is too long").into()),
            }
        };
        let head = Head::parse(&self.rest()[..end])?;
        // The line end before a boundary may be that of the head.
        self.at += end + 2;
        self.parts += 1;
        self.place = Place::Value;
        if self.peek_delimiter()? {
            self.finish_value()
        } else {
            self.at += 2
        }
        Ok(head)
    }

    /// Whether a boundary comes at once: the value is empty, and its line end that of the head.
    fn peek_delimiter(&mut self) -> io::Result<bool> {
        self.need(self.delimiter.len())?;
        Ok(self.rest().starts_with(&self.delimiter))
    }

    fn finish_value(&mut self) {
        self.at += self.delimiter.len();
        self.place = Place::Boundary;
    }

    fn rest(&self) -> &[u8] {
        &self.window[self.at..]
    }

    /// Sees to it that so many bytes are in the window.
    fn need(&mut self, bytes: usize) -> io::Result<()> {
        while self.rest().len() < bytes {
            self.more()?;
        }
        Ok(())
    }

    /// Takes more into the window; the body must go on.
    fn more(&mut self) -> io::Result<()> {
        self.window.drain(..self.at);
        self.at = 0;
        let there = self.source.fill_buf()?;
        let count = there.len().min(WINDOW_BYTES);
        if count == 0 {
            return Err(malformed("it ends too early").into());
        }
        self.window.extend_from_slice(&there[..count]);
        self.source.consume(count);
        Ok(())
    }

    /// Reads of the present value; 0 at its end.
    fn read_value(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let (rest, keep) = (self.rest(), self.delimiter.len() - 1);
            let found = memmem::find(rest, &self.delimiter);
            // The last bytes may be the beginning of the boundary.
            let sure = found.unwrap_or(rest.len().saturating_sub(keep));
            if sure > 0 {
                let count = sure.min(into.len());
                into[..count].copy_from_slice(&rest[..count]);
                self.at += count;
                return Ok(count);
            }
            if found.is_some() {
                self.finish_value();
                return Ok(0);
            }
            self.more()?;
        }
    }
}

impl<R: BufRead> Read for Parser<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.place {
            Place::Value if !into.is_empty() => {
                let outcome = self.read_value(into);
                if outcome.is_err() {
                    self.place = Place::Lost;
                }
                outcome
            }
            Place::Lost => Err(malformed("what went before").into()),
            _ => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests;
