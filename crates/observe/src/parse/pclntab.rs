//! Functions, files and lines of Go by address, from the table that every program of Go has, stripped or not. Source: Go, runtime/symtab.go
//! and symtabinl.go, internal/abi/symtab.go; since Go 1.20.

/// What the table begins with since Go 1.20.
const MAGIC: u32 = 0xffff_fff1;
/// Numbers of its head, by their place: how many functions, and where the names, the files of compilation units, the files, the values
/// by instruction and the functions are.
const COUNT: usize = 8;
const NAMES: usize = 32;
const UNITS: usize = 40;
const FILES: usize = 48;
const VALUES: usize = 56;
const FUNCTIONS: usize = 64;
/// Fields of a function of 32 bits, by number; the last is its kind, and how much data follows it.
const NAME: usize = 1;
const FILE: usize = 5;
const LINE: usize = 6;
const TABLES: usize = 7;
const UNIT: usize = 8;
const KIND: usize = 10;
const FIELDS: usize = 11;
/// The table of who is inlined at an instruction, and the data that says who that is, among those of a function.
const INLINED_AT: usize = 2;
const INLINED: usize = 3;
/// Bytes of one that is inlined, and in them its name and the instruction that stands for its call.
pub(crate) const INLINED_BYTES: usize = 16;
const INLINED_NAME: usize = 4;
const CALL: usize = 8;
/// Functions that are inlined into each other at most, and bytes of a name or path.
const MOST_INLINED: usize = 64;
const MOST_LETTERS: usize = 4096;

/// A place in a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoPlace {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// The table, with the address at which the code begins.
#[derive(Debug)]
pub(crate) struct LineTable {
    bytes: Vec<u8>,
    text: u64,
}

/// A function: its first instruction from the begin of the code, and where its record stands.
#[derive(Debug, Clone, Copy)]
struct Function {
    entry: u32,
    record: usize,
}

impl LineTable {
    /// Nothing of a table of another form.
    pub(crate) fn new(bytes: Vec<u8>, text: u64) -> Option<Self> {
        let table = Self { bytes, text };
        (table.number(0)? == MAGIC && table.count()? > 0).then_some(table)
    }

    /// The same of code that begins elsewhere.
    pub(crate) fn beginning_at(self, text: u64) -> Self {
        Self { text, ..self }
    }

    /// By how much the names are behind the begin of the table: the program says the same, so that one is told by the other.
    pub(crate) fn names(&self) -> Option<u64> {
        self.offset(NAMES).map(|at| at as u64)
    }

    /// The address of a function.
    pub(crate) fn address_of(&self, name: &str) -> Option<u64> {
        let functions = (0..self.count()?).filter_map(|index| self.function(index));
        let mut functions = functions.filter(|function| {
            self.field(*function, NAME).and_then(|at| self.name(at)).is_some_and(|found| found == name)
        });
        functions.next().map(|function| self.text.wrapping_add(function.entry.into()))
    }

    /// The function at an address and those inlined there, outermost first; `inlined` reads what stands so far in the data on these.
    pub(crate) fn places(
        &self,
        address: u64,
        inlined: impl Fn(u64) -> Option<[u8; INLINED_BYTES]>,
    ) -> Vec<GoPlace> {
        let at = address.checked_sub(self.text).and_then(|at| u32::try_from(at).ok());
        let Some((at, function)) = at.and_then(|at| Some((at, self.find(at)?))) else { return Vec::new() };
        let (mut at, mut places) = (at, Vec::new());
        for _ in 0..MOST_INLINED {
            let Some((name, call)) = self.inlined_at(function, at, &inlined) else { break };
            places.extend(self.place(function, name, at));
            at = call;
        }
        places.extend(self.field(function, NAME).and_then(|name| self.place(function, name, at)));
        places.reverse();
        places
    }

    /// The name of the innermost function that is inlined at an instruction, and the instruction that stands for its call.
    fn inlined_at(
        &self,
        function: Function,
        at: u32,
        inlined: impl Fn(u64) -> Option<[u8; INLINED_BYTES]>,
    ) -> Option<(u32, u32)> {
        let tables = self.field(function, TABLES)? as usize;
        let datas = (self.field(function, KIND)? >> 24) as usize;
        if tables <= INLINED_AT || datas <= INLINED || tables > MOST_LETTERS {
            return None;
        }
        let index = self.value(function, self.field(function, FIELDS + INLINED_AT)?, at)?;
        let data = self.field(function, FIELDS + tables + INLINED)?;
        let place = u64::from(data) + INLINED_BYTES as u64 * u64::from(index);
        let bytes = inlined(place).filter(|_| data != u32::MAX)?;
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Some((number(INLINED_NAME), function.entry.checked_add(number(CALL))?))
    }

    fn place(&self, function: Function, name: u32, at: u32) -> Option<GoPlace> {
        let value = |table: usize| self.value(function, self.field(function, table)?, at);
        let file = value(FILE).and_then(|file| {
            let unit = self.field(function, UNIT)?.checked_add(file)?;
            let at = self.offset(UNITS)?.checked_add(4 * unit as usize)?;
            self.text_at(FILES, self.number(at)?)
        });
        Some(GoPlace { function: self.name(name)?, file, line: value(LINE) })
    }

    /// The function that an instruction is in, so far from the begin of the code.
    fn find(&self, at: u32) -> Option<Function> {
        let (mut from, mut to) = (0, self.count()?);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.function(middle)?.entry <= at { from = middle + 1 } else { to = middle }
        }
        self.function(from.checked_sub(1)?)
    }

    fn count(&self) -> Option<usize> {
        // Of each there are eight bytes.
        self.offset(COUNT).filter(|count| *count <= self.bytes.len() / 8)
    }

    fn function(&self, index: usize) -> Option<Function> {
        let functions = self.offset(FUNCTIONS)?;
        let at = functions.checked_add(8 * index)?;
        let record = functions.checked_add(self.number(at + 4)? as usize)?;
        Some(Function { entry: self.number(at)?, record })
    }

    fn field(&self, function: Function, field: usize) -> Option<u32> {
        self.number(function.record.checked_add(4 * field)?)
    }

    /// What a table has for an instruction: differences of values, each with how many bytes of code it holds for.
    fn value(&self, function: Function, table: u32, at: u32) -> Option<u32> {
        let begin = self.offset(VALUES)?.checked_add(table as usize)?;
        let mut bytes = self.bytes.get(begin..).filter(|_| table != 0)?.iter();
        let (mut value, mut end) = (-1_i32, function.entry);
        loop {
            let step = varint(&mut bytes)?;
            if step == 0 && end != function.entry {
                return None;
            }
            value = value.wrapping_add((step >> 1) as i32 ^ -((step & 1) as i32));
            end = end.checked_add(varint(&mut bytes)?)?;
            if at < end {
                return u32::try_from(value).ok();
            }
        }
    }

    fn name(&self, at: u32) -> Option<String> {
        self.text_at(NAMES, at)
    }

    /// A text that ends with a zero, so far behind what this number of the head says.
    fn text_at(&self, part: usize, at: u32) -> Option<String> {
        let begin = self.offset(part)?.checked_add(at as usize)?;
        let bytes = self.bytes.get(begin..)?;
        let end = bytes.iter().take(MOST_LETTERS).position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok().filter(|text| !text.is_empty())
    }

    fn number(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    }

    /// A number of the head that is a size or a place.
    fn offset(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    }
}

/// A number of seven bits a byte, the lowest first.
fn varint<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let (mut value, mut shift) = (0_u32, 0);
    loop {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

/// The addresses that the first two instructions of code at an address read which take a word from a place relative to themselves
/// (`MOVQ place(RIP), register`).
pub(crate) fn first_words_read(code: &[u8], address: u64) -> Option<[u64; 2]> {
    /// Bytes of such an instruction.
    const LENGTH: usize = 7;
    let read = |(at, bytes): (usize, &[u8])| {
        let is_move = [bytes[0] & 0xfb, bytes[1], bytes[2] & 0xc7] == [0x48, 0x8b, 0x05];
        let distance = i32::from_le_bytes(bytes[3..].try_into().ok()?);
        let next = address.wrapping_add((at + LENGTH) as u64);
        is_move.then(|| next.wrapping_add_signed(distance.into()))
    };
    let mut found = code.windows(LENGTH).enumerate().filter_map(read);
    Some([found.next()?, found.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the code of the made-up program begins.
    const TEXT: u64 = 0x40_1000;

    /// A table of two functions in `main.go`: `main.pay` from byte 0 on, with `sync.Lock` inlined at bytes 4 to 7, and `main.rest`
    /// from byte 16 on.
    fn table() -> Vec<u8> {
        const NAMES_AT: usize = 72;
        let names = b"main.pay\0sync.Lock\0main.rest\0";
        let files = b"/srv/main.go\0/go/sync.go\0";
        // Of each a step of the value and bytes of code. Files, lines and who is inlined, of the first; files and lines of the second.
        let values: [&[u8]; 6] = [
            &[0],
            &[2, 4, 2, 4, 1, 8, 0],
            &[12, 4, 80, 4, 79, 8, 0],
            &[0, 4, 2, 4, 1, 8, 0],
            &[2, 8, 0],
            &[18, 8, 0],
        ];
        let begin_of = |index: usize| values[..index].iter().map(|one| one.len() as u32).sum::<u32>();
        let functions = [
            [0, 0, 0, 0, 0, begin_of(1), begin_of(2), 3, 0, 0, 4 << 24].to_vec(),
            [16, 19, 0, 0, 0, begin_of(4), begin_of(5), 0, 0, 0, 0].to_vec(),
        ];
        // Tables, of which the third says who is inlined, and data, of which the fourth does.
        let follows = [0, 0, begin_of(3), u32::MAX, u32::MAX, u32::MAX, 32];
        let units = NAMES_AT + names.len();
        let files_at = units + 8;
        let values_at = files_at + files.len();
        let functions_at = values_at + values.concat().len();
        let records = 8 * 2 + 4;
        let second = records + 4 * (FIELDS + follows.len());
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        for number in [2, 2, 0, NAMES_AT, units, files_at, values_at, functions_at] {
            bytes.extend((number as u64).to_le_bytes());
        }
        bytes.extend(names);
        [0, 13_u32].iter().for_each(|at| bytes.extend(at.to_le_bytes()));
        bytes.extend(files);
        bytes.extend(values.concat());
        let index = [0, records as u32, 16, second as u32, 24];
        for number in index.iter().chain(&functions[0]).chain(&follows).chain(&functions[1]) {
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    /// What is inlined first: its name, and the first instruction stands for its call.
    fn inlined(at: u64) -> Option<[u8; INLINED_BYTES]> {
        let mut bytes = [0; INLINED_BYTES];
        bytes[INLINED_NAME] = 9;
        bytes[CALL] = 1;
        (at == 32).then_some(bytes)
    }

    fn place(function: &str, file: &str, line: u32) -> GoPlace {
        GoPlace { function: function.to_owned(), file: Some(file.to_owned()), line: Some(line) }
    }

    #[test]
    fn addresses_have_their_function_file_and_line_and_who_is_inlined() {
        let table = LineTable::new(table(), TEXT).unwrap();
        let pay = |line| place("main.pay", "/srv/main.go", line);
        for (at, expected) in [
            (0, vec![pay(5)]),
            (5, vec![pay(5), place("sync.Lock", "/go/sync.go", 45)]),
            (9, vec![pay(5)]),
            (17, vec![place("main.rest", "/srv/main.go", 8)]),
        ] {
            assert_eq!(table.places(TEXT + at, inlined), expected, "{at}");
        }
        assert_eq!(table.places(TEXT - 1, inlined), []);
        // What is inlined cannot be read: the function itself is known.
        assert_eq!(table.places(TEXT + 5, |_| None).len(), 1);
        assert_eq!(table.address_of("main.rest"), Some(TEXT + 16));
        assert_eq!(table.address_of("main.none"), None);
    }

    #[test]
    fn a_torn_table_gives_nothing_and_comes_to_an_end() {
        let whole = table();
        assert!(LineTable::new(Vec::new(), TEXT).is_none());
        for cut in 0..whole.len() {
            if let Some(table) = LineTable::new(whole[..cut].to_vec(), TEXT) {
                (0..32).for_each(|at| drop(table.places(TEXT + at, inlined)));
                let _ = table.address_of("main.rest");
            }
        }
        let mut random = model::plan::SplitMix64::new(11);
        for _ in 0..5000 {
            let mut torn = whole.clone();
            for _ in 0..1 + random.next_u64() % 8 {
                let at = 8 + (random.next_u64() % (whole.len() as u64 - 8)) as usize;
                torn[at] = random.next_u64() as u8;
            }
            if let Some(table) = LineTable::new(torn, TEXT) {
                let inlined =
                    |at| inlined(at).map(|_| std::array::from_fn(|byte| (at as usize + byte) as u8));
                (0..32).for_each(|at| drop(table.places(TEXT + at, inlined)));
            }
        }
    }

    #[test]
    fn the_places_that_code_reads_are_relative_to_its_instructions() {
        let code = [
            0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x0d, 0x95, 0x21, 0x29, 0x00, 0x48, 0x89, 0x4c, 0x24, 0x10,
            0x48, 0x8b, 0x1d, 0x81, 0x18, 0x27, 0x00,
        ];
        assert_eq!(first_words_read(&code, 0x44_c3d0), Some([0x6d_e570, 0x6b_dc68]));
        assert_eq!(first_words_read(&code[..16], 0x44_c3d0), None);
    }
}
