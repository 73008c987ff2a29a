//! What the binary is made of, as a CycloneDX bill of materials.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::{Release, VERSION, binary, text, tool};
use crate::shell::{self, command, root};

/// Version of cargo-cyclonedx that this was written against.
const TOOL_VERSION: &str = "0.5.9";
/// Name of the files that the tool puts beside every manifest of the workspace.
const LEFT: &str = "dist.cdx";

/// Writes the bill of `whyslow`, with what builds it: the sources of LuaJIT come with a crate of that kind.
pub(super) fn make(release: &Release) -> anyhow::Result<()> {
    let tool = text(&tool("cargo-cyclonedx", TOOL_VERSION)?)?;
    let what = ["--manifest-path", "crates/whyslow/Cargo.toml", "--format", "json", "--spec-version", "1.5"];
    let how = ["--target", binary::TARGET, "--override-filename", LEFT, "--quiet"];
    let made = shell::run(&[&[&*tool, "cyclonedx"][..], &what, &how].concat());
    let bill = fs::read_to_string(root().join("crates/whyslow").join(format!("{LEFT}.json")));
    for manifest in manifests()? {
        // The tool writes one for each package; those of others are not wanted, and one may not have come to be.
        let _ = fs::remove_file(manifest.with_file_name(format!("{LEFT}.json")));
    }
    made?;
    // The tool names packages of the workspace by where they lie on this machine.
    let here = format!("file://{}/", text(&root())?);
    let bill = bill.context("the bill was not written")?.replace(&here, "file:///");
    let parsed: Value = serde_json::from_str(&bill).context("the bill is JSON")?;
    let parts = parsed["components"].as_array().map_or(0, Vec::len);
    ensure!(parts > 0 && parsed["metadata"]["component"]["name"] == "whyslow", "the bill is not whyslow's");
    fs::write(release.file(&format!("whyslow-{VERSION}.cdx.json")), bill).context("cannot write the bill")?;
    println!("   {parts} components");
    Ok(())
}

/// The manifests of the workspace.
fn manifests() -> anyhow::Result<Vec<PathBuf>> {
    let words = ["cargo", "metadata", "--no-deps", "--format-version", "1"];
    let output = command(&words).output().context("cannot ask cargo for the packages")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo prints JSON")?;
    let packages = metadata["packages"].as_array().context("cargo names packages")?;
    Ok(packages.iter().filter_map(|package| package["manifest_path"].as_str()).map(PathBuf::from).collect())
}
