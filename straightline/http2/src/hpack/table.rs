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

/// One field of a dynamic table: its name, and its value behind it.
#[derive(Clone, Debug)]
struct Entry {
    text: Box<[u8]>,
    name_bytes: usize,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.name_bytes)
    }
}

/// A dynamic table, the newest entry first.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: VecDeque<Entry>,
    bytes: usize,
    most_bytes: usize,
}

impl Table {
    pub(super) const fn new(most_bytes: usize) -> Self {
        Self { entries: VecDeque::new(), bytes: 0, most_bytes }
    }

    pub(super) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    pub(super) fn resize(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
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
        let bytes = name.len() + value.len() + ENTRY_BYTES;
        let entry = (bytes <= self.most_bytes)
            .then(|| Entry { text: [name, value].concat().into(), name_bytes: name.len() });
        self.evict(bytes);
        if let Some(entry) = entry {
            self.bytes += bytes;
            self.entries.push_front(entry);
        }
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
