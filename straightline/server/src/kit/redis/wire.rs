//! Commands and answers over one connection.

use super::error::Error;
use crate::rt::{TcpStream, sys};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::time::Instant;

/// Most bytes of one value: Redis itself takes no larger ones.
///
/// Source: `proto-max-bulk-len` of `redis.conf`.
const VALUE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Most values in one answer.
const VALUES_MAX: usize = 16 * 1024 * 1024;
/// Most answers within each other: no command gives more than a few, and each takes stack.
const DEPTH_MAX: usize = 16;
/// Longest line in bytes: an error, a status or a number.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Room for one read in bytes: what most answers take in one.
const READ_BYTES: usize = 8 * 1024;
/// Memory that is kept for input and for output, in bytes; what one large value took is given back.
const KEPT_BYTES: usize = 64 * 1024;

/// What Redis answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Nothing: there is no such key.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Double(f64),
    /// A word of the server, such as `OK`.
    Status(String),
    /// What a key has, or another text.
    Bytes(Vec<u8>),
    /// Several; a set is one of them, too.
    Array(Vec<Value>),
    /// Keys and their values.
    Map(Vec<(Value, Value)>),
    /// An error within an answer of several.
    Error(String),
}

/// One connection, and what was read ahead of it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
    /// Where in the input the next answer begins.
    at: usize,
    /// Commands that wait to be sent.
    output: Vec<u8>,
}

impl Wire {
    pub(super) fn over(stream: TcpStream) -> Self {
        Self { stream, input: Vec::new(), at: 0, output: Vec::new() }
    }

    /// Writes a command down, to be sent with the next [`Wire::send`].
    pub(super) fn write(&mut self, words: &[&[u8]]) {
        self.output.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            self.output.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            self.output.extend_from_slice(word);
            self.output.extend_from_slice(b"\r\n");
        }
    }

    /// Sends what waits to be sent, if nothing is left of the answers before: it would be taken for the answer to this.
    pub(super) fn send(&mut self, deadline: Instant) -> Result<(), Error> {
        if self.has_surplus() {
            return Err(Error::Protocol("an answer that nobody asked for".to_owned()));
        }
        self.stream.set_write_timeout(Some(left(deadline)?));
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES);
        sent.map_err(Error::of_stream)
    }

    /// The next answer.
    pub(super) fn answer(&mut self, deadline: Instant) -> Result<Value, Error> {
        let value = self.value(deadline, DEPTH_MAX)?;
        self.input.drain(..self.at);
        self.at = 0;
        self.input.shrink_to(KEPT_BYTES);
        Ok(value)
    }

    /// Source: the Redis serialization protocol, "RESP protocol description".
    fn value(&mut self, deadline: Instant, depth: usize) -> Result<Value, Error> {
        if depth == 0 {
            return Err(Error::Protocol(format!("answers {DEPTH_MAX} deep")));
        }
        let line = self.line(deadline)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| unknown(&line))?;
        Ok(match (kind, rest) {
            ("+", text) => Value::Status(text.to_owned()),
            ("-", text) => Value::Error(text.to_owned()),
            (":", number) => Value::Integer(number.parse().map_err(|_| unknown(&line))?),
            (",", number) => Value::Double(number.parse().map_err(|_| unknown(&line))?),
            ("#", "t") => Value::Bool(true),
            ("#", "f") => Value::Bool(false),
            ("_", "") | ("$" | "*", "-1") => Value::Null,
            ("$", length) => Value::Bytes(self.bytes(length, deadline)?),
            // Three letters and a colon say how the text is meant.
            ("=", length) => {
                let mut text = self.bytes(length, deadline)?;
                Value::Bytes(text.split_off(text.len().min(4)))
            }
            ("!", length) => {
                Value::Error(String::from_utf8_lossy(&self.bytes(length, deadline)?).into_owned())
            }
            ("(", digits) => Value::Bytes(digits.as_bytes().to_vec()),
            ("*" | "~", count) => Value::Array(self.values(count, 1, deadline, depth)?),
            ("%", count) => {
                let mut values = self.values(count, 2, deadline, depth)?.into_iter();
                Value::Map(std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect())
            }
            _ => return Err(unknown(&line)),
        })
    }

    fn values(
        &mut self,
        count: &str,
        each: usize,
        deadline: Instant,
        depth: usize,
    ) -> Result<Vec<Value>, Error> {
        let count = count.parse::<usize>().ok().filter(|count| *count <= VALUES_MAX);
        let count = count.ok_or_else(|| Error::Protocol("an answer of too many values".to_owned()))?;
        // Not set aside before they come: whoever says a large number would take the memory of all others.
        let mut values = Vec::new();
        for _ in 0..count * each {
            values.push(self.value(deadline, depth - 1)?);
        }
        Ok(values)
    }

    fn line(&mut self, deadline: Instant) -> Result<String, Error> {
        let mut seen = self.at;
        loop {
            if let Some(end) = self.input[seen..].windows(2).position(|pair| pair == b"\r\n") {
                let line = std::str::from_utf8(&self.input[self.at..seen + end]);
                let line = line.map_err(|_| Error::Protocol("a line that is no text".to_owned()))?.to_owned();
                self.at = seen + end + 2;
                return Ok(line);
            }
            if self.input.len() - self.at > LINE_BYTES_MAX {
                return Err(Error::Protocol("a line without an end".to_owned()));
            }
            // The last byte may be the first of an end of line.
            seen = self.input.len().saturating_sub(1).max(self.at);
            self.fill(deadline)?;
        }
    }

    fn bytes(&mut self, length: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        let length = length.parse::<usize>().ok().filter(|length| *length <= VALUE_BYTES_MAX);
        let length = length.ok_or_else(|| Error::Protocol("a value that is too long".to_owned()))?;
        while self.input.len() - self.at < length + 2 {
            self.fill(deadline)?;
        }
        let end = self.at + length;
        if &self.input[end..end + 2] != b"\r\n" {
            return Err(Error::Protocol("a value without its end".to_owned()));
        }
        let bytes = self.input[self.at..end].to_vec();
        self.at = end + 2;
        Ok(bytes)
    }

    fn fill(&mut self, deadline: Instant) -> Result<(), Error> {
        self.stream.set_read_timeout(Some(left(deadline)?));
        let before = self.input.len();
        self.input.resize(before + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[before..]);
        self.input.truncate(before + *read.as_ref().unwrap_or(&0));
        match read.map_err(Error::of_stream)? {
            0 => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    /// Whether more came than was asked for.
    pub(super) fn has_surplus(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether the server is there and has said nothing that nobody asked for, up to this moment: a look at the socket, which
    /// takes less than a hundredth of a command.
    pub(super) fn is_quiet(&self) -> bool {
        !self.has_surplus() && matches!(sys::peek(&self.stream), Err(Errno::AGAIN))
    }
}

/// The time that is left.
fn left(deadline: Instant) -> Result<std::time::Duration, Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::Deadline) } else { Ok(left) }
}

fn unknown(line: &str) -> Error {
    let shown: String = line.chars().take(40).collect();
    Error::Protocol(format!("an answer that begins with {shown:?}"))
}
