//! The Huffman code of HPACK and QPACK.
//!
//! The code is canonical: codes of one length count up in the order of their symbols, and the first of each length follows
//! the last of the one before. So the lengths say it all.

/// Length of the code of each byte, and of the end of a string, in bits.
///
/// Source: RFC 7541, appendix B.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// Longest code in bits.
const LONGEST: usize = 30;
/// The symbol that ends a string, and that no string may hold.
const END: u16 = 256;
/// Bits that are looked up at once: the codes of nearly all that heads are made of.
const QUICK_BITS: u32 = 8;

struct Code {
    /// Of each symbol.
    codes: [u32; 257],
    /// All symbols, by length and then by number.
    symbols: [u16; 257],
    /// Of each length: its first code, and where its symbols begin among `symbols`.
    first: [(u32, u16); LONGEST + 1],
    /// How many codes of each length there are.
    count: [u16; LONGEST + 1],
    /// The symbol and length of the code that begins the index; length 0 where it is longer.
    quick: [(u8, u8); 1 << QUICK_BITS],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        codes: [0; 257],
        symbols: [0; 257],
        first: [(0, 0); LONGEST + 1],
        count: [0; LONGEST + 1],
        quick: [(0, 0); 1 << QUICK_BITS],
    };
    let (mut next, mut place, mut length) = (0u32, 0usize, 1usize);
    while length <= LONGEST {
        next <<= 1;
        code.first[length] = (next, place as u16);
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                code.codes[symbol] = next;
                code.symbols[place] = symbol as u16;
                code.count[length] += 1;
                next += 1;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    fill_quick(code)
}

const fn fill_quick(mut code: Code) -> Code {
    let mut symbol = 0;
    while symbol < 256 {
        let length = LENGTHS[symbol] as u32;
        if length <= QUICK_BITS {
            let spare = QUICK_BITS - length;
            let from = (code.codes[symbol] << spare) as usize;
            let mut at = from;
            while at < from + (1 << spare) {
                code.quick[at] = (symbol as u8, length as u8);
                at += 1;
            }
        }
        symbol += 1;
    }
    code
}

/// Length of the code of `text`, in bytes.
pub fn encoded_bytes(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text`, its last byte filled up with ones.
pub fn encode(out: &mut Vec<u8>, text: &[u8]) {
    let (mut bits, mut held) = (0u64, 0u32);
    for byte in text {
        let length = u32::from(LENGTHS[usize::from(*byte)]);
        bits = bits << length | u64::from(CODE.codes[usize::from(*byte)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held)) as u8 | 0xff >> held);
    }
}

/// Appends the text that `bytes` stand for; `None` if they stand for none.
pub fn decode(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let (mut bits, mut held) = (0u64, 0u32);
    let mut rest = bytes.iter();
    loop {
        while held <= 56 - 8 {
            let Some(byte) = rest.next() else { break };
            bits = bits << 8 | u64::from(*byte);
            held += 8;
        }
        if held < 5 {
            return is_padding(bits, held);
        }
        // The longest code, filled up with ones: they are never more than the padding may be.
        let window = match held {
            0..32 => (bits << (32 - held)) as u32 | u32::MAX >> held,
            _ => (bits >> (held - 32)) as u32,
        };
        let (symbol, length) = next(window);
        if length > held {
            return is_padding(bits, held);
        }
        if symbol == END {
            return None;
        }
        out.push(symbol as u8);
        held -= length;
    }
}

/// The first symbol of `window` and the length of its code.
#[inline]
fn next(window: u32) -> (u16, u32) {
    let (symbol, length) = CODE.quick[(window >> (32 - QUICK_BITS)) as usize];
    if length > 0 {
        return (u16::from(symbol), u32::from(length));
    }
    for length in QUICK_BITS as usize + 1..LONGEST {
        let (first, place) = CODE.first[length];
        let index = (window >> (32 - length)).wrapping_sub(first);
        if index < u32::from(CODE.count[length]) {
            return (CODE.symbols[usize::from(place) + index as usize], length as u32);
        }
    }
    let index = (window >> (32 - LONGEST)) - CODE.first[LONGEST].0;
    (CODE.symbols[usize::from(CODE.first[LONGEST].1) + index as usize], LONGEST as u32)
}

/// What is left must be fewer than eight bits, all of them ones.
fn is_padding(bits: u64, held: u32) -> Option<()> {
    let mask = (1u64 << held) - 1;
    (held < 8 && bits & mask == mask).then_some(())
}

#[cfg(test)]
mod tests {
    use super::{LENGTHS, decode, encode, encoded_bytes};

    #[test]
    fn every_byte_comes_back() {
        for byte in 0..=255u8 {
            for text in [vec![byte], vec![byte, b'a', byte], vec![byte; 9]] {
                let (mut code, mut back) = (Vec::new(), Vec::new());
                encode(&mut code, &text);
                assert_eq!(code.len(), encoded_bytes(&text));
                assert_eq!(decode(&mut back, &code), Some(()), "{text:?}");
                assert_eq!(back, text);
            }
        }
    }

    #[test]
    fn the_code_is_complete() {
        let sum: u64 = LENGTHS.iter().map(|&length| 1u64 << (30 - length)).sum();
        assert_eq!(sum, 1 << 30);
    }

    #[test]
    fn wrong_padding_and_the_end_symbol_are_refused() {
        let cases: [(&str, &[u8]); 4] = [
            ("a byte of padding", &[0x1f, 0xff]),
            ("zeros as padding", &[0x18]),
            ("the end symbol", &[0xff, 0xff, 0xff, 0xff]),
            ("the end symbol after text", &[0x1f, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ];
        for (what, bytes) in cases {
            assert_eq!(decode(&mut Vec::new(), bytes), None, "{what}");
        }
        assert_eq!(decode(&mut Vec::new(), &[]), Some(()));
    }
}
