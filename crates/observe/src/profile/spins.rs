//! Loops that wait without giving the CPU away: spin locks, and threads that look for work.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::parse::Mapping;

/// The instruction that tells a CPU that it is in such a loop, and that no other code has.
///
/// Source: Intel SDM volume 2, PAUSE; Arm Architecture Reference Manual, YIELD.
const HINT: &[u8] = if cfg!(target_arch = "aarch64") { &[0x3f, 0x20, 0x03, 0xd5] } else { &[0xf3, 0x90] };
/// Bytes on either side of a place in which the hint is looked for: the loop is a test, a branch and the hint.
const AROUND: usize = 24;

/// The code of a process, read from the files it is mapped from.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pid: u32,
    maps: &'a [Mapping],
    files: HashMap<&'a str, Option<File>>,
}

impl<'a> Code<'a> {
    pub(super) fn new(pid: u32, maps: &'a [Mapping]) -> Self {
        Self { pid, maps, files: HashMap::new() }
    }

    /// Whether the thread that was met at this address waits in a loop; not so where its code cannot be read.
    pub(super) fn spins(&mut self, address: u64) -> bool {
        let of = |map: &&Mapping| map.executable && (map.begin..map.end).contains(&address);
        let Some(map) = self.maps.iter().find(of).filter(|map| map.path.starts_with('/')) else {
            return false;
        };
        let pid = self.pid;
        let file = self.files.entry(&map.path);
        let file = file.or_insert_with(|| File::open(format!("/proc/{pid}/root{}", map.path)).ok());
        let place = address - map.begin + map.offset;
        let mut code = [0; 2 * AROUND];
        let read = file.as_ref().map(|file| file.read_at(&mut code, place.saturating_sub(AROUND as u64)));
        matches!(read, Some(Ok(length)) if is_hinted(&code[..length]))
    }
}

fn is_hinted(code: &[u8]) -> bool {
    code.windows(HINT.len()).any(|instruction| instruction == HINT)
}

#[cfg(test)]
mod tests {
    use super::{HINT, is_hinted};

    #[test]
    fn the_hint_may_stand_anywhere() {
        for code in [[HINT, &[0x75, 0xf0]].concat(), [&[0x84, 0xc0], HINT].concat()] {
            assert!(is_hinted(&code));
        }
        assert!(!is_hinted(&HINT[..1]) && !is_hinted(&[0x90; 48]));
    }
}
