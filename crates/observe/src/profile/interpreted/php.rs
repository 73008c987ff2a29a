//! Stacks of PHP. The records that they are read of are the same in all versions of PHP 8; the two places that are not are looked for by
//! what stands there. Source: PHP, Zend/zend_compile.h, Zend/zend_globals.h.

use std::collections::BTreeMap;
use std::path::Path;

use model::record::{Frame, PHP};

use super::{Interpreter, Memory, READS, Stacks, is_running, symbols, word};
use crate::file::optional;
use crate::parse::{is_php, mappings, php_function};
use crate::profile::readers::{Read, Reading};

/// The symbol at which PHP keeps what it runs, which a build for threads has not.
const GLOBALS: &str = "executor_globals";
/// Bytes of that in which the frame that runs is looked for. It stands behind the size of a page of PHP's stack, which is that of all of
/// them. Source: Zend/zend_execute.c, `ZEND_VM_STACK_PAGE_SIZE`.
const GLOBALS_BYTES: u64 = 1024;
const PAGE_BYTES: u64 = 256 << 10;
/// In a frame, in bytes: its instruction, its function, and the frame that called it.
const INSTRUCTION: usize = 0;
const FUNCTION: usize = 24;
const CALLER: usize = 48;
const FRAME_BYTES: u64 = 56;
/// Innermost frames of a stack that are read, and bytes below the innermost that are read at once: the allocator gives stacks room in
/// blocks of 2 MiB.
const MOST_FRAMES: usize = 200;
const BELOW: u64 = 16 << 10;
const BLOCK: u64 = 2 << 20;
/// In a function, in bytes: its kind, its name, its class; and where the name of its file may be, behind which stand its first and its last line.
const KIND: usize = 0;
const NAME: usize = 8;
const CLASS: usize = 16;
const FILE: std::ops::Range<usize> = 64..232;
const LINES: usize = 8;
const FUNCTION_BYTES: usize = 248;
/// Kinds of functions: PHP's own, and those of a program.
const OF_PHP: u8 = 1;
const OF_PROGRAM: u8 = 2;
/// In a class, in bytes: its name. In an instruction: its line. In a string: its length, and its text, which is believed up to so many bytes.
const CLASS_NAME: u64 = 8;
const LINE: u64 = 24;
const LENGTH: u64 = 16;
const TEXT: u64 = 24;
const MOST_TEXT: u64 = 4096;

/// The PHP of one process.
#[derive(Debug)]
struct Php {
    pid: u32,
    memory: Memory,
    globals: u64,
    /// Where in the globals the frame that runs stands, and in a function the name of its file, once they are found.
    frame: Option<u64>,
    file: Option<usize>,
    /// Functions seen so far, by their addresses.
    known: BTreeMap<u64, Function>,
}

/// What is known of a function, and by which addresses: another one may come to its place.
#[derive(Debug)]
struct Function {
    by: [u64; 3],
    name: String,
    file: Option<String>,
    lines: std::ops::RangeInclusive<u32>,
}

pub(super) fn find_in(pid: u32) -> Option<Box<dyn Interpreter>> {
    Php::find_in(pid).map(|php| Box::new(php) as _)
}

impl Interpreter for Php {
    fn look(&mut self, stacks: &mut Stacks) {
        let mut tries = 0..READS;
        if let Some(stack) = is_running(self.pid, self.pid).and_then(|()| tries.find_map(|_| self.stack())) {
            *stacks.entry(stack).or_default() += 1;
        }
    }

    fn read(&mut self, readings: &mut Vec<Reading>) {
        let pid = self.pid;
        readings.extend(Reading::of(|| Some((pid, Read::Interpreted(self.stack()?)))));
    }
}

impl Php {
    fn find_in(pid: u32) -> Option<Self> {
        let maps = mappings(&optional(format!("/proc/{pid}/maps"))?);
        // A file's mappings are in the order of addresses: the first is where it was loaded.
        let file = maps.iter().find(|map| is_php(&map.path))?;
        let [globals] = symbols(Path::new(&format!("/proc/{pid}/root{}", file.path)), [GLOBALS])?;
        let globals = if globals >= file.begin { globals } else { file.begin + globals };
        let memory = Memory::of(pid)?;
        Some(Self { pid, memory, globals, frame: None, file: None, known: BTreeMap::new() })
    }

    /// The frame that runs; nothing while no request is served.
    fn running(&mut self) -> Option<u64> {
        if self.frame.is_none() {
            let globals = self.memory.many(self.globals, 0, GLOBALS_BYTES)?;
            let words = globals.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let size = words.into_iter().position(|word| word == PAGE_BYTES)?;
            self.frame = Some(8 * (size as u64 + 1));
        }
        self.memory.word(self.globals, self.frame?).filter(|frame| *frame != 0)
    }

    /// The functions that run, outermost first; nothing where none does, or it changed meanwhile.
    fn stack(&mut self) -> Option<Vec<Frame>> {
        let innermost = self.running()?;
        // Callers lie below, and what is called next changes what is above.
        let begin = innermost.saturating_sub(BELOW).max(innermost & !(BLOCK - 1));
        let near = self.memory.many(begin, 0, innermost - begin + FRAME_BYTES)?;
        let mut stack = Vec::new();
        let mut next = innermost;
        while next != 0 && stack.len() < MOST_FRAMES {
            let here = next.checked_sub(begin).and_then(|offset| usize::try_from(offset).ok());
            let here = here.and_then(|offset| near.get(offset..offset + FRAME_BYTES as usize));
            let frame = match here {
                Some(frame) => frame.to_vec(),
                None => self.memory.many(next, 0, FRAME_BYTES)?,
            };
            match word(&frame, FUNCTION)? {
                // It stands between what was called from outside and the rest.
                0 => {}
                function => stack.push(self.function(function, word(&frame, INSTRUCTION)?)?),
            }
            next = word(&frame, CALLER)?;
        }
        stack.reverse();
        (!stack.is_empty()).then_some(stack)
    }

    fn function(&mut self, at: u64, instruction: u64) -> Option<Frame> {
        let bytes = self.memory.up_to(at, FUNCTION_BYTES)?;
        let is_of_program = match *bytes.get(KIND)? {
            OF_PHP => false,
            OF_PROGRAM => true,
            _ => return None,
        };
        if is_of_program && self.file.is_none() {
            self.file = FILE.step_by(8).find(|place| self.path(&bytes, *place).is_some());
        }
        let file = self.file.filter(|_| is_of_program);
        let by =
            [word(&bytes, NAME)?, word(&bytes, CLASS)?, file.map_or(Some(0), |file| word(&bytes, file))?];
        if self.known.get(&at).is_none_or(|known| known.by != by) {
            let [name, class] = [by[0], by[1]].map(|at| (at != 0).then_some(at));
            let name = name.map_or(Some(String::new()), |at| self.string(at))?;
            let class = match class {
                Some(class) => Some(self.string(self.memory.word(class, CLASS_NAME)?)?),
                None => None,
            };
            let line = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
            let lines = file.and_then(|file| Some(line(file + LINES)?..=line(file + LINES + 4)?));
            let function = Function {
                by,
                name: php_function(class.as_deref(), &name),
                file: file.and_then(|file| self.path(&bytes, file)),
                lines: lines.unwrap_or(0..=0),
            };
            self.known.insert(at, function);
        }
        let known = self.known.get(&at)?;
        let line = || self.memory.bytes(instruction.checked_add(LINE)?).map(u32::from_le_bytes);
        // The instruction is noted where a function calls or may fail.
        let line = line().filter(|line| is_of_program && known.lines.contains(line));
        Some(Frame {
            name: known.name.clone(),
            module: PHP.to_owned(),
            kernel: false,
            resolved: true,
            file: known.file.clone(),
            line,
        })
    }

    /// The path that a word of a function leads to.
    fn path(&self, function: &[u8], place: usize) -> Option<String> {
        let at = word(function, place).filter(|at| *at > 0xffff && at.is_multiple_of(8))?;
        self.string(at).filter(|text| {
            let is_path = text.starts_with('/') || text.starts_with("phar://");
            is_path && !text.contains(['\n', '*'])
        })
    }

    fn string(&self, at: u64) -> Option<String> {
        let length = self.memory.word(at, LENGTH).filter(|length| *length <= MOST_TEXT)?;
        String::from_utf8(self.memory.many(at, TEXT, length)?).ok()
    }
}
