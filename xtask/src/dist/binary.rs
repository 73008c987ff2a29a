//! One static binary for every Linux on x86-64.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use super::packages::has_charts;
use super::{FOLDER, Release, VERSION, text, trial};
use crate::shell::{self, root, run_with};

/// What it is built for. Named, so that the flags below do not reach build scripts and macros.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Its build folder, apart from those of other builds: the flags differ.
const BUILD: &str = "target/static";
/// Largest binary: what is downloaded in a few seconds.
const MAX_BYTES: u64 = 25 << 20;
/// Packages whose line tables are kept: what runs in the built-in servers, so that profiles of them have inlined functions and
/// lines. Those of all packages would be as large as the whole limit. Names of functions are kept everywhere.
const WITH_LINES: [&str; 6] =
    ["whyslow-serve", "straightline", "straightline-http1", "straightline-http2", "hyper", "tokio"];

/// Packages of ours that are made small, not fast: no request passes through them.
const SMALL: [&str; 4] = ["whyslow", "whyslow-analyse", "whyslow-model", "whyslow-report"];
/// Packages of others that are made fast, since they serve, send load or read symbols; all others are made small.
const FAST: [&str; 25] = [
    "blazesym",
    "bytes",
    "corosensei",
    "gimli",
    "hdrhistogram",
    "http",
    "http-body",
    "httparse",
    "hyper",
    "hyper-util",
    "itoa",
    "memchr",
    "mio",
    "mlua",
    "mlua-sys",
    "quinn-proto",
    "quinn-udp",
    "ring",
    "rustix",
    "rustls",
    "serde_json",
    "slab",
    "socket2",
    "tokio",
    "zlib-rs",
];

/// Builds it with its charts, sees that it is whole, and tries it in an empty root.
pub(super) fn make(release: &Release) -> anyhow::Result<()> {
    shell::run(&["make", "web"])?;
    let names = root().join(FOLDER).join("names.o");
    let object = text(&names)?;
    shell::run(&["cc", "-O2", "-fPIE", "-c", "xtask/src/dist/names.c", "-o", &object])?;
    build(&object)?;
    let binary = path(release);
    fs::copy(root().join(BUILD).join(TARGET).join("release/whyslow"), &binary)
        .context("cannot copy the binary")?;
    let bytes = fs::metadata(&binary)?.len();
    ensure!(bytes <= MAX_BYTES, "the binary has {bytes} bytes, at most {MAX_BYTES}");
    trial::in_empty_root(&binary)?;
    trial::names_own_functions(&binary)?;
    has_charts(&text(&binary)?)
}

/// Builds the release profile, linked as one piece, which is smaller, and with the line tables of a few.
fn build(names: &str) -> anyhow::Result<()> {
    let lines = |package: &str| format!("profile.release.package.{package}.debug=\"line-tables-only\"");
    let small = |package: &str| format!("profile.release.package.{package}.opt-level=\"s\"");
    let fast = |package: &str| format!("profile.release.package.{package}.opt-level=3");
    let small = SMALL.map(small).into_iter().chain([small("\"*\"")]);
    let settings = WITH_LINES.map(lines).into_iter().chain(small).chain(FAST.map(fast));
    let settings: Vec<String> = settings.flat_map(|setting| ["--config".to_owned(), setting]).collect();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let words = ["cargo", "rustc", "--release", "--locked", "--package", "whyslow", "--bin", "whyslow"];
    let names = format!("-Clink-arg={names}");
    // blazesym reads compressed sections; -O2 has the linker compress them well.
    let link = ["-Wl,--compress-debug-sections=zlib", "-Wl,-O2"].map(|flag| format!("-Clink-arg={flag}"));
    let link = ["--target", TARGET, "--", &names, &link[0], &link[1]];
    let environment = [
        ("RUSTFLAGS", "-C target-feature=+crt-static"),
        ("CARGO_TARGET_DIR", BUILD),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
        ("CARGO_PROFILE_RELEASE_LTO", "fat"),
        ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
        // With symbols: without line tables cargo would strip them.
        ("CARGO_PROFILE_RELEASE_STRIP", "none"),
    ];
    run_with(&[&words[..], &settings, &link].concat(), &environment)
}

/// Where it lies.
pub(super) fn path(release: &Release) -> PathBuf {
    release.file(&format!("whyslow-{VERSION}-x86_64-linux"))
}
