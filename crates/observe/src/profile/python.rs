//! Stacks of Python, read out of the interpreter's memory while it runs: nobody is stopped. What a thread does between two
//! reads can tear a stack, which is then dropped where it shows.

mod layout;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use blazesym::inspect::Inspector;
use blazesym::inspect::source::{Elf, Source};
use model::record::{Frame, Interpreted, PYTHON, Profile, Stack};

use self::layout::{
    FLAGS, HELD, Holder, Instruction, LAST_HOLDER, LENGTH, LOCKED, Layout, Lines, NEXT_THREAD, OFFSETS_BYTES,
    layout,
};
use crate::Group;
use crate::file::optional;
use crate::parse::{
    line_at, line_by_ranges, line_by_steps, mappings, stat, string_kind, string_of, version_of,
};
use crate::sampler::own_cpu_ns;

/// Time between two looks: 499 in a second, not in step with timers of round periods. A look takes some 30 µs for each
/// thread that runs.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 499);
/// The symbol at which an interpreter keeps all it has.
const RUNTIME: &str = "_PyRuntime";
/// Frames of a stack, threads and interpreters of a process that are looked at, at most: more means that a chain was torn.
const MOST_FRAMES: usize = 200;
const MOST_THREADS: usize = 1000;
const MOST_INTERPRETERS: usize = 16;
/// Longest name, and longest table of lines, in bytes that are believed.
const MOST_BYTES: u64 = 1 << 18;
/// Bytes of a frame, at most, and of a code object that are read.
const FRAME_BYTES: usize = 256;
const CODE_BYTES: usize = 144;
/// Times that a stack is read until it is whole.
const READS: u32 = 4;
/// The version from which on an interpreter says its offsets.
const HAS_OFFSETS: u32 = 13;
/// The owners of a frame of a generator, and of one that stands for C and not for a function of Python. Source: pycore_frame.h,
/// `_frameowner`.
const OF_GENERATOR: u8 = 1;
const OF_C: u8 = 3;

/// What a profile says that has the interpreter in it and not what that worked on.
pub(super) const NOT_READ: &str =
    "Functions of Python have no names here: they are read of CPython 3.9 to 3.13 that this user may trace.";
/// How the functions begin in which CPython works.
const EVALUATES: &str = "_PyEval_EvalFrame";

/// Whether an interpreter was found.
pub(super) fn is_in(profile: &Profile) -> bool {
    profile.frames.iter().any(|frame| frame.name.starts_with(EVALUATES))
}

/// Samples the Python of a group, in a thread of its own.
#[derive(Debug)]
pub(super) struct Python {
    stop: Sender<()>,
    thread: JoinHandle<Taken>,
}

/// Stacks with how often each was seen, outermost first.
#[derive(Debug, Default)]
pub(super) struct Taken {
    stacks: BTreeMap<Vec<Frame>, u64>,
    cost_ns: u64,
}

impl Python {
    /// Begins to sample; nothing where no process of the group runs a Python that is known and may be read.
    pub(super) fn begin(group: &Group) -> Option<Self> {
        let pids = group.pids_with("python3.").unwrap_or_default();
        let mut interpreters: Vec<Interpreter> = pids.into_iter().filter_map(Interpreter::find_in).collect();
        if interpreters.is_empty() {
            return None;
        }
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut taken = Taken::default();
            let mut next = Instant::now();
            loop {
                next += PERIOD;
                if stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
                    != Err(RecvTimeoutError::Timeout)
                {
                    break;
                }
                // After a time without a CPU the looks that are due are not made up for.
                next = next.max(Instant::now());
                interpreters.iter_mut().for_each(|interpreter| interpreter.look(&mut taken.stacks));
            }
            taken.cost_ns = own_cpu_ns();
            taken
        });
        Some(Self { stop, thread })
    }

    /// Ends it.
    pub(super) fn stop(self) -> Taken {
        drop(self.stop);
        self.thread.join().expect("sampling Python does not panic")
    }
}

impl Taken {
    /// Adds what was seen at another time.
    pub(super) fn add(&mut self, more: Self) {
        for (stack, samples) in more.stacks {
            *self.stacks.entry(stack).or_default() += samples;
        }
        self.cost_ns += more.cost_ns;
    }

    /// Puts the stacks into a profile.
    pub(super) fn add_to(self, profile: &mut Profile) {
        let mut places: BTreeMap<Frame, u32> = BTreeMap::new();
        let frames = &mut profile.frames;
        let mut place = |frame: Frame| {
            *places.entry(frame).or_insert_with_key(|frame| {
                frames.push(frame.clone());
                u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let mut stacks: Vec<Stack> = self
            .stacks
            .into_iter()
            .map(|(stack, samples)| Stack { frames: stack.into_iter().map(&mut place).collect(), samples })
            .collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.samples));
        profile.observer_cpu_ns += self.cost_ns;
        profile.interpreted = Some(Interpreted {
            period_ns: u64::try_from(PERIOD.as_nanos()).unwrap_or(u64::MAX),
            samples: stacks.iter().map(|stack| stack.samples).sum(),
            stacks,
        });
    }
}

/// The Python of one process.
struct Interpreter {
    pid: u32,
    memory: Memory,
    layout: Layout,
    runtime: u64,
    /// Code seen so far, by its address.
    known: BTreeMap<u64, Code>,
}

/// What is known of a piece of code.
struct Code {
    name: String,
    file: String,
    first_line: u32,
    lines: Vec<u8>,
}

impl Interpreter {
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
        let memory = Memory(File::open(format!("/proc/{pid}/mem")).ok()?);
        files.into_iter().find_map(|(path, begin)| {
            let version = version_of(path)?;
            let layout = layout(version)?;
            let address = symbol(Path::new(&format!("/proc/{pid}/root{path}")), RUNTIME)?;
            // A program that is not relocated has addresses as they are.
            let runtime = if address >= begin { address } else { begin + address };
            let memory = Memory(memory.0.try_clone().ok()?);
            let layout = if version >= HAS_OFFSETS {
                layout.with_offsets_of(&memory.bytes::<OFFSETS_BYTES>(runtime)?)?
            } else {
                layout
            };
            memory.word(runtime, layout.interpreters)?;
            Some(Self { pid, memory, layout, runtime, known: BTreeMap::new() })
        })
    }

    /// Takes the stack of the thread that runs functions; where it is not known which of them does, of every one that could: of many
    /// that wait for the interpreter's lock or for a CPU, each as if it had run.
    fn look(&mut self, stacks: &mut BTreeMap<Vec<Frame>, u64>) {
        for thread in self.threads().unwrap_or_default() {
            let mut tries = 0..READS;
            if let Some(stack) = self.is_running(thread).and_then(|()| tries.find_map(|_| self.stack(thread)))
            {
                *stacks.entry(stack).or_default() += 1;
            }
        }
    }

    /// Addresses of the threads that may run functions.
    fn threads(&self) -> Option<Vec<u64>> {
        let mut threads = Vec::new();
        let mut interpreter = self.memory.word(self.runtime, self.layout.interpreters)?;
        for _ in 0..MOST_INTERPRETERS {
            if interpreter == 0 {
                break;
            }
            let holder = self.layout.holder.map(|holder| self.holder(holder, interpreter));
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
    fn is_running(&self, thread: u64) -> Option<()> {
        let Some(at) = self.layout.thread_id else { return Some(()) };
        let tid = self.memory.word(thread, at)?;
        let text = optional(format!("/proc/{}/task/{tid}/stat", self.pid))?;
        (stat(&text)?.state == 'R').then_some(())
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

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The address of a variable in a program or library, before it is loaded.
fn symbol(file: &Path, name: &str) -> Option<u64> {
    let mut elf = Elf::new(file);
    elf.debug_syms = false;
    let inspector = Inspector::new();
    let found = inspector.lookup(&Source::Elf(elf), &[name]).ok()?;
    Some(found.first()?.first()?.addr)
}

/// The memory of another process. An address that was torn may be any number.
struct Memory(File);

impl Memory {
    fn bytes<const LENGTH: usize>(&self, at: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// So many bytes `offset` behind an address.
    fn many(&self, at: u64, offset: u64, length: u64) -> Option<Vec<u8>> {
        let at = at.checked_add(offset)?;
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= MOST_BYTES)?];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// The word `offset` behind an address.
    fn word(&self, at: u64, offset: u64) -> Option<u64> {
        self.bytes(at.checked_add(offset)?).map(u64::from_le_bytes)
    }
}
