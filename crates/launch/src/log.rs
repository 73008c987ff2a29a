use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of a log's end is looked at, in bytes: dozens of lines, at a cost that does not grow with the log.
const TAIL_BYTES: u64 = 64 * 1024;

/// The last `lines` lines of the file, the newest last; empty where it cannot be read.
///
/// Bytes that are not UTF-8 are replaced; of more than 64 KiB only the end is looked at.
#[must_use]
pub fn log_tail(path: &Path, lines: usize) -> Vec<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        file.take(TAIL_BYTES).read_to_end(&mut bytes)
    });
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
}
