//! What CI runs, in the order in which failures are cheapest.

use crate::shell::{self, exists, root, run_with};
use crate::tidy;

/// Folder under `target` for tools that a check needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// Version of cargo-deny that the checks were written against.
const DENY_VERSION: &str = "0.20.2";

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
    let tests = ["cargo", "test", "--workspace", "--no-fail-fast"];
    shell::run(&tests)?;
    // The fuzzing tests go on as long as this says.
    run_with(&[&tests[..], &["--release"]].concat(), &[("FUZZ_SECONDS", "60")])
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
            "--version",
            DENY_VERSION,
            "--root",
            TOOLS,
        ])?;
    }
    shell::run(&[program, "check", "bans", "licenses", "sources"])
}
