//! Names and lines of code that a Java virtual machine compiled, by the tables that HotSpot keeps for its own debugger: which methods
//! stand at an address, and which of them were inlined into which. Nobody is stopped, and nothing has to be installed beside the machine.
//!
//! HotSpot says itself where its records are and how they are laid out. Source: HotSpot, runtime/vmStructs.cpp; of what they mean,
//! memory/heap.cpp, `CodeHeap::find_block_for`; code/pcDesc.hpp; code/scopeDesc.cpp; oops/constMethod.hpp.

use std::collections::HashMap;
use std::path::Path;

use model::record::{Frame, JAVA};

use super::interpreted::{Memory, symbols};
use crate::file::optional;
use crate::parse::{SCOPE_BYTES, java_method, line_of_bytecode, mappings, scope};

/// The library of the machine, and the variables at which its descriptions of itself begin: fields, types and numbers.
const LIBRARY: &str = "/libjvm.so";
const DESCRIBED: [&str; 3] = ["gHotSpotVMStructs", "gHotSpotVMTypes", "gHotSpotVMIntConstants"];
/// Bytes of one description, and descriptions of a kind at most. Source: runtime/vmStructs.hpp.
const FIELD_BYTES: u64 = 48;
const TYPE_BYTES: u64 = 40;
const NUMBER_BYTES: u64 = 16;
const MOST_DESCRIBED: u64 = 20_000;
/// Heaps of code that a machine has at most, methods inlined into one another, and steps to the begin of a piece of code: more means
/// that what was read was torn.
const MOST_HEAPS: u64 = 16;
const MOST_INLINED: usize = 100;
const MOST_STEPS: usize = 1 << 16;
/// Pieces of code of a heap that are tried, until one can be read.
const MOST_TRIED: usize = 1000;
/// Bytes of a name and of a method's table of lines that are read.
const NAME_BYTES: usize = 256;
const LINES_BYTES: usize = 1 << 14;
/// What pieces of code are called that were compiled from methods; others have names of their own.
const COMPILED: [&str; 2] = ["nmethod", "native nmethod"];
/// Of a segment of a heap: it is not used.
const UNUSED: u8 = 0xff;
/// The flag of a method that has lines, by its names.
const HAS_LINES: [&str; 2] =
    ["ConstMethod::_has_linenumber_table", "ConstMethodFlags::_misc_has_linenumber_table"];
const WORD: u64 = 8;

/// The Java of one process.
pub(super) struct JavaNames {
    memory: Memory,
    described: Described,
    version: u32,
    heaps: Vec<Heap>,
    /// Methods met so far, by their addresses.
    methods: HashMap<u64, Option<Method>>,
    /// The places of the piece of code that was asked for last.
    places: Option<(u64, Vec<u8>)>,
}

/// Where compiled code lies: in pieces of whole segments, for each of which a byte says how many segments before it its piece begins, or
/// that this is yet further.
struct Heap {
    begin: u64,
    end: u64,
    segments: u64,
    segment_bits: u64,
}

/// The parts of a piece of compiled code, by their addresses.
struct Parts {
    code: u64,
    /// Begin and end of the list of places that are told of.
    places: [u64; 2],
    /// What is told of them.
    scopes: u64,
    /// The list of methods that the code knows.
    methods: u64,
}

#[derive(Clone)]
struct Method {
    name: String,
    file: Option<String>,
    lines: Option<Vec<u8>>,
}

/// Whether the methods that a Java virtual machine compiled get their names from its own tables.
#[must_use]
pub fn names_java(pid: u32) -> bool {
    JavaNames::of(pid).is_some()
}

impl JavaNames {
    /// Nothing where the process runs no such machine, one of a version that is laid out otherwise, or may not be read.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let maps = mappings(&optional(format!("/proc/{pid}/maps"))?);
        // A file's mappings are in the order of addresses: the first is where it was loaded.
        let library = maps.iter().find(|map| map.path.ends_with(LIBRARY))?;
        let file = format!("/proc/{pid}/root{}", library.path);
        let tables = symbols(Path::new(&file), DESCRIBED)?.map(|at| library.begin + at);
        let memory = Memory::of(pid)?;
        let described = Described::read(&memory, tables)?;
        let version = described.address("Abstract_VM_Version._vm_major_version")?;
        let version = memory.bytes(version).map(u32::from_le_bytes)?;
        let mut names =
            Self { memory, described, version, heaps: Vec::new(), methods: HashMap::new(), places: None };
        names.heaps = names.find_heaps()?;
        names.can_read().then_some(names)
    }

    /// Whether it finds the methods of one piece of code that was compiled: a version that is laid out otherwise has none.
    fn can_read(&mut self) -> bool {
        let pieces: Vec<u64> =
            self.heaps.iter().flat_map(|heap| self.pieces(heap).take(MOST_TRIED)).collect();
        pieces.into_iter().any(|code| {
            let scopes = self.parts(code).and_then(|parts| self.scopes(code, &parts, parts.code));
            scopes.is_some_and(|scopes| {
                !scopes.is_empty() && scopes.iter().all(|(method, _)| self.method(*method).is_some())
            })
        })
    }

    /// The pieces of code in a heap, also those that are free.
    fn pieces<'a>(&'a self, heap: &'a Heap) -> impl Iterator<Item = u64> + 'a {
        let bytes = self.described.sizes.get("HeapBlock").copied().unwrap_or(0);
        let next = move |block: &u64| {
            let segments = self.word(*block, "HeapBlock::Header._length").filter(|length| *length > 0)?;
            block.checked_add(segments.checked_shl(u32::try_from(heap.segment_bits).ok()?)?)
        };
        std::iter::successors(Some(heap.begin), next)
            .take_while(|block| *block < heap.end)
            .map(move |block| block.saturating_add(bytes))
    }

    fn find_heaps(&self) -> Option<Vec<Heap>> {
        let list = self.memory.word(self.described.address("CodeCache._heaps")?, 0)?;
        let count = self.int(list, "GrowableArrayBase._len|GenericGrowableArray._len")?.min(MOST_HEAPS);
        let heaps = self.word(list, "GrowableArray<int>._data")?;
        let heap = |index: u64| {
            let heap = self.memory.word(heaps, index * WORD)?;
            let [memory, segments] =
                ["CodeHeap._memory", "CodeHeap._segmap"].map(|field| self.described.offset(field));
            let (memory, segments) = (heap.checked_add(memory?)?, heap.checked_add(segments?)?);
            Some(Heap {
                begin: self.word(memory, "VirtualSpace._low")?,
                end: self.word(memory, "VirtualSpace._high")?,
                segments: self.word(segments, "VirtualSpace._low")?,
                segment_bits: self.int(heap, "CodeHeap._log2_segment_size").filter(|bits| *bits < 32)?,
            })
        };
        (0..count).map(heap).collect()
    }

    /// The method at an address and those inlined there, outermost first; nothing where no compiled code is.
    pub(super) fn frames(&mut self, address: u64) -> Vec<Frame> {
        self.found(address).unwrap_or_default()
    }

    fn found(&mut self, address: u64) -> Option<Vec<Frame>> {
        let code = self.code(address)?;
        let kind = self.text(self.word(code, "CodeBlob._name")?)?;
        if !COMPILED.contains(&kind.as_str()) {
            return Some(vec![frame(kind, None, None)]);
        }
        let scopes =
            self.parts(code).and_then(|parts| self.scopes(code, &parts, address)).unwrap_or_default();
        let mut frames: Vec<Frame> = scopes
            .into_iter()
            .filter_map(|(method, place)| {
                let Method { name, file, lines } = self.method(method)?;
                let line = lines.and_then(|lines| line_of_bytecode(&lines, self.version, place));
                Some(frame(name, file, line))
            })
            .collect();
        frames.reverse();
        if frames.is_empty() {
            let method = self.method(self.word(code, "CompiledMethod._method|nmethod._method")?)?;
            frames.push(frame(method.name, method.file, None));
        }
        Some(frames)
    }

    /// The piece of code that an address lies in.
    fn code(&self, address: u64) -> Option<u64> {
        let heap = self.heaps.iter().find(|heap| (heap.begin..heap.end).contains(&address))?;
        let mut segment = (address - heap.begin) >> heap.segment_bits;
        for _ in 0..MOST_STEPS {
            let [back] = self.memory.bytes(heap.segments + segment)?;
            match back {
                UNUSED => return None,
                0 => {
                    let block = heap.begin + (segment << heap.segment_bits);
                    let used = self.described.offset("HeapBlock::Header._used")?;
                    let [used] = self.memory.bytes(block + used)?;
                    let bytes = self.described.sizes.get("HeapBlock")?;
                    return Some(block + bytes).filter(|_| used != 0);
                }
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }

    /// Where the parts of a piece of code lie.
    fn parts(&self, code: u64) -> Option<Parts> {
        let int = |field: &str| self.int(code, field);
        // Since JDK 24 what never changes lies elsewhere, and what changes besides the code does since JDK 25.
        if let Some(fixed) = self.word(code, "nmethod._immutable_data") {
            let scopes = fixed.checked_add(int("nmethod._scopes_data_offset")?)?;
            return Some(Parts {
                code: code + int("CodeBlob._code_offset")?,
                places: [fixed.checked_add(int("nmethod._scopes_pcs_offset")?)?, scopes],
                scopes,
                methods: self
                    .word(code, "CodeBlob._mutable_data")?
                    .checked_add(int("CodeBlob._relocation_size")?)?,
            });
        }
        let places = [int("nmethod._scopes_pcs_offset")?, int("nmethod._dependencies_offset")?];
        Some(Parts {
            code: self.word(code, "CodeBlob._code_begin")?,
            places: places.map(|offset| code + offset),
            scopes: self.word(code, "CompiledMethod._scopes_data_begin")?,
            methods: code + int("nmethod._metadata_offset")?,
        })
    }

    /// The methods at an address in a piece of code, with the places in their bytecode, innermost first.
    fn scopes(&mut self, code: u64, parts: &Parts, address: u64) -> Option<Vec<(u64, u32)>> {
        let bytes = i64::try_from(address.checked_sub(parts.code)?).ok()?;
        let mut record = self.record_at(code, parts, bytes)?;
        let mut scopes = Vec::new();
        while scopes.len() < MOST_INLINED {
            let scope =
                scope(&self.memory.many(parts.scopes, u64::from(record), SCOPE_BYTES)?, self.version)?;
            scopes.push((self.memory.word(parts.methods, u64::from(scope.method?) * WORD)?, scope.place));
            match scope.into {
                Some(into) => record = into,
                None => break,
            }
        }
        Some(scopes)
    }

    /// The record of the innermost method at so many bytes of a piece of code: that of the first place behind them, for a place ends what
    /// it tells of.
    fn record_at(&mut self, code: u64, parts: &Parts, bytes: i64) -> Option<u32> {
        if self.places.as_ref().is_none_or(|(of, _)| *of != code) {
            let [begin, end] = parts.places;
            self.places = Some((code, self.memory.many(begin, 0, end.checked_sub(begin)?)?));
        }
        let (_, places) = self.places.as_ref()?;
        let size = usize::try_from(*self.described.sizes.get("PcDesc")?).ok().filter(|size| *size > 0)?;
        let number = |place: &[u8], field: &str| {
            let at = usize::try_from(self.described.offset(field)?).ok()?;
            Some(i32::from_le_bytes(place.get(at..at + 4)?.try_into().ok()?))
        };
        let behind = |place: &&[u8]| {
            number(place, "PcDesc._pc_offset").is_some_and(|offset| i64::from(offset) > bytes)
        };
        let record = number(places.chunks_exact(size).find(behind)?, "PcDesc._scope_decode_offset")?;
        u32::try_from(record).ok().filter(|record| *record != 0)
    }

    fn method(&mut self, at: u64) -> Option<Method> {
        if !self.methods.contains_key(&at) {
            let method = self.read_method(at);
            self.methods.insert(at, method);
        }
        self.methods.get(&at)?.clone()
    }

    fn read_method(&self, at: u64) -> Option<Method> {
        let about = self.word(at, "Method._constMethod")?;
        let pool = self.word(about, "ConstMethod._constants")?;
        let entries = pool.checked_add(*self.described.sizes.get("ConstantPool")?)?;
        let entry = |index: u64| self.symbol(self.memory.word(entries, index * WORD)?);
        let method = entry(self.half(about, "ConstMethod._name_index")?)?;
        let holder = self.word(pool, "ConstantPool._pool_holder")?;
        let class = self.symbol(self.word(holder, "Klass._name")?)?;
        // Before JDK 15 the class has the file's name.
        let file = self
            .half(pool, "ConstantPool._source_file_name_index")
            .or_else(|| self.half(holder, "InstanceKlass._source_file_name_index"))
            .filter(|index| *index != 0);
        let (name, file) = java_method(&class, &method, file.and_then(entry).as_deref());
        let flag = HAS_LINES.iter().find_map(|name| self.described.numbers.get(*name))?;
        let lines = || {
            let begin =
                *self.described.sizes.get("ConstMethod")? + self.half(about, "ConstMethod._code_size")?;
            self.memory.up_to(about.checked_add(begin)?, LINES_BYTES)
        };
        let flags = self.half(about, "ConstMethod._flags._flags|ConstMethod._flags").unwrap_or(0);
        Some(Method { name, file, lines: if flags & flag == 0 { None } else { lines() } })
    }

    fn symbol(&self, at: u64) -> Option<String> {
        let (length, body) = (self.half(at, "Symbol._length")?, self.described.offset("Symbol._body")?);
        let bytes = self.memory.many(at, body, length)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn text(&self, at: u64) -> Option<String> {
        text(&self.memory, at)
    }

    /// A field of a record: of eight bytes, of four, of two.
    fn word(&self, record: u64, field: &str) -> Option<u64> {
        self.memory.word(record, self.described.offset(field)?)
    }

    fn int(&self, record: u64, field: &str) -> Option<u64> {
        let at = record.checked_add(self.described.offset(field)?)?;
        self.memory.bytes(at).map(u32::from_le_bytes).map(u64::from)
    }

    fn half(&self, record: u64, field: &str) -> Option<u64> {
        let at = record.checked_add(self.described.offset(field)?)?;
        self.memory.bytes(at).map(u16::from_le_bytes).map(u64::from)
    }
}

fn frame(name: String, file: Option<String>, line: Option<u32>) -> Frame {
    Frame { name, module: JAVA.to_owned(), kernel: false, resolved: true, file, line }
}

/// A text that ends with a zero.
fn text(memory: &Memory, at: u64) -> Option<String> {
    let bytes = memory.up_to(at, NAME_BYTES).filter(|_| at != 0)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    String::from_utf8(bytes[..end].to_vec()).ok()
}

/// What a machine says of itself.
struct Described {
    /// Offset in its record, or address if there is one of it, by `Type.field`.
    fields: HashMap<String, [u64; 2]>,
    sizes: HashMap<String, u64>,
    numbers: HashMap<String, u64>,
}

impl Described {
    fn read(memory: &Memory, tables: [u64; 3]) -> Option<Self> {
        let word = |entry: &[u8], at: usize| {
            let bytes = entry.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let entries = |table: u64, bytes: u64| {
            let begin = memory.word(table, 0)?;
            let entry = move |index: u64| {
                let entry = memory.many(begin, index * bytes, bytes)?;
                Some((text(memory, word(&entry, 0))?, entry))
            };
            // One without a name is the last.
            Some((0..MOST_DESCRIBED).map_while(entry))
        };
        let [fields, types, numbers] = tables;
        let field = |(of, entry): (String, Vec<u8>)| {
            Some((format!("{of}.{}", text(memory, word(&entry, 8))?), [word(&entry, 32), word(&entry, 40)]))
        };
        let number = |(name, entry): (String, Vec<u8>)| (name, word(&entry, 8) & u64::from(u32::MAX));
        Some(Self {
            fields: entries(fields, FIELD_BYTES)?.filter_map(field).collect(),
            sizes: entries(types, TYPE_BYTES)?.map(|(name, entry)| (name, word(&entry, 32))).collect(),
            numbers: entries(numbers, NUMBER_BYTES)?.map(number).collect(),
        })
    }

    /// Where a field lies in its record: `Type.field`, or the first that there is of several with `|` between them.
    fn offset(&self, names: &str) -> Option<u64> {
        names.split('|').find_map(|name| self.fields.get(name)).map(|[offset, _]| *offset)
    }

    /// Where a field lies of which there is one.
    fn address(&self, name: &str) -> Option<u64> {
        self.fields.get(name).map(|[_, address]| *address).filter(|address| *address != 0)
    }
}
