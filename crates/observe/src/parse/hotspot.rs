//! What a Java virtual machine packs into its memory of the code that it compiled. Source: HotSpot, code/compressedStream.hpp,
//! utilities/unsigned5.hpp, code/scopeDesc.cpp, oops/method.cpp.

/// A byte from here on is followed by another one of the same number, which counts 64 times as much; at most so many bytes.
const FOLLOWED: u8 = 192;
const BITS: u32 = 6;
const NUMBER_BYTES: u32 = 5;
/// The version from which on no byte of a number is zero.
const WITHOUT_ZERO: u32 = 20;
/// In a table of lines: its end, and what comes before two whole numbers.
const END: u8 = 0;
const WHOLE: u8 = 255;

/// Bytes of a scope's record that are read: its caller, its method, and its place in that.
pub(crate) const SCOPE_BYTES: u64 = 15;

/// Numbers as HotSpot packs them.
struct Packed<'a> {
    bytes: &'a [u8],
    /// What is added to each byte.
    above: u8,
}

impl<'a> Packed<'a> {
    fn new(bytes: &'a [u8], version: u32) -> Self {
        Self { bytes, above: u8::from(version >= WITHOUT_ZERO) }
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes.split_off_first().copied()
    }

    fn number(&mut self) -> Option<u32> {
        let mut sum = 0_u32;
        for place in 0..NUMBER_BYTES {
            let byte = self.byte()?;
            let digit = u32::from(byte.checked_sub(self.above)?);
            sum = sum.wrapping_add(digit << (BITS * place));
            if byte < FOLLOWED {
                break;
            }
        }
        Some(sum)
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        let half = i64::from(number >> 1);
        Some(if number & 1 == 0 { half } else { -half - 1 })
    }
}

/// One method at an address of compiled code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scope {
    /// Where the record of the method is that this one was inlined into; nothing where it was not.
    pub(crate) into: Option<u32>,
    /// The place of the method among those that the code knows, from 0; nothing where it is not said.
    pub(crate) method: Option<u32>,
    /// The place in its bytecode, which is 0 where it only begins.
    pub(crate) place: u32,
}

/// Reads the record of a scope.
pub(crate) fn scope(bytes: &[u8], version: u32) -> Option<Scope> {
    let mut packed = Packed::new(bytes, version);
    let into = Some(packed.number()?).filter(|record| *record != 0);
    let method = packed.number()?.checked_sub(1);
    Some(Scope { into, method, place: packed.number()?.saturating_sub(1) })
}

/// The line of a place in a method's bytecode, by its table of lines.
pub(crate) fn line_of_bytecode(table: &[u8], version: u32, place: u32) -> Option<u32> {
    let mut packed = Packed::new(table, version);
    let [mut begin, mut line] = [0_i64; 2];
    let mut found: Option<(i64, i64)> = None;
    loop {
        match packed.byte()? {
            END => break,
            WHOLE => {
                begin += packed.signed()?;
                line += packed.signed()?;
            }
            byte => {
                begin += i64::from(byte >> 3);
                line += i64::from(byte & 7);
            }
        }
        // The compiler may put the begin of a loop last.
        if begin <= i64::from(place) && found.is_none_or(|(before, _)| before <= begin) {
            found = Some((begin, line));
        }
    }
    found.and_then(|(_, line)| u32::try_from(line).ok())
}

/// A Java method as stack traces have it, and the path of its file below a folder of sources. Of a hidden class, such as
/// `a/B$$Lambda$14+0x0000000800c4840`, without its number and its address, which are others in the next process.
pub(crate) fn java_method(class: &str, method: &str, file: Option<&str>) -> (String, Option<String>) {
    let is_number = |letter: char| letter.is_ascii_digit() || letter == '$';
    let path = class.split_once('+').map_or(class, |(path, _)| path.trim_end_matches(is_number));
    let name = format!("{}.{method}", path.replace('/', "."));
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    (name, file.map(|file| format!("{folder}{file}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_byte_and_of_more_are_read() {
        for (bytes, version, expected) in [
            (&[0_u8][..], 17, Some(0)),
            (&[191], 17, Some(191)),
            (&[192, 0], 17, Some(192)),
            (&[255, 191], 17, Some(255 + 191 * 64)),
            // The fifth is the last.
            (&[192, 192, 192, 192, 192, 1], 17, Some(192 * (1 + 64 + 4096 + 262_144 + 16_777_216))),
            // A byte too few.
            (&[192], 17, None),
            (&[], 17, None),
            // No byte is zero.
            (&[1], 21, Some(0)),
            (&[191], 21, Some(190)),
            (&[192, 1], 21, Some(191)),
            (&[0], 21, None),
        ] {
            assert_eq!(Packed::new(bytes, version).number(), expected, "{bytes:?} {version}");
        }
    }

    #[test]
    fn signs_are_in_the_lowest_bit() {
        for (bytes, expected) in [([0], 0), ([1], -1), ([2], 1), ([3], -2)] {
            assert_eq!(Packed::new(&bytes, 17).signed(), Some(expected));
        }
    }

    #[test]
    fn a_scope_says_what_it_was_inlined_into() {
        let inlined = Scope { into: Some(7), method: Some(2), place: 11 };
        assert_eq!(scope(&[7, 3, 12, 9, 9], 17), Some(inlined));
        assert_eq!(scope(&[8, 4, 13, 9, 9], 21), Some(inlined));
        // The outermost one, where it begins; of a method that is not said.
        assert_eq!(scope(&[0, 1, 0], 17), Some(Scope { into: None, method: Some(0), place: 0 }));
        assert_eq!(scope(&[0, 0, 1], 17).and_then(|scope| scope.method), None);
        assert_eq!(scope(&[0, 1], 17), None);
    }

    #[test]
    fn lines_are_those_of_the_last_place_before() {
        // Line 10 from 0, line 12 from 3, line 9 from 40: the last one as whole numbers.
        let table = [WHOLE, 0, 20, (3 << 3) | 2, WHOLE, 74, 5, END, 1, 1];
        for (place, expected) in [(0, 10), (2, 10), (3, 12), (39, 12), (40, 9), (1000, 9)] {
            assert_eq!(line_of_bytecode(&table, 17, place), Some(expected), "{place}");
        }
        // Cut short, or without a line.
        assert_eq!(line_of_bytecode(&table[..5], 17, 3), None);
        assert_eq!(line_of_bytecode(&[END], 17, 3), None);
    }

    #[test]
    fn methods_are_called_as_in_stack_traces() {
        for (class, file, name, path) in [
            (
                "com/acme/Rates$Table",
                Some("Rates.java"),
                "com.acme.Rates$Table.get",
                Some("com/acme/Rates.java"),
            ),
            ("Rates", Some("Rates.java"), "Rates.get", Some("Rates.java")),
            ("a/B$$Lambda$14+0x00000008000c4840", None, "a.B$$Lambda.get", None),
            ("a/B$$Lambda+0x00000008000c4840", None, "a.B$$Lambda.get", None),
        ] {
            assert_eq!(java_method(class, "get", file), (name.to_owned(), path.map(str::to_owned)));
        }
    }
}
