//! Where CPython keeps what it runs: offsets in bytes, which stay for all patches of a minor version.
//!
//! Source: CPython, Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h, Include/cpython/code.h, as a C
//! compiler for 64 bits lays them out.

/// The offsets of one minor version.
#[derive(Debug)]
pub(super) struct Layout {
    /// In the runtime: the first interpreter.
    pub(super) interpreters: u64,
    /// In an interpreter: the next one, and its first thread.
    pub(super) next_interpreter: u64,
    pub(super) threads: u64,
    /// In the runtime: the thread that holds the interpreter's lock, where that is known. It depends on the size of the C library's locks.
    pub(super) holder: Option<u64>,
    /// In a thread: the kernel's number for it, and what has the innermost frame.
    pub(super) thread_id: u64,
    pub(super) current: u64,
    /// In what has the innermost frame, where that is not the thread itself.
    pub(super) through: Option<u64>,
    /// In a frame: its code, its caller, its instruction, and whose it is.
    pub(super) code: usize,
    pub(super) previous: usize,
    pub(super) instruction: usize,
    pub(super) owner: usize,
    /// In code: the first line and the first instruction.
    pub(super) first_line: usize,
    pub(super) begin: u64,
    /// Bytes before the characters of a string in ASCII, and of another.
    pub(super) ascii: u64,
    pub(super) wide: u64,
}

/// The same in all of them: a thread's next; in code the file, the name and the table of lines; in bytes and strings the
/// length, in bytes what they hold, in strings their flags.
pub(super) const NEXT_THREAD: u64 = 8;
pub(super) const FILE: usize = 112;
pub(super) const NAME: usize = 128;
pub(super) const LINES: usize = 136;
pub(super) const LENGTH: usize = 16;
pub(super) const HELD: u64 = 32;
pub(super) const FLAGS: usize = 32;

const V3_11: Layout = Layout {
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    holder: if cfg!(target_arch = "x86_64") { Some(576) } else { None },
    thread_id: 160,
    current: 56,
    through: Some(8),
    code: 32,
    previous: 48,
    instruction: 56,
    owner: 69,
    first_line: 72,
    begin: 184,
    ascii: 48,
    wide: 72,
};

const V3_12: Layout = Layout {
    threads: 72,
    holder: None,
    thread_id: 144,
    through: Some(0),
    code: 0,
    previous: 8,
    owner: 70,
    first_line: 68,
    begin: 192,
    ascii: 40,
    wide: 56,
    ..V3_11
};

const V3_13: Layout = Layout {
    interpreters: 632,
    next_interpreter: 7264,
    threads: 7344,
    thread_id: 160,
    current: 72,
    through: None,
    begin: 200,
    ..V3_12
};

/// The layout of Python 3.`minor`, where it is known.
pub(super) fn layout(minor: u32) -> Option<&'static Layout> {
    match minor {
        11 => Some(&V3_11),
        12 => Some(&V3_12),
        13 => Some(&V3_13),
        _ => None,
    }
}
