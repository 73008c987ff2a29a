//! What of a client's frames is refused before they are read any further.
//!
//! Source: RFC 6455, sections 5.1, 5.2, 5.5 and 7.4; the registry of close codes at IANA.

use std::time::{Duration, Instant};
use tungstenite::protocol::frame::coding::CloseCode;

/// Most frames that carry nothing of a message (pings, pongs, empty parts) within [`EMPTY_TIME`]: each is answered or at
/// least read, and no honest client sends more than a few.
pub(super) const EMPTY_MAX: u32 = 100;
/// See [`EMPTY_MAX`].
const EMPTY_TIME: Duration = Duration::from_secs(1);
/// Two bytes, eight of a length, four of a mask. A close, which has no such length, has its code of two bytes here too.
const HEADER_BYTES_MAX: usize = 14;

/// A gateway's code, registered after those that tungstenite knows.
const BAD_GATEWAY: u16 = 1014;
/// The code before it, which differs in the last byte alone.
const TRY_AGAIN_LATER: u16 = 1013;

/// Whether an endpoint may say `code` in a close.
pub(super) fn is_allowed(code: u16) -> bool {
    code == BAD_GATEWAY || CloseCode::from(code).is_allowed()
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Source: RFC 6455, section 7.4.1.
    pub(super) code: u16,
    pub(super) why: &'static str,
}

const fn protocol(why: &'static str) -> Fault {
    Fault { code: 1002, why }
}

/// Follows the frames that go by. What it lets pass may still be wrong in other ways.
#[derive(Debug)]
pub(super) struct Check {
    header: [u8; HEADER_BYTES_MAX],
    filled: usize,
    /// Bytes of the present frame's payload that are still to come.
    payload: u64,
    frame_bytes: u64,
    empty: u32,
    since: Instant,
    closed: bool,
    /// The code of the client's close, if it said one.
    code: Option<u16>,
    fault: Option<Fault>,
}

impl Check {
    pub(super) fn new(frame_bytes: usize) -> Self {
        Self {
            header: [0; HEADER_BYTES_MAX],
            filled: 0,
            payload: 0,
            frame_bytes: frame_bytes as u64,
            empty: 0,
            since: Instant::now(),
            closed: false,
            code: None,
            fault: None,
        }
    }

    /// What was wrong.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The code of the client's close, if it said one.
    pub(super) fn code(&self) -> Option<u16> {
        self.code
    }

    /// How many of `bytes`, which came at `now`, come before a fault. A code that tungstenite does not know is made one that it
    /// knows and answers with.
    pub(super) fn pass(&mut self, bytes: &mut [u8], now: Instant) -> usize {
        let mut at = 0;
        while at < bytes.len() && self.fault.is_none() {
            if self.payload > 0 {
                let here = usize::try_from(self.payload).unwrap_or(usize::MAX).min(bytes.len() - at);
                self.payload -= here as u64;
                at += here;
                continue;
            }
            self.header[self.filled] = bytes[at];
            self.filled += 1;
            at += 1;
            if let Err(fault) = self.look(now) {
                // The frame's own beginning may have passed already; its last byte of the header does not.
                self.fault = Some(fault);
                return at - 1;
            }
            if self.filled == 0 && self.code == Some(BAD_GATEWAY) {
                // The last byte of the code came last, and a mask keeps what differs.
                bytes[at - 1] ^= (BAD_GATEWAY ^ TRY_AGAIN_LATER) as u8;
            }
        }
        at
    }

    /// Looks at a header of which one more byte came.
    fn look(&mut self, now: Instant) -> Result<(), Fault> {
        let [first, second, ..] = self.header;
        let (control, closes, length) = (first & 0x08 != 0, first & 0x0f == 8, second & 0x7f);
        match self.filled {
            1 if self.closed => return Err(protocol("a frame after the last one")),
            1 if first & 0x70 != 0 => return Err(protocol("reserved bits are set")),
            1 if !matches!(first & 0x0f, 0..=2 | 8..=10) => return Err(protocol("an unknown kind of frame")),
            1 if control && first & 0x80 == 0 => return Err(protocol("a control frame in parts")),
            2 if second & 0x80 == 0 => return Err(protocol("a frame without a mask")),
            2 if control && length > 125 => return Err(protocol("a control frame that is too long")),
            _ => {}
        }
        let extended = match length {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let code_bytes = if closes && length >= 2 { 2 } else { 0 };
        if self.filled < 2 + extended + 4 + code_bytes {
            return Ok(());
        }
        let length = match extended {
            0 => u64::from(length),
            _ => self.header[2..2 + extended].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
        };
        self.filled = 0;
        self.closed = closes;
        if (extended == 2 && length < 126) || (extended == 8 && length <= 0xffff) {
            return Err(protocol("a length that is not as short as it can be"));
        }
        if length >> 63 != 0 {
            return Err(protocol("a length that cannot be"));
        }
        if length > self.frame_bytes {
            return Err(Fault { code: 1009, why: "the frame is too long" });
        }
        if code_bytes > 0 {
            self.check_code()?;
        }
        self.payload = length - code_bytes as u64;
        if control || length == 0 { self.count(now) } else { Ok(()) }
    }

    /// Looks at the code of a close, which follows the mask: the length of a close is a short one.
    fn check_code(&mut self) -> Result<(), Fault> {
        let [_, _, mask_0, mask_1, _, _, high, low, ..] = self.header;
        let code = u16::from_be_bytes([high ^ mask_0, low ^ mask_1]);
        self.code = Some(code);
        if is_allowed(code) { Ok(()) } else { Err(protocol("a close with a code that means nothing")) }
    }

    fn count(&mut self, now: Instant) -> Result<(), Fault> {
        if now.saturating_duration_since(self.since) >= EMPTY_TIME {
            (self.since, self.empty) = (now, 0);
        }
        self.empty += 1;
        if self.empty > EMPTY_MAX {
            Err(Fault { code: 1008, why: "too many pings, pongs and empty frames" })
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Check;
    use std::time::Instant;

    /// The code of the fault, whatever the pieces in which the bytes come.
    fn code(bytes: &[u8]) -> Option<u16> {
        let now = Instant::now();
        let codes: Vec<Option<u16>> = (1..=bytes.len())
            .map(|size| {
                let mut check = Check::new(70_000);
                let passed: usize = bytes.to_vec().chunks_mut(size).map(|piece| check.pass(piece, now)).sum();
                assert_eq!(passed == bytes.len(), check.fault().is_none());
                check.fault().map(|fault| fault.code)
            })
            .collect();
        assert!(codes.windows(2).all(|pair| pair[0] == pair[1]), "{bytes:?}: {codes:?}");
        codes[0]
    }

    #[test]
    fn only_frames_of_a_client_pass() {
        let mask = [1, 2, 3, 4];
        for (head, payload, wanted) in [
            (&[0x81, 0x82][..], 2, None),
            (&[0x01, 0x80], 0, None),
            (&[0x88, 0x80], 0, None),
            (&[0x88, 0x81], 1, None),
            (&[0x82, 0xfe, 0, 126], 126, None),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 0], 65536, None),
            (&[0x81, 0x02], 2, Some(1002)),
            (&[0xc1, 0x80], 0, Some(1002)),
            (&[0xa1, 0x80], 0, Some(1002)),
            (&[0x91, 0x80], 0, Some(1002)),
            (&[0x83, 0x80], 0, Some(1002)),
            (&[0x8b, 0x80], 0, Some(1002)),
            (&[0x09, 0x80], 0, Some(1002)),
            (&[0x89, 0xfe, 0, 126], 126, Some(1002)),
            (&[0x82, 0xfe, 0, 125], 125, Some(1002)),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], 65535, Some(1002)),
            (&[0x82, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0], 0, Some(1002)),
            (&[0x82, 0xff, 0, 0, 0, 0, 0, 2, 0, 0], 0, Some(1009)),
        ] {
            let bytes = [head, &mask, &vec![7; payload]].concat();
            let small = bytes.len() < 300;
            let found = if small { code(&bytes) } else { code_once(&bytes) };
            assert_eq!(found, wanted, "{head:x?}");
        }
        assert_eq!(
            code(&[[0x88, 0x80, 1, 2, 3, 4], [0x81, 0x80, 1, 2, 3, 4]].concat()),
            Some(1002),
            "after the last"
        );
        for (code_sent, wanted) in [1000_u16, 1012, 1013, 1014, 4999]
            .map(|code| (code, None))
            .into_iter()
            .chain([999, 1004, 1015, 5000].map(|code| (code, Some(1002))))
        {
            let [high, low] = code_sent.to_be_bytes();
            let masked = [high ^ 1, low ^ 2];
            assert_eq!(code(&[&[0x88, 0x82, 1, 2, 3, 4], &masked[..]].concat()), wanted, "{code_sent}");
            assert_eq!(code(&[&[0x88, 0x83, 1, 2, 3, 4], &masked[..], b"x"].concat()), wanted, "{code_sent}");
        }
        let flood = [0x89, 0x80, 1, 2, 3, 4].repeat(101);
        assert_eq!(code_once(&flood[..600]), None);
        assert_eq!(code_once(&flood), Some(1008));
    }

    fn code_once(bytes: &[u8]) -> Option<u16> {
        let mut check = Check::new(70_000);
        check.pass(&mut bytes.to_vec(), Instant::now());
        check.fault().map(|fault| fault.code)
    }
}
