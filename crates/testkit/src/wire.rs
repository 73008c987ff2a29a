use std::fmt;

/// What is spoken on one connection: where requests end, and how answers are written.
pub trait Wire: fmt::Debug + Send {
    /// Takes in what came; gives on which stream each request is that ends in it. What is to be written at once goes to `out`.
    fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Vec<u32>;

    /// Writes the answer to the request on `stream`.
    fn answer(&mut self, _stream: u32, reply: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(reply);
    }

    /// Whether answers come in the order of the requests.
    fn is_ordered(&self) -> bool {
        true
    }
}

/// HTTP/1.1 whose requests have no bodies: they end with their blank lines.
#[derive(Debug, Default)]
pub struct Heads {
    /// How much of the blank line after a head has been seen.
    matched: usize,
}

impl Wire for Heads {
    fn read(&mut self, bytes: &[u8], _: &mut Vec<u8>) -> Vec<u32> {
        const BLANK_LINE: &[u8; 4] = b"\r\n\r\n";
        let mut requests = Vec::new();
        for byte in bytes {
            self.matched = match *byte == BLANK_LINE[self.matched] {
                true => self.matched + 1,
                false => usize::from(*byte == b'\r'),
            };
            if self.matched == BLANK_LINE.len() {
                self.matched = 0;
                requests.push(0);
            }
        }
        requests
    }
}
