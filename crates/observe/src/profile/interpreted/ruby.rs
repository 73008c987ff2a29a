//! Stacks of Ruby.

mod layout;

use std::collections::BTreeMap;
use std::path::Path;

use model::record::{Frame, RUBY};

use self::layout::{
    ARRAY_AT, BODY, CODE, DEFINITION, FILE, FRAME, FUNCTION, HERE, INSTRUCTION, LABEL, LENGTH, Layout, NAME,
    NAMES, NEXT_THREAD, ORIGINAL_NAME, STACK, STACK_WORDS, STRING_AT, ThreadId, VARIABLES, WORDS, WORDS_AT,
    layout,
};
use super::{Interpreter, MOST_THREADS, Memory, READS, Stacks, ThreadIds, is_running, symbols, word};
use crate::file::optional;
use crate::parse::{Mapping, entry_at, function_of, index_bytes, is_of_c, is_ruby, mappings, ruby_version};
use crate::profile::readers::{Read, Reading, Turn};

/// The symbols at which an interpreter keeps its version and all it has.
const SYMBOLS: [&str; 2] = ["ruby_version", "ruby_current_vm_ptr"];
/// Innermost frames of a stack that are read. A server with a framework has some two hundred.
const MOST_FRAMES: usize = 500;
/// Bytes of a piece of code that are read.
const BODY_BYTES: usize = 152;
/// Names of a program that are believed, and bytes of variables among which their table is looked for.
const NAMES_BELIEVED: std::ops::Range<u64> = 200..20_000_000;
const MOST_VARIABLES: u64 = 1 << 18;
/// Names in one part of their table, with two words each. Source: symbol.c, `ID_ENTRY_UNIT`.
const NAMES_IN_PART: u64 = 512;
/// Bits of a name that say of what kind it is. Source: id.h, `RUBY_ID_SCOPE_SHIFT`.
const KIND_BITS: u32 = 4;
/// Flags of objects. Source: ruby/internal/value_type.h, fl_type.h, internal/imemo.h.
const TYPE: u64 = 0x1f;
const STRING: u64 = 5;
const ARRAY: u64 = 7;
const ELSEWHERE: u64 = 1 << 13;
const ARRAY_HERE: u64 = 1 << 13;
const INTERNAL_KIND: (u32, u64) = (12, 0xf);
const METHOD: u64 = 6;

/// The Ruby of one process.
#[derive(Debug)]
struct Ruby {
    pid: u32,
    memory: Memory,
    layout: Layout,
    /// Where the address of the virtual machine stands.
    machine: u64,
    /// The table of names, where it was found.
    names: Option<u64>,
    maps: Vec<Mapping>,
    ids: ThreadIds,
    turn: Turn,
    /// Code, and methods that are written in C, seen so far, by their addresses.
    known: BTreeMap<u64, Code>,
    known_of_c: BTreeMap<u64, Frame>,
}

/// What is known of a piece of code.
#[derive(Debug)]
struct Code {
    name: String,
    file: String,
    /// Where its instructions begin, and how many words they are.
    begin: u64,
    words: u64,
    lines: Vec<u32>,
    index: Vec<u8>,
}

pub(super) fn find_in(pid: u32) -> Option<Box<dyn Interpreter>> {
    Ruby::find_in(pid).map(|ruby| Box::new(ruby) as _)
}

impl Interpreter for Ruby {
    /// Takes the stack of the thread that holds the lock, if it runs.
    fn look(&mut self, stacks: &mut Stacks) {
        let mut tries = 0..READS;
        if let Some(stack) = self.running().and_then(|thread| tries.find_map(|_| self.stack(thread))) {
            *stacks.entry(stack).or_default() += 1;
        }
    }

    fn read(&mut self, readings: &mut Vec<Reading>) {
        let Some(id) = self.layout.thread_id else { return };
        let threads = self.threads().unwrap_or_default();
        for thread in self.turn.of(&threads) {
            readings.extend(Reading::of(|| {
                let (number, stack) = (self.number(*thread, id)?, self.stack(*thread)?);
                Some((self.ids.find(number)?, Read::Interpreted(stack)))
            }));
        }
    }
}

impl Ruby {
    fn find_in(pid: u32) -> Option<Self> {
        let maps = mappings(&optional(format!("/proc/{pid}/maps"))?);
        // As of Python: of a program and a library one has the symbols.
        let mut files: Vec<(&str, u64)> = Vec::new();
        for map in maps.iter().filter(|map| is_ruby(&map.path)) {
            if !files.iter().any(|(path, _)| *path == map.path) {
                files.push((&map.path, map.begin));
            }
        }
        let memory = Memory::of(pid)?;
        let (layout, machine) = files.into_iter().find_map(|(path, begin)| {
            let found = symbols(Path::new(&format!("/proc/{pid}/root{path}")), SYMBOLS)?;
            let [version, machine] = found.map(|at| if at >= begin { at } else { begin + at });
            let layout = layout(ruby_version(&memory.bytes::<16>(version)?)?)?;
            memory.word(machine, 0)?;
            Some((layout, machine))
        })?;
        let (known, known_of_c) = (BTreeMap::new(), BTreeMap::new());
        let (ids, turn) = (ThreadIds::of(pid), Turn::default());
        let mut ruby = Self { pid, memory, layout, machine, names: None, maps, ids, turn, known, known_of_c };
        ruby.names = ruby.table_of_names();
        Some(ruby)
    }

    /// The thread that holds the lock, where it has a CPU or is ready for one. Who waits for anything else gives the lock away; a
    /// few calls into C do not.
    fn running(&mut self) -> Option<u64> {
        let holder = self.memory.word(self.ractor()?, self.layout.holder)?;
        let thread = Some(holder).filter(|thread| *thread != 0)?;
        let Some(id) = self.layout.thread_id else { return Some(thread) };
        let number = self.number(thread, id)?;
        is_running(self.pid, self.ids.find(number)?).map(|()| thread)
    }

    /// What has the threads: the ractor that the program began in, or the machine itself.
    fn ractor(&self) -> Option<u64> {
        let machine = self.memory.word(self.machine, 0)?;
        self.layout.ractor.map_or(Some(machine), |at| self.memory.word(machine, at))
    }

    /// Addresses of all threads. One that ends meanwhile can lead astray: what it leads to has no stack.
    fn threads(&self) -> Option<Vec<u64>> {
        let head = self.ractor()?.checked_add(self.layout.threads?)?;
        let next = |at: &u64| self.memory.word(*at, NEXT_THREAD).filter(|next| *next != head);
        Some(std::iter::successors(next(&head), next).take(MOST_THREADS).collect())
    }

    /// The kernel's number of a thread, as it is inside.
    fn number(&self, thread: u64, id: ThreadId) -> Option<u64> {
        let word = match id {
            ThreadId::Here(at) => self.memory.word(thread, at)?,
            ThreadId::Through(at, offset) => self.memory.word(self.memory.word(thread, at)?, offset)?,
        };
        // It has 32 bits.
        Some(word & 0xffff_ffff)
    }

    /// The functions of a thread, outermost first; nothing where it runs none, or changed it meanwhile.
    fn stack(&mut self, thread: u64) -> Option<Vec<Frame>> {
        let context = self.memory.word(thread, self.layout.context)?;
        let head: [u8; 24] = self.memory.bytes(context)?;
        let end = word(&head, STACK)?.checked_add(word(&head, STACK_WORDS)?.checked_mul(8)?)?;
        let innermost = word(&head, FRAME)?;
        let size = self.layout.frame_bytes;
        let frames = usize::try_from(end.checked_sub(innermost)?).ok()? / size;
        let bytes = self.memory.many(innermost, 0, (frames.min(MOST_FRAMES) * size) as u64)?;
        let mut stack = Vec::new();
        for frame in bytes.chunks_exact(size) {
            stack.extend(match (word(frame, INSTRUCTION)?, word(frame, CODE)?) {
                (0, _) | (_, 0) => self.of_c(word(frame, VARIABLES)?),
                (instruction, code) => Some(self.frame(instruction, code)?),
            });
        }
        stack.reverse();
        (!stack.is_empty()).then_some(stack)
    }

    fn frame(&mut self, instruction: u64, code: u64) -> Option<Frame> {
        let place = |code: &Code| {
            let words = instruction.checked_sub(code.begin)? / 8;
            (words <= code.words).then_some(words)
        };
        // Code may be collected, and other code come to its place.
        if self.known.get(&code).and_then(place).is_none() {
            let read = self.code(code)?;
            self.known.insert(code, read);
        }
        let known = self.known.get(&code)?;
        // What is next is behind the instruction that runs.
        let entry = match known.lines.len() {
            1 => Some(0),
            _ => entry_at(&known.index, place(known)?.saturating_sub(1)),
        };
        let line = entry.and_then(|entry| known.lines.get(entry)).copied().filter(|line| *line > 0);
        Some(self::frame(&known.name, Some(&known.file), line))
    }

    /// A method that is written in C, by its variables: the last of them are its entry, the caller's, and the kind of frame. Without
    /// a name it says nothing that its caller does not.
    fn of_c(&mut self, variables: u64) -> Option<Frame> {
        let last: [u8; 24] = self.memory.bytes(variables.checked_sub(16)?)?;
        let entry = word(&last, 0).filter(|_| word(&last, 16).is_some_and(is_of_c))?;
        if let Some(known) = self.known_of_c.get(&entry) {
            return Some(known.clone());
        }
        let head: [u8; 24] = self.memory.bytes(entry)?;
        let (at, mask) = INTERNAL_KIND;
        if word(&head, 0)? >> at & mask != METHOD {
            return None;
        }
        let definition: [u8; 40] = self.memory.bytes(word(&head, DEFINITION)?)?;
        let name = self.name(self.names?, word(&definition, ORIGINAL_NAME)?)?;
        let function = word(&definition, FUNCTION)?;
        let is_here = |map: &&Mapping| (map.begin..map.end).contains(&function);
        let file = self.maps.iter().find(is_here).map(|map| map.path.as_str());
        let frame = frame(&name, file, None);
        self.known_of_c.insert(entry, frame.clone());
        Some(frame)
    }

    fn code(&self, at: u64) -> Option<Code> {
        let body: [u8; BODY_BYTES] = self.memory.bytes(self.memory.word(at, BODY)?)?;
        let number = |at| word(&body, at).map(|word| word & 0xffff_ffff);
        let (words, count) = (number(WORDS)?, number(self.layout.count)?);
        let size = self.layout.line_bytes as u64;
        let lines = self.memory.many(word(&body, self.layout.lines)?, 0, count.checked_mul(size)?)?;
        let index = || self.memory.many(word(&body, self.layout.index)?, 0, index_bytes(words));
        let line = |entry: &[u8]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let name = self.string(word(&body, NAME)?)?;
        Some(Code {
            name: function_of(&name, &self.string(word(&body, LABEL)?)?),
            file: self.file(word(&body, FILE)?)?,
            begin: word(&body, WORDS_AT)?,
            words,
            lines: lines.chunks_exact(self.layout.line_bytes).map(line).collect(),
            index: if count > 1 { index()? } else { Vec::new() },
        })
    }

    /// A file: its name, or two names, of which the second is that of the file system.
    fn file(&self, at: u64) -> Option<String> {
        if self.memory.word(at, 0)? & TYPE == STRING {
            return self.string(at);
        }
        let [as_asked, whole] = [0, 1].map(|place| self.element(at, place).and_then(|at| self.string(at)));
        whole.or(as_asked)
    }

    /// An element of an array.
    fn element(&self, array: u64, place: u64) -> Option<u64> {
        let flags = self.memory.word(array, 0)?;
        if flags & TYPE != ARRAY {
            return None;
        }
        let begin = match flags & ARRAY_HERE {
            0 => self.memory.word(array, ARRAY_AT as u64)?,
            _ => array + HERE as u64,
        };
        self.memory.word(begin, place.checked_mul(8)?)
    }

    fn string(&self, at: u64) -> Option<String> {
        let head: [u8; 32] = self.memory.bytes(at)?;
        let flags = word(&head, 0)?;
        if flags & TYPE != STRING {
            return None;
        }
        let (begin, length) = match flags & ELSEWHERE {
            0 if self.layout.sized => (at + STRING_AT as u64, word(&head, LENGTH)?),
            0 => (at + HERE as u64, flags >> 14 & 0x1f),
            _ => (word(&head, STRING_AT)?, word(&head, LENGTH)?),
        };
        String::from_utf8(self.memory.many(begin, 0, length)?).ok()
    }

    /// A name by its number, which is that of an operator or has its kind in the lowest bits.
    fn name(&self, names: u64, id: u64) -> Option<String> {
        let serial = if id > self.layout.last_operator { id >> KIND_BITS } else { id };
        let part = self.element(names, serial / NAMES_IN_PART)?;
        self.string(self.element(part, serial % NAMES_IN_PART * 2)?)
    }

    /// The table of names. Its symbol is missing where a library was stripped, so that it is looked for among the variables: a number of
    /// names, a table of C, and an array of which that many are in use, beginning with names behind the operators.
    fn table_of_names(&self) -> Option<u64> {
        let own = self.maps.iter().position(|map| (map.begin..map.end).contains(&self.machine))?;
        // The rest of the variables has no file.
        let near = &self.maps[own.saturating_sub(1)..(own + 2).min(self.maps.len())];
        let is_name = |name: String| !name.is_empty() && name.is_ascii();
        near.iter().filter(|map| map.end - map.begin <= MOST_VARIABLES).find_map(|map| {
            let bytes = self.memory.many(map.begin, 0, map.end - map.begin)?;
            bytes.windows(NAMES + 8).step_by(8).find_map(|variable| {
                let [last, table, names] = [0, 8, NAMES].map(|at| word(variable, at).unwrap_or(0));
                let is_address = |at: u64| at > 0xffff && at.is_multiple_of(8);
                if !NAMES_BELIEVED.contains(&last) || !is_address(table) || !is_address(names) {
                    return None;
                }
                let parts = self.memory.word(names, LENGTH as u64)?;
                let first = (self.layout.last_operator + 1) << KIND_BITS;
                let known = |id| self.name(names, id).is_some_and(is_name);
                (parts == last / NAMES_IN_PART + 1 && known(first) && known(last << KIND_BITS))
                    .then_some(names)
            })
        })
    }
}

fn frame(name: &str, file: Option<&str>, line: Option<u32>) -> Frame {
    Frame {
        name: name.to_owned(),
        module: RUBY.to_owned(),
        kernel: false,
        resolved: true,
        file: file.map(str::to_owned),
        line,
    }
}
