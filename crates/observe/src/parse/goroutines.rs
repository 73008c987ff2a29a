//! What Go's runtime keeps of its goroutines, on x86-64. Source: Go, runtime/runtime2.go (`g`, `gobuf`, `waitReason`), runtime/asm_amd64.s
//! (`mcall`), debug/buildinfo.

use std::ops::RangeInclusive;

/// Bytes of a goroutine that are read.
pub(crate) const GOROUTINE_BYTES: usize = 192;
/// Bytes below the stack pointer that are read of a stack: before Go 1.21 the frame pointer is kept there.
pub(crate) const BELOW: u64 = 16;
/// Frames of a stack at most: a server with a framework has some fifty.
const MOST_FRAMES: usize = 128;
/// Largest stack that is believed, in bytes. Source: runtime/proc.go, `maxstacksize`.
const MOST_STACK: u64 = 1 << 30;

/// What is at the same place in all versions: the ends of the stack, and of the registers that were put away the stack pointer, the
/// instruction and the goroutine that they are of.
const STACK: [usize; 2] = [0, 8];
const POINTER: usize = 56;
const INSTRUCTION: usize = 64;
const OWNER: usize = 72;

/// States of a goroutine that waits, also while its stack is scanned.
const WAITS: [u32; 2] = [4, 0x1004];
/// The number of a program's first goroutine.
const FIRST: u64 = 1;

/// Where a minor version of Go keeps the rest, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoLayout {
    /// The frame pointer that was put away.
    frame: usize,
    state: usize,
    number: usize,
    /// Why it waits.
    reason: usize,
}

/// By minor version of Go 1.
const LAYOUTS: [(RangeInclusive<u32>, GoLayout); 3] = [
    (20..=22, GoLayout { frame: 104, state: 144, number: 152, reason: 176 }),
    (23..=24, GoLayout { frame: 104, state: 152, number: 160, reason: 184 }),
    (25..=26, GoLayout { frame: 96, state: 144, number: 152, reason: 176 }),
];

/// Where this minor version of Go 1 keeps what is read; nothing where that is not known.
pub(crate) fn go_layout(minor: u32) -> Option<GoLayout> {
    LAYOUTS.iter().find(|(versions, _)| versions.contains(&minor)).map(|(_, layout)| *layout)
}

/// The minor version of Go 1 that built a program, by its section `.go.buildinfo`.
pub(crate) fn go_version(section: &[u8]) -> Option<u32> {
    /// Bytes of the head, where its flags are, and the one that says that the version follows.
    const HEAD: usize = 32;
    const FLAGS: usize = 15;
    const FOLLOWS: u8 = 2;
    let head = section.get(..HEAD)?;
    if !head.starts_with(b"\xff Go buildinf:") || head[FLAGS] & FOLLOWS == 0 {
        return None;
    }
    // The length is one byte: no version is longer than 127.
    let (length, rest) = section[HEAD..].split_first()?;
    let version = std::str::from_utf8(rest.get(..usize::from(*length))?).ok()?;
    let digits = version.strip_prefix("go1.")?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// A goroutine that waits for something other than the network, and where its stack is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingGoroutine {
    number: u64,
    reason: u8,
    instruction: u64,
    frame: u64,
    pub(crate) stack_pointer: u64,
    /// The end of its stack.
    pub(crate) end: u64,
}

impl GoLayout {
    /// Whether this is the goroutine with which a program begins, at its address.
    pub(crate) fn is_first(&self, address: u64, goroutine: &[u8]) -> bool {
        word(goroutine, self.number) == Some(FIRST) && word(goroutine, OWNER) == Some(address)
    }

    /// A goroutine at its address; nothing where it does not wait, or is none.
    pub(crate) fn waiting(&self, address: u64, goroutine: &[u8]) -> Option<WaitingGoroutine> {
        let state = u32::from_le_bytes(goroutine.get(self.state..self.state + 4)?.try_into().ok()?);
        let reason = *goroutine.get(self.reason)?;
        let [begin, end] = [word(goroutine, STACK[0])?, word(goroutine, STACK[1])?];
        let stack_pointer = word(goroutine, POINTER)?;
        let is_stack = begin < end && end - begin <= MOST_STACK && begin >= BELOW;
        let is_there = is_stack && (begin..end).contains(&stack_pointer);
        let is_goroutine = word(goroutine, OWNER) == Some(address);
        (is_there && is_goroutine && WAITS.contains(&state)).then_some(())?;
        Some(WaitingGoroutine {
            number: word(goroutine, self.number)?,
            reason,
            instruction: word(goroutine, INSTRUCTION)?,
            frame: word(goroutine, self.frame)?,
            stack_pointer,
            end,
        })
    }
}

impl WaitingGoroutine {
    /// Where what is read of its stack begins.
    pub(crate) fn read_from(&self) -> u64 {
        self.stack_pointer - BELOW
    }

    /// The addresses of its stack, innermost first, by frame pointers in what was read of it. They lead upwards alone, so that there is an
    /// end of whatever was read.
    pub(crate) fn chain(&self, read: &[u8]) -> Vec<u64> {
        let begin = self.read_from();
        let at = |address: u64| word(read, usize::try_from(address.checked_sub(begin)?).ok()?);
        let mut chain = vec![self.instruction];
        let mut frame = self.frame;
        while chain.len() < MOST_FRAMES {
            let Some((above, caller)) = at(frame).zip(frame.checked_add(8).and_then(at)) else { break };
            if caller == 0 {
                break;
            }
            // The frame of the function itself that put the registers away.
            if chain.len() > 1 || caller != self.instruction {
                chain.push(caller);
            }
            if above <= frame {
                break;
            }
            frame = above;
        }
        chain
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why a goroutine waits, if that is for the network.
    const FOR_NETWORK: u8 = 2;

    const LAYOUT: GoLayout = LAYOUTS[2].1;
    const ADDRESS: u64 = 0xc000_1000;
    /// Its stack has 128 bytes.
    const BEGIN: u64 = 0xc000_8000;

    fn put(bytes: &mut [u8], at: usize, value: u64) {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// A goroutine that waits for a lock.
    fn goroutine() -> [u8; GOROUTINE_BYTES] {
        let mut bytes = [0; GOROUTINE_BYTES];
        for (at, value) in [
            (STACK[0], BEGIN),
            (STACK[1], BEGIN + 128),
            (POINTER, BEGIN + 32),
            (INSTRUCTION, 0x40_1000),
            (OWNER, ADDRESS),
            (LAYOUT.frame, BEGIN + 40),
            (LAYOUT.state, 4),
            (LAYOUT.number, 1),
            (LAYOUT.reason, 22),
        ] {
            put(&mut bytes, at, value);
        }
        bytes
    }

    fn waiting() -> WaitingGoroutine {
        LAYOUT.waiting(ADDRESS, &goroutine()).unwrap()
    }

    #[test]
    fn who_waits_is_told_and_nothing_else_is() {
        assert!(LAYOUT.is_first(ADDRESS, &goroutine()));
        assert_eq!((waiting().read_from(), waiting().end), (BEGIN + 16, BEGIN + 128));
        let mut scanned = goroutine();
        put(&mut scanned, LAYOUT.state, 0x1004);
        assert_eq!(LAYOUT.waiting(ADDRESS, &scanned), Some(waiting()));
        let mut polled = goroutine();
        put(&mut polled, LAYOUT.reason, u64::from(FOR_NETWORK));
        assert!(LAYOUT.waiting(ADDRESS, &polled).is_some(), "for the network, too");
        for (at, value) in [
            // It runs, or is on its way.
            (LAYOUT.state, 2),
            (LAYOUT.state, 0x1002),
            // It is another one, or no stack can be there.
            (OWNER, ADDRESS + 8),
            (STACK[0], 0),
            (STACK[1], BEGIN),
            (STACK[1], u64::MAX),
            (POINTER, BEGIN + 128),
            (POINTER, BEGIN - 8),
        ] {
            let mut other = goroutine();
            put(&mut other, at, value);
            assert_eq!(LAYOUT.waiting(ADDRESS, &other), None, "{at}: {value:#x}");
        }
        assert_eq!(LAYOUT.waiting(ADDRESS, &goroutine()[..100]), None);
    }

    /// What is read of the stack, of words by their addresses.
    fn read(words: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 112];
        for (at, value) in words {
            put(&mut bytes, (at - BEGIN - 16) as usize, *value);
        }
        bytes
    }

    #[test]
    fn frame_pointers_lead_to_the_callers_and_never_in_a_circle() {
        let whole =
            [(BEGIN + 40, BEGIN + 64), (BEGIN + 48, 0x40_2000), (BEGIN + 64, 0), (BEGIN + 72, 0x40_3000)];
        assert_eq!(waiting().chain(&read(&whole)), [0x40_1000, 0x40_2000, 0x40_3000]);
        // Before Go 1.21, of the function that put the registers away.
        let older = [(BEGIN + 16, BEGIN + 40), (BEGIN + 24, 0x40_1000)];
        let of_older = WaitingGoroutine { frame: BEGIN + 16, ..waiting() };
        assert_eq!(of_older.chain(&read(&[&older[..], &whole].concat())), waiting().chain(&read(&whole)));
        for above in [BEGIN + 40, BEGIN + 32, BEGIN + 120, BEGIN + 4096, u64::MAX, 1] {
            let chain = waiting().chain(&read(&[(BEGIN + 40, above), (BEGIN + 48, 0x40_2000)]));
            assert_eq!(chain, [0x40_1000, 0x40_2000], "{above:#x}");
        }
        assert_eq!(waiting().chain(&[]), [0x40_1000]);
    }

    #[test]
    fn no_memory_makes_a_stack_longer_than_it_may_be() {
        let mut random = model::plan::SplitMix64::new(7);
        for _ in 0..2000 {
            let word = |random: &mut model::plan::SplitMix64| match random.next_u64() % 4 {
                0 => random.next_u64(),
                // Pointers into the stack lead furthest.
                _ => BEGIN + random.next_u64() % 4096,
            };
            let bytes: Vec<u8> = (0..2048).flat_map(|_| word(&mut random).to_le_bytes()).collect();
            let goroutine = WaitingGoroutine { frame: BEGIN + 16 + random.next_u64() % 4096, ..waiting() };
            assert!(goroutine.chain(&bytes).len() <= MOST_FRAMES);
            let head: Vec<u8> = bytes.iter().copied().take(GOROUTINE_BYTES).collect();
            assert_eq!(LAYOUT.waiting(ADDRESS, &head), None);
        }
        // As deep as the limit, one frame after the other.
        let deep: Vec<u8> =
            (0..4096_u64).flat_map(|at| (BEGIN + 16 + 16 * (at / 2 + 1)).to_le_bytes()).collect();
        let goroutine = WaitingGoroutine { frame: BEGIN + 16, ..waiting() };
        assert_eq!(goroutine.chain(&deep).len(), MOST_FRAMES);
    }

    #[test]
    fn the_version_is_in_the_program() {
        let section = |flags: u8, version: &str| {
            let mut bytes = b"\xff Go buildinf:\x08".to_vec();
            bytes.push(flags);
            bytes.resize(32, 0);
            bytes.push(version.len() as u8);
            bytes.extend_from_slice(version.as_bytes());
            bytes
        };
        for (version, minor) in
            [("go1.26.8", Some(26)), ("go1.21rc2", Some(21)), ("go1.23", Some(23)), ("devel go1.27-ab", None)]
        {
            assert_eq!(go_version(&section(2, version)), minor, "{version}");
        }
        // Before Go 1.18 it is elsewhere.
        assert_eq!(go_version(&section(0, "go1.17")), None);
        assert_eq!(go_version(b"\xff Go buildinf:"), None);
        assert_eq!((go_layout(19), go_layout(27)), (None, None));
        assert_ne!(go_layout(22), go_layout(23));
    }
}
