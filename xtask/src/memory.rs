//! The tests of what handles stacks and bytes by hand, under AddressSanitizer, and of the parser under Miri.

use crate::shell::{self, command, run_with};

/// Tests of straightline in which stacks are switched, dropped, unwound and reused; those that provoke a fault on purpose are
/// left out, for a fault is what the sanitizer reports, and so is that of a handler that never returns: what is given up is a leak.
const SWITCHING: [&str; 4] = ["runtime::", "hazards::", "shortage::", "lifecycle::"];
const FAULTS: [&str; 3] = ["overflow", "guard", "is_given_up"];
/// The sanitizer is not yet a stable option of the compiler, though the stable compiler comes with it.
const SANITIZED: [(&str, &str); 3] =
    [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address"), ("CARGO_TARGET_DIR", "target/address")];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs all of them. Valgrind does not know `epoll_pwait2` (3.19), without which nothing is served.
pub(crate) fn run() -> anyhow::Result<()> {
    let words = ["cargo", "test", "--quiet", "--target", TARGET];
    run_with(&[&words[..], &["--package", "http1", "--lib", "--test", "it"]].concat(), &SANITIZED)?;
    let own = ["--package", "straightline", "--features", "sanitizer", "--test", "it", "--"];
    run_with(&[&words[..], &own, &filter()].concat(), &SANITIZED)?;
    interpret()
}

/// The parser under Miri, which only nightly compilers have, and not all of them.
fn interpret() -> anyhow::Result<()> {
    let miri = ["cargo", "+nightly", "miri"];
    if !command(&miri).arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("left out: Miri; `rustup component add --toolchain nightly miri` installs it");
        return Ok(());
    }
    shell::run(&[&miri[..], &["test", "--package", "http1", "--lib", "--test", "it"]].concat())
}

fn filter() -> Vec<&'static str> {
    let skipped = FAULTS.into_iter().flat_map(|name| ["--skip", name]);
    SWITCHING.into_iter().chain(skipped).collect()
}
