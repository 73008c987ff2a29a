//! Which part of a file a request asks for, and whether it wants it at all.

use http1::write::date;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) bytes: u64,
    pub(super) modified_s: u64,
    pub(super) modified_ns: u32,
    /// How it was coded beforehand: files that were made at once must be told apart.
    pub(super) coding: Option<&'static str>,
}

impl Version {
    pub(super) fn etag(&self) -> String {
        let coding = self.coding.unwrap_or_default();
        format!("\"{:x}.{:x}-{:x}{coding}\"", self.modified_s, self.modified_ns, self.bytes)
    }

    pub(super) fn last_modified(&self) -> [u8; http1::write::DATE_BYTES] {
        date(self.modified_s)
    }
}

/// The fields of a request that choose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked<'r> {
    if_match: Option<&'r str>,
    if_unmodified_since: Option<&'r str>,
    if_none_match: Option<&'r str>,
    if_modified_since: Option<&'r str>,
    if_range: Option<&'r str>,
    range: Option<&'r str>,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    /// From the first byte to before the last; never empty.
    Range(Range<u64>),
    /// 304
    NotModified,
    /// 412
    Failed,
    /// 416
    Unsatisfiable,
}

impl<'r> Asked<'r> {
    /// Ranges are for GET alone.
    pub(super) fn from_headers(header: impl Fn(&str) -> Option<&'r str>, is_get: bool) -> Self {
        Self {
            if_match: header("if-match"),
            if_unmodified_since: header("if-unmodified-since"),
            if_none_match: header("if-none-match"),
            if_modified_since: header("if-modified-since"),
            if_range: header("if-range"),
            range: header("range").filter(|_| is_get),
        }
    }

    /// Source: RFC 9110, section 13.2.2 for the order, and section 14.2.
    pub(super) fn part(&self, version: &Version) -> Part {
        let etag = version.etag();
        let kept = match (self.if_match, self.if_unmodified_since) {
            (Some(tags), _) => lists(tags, &etag, false),
            (None, Some(time)) => seconds(time).is_none_or(|time_s| version.modified_s <= time_s),
            (None, None) => true,
        };
        if !kept {
            return Part::Failed;
        }
        let known = match (self.if_none_match, self.if_modified_since) {
            (Some(tags), _) => lists(tags, &etag, true),
            (None, Some(time)) => seconds(time).is_some_and(|time_s| version.modified_s <= time_s),
            (None, None) => false,
        };
        if known {
            return Part::NotModified;
        }
        let same = match self.if_range {
            None => true,
            Some(tag) if tag.contains('"') => tag == etag,
            Some(time) => seconds(time) == Some(version.modified_s),
        };
        self.range.filter(|_| same).map_or(Part::Whole, |range| cut(range, version.bytes))
    }
}

/// Whether a list of entity tags has `etag`; `weakly`, where any state that means the same will do.
fn lists(tags: &str, etag: &str, weakly: bool) -> bool {
    let mut tags = tags.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag == etag || (weakly && tag.strip_prefix("W/") == Some(etag)))
}

/// A date of a request in seconds since 1970.
fn seconds(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).as_ref().map(Duration::as_secs).ok()
}

/// The range that is asked for of a file of `bytes`. What is malformed, or asks for several, gets the whole.
fn cut(range: &str, bytes: u64) -> Part {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number too large for 64 bits is past the end of any file.
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let Some((first, last)) = range.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return Part::Whole;
    };
    let cut = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(bytes),
        (Some(first), None) if last.is_empty() => first..bytes,
        (None, Some(count)) if first.is_empty() => bytes.saturating_sub(count)..bytes,
        _ => return Part::Whole,
    };
    if cut.start < cut.end { Part::Range(cut) } else { Part::Unsatisfiable }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Part, Version};

    const FILE: Version = Version { bytes: 100, modified_s: 784_111_777, modified_ns: 5, coding: None };
    const THEN: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sunday, 06-Nov-94 08:49:36 GMT";

    #[test]
    fn ranges_are_cut_to_the_file() {
        for (range, wanted) in [
            ("bytes=0-9", Part::Range(0..10)),
            ("bytes=90-", Part::Range(90..100)),
            ("bytes=90-200", Part::Range(90..100)),
            ("bytes=-10", Part::Range(90..100)),
            ("bytes=-1000", Part::Range(0..100)),
            ("bytes=99-99", Part::Range(99..100)),
            ("bytes=100-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=99999999999999999999-", Part::Unsatisfiable),
            ("bytes=9-0", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("lines=0-9", Part::Whole),
        ] {
            let asked = Asked { range: Some(range), ..Default::default() };
            assert_eq!(asked.part(&FILE), wanted, "{range}");
            let nothing = asked.part(&Version { bytes: 0, ..FILE });
            assert!(!matches!(nothing, Part::Range(_)), "{range} of an empty file");
        }
    }

    #[test]
    fn conditions_are_met_in_their_order() {
        let etag = FILE.etag();
        let weak = format!("W/{etag}, \"x\"");
        let none = Asked::default();
        for (name, asked, wanted) in [
            ("the tag it has", Asked { if_none_match: Some(&etag), ..none }, Part::NotModified),
            ("weakly", Asked { if_none_match: Some(&weak), ..none }, Part::NotModified),
            ("any", Asked { if_none_match: Some("*"), ..none }, Part::NotModified),
            (
                "another tag",
                Asked { if_none_match: Some("\"x\""), if_modified_since: Some(THEN), ..none },
                Part::Whole,
            ),
            ("not modified since", Asked { if_modified_since: Some(THEN), ..none }, Part::NotModified),
            ("modified since", Asked { if_modified_since: Some(BEFORE), ..none }, Part::Whole),
            ("since nonsense", Asked { if_modified_since: Some("today"), ..none }, Part::Whole),
            ("only if it is this", Asked { if_match: Some(&etag), ..none }, Part::Whole),
            ("weakly this", Asked { if_match: Some(&weak), ..none }, Part::Failed),
            ("only if older", Asked { if_unmodified_since: Some(BEFORE), ..none }, Part::Failed),
            (
                "a range of this",
                Asked { if_range: Some(&etag), range: Some("bytes=0-0"), ..none },
                Part::Range(0..1),
            ),
            (
                "a range of another",
                Asked { if_range: Some("\"x\""), range: Some("bytes=0-0"), ..none },
                Part::Whole,
            ),
            (
                "a range as of then",
                Asked { if_range: Some(THEN), range: Some("bytes=0-0"), ..none },
                Part::Range(0..1),
            ),
            (
                "a range as of before",
                Asked { if_range: Some(BEFORE), range: Some("bytes=0-0"), ..none },
                Part::Whole,
            ),
        ] {
            assert_eq!(asked.part(&FILE), wanted, "{name}");
        }
    }
}
