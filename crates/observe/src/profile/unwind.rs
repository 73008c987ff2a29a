//! Callers of code without frame pointers, of threads that run and of those that wait: from copies of stacks, and the tables by which
//! exceptions find their way up (`.eh_frame`), which C, C++ and Rust programs and their libraries have with and without debug information.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, Reg, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder as _};
use object::read::ReadCache;
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object, ObjectSection, ReadRef};

use crate::file::optional;
use crate::parse::{Mapping, UserStack, chain_of, mappings, split_chain};

/// Frames of a stack at most.
const MOST_FRAMES: usize = 512;
/// Bytes of a vDSO at most: it is a few pages.
const MOST_VDSO: u64 = 1 << 20;
const VDSO: &str = "[vdso]";

type Bytes = Arc<[u8]>;

/// Finds callers, process by process.
#[derive(Default)]
pub(crate) struct Unwinder {
    /// What is known of a process's code.
    processes: HashMap<u32, UnwinderX86_64<Bytes>>,
    cache: CacheX86_64,
    /// What files say of themselves, by device and number; processes share most of them, but containers need not have the same file
    /// under one path.
    files: HashMap<(u64, u64), Option<Elf>>,
}

impl Unwinder {
    /// The chain of a sample with the callers that its stack tells in place of those that frame pointers tell, where it tells more.
    pub(crate) fn chain(&mut self, pid: u32, chain: &[u64], stack: &UserStack) -> Vec<u64> {
        let Some(registers) = registers(&stack.registers) else { return chain.to_vec() };
        let (kernel, by_pointers) = split_chain(chain);
        if !self.processes.contains_key(&pid) {
            let process = self.process(pid);
            self.processes.insert(pid, process);
        }
        let process = &self.processes[&pid];
        let begin = registers.sp();
        let mut read = |address: u64| word(&stack.bytes, address.checked_sub(begin)).ok_or(());
        let mut frames = process.iter_frames(registers.ip(), registers, &mut self.cache, &mut read);
        let (mut user, mut is_whole) = (Vec::new(), false);
        while user.len() < MOST_FRAMES {
            match frames.next() {
                Ok(Some(frame)) => user.push(frame.address()),
                Ok(None) => {
                    is_whole = true;
                    break;
                }
                Err(_) => break,
            }
        }
        if is_whole || user.len() > by_pointers.len() { chain_of(&kernel, &user) } else { chain.to_vec() }
    }

    fn process(&mut self, pid: u32) -> UnwinderX86_64<Bytes> {
        let mut process = UnwinderX86_64::new();
        let maps = optional(format!("/proc/{pid}/maps")).map(|text| mappings(&text)).unwrap_or_default();
        for map in maps.iter().filter(|map| map.executable) {
            let elf = if map.path == VDSO { vdso(pid, map) } else { self.file(pid, &map.path) };
            if let Some((elf, bias)) = elf.and_then(|elf| elf.bias(map).map(|bias| (elf, bias))) {
                process.add_module(Module::new(map.path.clone(), map.begin..map.end, bias, elf.sections));
            }
        }
        process
    }

    fn file(&mut self, pid: u32, path: &str) -> Option<Elf> {
        if !path.starts_with('/') {
            return None;
        }
        let file = File::open(format!("/proc/{pid}/root{path}")).ok()?;
        let about = file.metadata().ok()?;
        let known = self.files.entry((about.dev(), about.ino()));
        known.or_insert_with(|| Elf::read(&ReadCache::new(file))).clone()
    }
}

/// What a file says of where its code goes and how it is unwound.
#[derive(Clone)]
struct Elf {
    /// Of each segment of code: its place in the file, and its address.
    segments: Vec<(Range<u64>, u64)>,
    sections: ExplicitModuleSectionInfo<Bytes>,
}

impl Elf {
    /// Nothing of what is no file of 64 bits or has no table.
    fn read<'a, R: ReadRef<'a>>(data: R) -> Option<Self> {
        let file = ElfFile64::<Endianness, R>::parse(data).ok()?;
        let endian = file.endian();
        let loaded = file.elf_program_headers().iter().filter(|header| {
            header.p_type(endian) == object::elf::PT_LOAD
                && header.p_flags(endian).contains(object::elf::PF_X)
        });
        let segment = |header: &object::elf::ProgramHeader64<Endianness>| {
            let begin = header.p_offset(endian);
            (begin..begin.saturating_add(header.p_filesz(endian)), header.p_vaddr(endian))
        };
        let range = |name: &str| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address().saturating_add(section.size()))
        };
        let bytes = |name: &str| Some(Bytes::from(file.section_by_name(name)?.data().ok()?));
        Some(Self {
            segments: loaded.map(segment).collect(),
            sections: ExplicitModuleSectionInfo {
                text_svma: range(".text"),
                got_svma: range(".got"),
                eh_frame_svma: range(".eh_frame"),
                eh_frame: Some(bytes(".eh_frame")?),
                eh_frame_hdr_svma: range(".eh_frame_hdr"),
                eh_frame_hdr: bytes(".eh_frame_hdr"),
                ..ExplicitModuleSectionInfo::default()
            },
        })
    }

    /// By how much the addresses of a process are above those in the file.
    fn bias(&self, map: &Mapping) -> Option<u64> {
        // A mapping begins on a page: the first byte that is the segment's may be later.
        let end = map.offset.saturating_add(map.end - map.begin);
        let (place, address) =
            self.segments.iter().find(|(place, _)| place.start < end && map.offset < place.end)?;
        Some(map.begin.wrapping_sub(map.offset).wrapping_sub(address.wrapping_sub(place.start)))
    }
}

/// The code that the kernel maps into each process has no file.
fn vdso(pid: u32, map: &Mapping) -> Option<Elf> {
    let mut bytes = vec![0; usize::try_from((map.end - map.begin).min(MOST_VDSO)).ok()?];
    File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, map.begin).ok()?;
    Elf::read(&bytes[..])
}

/// In the order of [`crate::parse::USER_REGISTERS`].
fn registers(words: &[u64]) -> Option<UnwindRegsX86_64> {
    let &[bx, bp, sp, ip, r10, r12, r13, r14, r15] = words else { return None };
    let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
    for (register, value) in
        [(Reg::RBX, bx), (Reg::R10, r10), (Reg::R12, r12), (Reg::R13, r13), (Reg::R14, r14), (Reg::R15, r15)]
    {
        registers.set(register, value);
    }
    Some(registers)
}

/// The stack pointer among them.
pub(crate) fn stack_pointer(words: &[u64]) -> Option<u64> {
    registers(words).map(|registers| registers.sp())
}

fn word(bytes: &[u8], at: Option<u64>) -> Option<u64> {
    let at = usize::try_from(at?).ok()?;
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
