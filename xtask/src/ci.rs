//! What CI runs, in the order in which failures are cheapest.

use crate::shell::{self, exists, root, run_with};
use crate::tidy;

/// Folder under `target` for tools that a check needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// Where tests that are left out say so.
const SKIPPED: &str = "target/skipped-tests.txt";
/// Version of cargo-deny that the checks were written against.
const DENY_VERSION: &str = "0.20.2";

/// Packages whose tests are run a second time, optimised: parsers that are fuzzed, where a minute then has ten times as many inputs, and
/// what keeps to a schedule or a budget of memory. All others judge files or start programs, which takes as long either way.
const OPTIMISED: [&str; 6] = [
    "straightline",
    "straightline-http1",
    "straightline-http2",
    "whyslow-load",
    "whyslow-model",
    "whyslow-script",
];

/// What release tests are run with: so long a fuzzing test goes on, and thirty test binaries are linked without optimising each
/// across all crates, which would take longer than to run them.
const RELEASE: [(&str, &str); 2] = [("FUZZ_SECONDS", "60"), ("CARGO_PROFILE_RELEASE_LTO", "off")];

/// Every check and every test; the first check that fails ends it. Tests are all run, so that one run tells of all that fail.
pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(&["cargo", "fmt", "--all", "--check"])?;
    tidy::run()?;
    shell::run(&[
        "cargo",
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ])?;
    run_with(&["cargo", "doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    deny()?;
    let skipped = root().join(SKIPPED);
    let _ = std::fs::remove_file(&skipped);
    let list = skipped.to_string_lossy().into_owned();
    let told = run_with(&["cargo", "test", "--workspace", "--no-fail-fast"], &[("SKIPPED_TESTS", &list)]);
    say_skipped(&std::fs::read_to_string(&skipped).unwrap_or_default());
    told?;
    let optimised = OPTIMISED.iter().flat_map(|package| ["--package", package]);
    let tests: Vec<&str> =
        ["cargo", "test", "--release", "--no-fail-fast"].into_iter().chain(optimised).collect();
    run_with(&tests, &RELEASE)
}

/// Says which tests were left out, and why.
fn say_skipped(list: &str) {
    let mut lines: Vec<&str> = list.lines().collect();
    lines.sort_unstable();
    println!("{} tests were left out here (REQUIRED_CAPABILITIES=all makes each a failure)", lines.len());
    lines.iter().for_each(|line| println!("  {line}"));
}

/// Licences, sources and duplicate versions. Advisories need a database that is fetched, so they are left to a machine
/// with network: `cargo deny check advisories`.
fn deny() -> anyhow::Result<()> {
    let own = root().join(TOOLS).join("bin/cargo-deny");
    let own = own.to_string_lossy().into_owned();
    let program = if exists("cargo-deny") { "cargo-deny" } else { own.as_str() };
    if !exists(program) {
        shell::run(&[
            "cargo",
            "install",
            "cargo-deny",
            "--locked",
            // It is built in less than half of the time, and takes no longer.
            "--debug",
            "--version",
            DENY_VERSION,
            "--root",
            TOOLS,
        ])?;
    }
    shell::run(&[program, "check", "bans", "licenses", "sources"])
}
