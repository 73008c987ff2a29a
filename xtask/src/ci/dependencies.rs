//! Licences, sources and versions of what the workspace depends on.

use std::path::Path;

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::shell::{self, exists, root, run_with};

/// What decides the answer: what is depended on, and the rules.
const INPUTS: [&str; 3] = ["Cargo.lock", "Cargo.toml", "deny.toml"];
/// The inputs that passed last, by their hash: building cargo-deny takes longer than most other checks.
const PASSED: &str = "deny.passed";
/// Folder for tools that a check needs and that are not on the path.
const TOOLS: &str = "target/tools";
/// Version of cargo-deny that the rules were written for.
const DENY_VERSION: &str = "0.20.2";

/// Runs cargo-deny unless it passed with just these inputs; once it has, [`PASSED`] says so and is to be committed.
///
/// Advisories need a database that is fetched, so they are left to a machine with network: `cargo deny check advisories`.
pub(super) fn check() -> anyhow::Result<()> {
    let (root, now) = (root(), hash(&root())?);
    let passed = root.join(PASSED);
    if std::fs::read_to_string(&passed).is_ok_and(|text| text.trim() == now) {
        println!("== cargo deny: dependencies and rules are those that passed ({PASSED})");
        return Ok(());
    }
    let own = root.join(TOOLS).join("bin/cargo-deny");
    let own = own.to_string_lossy().into_owned();
    let program = if exists("cargo-deny") { "cargo-deny" } else { own.as_str() };
    if !exists(program) {
        let install = ["cargo", "install", "cargo-deny", "--locked", "--debug", "--version", DENY_VERSION];
        // Neither optimised nor with debug information it is built much sooner, and takes no longer.
        let words = [&install[..], &["--root", TOOLS]].concat();
        run_with(&words, &[("CARGO_PROFILE_DEV_DEBUG", "0")])?;
    }
    shell::run(&[program, "check", "bans", "licenses", "sources"])?;
    std::fs::write(&passed, now + "\n").with_context(|| format!("cannot write {PASSED}"))
}

/// SHA-256 of the inputs, in hexadecimal digits.
fn hash(root: &Path) -> anyhow::Result<String> {
    let mut hash = Sha256::new();
    for name in INPUTS {
        let bytes = std::fs::read(root.join(name)).with_context(|| format!("cannot read {name}"))?;
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
