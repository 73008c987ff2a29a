//! Where CPython keeps what it runs: offsets in bytes, which stay for all patches of a minor version.
//!
//! Source: CPython, Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h, pycore_gil.h, Include/cpython/code.h,
//! frameobject.h, as a C compiler for 64 bits lays them out. From 3.13 on the interpreter says most of them itself
//! (`_Py_DebugOffsets`).

/// The offsets of one minor version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// In the runtime: the first interpreter.
    pub(super) interpreters: u64,
    /// In an interpreter: the next one, and its first thread.
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    /// Where the holder of the interpreter's lock stands, where that is known.
    pub(super) holder: Option<Holder>,
    /// In a thread: the kernel's number for it, where it is there.
    pub(super) thread_id: Option<u64>,
    /// In a thread: what has the innermost frame.
    pub(super) current: u64,
    /// In what has the innermost frame, where that is not the thread itself.
    pub(super) through: Option<u64>,
    /// Bytes of a frame that are read.
    pub(super) frame_bytes: usize,
    /// In a frame: its code, its caller, its instruction, and whose it is, where that is known.
    pub(super) code: usize,
    pub(super) previous: usize,
    pub(super) instruction: Instruction,
    pub(super) owner: Option<usize>,
    /// In code: the file, the name, the first line and the table of lines.
    pub(super) file: usize,
    pub(super) name: usize,
    pub(super) first_line: usize,
    pub(super) table: usize,
    pub(super) lines: Lines,
    /// Bytes before the characters of a string in ASCII, and of another.
    pub(super) ascii: u64,
    pub(super) wide: u64,
}

/// Where the holder of the interpreter's lock stands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Holder {
    /// In the runtime. It depends on the size of the C library's locks.
    InRuntime(u64),
    /// In the lock that an interpreter points to here.
    InLockAt(u64),
}

/// In a lock: the thread that took it last, and whether it is taken.
pub(super) const LAST_HOLDER: u64 = 8;
pub(super) const LOCKED: u64 = 16;

/// Where a frame is in its code.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction {
    /// An address at `at` of the frame, of code that begins `begin` behind its object.
    Address { at: usize, begin: u64 },
    /// A number at `at` of the frame, 32 bits, which counts steps of so many bytes.
    Index { at: usize, step: u64 },
}

/// How the table of lines is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lines {
    /// Objects/locations.md, from 3.11.
    Locations,
    /// Objects/lnotab_notes.txt of 3.10.
    Ranges,
    /// The same of 3.9.
    Steps,
}

/// The same in all of them: a thread's next; in bytes and strings the length, in bytes what they hold, in strings their flags.
pub(super) const NEXT_THREAD: u64 = 8;
pub(super) const LENGTH: usize = 16;
pub(super) const HELD: u64 = 32;
pub(super) const FLAGS: usize = 32;

const V3_9: Layout = Layout {
    interpreters: 32,
    next_interpreter: 0,
    threads: 8,
    holder: Some(Holder::InRuntime(568)),
    thread_id: None,
    current: 24,
    through: None,
    frame_bytes: 112,
    code: 32,
    previous: 24,
    instruction: Instruction::Index { at: 104, step: 1 },
    owner: None,
    file: 104,
    name: 112,
    first_line: 40,
    table: 120,
    lines: Lines::Steps,
    ascii: 48,
    wide: 72,
};

const V3_10: Layout =
    Layout { instruction: Instruction::Index { at: 96, step: 2 }, lines: Lines::Ranges, ..V3_9 };

const V3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    holder: if cfg!(target_arch = "x86_64") { Some(Holder::InRuntime(576)) } else { None },
    thread_id: Some(160),
    current: 56,
    through: Some(8),
    frame_bytes: 72,
    code: 32,
    previous: 48,
    instruction: Instruction::Address { at: 56, begin: 184 },
    owner: Some(69),
    file: 112,
    name: 128,
    first_line: 72,
    table: 136,
    lines: Lines::Locations,
    ascii: 48,
    wide: 72,
};

const V3_12: Layout = Layout {
    threads: 72,
    holder: Some(Holder::InLockAt(384)),
    thread_id: Some(144),
    through: Some(0),
    code: 0,
    previous: 8,
    instruction: Instruction::Address { at: 56, begin: 192 },
    owner: Some(70),
    first_line: 68,
    ascii: 40,
    wide: 56,
    ..V3_11
};

const V3_13: Layout = Layout {
    interpreters: 632,
    next_interpreter: 7264,
    threads: 7344,
    holder: Some(Holder::InLockAt(16)),
    thread_id: Some(160),
    current: 72,
    through: None,
    instruction: Instruction::Address { at: 56, begin: 200 },
    ..V3_12
};

/// The layout of Python 3.`minor`, where it is known. Of 3.9 and 3.10 nothing but the lock tells which thread runs, and where
/// that is depends on the C library.
pub(super) fn layout(minor: u32) -> Option<Layout> {
    match minor {
        9 if cfg!(target_arch = "x86_64") => Some(V3_9),
        10 if cfg!(target_arch = "x86_64") => Some(V3_10),
        11 => Some(V3_11),
        12 => Some(V3_12),
        13 => Some(V3_13),
        _ => None,
    }
}

/// Bytes at the begin of the runtime that hold the offsets of 3.13: a cookie, the version, and the words
/// of `_Py_DebugOffsets`.
pub(super) const OFFSETS_BYTES: usize = 8 * (CODE_BEGIN + 1);
const COOKIE: &[u8] = b"xdebugpy";
/// Words of it by their places. Source: CPython 3.13, Include/internal/pycore_runtime.h.
const VERSION: usize = 1;
const FREE_THREADED: usize = 2;
const INTERPRETERS: usize = 5;
const NEXT_INTERPRETER: usize = 8;
const THREADS: usize = 9;
const LOCK: usize = 14;
const CURRENT: usize = 23;
const THREAD_ID: usize = 25;
const PREVIOUS: usize = 29;
const CODE: usize = 30;
const INSTRUCTION: usize = 31;
const OWNER: usize = 33;
const FILE: usize = 35;
const NAME: usize = 37;
const TABLE: usize = 38;
const FIRST_LINE: usize = 39;
const CODE_BEGIN: usize = 43;

impl Layout {
    /// The layout that an interpreter of 3.13 says it has; nothing where it runs threads without a lock, or says another
    /// version.
    pub(super) fn with_offsets_of(self, bytes: &[u8]) -> Option<Self> {
        let word = |place: usize| super::word(bytes, 8 * place);
        let small = |place: usize| word(place).and_then(|word| usize::try_from(word).ok());
        let version = word(VERSION)? >> 16;
        if !bytes.starts_with(COOKIE) || version != 0x030d || word(FREE_THREADED)? != 0 {
            return None;
        }
        let (instruction, owner) = (small(INSTRUCTION)?, small(OWNER)?);
        Some(Self {
            interpreters: word(INTERPRETERS)?,
            next_interpreter: word(NEXT_INTERPRETER)?,
            threads: word(THREADS)?,
            holder: Some(Holder::InLockAt(word(LOCK)?)),
            thread_id: Some(word(THREAD_ID)?),
            current: word(CURRENT)?,
            frame_bytes: (owner + 1).max(instruction + 8),
            code: small(CODE)?,
            previous: small(PREVIOUS)?,
            instruction: Instruction::Address { at: instruction, begin: word(CODE_BEGIN)? },
            owner: Some(owner),
            file: small(FILE)?,
            name: small(NAME)?,
            first_line: small(FIRST_LINE)?,
            table: small(TABLE)?,
            ..self
        })
    }
}
