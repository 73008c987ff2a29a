//! Memory of the program's own code.

use std::ffi::c_void;
use std::fs;

use rustix::mm::{Advice, madvise};

/// Gives back the pages of code that this process has touched so far, of the program and of its libraries.
///
/// What runs again comes back from the page cache. What only its start needed, arguments and their help above all, does not.
pub fn give_back_code() {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(code) {
        let start: *mut c_void = std::ptr::with_exposed_provenance_mut(start);
        // SAFETY: the range is one mapping of a file that is executable and that nobody here can write to, so that every page of it
        // is what the file has, and is read from there when it is touched again.
        let _ = unsafe { madvise(start, end - start.addr(), Advice::LinuxDontNeed) };
    }
}

/// Begin and end of a mapping of code, from its line. Source: `proc_pid_maps(5)`.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let is_code = words.next()? == "r-xp" && words.nth(3)?.starts_with('/');
    let address = |text| usize::from_str_radix(text, 16).ok();
    is_code.then_some((address(start)?, address(end)?)).filter(|(start, end)| start < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_that_nobody_writes_to_is_given_back() {
        let rows = [
            ("55d0c000-55d0d000 r-xp 00755000 fe:00 9987342                    /usr/bin/whyslow", true),
            (
                "55d0c000-55d0d000 r-xp 00755000 fe:00 9987342                    /a folder/whyslow (deleted)",
                true,
            ),
            ("55d0c000-55d0d000 r--p 00000000 fe:00 9987342                    /usr/bin/whyslow", false),
            ("55d0c000-55d0d000 rwxp 00000000 fe:00 9987342                    /usr/bin/whyslow", false),
            ("55d0c000-55d0d000 r-xs 00000000 fe:00 9987342                    /usr/bin/whyslow", false),
            ("55d0c000-55d0d000 r-xp 00000000 00:00 0                          [vdso]", false),
            ("55d0c000-55d0d000 r-xp 00000000 00:00 0", false),
            ("", false),
        ];
        for (line, is_code) in rows {
            assert_eq!(code(line), is_code.then_some((0x55d0_c000, 0x55d0_d000)), "{line}");
        }
    }

    #[test]
    fn the_program_goes_on_with_less() {
        let resident = || {
            let status = fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssFile:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        give_back_code();
        let after = resident();
        assert!(after < before, "{before} KiB, then {after}");
    }
}
