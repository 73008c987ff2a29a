//! The static table, and the dynamic one that both ends keep.

use std::collections::VecDeque;

/// Size of an entry beside its name and value, in bytes.
///
/// Source: RFC 7541, section 4.1.
pub(super) const ENTRY_BYTES: usize = 32;

/// Fields that every table begins with.
///
/// Source: RFC 7541, appendix A.
#[rustfmt::skip]
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// One field of a dynamic table: its name, its value behind it, and behind that the line of an answer that it was made of, if any.
#[derive(Clone, Debug)]
struct Entry {
    text: Box<[u8]>,
    name_bytes: usize,
    field_bytes: usize,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.field_bytes + ENTRY_BYTES
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.text[..self.field_bytes].split_at(self.name_bytes)
    }

    fn line(&self) -> &[u8] {
        &self.text[self.field_bytes..]
    }
}

/// A dynamic table, the newest entry first.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    /// How many were ever added: each has the number that this was then, from 1 on.
    added: u64,
    bytes: usize,
    most_bytes: usize,
    /// How often it was changed.
    changes: u64,
}

impl Table {
    pub(super) const fn new(most_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), added: 0, bytes: 0, most_bytes, changes: 0 }
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    pub(super) fn resize(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
        self.changes += 1;
        self.evict(0);
    }

    /// Makes room for `more` bytes.
    fn evict(&mut self, more: usize) {
        while self.bytes + more > self.most_bytes {
            let Some(oldest) = self.entries.pop_back() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// Adds a field; one that is larger than the table empties it.
    ///
    /// Source: RFC 7541, section 4.4.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.add_of_line(name, value, b"");
    }

    /// Adds a field that was made of a line; its number, if it was kept.
    pub(super) fn add_of_line(&mut self, name: &[u8], value: &[u8], line: &[u8]) -> Option<u64> {
        self.changes += 1;
        let field_bytes = name.len() + value.len();
        let entry = (field_bytes + ENTRY_BYTES <= self.most_bytes).then(|| Entry {
            text: [name, value, line].concat().into(),
            name_bytes: name.len(),
            field_bytes,
        });
        self.evict(field_bytes + ENTRY_BYTES);
        let entry = entry?;
        self.bytes += entry.bytes();
        self.entries.push_front(entry);
        self.added += 1;
        Some(self.added)
    }

    /// Index and line of the field that has a number, while it is there.
    #[inline]
    pub(super) fn numbered(&self, number: u64) -> Option<(usize, &[u8])> {
        let place = usize::try_from(self.added.checked_sub(number)?).ok()?;
        self.entries.get(place).map(|entry| (STATIC.len() + 1 + place, entry.line()))
    }

    /// The number of a field that was made of `line`.
    pub(super) fn number_of(&self, line: &[u8]) -> Option<u64> {
        let place = self.entries.iter().position(|entry| entry.line() == line)?;
        Some(self.added - place as u64)
    }

    /// The field of an index of both tables, from 1 on.
    #[inline]
    pub(super) fn field(&self, index: usize) -> Option<(&[u8], &[u8])> {
        match STATIC.get(index.checked_sub(1)?) {
            Some((name, value)) => Some((name.as_bytes(), value.as_bytes())),
            None => self.entries.get(index - 1 - STATIC.len()).map(Entry::parts),
        }
    }

    /// The index of a field, or else that of its name alone.
    pub(super) fn find(&self, name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
        let (mut whole, mut named) = find_static(name, value);
        if whole.is_some() {
            return (whole, named);
        }
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.name_bytes != name.len() || entry.parts().0 != name {
                continue;
            }
            let index = Some(index + 1 + STATIC.len());
            named = named.or(index);
            if entry.parts().1 == value {
                whole = index;
                break;
            }
        }
        (whole, named)
    }
}

fn find_static(name: &[u8], value: &[u8]) -> (Option<usize>, Option<usize>) {
    let mut named = None;
    for (index, (other, text)) in STATIC.iter().enumerate() {
        if other.len() == name.len() && other.as_bytes() == name {
            named = named.or(Some(index + 1));
            if !text.is_empty() && text.as_bytes() == value {
                return (Some(index + 1), named);
            }
        } else if named.is_some() {
            break;
        }
    }
    (None, named)
}
