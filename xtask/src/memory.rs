//! The tests of what handles stacks and bytes by hand, under AddressSanitizer and valgrind, and of the parser under Miri.

use crate::shell::{self, command, run_with};

/// Tests of straightline in which stacks are switched, dropped, unwound and reused; those that provoke a fault on purpose are
/// left out, for a fault is what the sanitizer reports, and so is that of a handler that never returns: what is given up is a leak.
const SWITCHING: [&str; 4] = ["runtime::", "hazards::", "shortage::", "lifecycle::"];
const FAULTS: [&str; 5] = ["overflow", "guard", "is_given_up", "std_lock_held", "suspended_for_good"];
/// The sanitizer is not yet a stable option of the compiler, though the stable compiler comes with it.
const SANITIZED: [(&str, &str); 3] =
    [("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", "-Zsanitizer=address"), ("CARGO_TARGET_DIR", "target/address")];
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that run under valgrind, which sees reads of what was never written, as the sanitizer does not. It takes a switch
/// between two stacks for what it is by the distance alone, which is enough here; it warns that it knows no `epoll_pwait2`
/// (3.19), without which the driver waits in another way; and it runs one thread at a time and some fifty times slower, so
/// that tests with bounds on time are left out.
const INSTRUMENTED: [&str; 2] = ["runtime::", "protocol::"];
const TIMED: [&str; 1] = ["seldom_long"];
const VALGRIND: [(&str, &str); 1] =
    [("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "valgrind --quiet --error-exitcode=9")];

/// Runs all of them.
pub(crate) fn run() -> anyhow::Result<()> {
    let words = ["cargo", "test", "--quiet", "--target", TARGET];
    run_with(
        &[&words[..], &["--package", "straightline-http1", "--lib", "--test", "it"]].concat(),
        &SANITIZED,
    )?;
    let own = ["--package", "straightline", "--features", "sanitizer", "--test", "it", "--"];
    run_with(&[&words[..], &own, &filter(&SWITCHING, &FAULTS)].concat(), &SANITIZED)?;
    instrument()?;
    interpret()
}

fn instrument() -> anyhow::Result<()> {
    if !shell::exists("valgrind") {
        println!("left out: valgrind; it comes with most distributions");
        return Ok(());
    }
    let words =
        ["cargo", "test", "--quiet", "--package", "straightline", "--test", "it", "--", "--test-threads=1"];
    run_with(&[&words[..], &filter(&INSTRUMENTED, &TIMED)].concat(), &VALGRIND)
}

/// The parser under Miri, which only nightly compilers have, and not all of them.
fn interpret() -> anyhow::Result<()> {
    let miri = ["cargo", "+nightly", "miri"];
    if !command(&miri).arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("left out: Miri; `rustup component add --toolchain nightly miri` installs it");
        return Ok(());
    }
    shell::run(&[&miri[..], &["test", "--package", "straightline-http1", "--lib", "--test", "it"]].concat())
}

/// The words that choose tests with one of these names, but for those with one of the others.
fn filter(chosen: &[&'static str], left_out: &[&'static str]) -> Vec<&'static str> {
    let skipped = left_out.iter().flat_map(|name| ["--skip", *name]);
    chosen.iter().copied().chain(skipped).collect()
}
