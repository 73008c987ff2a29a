//! Stacks of Python.

mod layout;

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;

use model::record::{Frame, PYTHON};

use self::layout::{
    FLAGS, HELD, Holder, Instruction, LAST_HOLDER, LENGTH, LOCKED, Layout, Lines, NEXT_THREAD, OFFSETS_BYTES,
    layout,
};
use super::{Interpreter, MOST_THREADS, Memory, READS, Stacks, ThreadIds, is_running, symbols, word};
use crate::file::optional;
use crate::parse::{line_at, line_by_ranges, line_by_steps, mappings, string_kind, string_of, version_of};
use crate::profile::readers::{Read, Reading, Turn};

/// The symbol at which an interpreter keeps all it has.
const RUNTIME: &str = "_PyRuntime";
/// Frames of a stack and interpreters of a process that are looked at, at most: more means that a chain was torn.
const MOST_FRAMES: usize = 200;
const MOST_INTERPRETERS: usize = 16;
/// Bytes of a frame, at most, and of a code object that are read.
const FRAME_BYTES: usize = 256;
const CODE_BYTES: usize = 144;
/// The version from which on an interpreter says its offsets.
const HAS_OFFSETS: u32 = 13;
/// The owners of a frame of a generator, and of one that stands for C and not for a function of Python. Source: pycore_frame.h,
/// `_frameowner`.
const OF_GENERATOR: u8 = 1;
const OF_C: u8 = 3;

/// The Python of one process.
#[derive(Debug)]
struct Python {
    pid: u32,
    memory: Memory,
    layout: Layout,
    runtime: u64,
    /// Code seen so far, by its address.
    known: BTreeMap<u64, Code>,
    ids: ThreadIds,
    turn: Turn,
}

/// Which threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    All,
    /// Those that may run functions now.
    MayRun,
}

/// What is known of a piece of code.
#[derive(Debug)]
struct Code {
    name: String,
    file: String,
    first_line: u32,
    lines: Vec<u8>,
}

pub(super) fn find_in(pid: u32) -> Option<Box<dyn Interpreter>> {
    Python::find_in(pid).map(|python| Box::new(python) as _)
}

impl Interpreter for Python {
    /// Takes the stack of the thread that runs functions; where it is not known which of them does, of every one that could: of many
    /// that wait for the interpreter's lock or for a CPU, each as if it had run.
    fn look(&mut self, stacks: &mut Stacks) {
        for thread in self.threads(Threads::MayRun).unwrap_or_default() {
            let mut tries = 0..READS;
            if let Some(stack) = self.is_running(thread).and_then(|()| tries.find_map(|_| self.stack(thread)))
            {
                *stacks.entry(stack).or_default() += 1;
            }
        }
    }

    fn read(&mut self, readings: &mut Vec<Reading>) {
        let Some(at) = self.layout.thread_id else { return };
        let threads = self.threads(Threads::All).unwrap_or_default();
        for thread in self.turn.of(&threads) {
            readings.extend(Reading::of(|| {
                let (number, stack) = (self.memory.word(*thread, at)?, self.stack(*thread)?);
                Some((self.ids.find(number)?, Read::Interpreted(stack)))
            }));
        }
    }
}

impl Python {
    fn find_in(pid: u32) -> Option<Self> {
        let maps = mappings(&optional(format!("/proc/{pid}/maps"))?);
        // A file's mappings are in the order of addresses: the first is where it was loaded. A program and a library may
        // both have the name, and one of them the symbol.
        let mut files: Vec<(&str, u64)> = Vec::new();
        for map in maps.iter().filter(|map| version_of(&map.path).is_some()) {
            if !files.iter().any(|(path, _)| *path == map.path) {
                files.push((&map.path, map.begin));
            }
        }
        files.into_iter().find_map(|(path, begin)| {
            let version = version_of(path)?;
            let layout = layout(version)?;
            let [address] = symbols(Path::new(&format!("/proc/{pid}/root{path}")), [RUNTIME])?;
            // A program that is not relocated has addresses as they are.
            let runtime = if address >= begin { address } else { begin + address };
            let memory = Memory::of(pid)?;
            let layout = if version >= HAS_OFFSETS {
                layout.with_offsets_of(&memory.bytes::<OFFSETS_BYTES>(runtime)?)?
            } else {
                layout
            };
            memory.word(runtime, layout.interpreters)?;
            let (known, ids) = (BTreeMap::new(), ThreadIds::of(pid));
            Some(Self { pid, memory, layout, runtime, known, ids, turn: Turn::default() })
        })
    }

    /// Addresses of threads.
    fn threads(&self, which: Threads) -> Option<Vec<u64>> {
        let mut threads = Vec::new();
        let mut interpreter = self.memory.word(self.runtime, self.layout.interpreters)?;
        for _ in 0..MOST_INTERPRETERS {
            if interpreter == 0 {
                break;
            }
            let holder = self.layout.holder.filter(|_| which == Threads::MayRun);
            let holder = holder.map(|holder| self.holder(holder, interpreter));
            let mut thread = self.memory.word(interpreter, self.layout.threads)?;
            let mut seen = 0;
            while thread != 0 && seen < MOST_THREADS {
                seen += 1;
                if holder.is_none_or(|holder| holder == Some(thread)) {
                    threads.push(thread);
                }
                thread = self.memory.word(thread, NEXT_THREAD)?;
            }
            interpreter = self.memory.word(interpreter, self.layout.next_interpreter)?;
        }
        Some(threads)
    }

    /// The thread that holds the interpreter's lock; nothing where none does.
    fn holder(&self, holder: Holder, interpreter: u64) -> Option<u64> {
        match holder {
            Holder::InRuntime(at) => self.memory.word(self.runtime, at),
            Holder::InLockAt(at) => {
                let lock = self.memory.word(interpreter, at)?;
                // A number of 32 bits.
                let is_taken = self.memory.word(lock, LOCKED)? as u32 == 1;
                self.memory.word(lock, LAST_HOLDER).filter(|_| is_taken)
            }
        }
    }

    /// Whether a thread has a CPU or is ready for one. Where the kernel's number for it is not known, who holds the lock runs.
    fn is_running(&mut self, thread: u64) -> Option<()> {
        let Some(at) = self.layout.thread_id else { return Some(()) };
        let tid = self.memory.word(thread, at)?;
        is_running(self.pid, self.ids.find(tid)?)
    }

    /// The functions of a thread, outermost first; nothing where it runs none, or changed it meanwhile.
    fn stack(&mut self, thread: u64) -> Option<Vec<Frame>> {
        let mut at = self.memory.word(thread, self.layout.current)?;
        if let Some(through) = self.layout.through {
            at = self.memory.word(at, through)?;
        }
        let mut stack = Vec::new();
        while at != 0 {
            if stack.len() > MOST_FRAMES {
                return None;
            }
            let mut bytes = [0; FRAME_BYTES];
            let bytes = bytes.get_mut(..self.layout.frame_bytes)?;
            self.memory.0.read_exact_at(bytes, at).ok()?;
            let owner = self.layout.owner.map(|at| bytes[at]);
            if owner != Some(OF_C) {
                stack.push(self.frame(bytes)?);
            }
            at = word(bytes, self.layout.previous)?;
            // No thread begins in a generator: this one was left, and lost its caller, while it was read.
            if at == 0 && owner == Some(OF_GENERATOR) {
                return None;
            }
        }
        stack.reverse();
        (!stack.is_empty()).then_some(stack)
    }

    fn frame(&mut self, bytes: &[u8]) -> Option<Frame> {
        let code = word(bytes, self.layout.code)?;
        if !self.known.contains_key(&code) {
            let read = self.code(code)?;
            self.known.insert(code, read);
        }
        let known = self.known.get(&code)?;
        Some(Frame {
            name: known.name.clone(),
            module: PYTHON.to_owned(),
            kernel: false,
            resolved: true,
            file: Some(known.file.clone()),
            line: self.place(bytes, code).and_then(|place| self.line(known, place)),
        })
    }

    /// How many bytes into its code a frame is; nothing where it has not begun.
    fn place(&self, bytes: &[u8], code: u64) -> Option<u64> {
        match self.layout.instruction {
            Instruction::Address { at, begin } => word(bytes, at)?.checked_sub(code)?.checked_sub(begin),
            Instruction::Index { at, step } => {
                let index = i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
                Some(u64::try_from(index).ok()? * step)
            }
        }
    }

    fn line(&self, code: &Code, place: u64) -> Option<u32> {
        match self.layout.lines {
            Lines::Locations => line_at(&code.lines, code.first_line, place / 2),
            Lines::Ranges => line_by_ranges(&code.lines, code.first_line, place),
            Lines::Steps => line_by_steps(&code.lines, code.first_line, place),
        }
    }

    fn code(&self, at: u64) -> Option<Code> {
        let bytes: [u8; CODE_BYTES] = self.memory.bytes(at)?;
        let lines = word(&bytes, self.layout.table)?;
        let length = self.memory.word(lines, LENGTH as u64)?;
        Some(Code {
            name: self.string(word(&bytes, self.layout.name)?)?,
            file: self.string(word(&bytes, self.layout.file)?)?,
            first_line: word(&bytes, self.layout.first_line)? as u32,
            lines: self.memory.many(lines, HELD, length)?,
        })
    }

    fn string(&self, at: u64) -> Option<String> {
        let head: [u8; 40] = self.memory.bytes(at)?;
        let (width, ascii) = string_kind(u32::from_le_bytes(head[FLAGS..FLAGS + 4].try_into().ok()?))?;
        let begin = if ascii { self.layout.ascii } else { self.layout.wide };
        let bytes = self.memory.many(at, begin, word(&head, LENGTH)?.checked_mul(width as u64)?)?;
        Some(string_of(&bytes, width))
    }
}
