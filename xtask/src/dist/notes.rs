//! What is new, for whoever downloads a release.

use std::fs;

use anyhow::Context;

use super::{Release, VERSION};
use crate::shell::root;

/// Cuts the section of this version from CHANGELOG.md.
pub(super) fn make(release: &Release) -> anyhow::Result<()> {
    let log = fs::read_to_string(root().join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    let notes = section(&log, VERSION)
        .with_context(|| format!("CHANGELOG.md says nothing of {VERSION}: add '## [{VERSION}] - DATE'"))?;
    fs::write(release.file("RELEASE_NOTES.md"), format!("# whyslow {VERSION}\n\n{notes}\n"))
        .context("cannot write the release notes")
}

/// What stands below the heading of a version; nothing where there is no word.
fn section<'a>(log: &'a str, version: &str) -> Option<&'a str> {
    let (_, rest) = log.split_once(&format!("\n## [{version}]"))?;
    let body = rest.split_once('\n')?.1;
    let body = body.split("\n## ").next().unwrap_or(body).trim();
    (!body.is_empty()).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::section;

    #[test]
    fn a_section_ends_where_the_next_one_begins() {
        let log = "# Changelog\n\n## [0.2.0] - today\n\n### Added\n\n- two\n\n## [0.1.0] - before\n\n- one\n\n## [0.0.1]\n";
        let cases = [
            ("0.2.0", Some("### Added\n\n- two")),
            ("0.1.0", Some("- one")),
            ("0.0.1", None),
            ("0.1", None),
            ("3.0.0", None),
        ];
        for (version, want) in cases {
            assert_eq!(section(log, version), want, "{version}");
        }
    }
}
