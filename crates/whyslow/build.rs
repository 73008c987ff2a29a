//! How the program is linked.

use std::env;
use std::process::Command;

/// The first glibc whose loader reads packed relocations. Source: release notes of glibc 2.36, `DT_RELR`.
const PACKED_SINCE: [u32; 2] = [2, 36];

/// Packs the addresses that the loader corrects: it reads 20 KiB of them instead of 870, which every generator would hold. Only where the
/// program is built for this machine and its loader can.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let built_for = |name: &str| env::var(name).unwrap_or_default();
    if built_for("HOST") == built_for("TARGET")
        && built_for("CARGO_CFG_TARGET_ENV") == "gnu"
        && glibc() >= Some(PACKED_SINCE)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// The version of this machine's glibc.
fn glibc() -> Option<[u32; 2]> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some([major.parse().ok()?, minor.parse().ok()?])
}
