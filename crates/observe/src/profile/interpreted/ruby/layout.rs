//! Where CRuby keeps what it runs: offsets in bytes, which stay for all patches of a minor version.
//!
//! Source: CRuby, vm_core.h, thread_pthread.h, ractor_core.h, method.h, iseq.h, symbol.c, as a C compiler for x86-64 lays them out with
//! glibc; the numbers are those of the crate rbspy-ruby-structs 0.55, which has them of every patch. What comes behind locks of the C
//! library is elsewhere on other processors.

/// The offsets of one minor version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// In the virtual machine: the ractor that the program began in, where there are any.
    pub(super) ractor: Option<u64>,
    /// In that, or in the machine: the thread that holds the lock.
    pub(super) holder: u64,
    /// In that: the list of its threads, where they tell the kernel's numbers.
    pub(super) threads: Option<u64>,
    /// In a thread: what it executes.
    pub(super) context: u64,
    /// In a thread: the kernel's number for it, where it is there.
    pub(super) thread_id: Option<ThreadId>,
    pub(super) frame_bytes: usize,
    /// In code: the entries of its lines, how many, and their index.
    pub(super) lines: usize,
    pub(super) count: usize,
    pub(super) index: usize,
    /// Bytes of such an entry.
    pub(super) line_bytes: usize,
    /// Whether the length of a short string stands before it, and not in its flags.
    pub(super) sized: bool,
    /// The largest name that is an operator. Source: defs/id.def.
    pub(super) last_operator: u64,
}

/// Where the kernel's number of a thread is: in it, or in what it points to.
#[derive(Debug, Clone, Copy)]
pub(super) enum ThreadId {
    Here(u64),
    Through(u64, u64),
}

/// The same in all of them. In the list of threads and in each of them: the next one, or the list again.
pub(super) const NEXT_THREAD: u64 = 0;
/// In what a thread executes: its stack, that one's length in words, and the innermost frame.
pub(super) const STACK: usize = 0;
pub(super) const STACK_WORDS: usize = 8;
pub(super) const FRAME: usize = 16;
/// In a frame: the next instruction, its code, and the end of its variables.
pub(super) const INSTRUCTION: usize = 0;
pub(super) const CODE: usize = 16;
pub(super) const VARIABLES: usize = 32;
/// In code: its body; in that how many words it has, where they are, its file, and its name without and with what it is in a method.
pub(super) const BODY: u64 = 16;
pub(super) const WORDS: usize = 4;
pub(super) const WORDS_AT: usize = 8;
pub(super) const FILE: usize = 64;
pub(super) const NAME: usize = 72;
pub(super) const LABEL: usize = 80;
/// In a method's entry: its definition; in that the function of C, and the name.
pub(super) const DEFINITION: usize = 16;
pub(super) const FUNCTION: usize = 8;
pub(super) const ORIGINAL_NAME: usize = 32;
/// In the table of names: the largest, and the names.
pub(super) const NAMES: usize = 16;
/// In strings and arrays: the flags, the length, and where they begin where that is elsewhere or here.
pub(super) const LENGTH: usize = 16;
pub(super) const STRING_AT: usize = 24;
pub(super) const ARRAY_AT: usize = 32;
pub(super) const HERE: usize = 16;

const V2_7: Layout = Layout {
    ractor: None,
    holder: 8,
    threads: None,
    context: 32,
    thread_id: None,
    frame_bytes: 56,
    lines: 120,
    count: 136,
    index: 144,
    line_bytes: 8,
    sized: false,
    last_operator: 168,
};

const V3_0: Layout = Layout { ractor: Some(32), holder: 336, context: 40, ..V2_7 };

const V3_1: Layout = Layout {
    threads: Some(304),
    thread_id: Some(ThreadId::Here(88)),
    frame_bytes: 64,
    line_bytes: 12,
    last_operator: 169,
    ..V3_0
};

const V3_2: Layout = Layout {
    context: 48,
    thread_id: Some(ThreadId::Through(40, 16)),
    lines: 112,
    count: 128,
    index: 136,
    sized: true,
    ..V3_1
};

const V3_3: Layout = Layout {
    holder: 328,
    threads: Some(256),
    thread_id: Some(ThreadId::Through(40, 24)),
    frame_bytes: 56,
    ..V3_2
};

const V3_4: Layout = Layout { last_operator: 170, ..V3_3 };

/// The layout of a version, where it is known.
pub(super) fn layout(version: (u32, u32)) -> Option<Layout> {
    match version {
        _ if !cfg!(target_arch = "x86_64") => None,
        (2, 7) => Some(V2_7),
        (3, 0) => Some(V3_0),
        (3, 1) => Some(V3_1),
        (3, 2) => Some(V3_2),
        (3, 3) => Some(V3_3),
        (3, 4) => Some(V3_4),
        _ => None,
    }
}
