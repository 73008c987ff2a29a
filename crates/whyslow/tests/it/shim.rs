//! The library that takes a cause away does what it says, and only that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fresh_folder;

/// Builds a source of this crate with the C compiler, in a folder of its own.
fn built(source: &str, flags: &[&str]) -> PathBuf {
    let built = fresh_folder().join("built");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let done = Command::new("cc").args(flags).arg("-o").args([&built, &source]).arg("-ldl").status().unwrap();
    assert!(done.success(), "{source:?}");
    built
}

#[test]
fn each_shim_changes_the_calls_that_it_is_for_and_no_others() {
    let shim = built("src/compare/shim.c", &["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]);
    let probe = built("tests/it/probe.c", &["-Wall", "-Werror"]);
    for (which, expected) in [
        ("nodelay", "nodelay 1, nosync 0, nosleep 0\n"),
        ("nosync", "nodelay 0, nosync 1, nosleep 0\n"),
        ("nosleep", "nodelay 0, nosync 0, nosleep 1\n"),
        ("nothing", "nodelay 0, nosync 0, nosleep 0\n"),
    ] {
        let output =
            Command::new(&probe).env("LD_PRELOAD", &shim).env("WHYSLOW_SHIM", which).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{which}");
    }
}
