//! One answer: its fields, its body, and for a call of gRPC how it went.

use http2::hpack::{Decoder, HpackError};

use crate::session::fields::{Fields, FieldsError, Head};
use crate::session::grpc::{Messages, is_grpc, status};
use crate::session::{Answers, Body, GrpcError, Heard, Malformed, Reason};

/// Field that says how a call went.
const GRPC_STATUS: &[u8] = b"grpc-status";
/// Field that says why it went so.
const GRPC_MESSAGE: &[u8] = b"grpc-message";
/// Status of HTTP of every answer to a call that has reached its service.
const OK: u16 = 200;

/// What a head says.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    head: Head,
    /// How a call went, where that is not to come after the body.
    call: Option<u16>,
}

/// What a block of fields stands for, as long as nothing changes the table of its connection.
#[derive(Debug, Default)]
struct Known<T> {
    block: Vec<u8>,
    changes: u64,
    said: T,
}

impl<T: Copy> Known<T> {
    #[inline]
    fn find(&self, block: &[u8], changes: u64) -> Option<T> {
        (self.changes == changes && self.block == block && !block.is_empty()).then_some(self.said)
    }

    fn keep(&mut self, block: &[u8], before: u64, changes: u64, said: T) {
        self.block.clear();
        if before == changes {
            self.block.extend_from_slice(block);
        }
        (self.changes, self.said) = (changes, said);
    }
}

/// Reads the blocks of fields of one connection, in their order. What a server says again costs a comparison.
#[derive(Debug)]
pub(super) struct Blocks {
    decoder: Decoder,
    grpc: bool,
    head: Known<Said>,
    trailers: Known<Option<u16>>,
    /// Why the last call failed whose status was not known before.
    reason: Option<Reason>,
}

/// Fields that were read, or why those of one answer are none; an error of the outer kind ends the connection.
type Read<T> = Result<Result<T, Malformed>, HpackError>;

impl Blocks {
    pub(super) fn new(table_bytes: usize, grpc: bool) -> Self {
        Self {
            decoder: Decoder::new(table_bytes),
            grpc,
            head: Known::default(),
            trailers: Known::default(),
            reason: None,
        }
    }

    #[inline]
    fn head(&mut self, block: &[u8], heard: Option<&mut Heard>) -> Read<Said> {
        match self.head.find(block, self.decoder.changes()) {
            Some(said) if heard.is_none() => Ok(Ok(said)),
            _ => self.read_head(block, heard),
        }
    }

    fn read_head(&mut self, block: &[u8], heard: Option<&mut Heard>) -> Read<Said> {
        let before = self.decoder.changes();
        let mut fields = Fields::of_head(heard.is_some());
        let (mut call, mut is_call, mut message) = (None, false, Vec::new());
        self.decoder.decode(block, |name, value| {
            fields.push(name, value);
            match name {
                GRPC_STATUS => call = Some(status(Some(value))),
                GRPC_MESSAGE => message = value.to_vec(),
                b"content-type" => is_call = is_grpc(Some(value)),
                _ => {}
            }
        })?;
        let head = match fields.end(heard) {
            Ok(head) => head,
            Err(error) => return Ok(Err(error.into())),
        };
        let call = match call.filter(|_| self.grpc).transpose() {
            Err(error) => return Ok(Err(error.into())),
            Ok(None) if self.grpc && head.status >= OK => match (head.status, is_call) {
                (OK, true) => None,
                (OK, false) => return Ok(Err(GrpcError::ContentType.into())),
                (status, _) => Some(status),
            },
            Ok(call) => call,
        };
        self.note_call(call, &message);
        let said = Said { head, call };
        self.head.keep(block, before, self.decoder.changes(), said);
        Ok(Ok(said))
    }

    /// How a call went, as the fields after its answer say.
    #[inline]
    fn trailers(&mut self, block: &[u8]) -> Read<Option<u16>> {
        match self.trailers.find(block, self.decoder.changes()) {
            Some(call) => Ok(Ok(call)),
            None => self.read_trailers(block),
        }
    }

    fn read_trailers(&mut self, block: &[u8]) -> Read<Option<u16>> {
        let before = self.decoder.changes();
        let (mut fields, mut call, mut message) = (Fields::of_trailers(), None, Vec::new());
        self.decoder.decode(block, |name, value| {
            fields.push(name, value);
            match name {
                GRPC_STATUS => call = Some(status(Some(value))),
                GRPC_MESSAGE => message = value.to_vec(),
                _ => {}
            }
        })?;
        if let Err(error) = fields.end(None) {
            return Ok(Err(error.into()));
        }
        let call = match call.filter(|_| self.grpc).transpose() {
            Err(error) => return Ok(Err(error.into())),
            Ok(call) => call,
        };
        self.note_call(call, &message);
        self.trailers.keep(block, before, self.decoder.changes(), call);
        Ok(Ok(call))
    }

    /// Keeps why a call failed, if it did.
    fn note_call(&mut self, call: Option<u16>, message: &[u8]) {
        if let Some(status) = call.filter(|status| *status >= model::record::GRPC_STATUS) {
            self.reason = Some(Reason::of_call(status, message));
        }
    }

    pub(super) fn take_reason(&mut self) -> Option<Reason> {
        self.reason.take()
    }

    /// Reads fields that are for nobody, because others are compressed by them.
    pub(super) fn pass(&mut self, block: &[u8]) -> Result<(), HpackError> {
        self.decoder.decode(block, |_, _| {})
    }
}

/// An answer as it comes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Answer {
    said: Said,
    /// Bytes of the body so far.
    came: u64,
    /// How the body of a call is read.
    messages: Messages,
    /// How a call went, once the fields after its body have said so.
    call: Option<u16>,
}

impl Answer {
    /// Takes in fields; whether they are of a head that begins the answer.
    pub(super) fn fields(
        &mut self,
        block: &[u8],
        ends: bool,
        blocks: &mut Blocks,
        heard: Option<&mut Heard>,
    ) -> Read<bool> {
        if self.said.head.status != 0 {
            return Ok(match blocks.trailers(block)? {
                Ok(_) if !ends => Err(FieldsError::Order.into()),
                Ok(call) => {
                    self.call = call;
                    Ok(false)
                }
                Err(error) => Err(error),
            });
        }
        let said = match blocks.head(block, heard)? {
            Ok(said) => said,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match said.head.is_interim() {
            Err(error) => Err(error.into()),
            Ok(true) if ends => Err(FieldsError::Incomplete.into()),
            Ok(true) => Ok(false),
            Ok(false) => {
                self.said = said;
                Ok(true)
            }
        })
    }

    /// Takes in bytes of the body.
    #[inline]
    pub(super) fn body(
        &mut self,
        bytes: &[u8],
        grpc: bool,
        heard: Option<&mut Heard>,
    ) -> Result<(), Malformed> {
        if self.said.head.status == 0 {
            return Err(FieldsError::Order.into());
        }
        self.came += bytes.len() as u64;
        if let Some(heard) = heard {
            heard.more(bytes);
        }
        if grpc && !bytes.is_empty() {
            self.messages.take(bytes)?;
        }
        Ok(())
    }

    /// The stream has ended: the status that counts.
    #[inline]
    pub(super) fn end(
        &self,
        bodiless: bool,
        grpc: Option<Answers>,
        heard: Option<&mut Heard>,
    ) -> Result<u16, Malformed> {
        let mut counted = self.said.head.end(self.came, bodiless)?;
        if let Some(answers) = grpc {
            counted = match self.said.call {
                Some(early) => early,
                None => {
                    let call = self.call.ok_or(GrpcError::NoStatus)?;
                    self.messages.end()?;
                    call
                }
            };
            self.messages.check(answers, counted)?;
        }
        if let Some(heard) = heard {
            heard.status = counted;
        }
        Ok(counted)
    }
}
