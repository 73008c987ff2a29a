//! Programs of Go: their version, where they were loaded, and the names of their code where they were stripped of symbols.

use std::fs::File;
use std::ops::Range;

use model::record::Frame;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object, ObjectSection};

use super::interpreted::Memory;
use crate::parse::{GoPlace, INLINED_BYTES, LineTable, first_words_read, go_version};

/// The number of the entry of a program among what the kernel tells it. Source: Linux, include/uapi/linux/auxvec.h.
const ENTRY: u64 = 9;
/// Largest table of lines that is read, in bytes: the largest programs have some 60 MiB.
const MOST_TABLE: u64 = 1 << 28;
/// Bytes of variables among which a program's record of itself is looked for, and those that are read at once.
const MOST_VARIABLES: u64 = 1 << 24;
const AT_ONCE: u64 = 1 << 18;
/// In that record, which begins with the table, in bytes: the names in that, the begin of the code, and the data on functions, since Go 1.20.
/// Source: Go, runtime/symtab.go, `moduledata`.
const NAMES: u64 = 8;
const TEXT: u64 = 176;
const DATA: u64 = 320;
/// The function that reads first the length of the list of goroutines and then its address, and bytes of it that are read. Source: Go,
/// runtime/proc.go.
const READS_LIST: &str = "runtime.forEachGRace";
const CODE_BYTES: usize = 128;

/// What the file of a program of Go says, and where its process has it.
pub(super) struct Program {
    /// The minor version of Go 1 that built it.
    pub(super) version: Option<u32>,
    pub(super) is_for_x86_64: bool,
    /// By how much the addresses of the process are above those in the file.
    pub(super) above: u64,
}

impl Program {
    /// Nothing of a process that runs no program of Go.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let cache = ReadCache::new(File::open(path(pid)).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let about = file.section_by_name(".go.buildinfo")?.data().ok()?;
        Some(Self {
            version: go_version(about),
            is_for_x86_64: file.architecture() == Architecture::X86_64,
            above: entry(pid)?.wrapping_sub(file.entry()),
        })
    }
}

/// The file that a process runs, also in a container and where it was deleted.
pub(super) fn path(pid: u32) -> String {
    format!("/proc/{pid}/exe")
}

/// Where a process began to run.
fn entry(pid: u32) -> Option<u64> {
    let told = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words = |pair: &[u8; 16]| {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| pair[at + byte]));
        (word(0), word(8))
    };
    told.as_chunks::<16>().0.iter().map(words).find(|(kind, _)| *kind == ENTRY).map(|(_, value)| value)
}

/// The names of a process's code, by the table that the runtime itself prints stacks by.
pub(super) struct GoNames {
    table: LineTable,
    memory: Memory,
    /// Where the data on functions is.
    data: u64,
    module: String,
}

impl GoNames {
    /// Nothing where the process runs no program of Go, or one whose table is not known.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let program = Program::of(pid)?;
        let cache = ReadCache::new(File::open(path(pid)).ok()?);
        let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        let section =
            |name: &str| file.sections().find(|one| one.name().is_ok_and(|own| own.ends_with(name)));
        let range = |name: &str| {
            let section = section(name)?;
            let begin = section.address().wrapping_add(program.above);
            Some(begin..begin.saturating_add(section.size()))
        };
        let table = section(".gopclntab").filter(|section| section.size() <= MOST_TABLE)?;
        let at = table.address().wrapping_add(program.above);
        let table = LineTable::new(table.data().ok()?.to_vec(), 0)?;
        let memory = Memory::of(pid)?;
        // Since Go 1.26 the record has a section of its own.
        let places = [".go.module", ".noptrdata", ".data"].into_iter().filter_map(range);
        let record = places.into_iter().find_map(|place| record(&memory, place, at, table.names()?))?;
        let [text, data] = [memory.word(record, TEXT)?, memory.word(record, DATA)?];
        let module = std::fs::read_link(path(pid)).ok()?;
        let module = module.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
        Some(Self { table: table.beginning_at(text), memory, data, module })
    }

    /// The function at an address and those inlined there, outermost first.
    pub(super) fn frames(&self, address: u64) -> Vec<Frame> {
        let inlined = |at: u64| self.memory.bytes::<INLINED_BYTES>(self.data.checked_add(at)?);
        let frame = |place: GoPlace| Frame {
            name: place.function,
            module: self.module.clone(),
            kernel: false,
            resolved: true,
            file: place.file,
            line: place.line,
        };
        self.table.places(address, inlined).into_iter().map(frame).collect()
    }

    /// Where the address of the list of goroutines stands, and its length, by the code that reads them.
    pub(super) fn list(&self) -> Option<[u64; 2]> {
        let at = self.table.address_of(READS_LIST)?;
        let [length, list] = first_words_read(&self.memory.bytes::<CODE_BYTES>(at)?, at)?;
        Some([list, length])
    }
}

/// Where a program's record of itself is among its variables: it begins with the table, and where the names are in that.
fn record(memory: &Memory, variables: Range<u64>, table: u64, names: u64) -> Option<u64> {
    let end = variables.end.min(variables.start.saturating_add(MOST_VARIABLES));
    let mut begin = variables.start;
    while begin < end {
        let bytes = memory.many(begin, 0, (end - begin).min(AT_ONCE))?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let found = (begin..).step_by(8).zip(words).filter(|(_, word)| *word == table);
        let is_record = |at: &u64| memory.word(*at, NAMES) == Some(table.wrapping_add(names));
        if let Some(at) = found.map(|(at, _)| at).find(is_record) {
            return Some(at);
        }
        begin += AT_ONCE;
    }
    None
}
