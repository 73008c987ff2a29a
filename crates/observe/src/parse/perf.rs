//! Records of a perf ring buffer. Source: perf_event_open(2), "MMAP layout"; Linux, include/uapi/linux/perf_event.h.

use std::collections::BTreeMap;

const RECORD_LOST: u32 = 2;
const RECORD_COMM: u32 = 3;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
const RECORD_SWITCH: u32 = 14;
/// Bits of the flags of a switch: away from the CPU, and against the thread's will.
const SWITCH_OUT: u16 = 1 << 13;
const SWITCH_PREEMPTED: u16 = 1 << 14;
/// Bytes of type, flags and size before each record.
const HEADER_BYTES: usize = 8;
/// Addresses from here on are marks of what follows them, not addresses.
const CONTEXT_MAX: u64 = -4095_i64 as u64;
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const CONTEXT_USER: u64 = -512_i64 as u64;

/// Registers of user mode that a sample of CPU time or a record of who waits brings, by their numbers, lowest first: those from which
/// callers are found, and none where only frame pointers tell them.
///
/// Source: Linux, arch/x86/include/uapi/asm/perf_regs.h: BX, BP, SP, IP, R10, R12 to R15.
pub(crate) const USER_REGISTERS: &[u8] =
    if cfg!(target_arch = "x86_64") { &[1, 6, 7, 8, 18, 20, 21, 22, 23] } else { &[] };

/// Where a thread was in user mode, and what was on its stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserStack {
    /// As [`USER_REGISTERS`] has them.
    pub(crate) registers: Vec<u64>,
    /// From the stack pointer upwards.
    pub(crate) bytes: Vec<u8>,
}

/// A record that is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PerfRecord {
    /// A stack, innermost address first, with marks between kernel and user mode.
    Sample { pid: u32, tid: u32, time_ns: u64, chain: Vec<u64>, stack: Option<UserStack> },
    /// A thread left its CPU, and whether it would have gone on.
    Left { tid: u32, time_ns: u64, preempted: bool },
    /// A thread came back to a CPU.
    Came { tid: u32, time_ns: u64 },
    /// A process began another one.
    Forked { parent: u32, child: u32, time_ns: u64 },
    /// What a process calls itself from now on, as it does when it becomes another program.
    Named { pid: u32, name: String },
    /// Samples that found no room.
    Lost(u64),
}

impl PerfRecord {
    /// When it was written; 0 where that does not matter.
    pub(crate) fn time_ns(&self) -> u64 {
        match self {
            Self::Sample { time_ns, .. }
            | Self::Left { time_ns, .. }
            | Self::Came { time_ns, .. }
            | Self::Forked { time_ns, .. } => *time_ns,
            Self::Named { .. } | Self::Lost(_) => 0,
        }
    }
}

/// The records in `bytes` that were taken with thread id, time and call chain; others are passed over, and what is cut off
/// ends it.
pub(crate) fn perf_records(mut bytes: &[u8]) -> impl Iterator<Item = PerfRecord> {
    std::iter::from_fn(move || {
        loop {
            let size = usize::from(u16::from_le_bytes(bytes.get(6..8)?.try_into().ok()?));
            let body = bytes.get(HEADER_BYTES..size)?;
            let (kind, flags) = (word32(bytes, 0)?, u16::from_le_bytes(bytes.get(4..6)?.try_into().ok()?));
            bytes = bytes.get(size..)?;
            match kind {
                RECORD_SAMPLE => return sample(body),
                RECORD_SWITCH => return switch(body, flags),
                RECORD_FORK => {
                    // A thread belongs to the process that began it.
                    if let Some(forked) = forked(body)? {
                        return Some(forked);
                    }
                }
                RECORD_COMM => {
                    if let Some(named) = process_named(body)? {
                        return Some(named);
                    }
                }
                RECORD_LOST => return Some(PerfRecord::Lost(word64(body, 8)?)),
                _ => {}
            }
        }
    })
}

/// `pid`, `tid`, the time, the number of addresses, the addresses, and what [`user_stack`] takes where that was asked for.
fn sample(body: &[u8]) -> Option<PerfRecord> {
    let count = usize::try_from(word64(body, 16)?).ok()?;
    let end = 24_usize.checked_add(count.checked_mul(8)?)?;
    let chain = body.get(24..end)?;
    let chain = chain.chunks_exact(8).filter_map(|word| word64(word, 0)).collect();
    Some(PerfRecord::Sample {
        pid: word32(body, 0)?,
        tid: word32(body, 4)?,
        time_ns: word64(body, 8)?,
        chain,
        stack: user_stack(body.get(end..)?),
    })
}

/// The registers, the bytes of the copy, the copy, and how much of it there was.
fn user_stack(rest: &[u8]) -> Option<UserStack> {
    let (registers, rest) = user_registers(rest)?;
    let size = usize::try_from(word64(rest, 0)?).ok()?;
    let bytes = rest.get(8..size.checked_add(8)?)?;
    let copied = usize::try_from(word64(rest, size + 8)?).ok()?;
    Some(UserStack { registers, bytes: bytes.get(..copied)?.to_vec() })
}

/// What kind of registers follow, 0 for none; they; and what comes after them. Threads of the kernel have none.
pub(super) fn user_registers(rest: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    if word64(rest, 0)? == 0 {
        return None;
    }
    let (registers, rest) = rest.get(8..)?.split_at_checked(8 * USER_REGISTERS.len())?;
    Some((registers.chunks_exact(8).filter_map(|word| word64(word, 0)).collect(), rest))
}

/// Nothing of its own, but what every record has at its end: `pid`, `tid`, the time.
fn switch(body: &[u8], flags: u16) -> Option<PerfRecord> {
    let (tid, time_ns) = (word32(body, 4)?, word64(body, 8)?);
    Some(match flags & SWITCH_OUT {
        0 => PerfRecord::Came { tid, time_ns },
        _ => PerfRecord::Left { tid, time_ns, preempted: flags & SWITCH_PREEMPTED != 0 },
    })
}

/// `pid`, the parent's, `tid`, the parent's, the time; nothing where it is a thread of the same process.
fn forked(body: &[u8]) -> Option<Option<PerfRecord>> {
    let (child, parent, time_ns) = (word32(body, 0)?, word32(body, 4)?, word64(body, 16)?);
    Some((child != parent).then_some(PerfRecord::Forked { parent, child, time_ns }))
}

/// `pid`, `tid`, the name up to its first 0; nothing where it is a thread beside others that is named.
fn process_named(body: &[u8]) -> Option<Option<PerfRecord>> {
    let (pid, tid) = (word32(body, 0)?, word32(body, 4)?);
    let name = body.get(8..)?.split(|byte| *byte == 0).next()?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some((pid == tid).then_some(PerfRecord::Named { pid, name }))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The addresses of a chain in the kernel and in user mode, each innermost first; of guests, nothing.
pub(crate) fn split_chain(chain: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut kernel, mut user) = (Vec::new(), Vec::new());
    let mut context = CONTEXT_USER;
    for address in chain {
        match (*address, context) {
            (mark, _) if mark >= CONTEXT_MAX => context = mark,
            (address, CONTEXT_KERNEL) => kernel.push(address),
            (address, CONTEXT_USER) => user.push(address),
            _ => {}
        }
    }
    (kernel, user)
}

/// The reverse of [`split_chain`].
pub(crate) fn chain_of(kernel: &[u64], user: &[u64]) -> Vec<u64> {
    let marked = |mark: u64, addresses: &[u64]| {
        let mark = Some(mark).filter(|_| !addresses.is_empty());
        mark.into_iter().chain(addresses.iter().copied()).collect::<Vec<_>>()
    };
    [marked(CONTEXT_KERNEL, kernel), marked(CONTEXT_USER, user)].concat()
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) executable: bool,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// The file, a name in square brackets, or nothing.
    pub(crate) path: String,
}

/// Reads `/proc/PID/maps`. Source: proc_pid_maps(5).
pub(crate) fn mappings(text: &str) -> Vec<Mapping> {
    let mapping = |line: &str| {
        // The path is what is left, and may hold spaces.
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.trim_start().split_once(' ').unwrap_or((rest.trim_start(), ""));
            rest = after;
            word
        };
        let (range, permissions, offset, _, _) = (word(), word(), word(), word(), word());
        let (begin, end) = range.split_once('-')?;
        Some(Mapping {
            begin: u64::from_str_radix(begin, 16).ok()?,
            end: u64::from_str_radix(end, 16).ok()?,
            executable: permissions.as_bytes().get(2) == Some(&b'x'),
            offset: u64::from_str_radix(offset, 16).ok()?,
            path: rest.trim().trim_end_matches(" (deleted)").to_owned(),
        })
    };
    text.lines().filter_map(mapping).collect()
}

/// Code that a runtime made and named in a perf map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JitSymbol {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    /// Where in the file the function begins.
    pub(crate) line: Option<u32>,
}

/// Reads `/tmp/perf-PID.map`, in order of addresses: begin and size, hexadecimal with `0x` (JVM) or without it, then the
/// name. A runtime that writes it as it goes (Node) puts new code where old code was: the later line counts.
/// Source: Linux, tools/perf/Documentation/jit-interface.txt.
pub(crate) fn perf_map(text: &str) -> Vec<JitSymbol> {
    let hexadecimal = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let symbol = |line: &str| {
        let (begin, rest) = line.split_once(' ')?;
        let (size, name) = rest.split_once(' ')?;
        let begin = hexadecimal(begin)?;
        let end = begin.checked_add(hexadecimal(size)?)?;
        let (name, file, line) = script(name.trim()).unwrap_or_else(|| (method(name.trim()), None, None));
        let (name, file) = (name.to_owned(), file.map(str::to_owned));
        Some(JitSymbol { begin, end, name, file, line })
    };
    let mut symbols: BTreeMap<u64, JitSymbol> = BTreeMap::new();
    for symbol in text.lines().filter_map(symbol) {
        while let Some(before) = symbols.range(..symbol.end).next_back().map(|(_, before)| before)
            && before.end > symbol.begin
        {
            let begin = before.begin;
            symbols.remove(&begin);
        }
        symbols.insert(symbol.begin, symbol);
    }
    symbols.into_values().collect()
}

/// Function, file and line of what V8 calls its code: `JS:*name file:line:column`, with `LazyCompile`, `Function` and
/// others before it, a mark of how it is run, and a name that may be empty or have spaces; nothing for anything else.
/// Source: V8, src/logging/log.cc, `CodeEventLogger`.
fn script(text: &str) -> Option<(&str, Option<&str>, Option<u32>)> {
    const KINDS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
    /// Optimised, interpreted, and by the compilers between.
    const MARKS: [char; 4] = ['*', '~', '^', '+'];
    /// How paths begin.
    const PATHS: [&str; 3] = [" /", " node:", " file:"];
    let rest = KINDS.iter().find_map(|kind| text.strip_prefix(kind))?.trim_start_matches(MARKS);
    let path = PATHS.iter().filter_map(|begin| rest.find(begin)).min().or_else(|| rest.rfind(' '));
    let (name, place) = path.map_or((rest, ""), |at| (&rest[..at], &rest[at + 1..]));
    let name = if name.trim().is_empty() { "(anonymous)" } else { name.trim() };
    let (before, last) = place.rsplit_once(':').unwrap_or((place, ""));
    let Ok(last) = last.parse() else {
        return Some((name, Some(place).filter(|place| !place.is_empty()), None));
    };
    // Older versions tell the line only.
    Some(match before.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => (name, Some(file), Some(line)),
        None => (name, Some(before), Some(last)),
    })
}

/// The name of a Java method without the types that the JVM writes around it; any other name as it is.
fn method(name: &str) -> &str {
    let parts = name.strip_suffix(')').and_then(|name| name.split_once('('));
    let typed = parts.and_then(|(before, _)| before.split_once(' '));
    // `StubRoutines (1)` has no types.
    let is_name = |method: &&str| !method.is_empty() && !method.contains(' ');
    typed.map(|(_, method)| method).filter(is_name).unwrap_or(name)
}

/// The symbol at an address, of those that [`perf_map`] gave.
pub(crate) fn jit_symbol(symbols: &[JitSymbol], address: u64) -> Option<&JitSymbol> {
    let after = symbols.partition_point(|symbol| symbol.begin <= address);
    symbols[..after].last().filter(|symbol| address < symbol.end)
}
