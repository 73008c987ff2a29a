//! `docs/answers/NAME.md`: a part that the program writes, and what a person writes around it.

use std::path::Path;

use analyse::CaseFindings;
use anyhow::Context;
use report::Worded;

const BEGIN: &str = "<!-- whyslow: from here to the end mark, written by `whyslow case run` -->";
const END: &str = "<!-- whyslow: end mark -->";
/// What a new page has above the generated part.
const TO_WRITE: &str = "## What it means\n\nNot written yet.";

/// Writes the generated part into `file`, and keeps the rest of it.
pub(super) fn write(file: &Path, findings: &Worded<CaseFindings>) -> anyhow::Result<()> {
    let folder = file.parent().context("an answer lies in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let existing = std::fs::read_to_string(file).ok();
    let page = page(existing.as_deref(), &findings.case.name, &report::case_markdown(findings));
    Ok(model::record::write_atomically(file, page.as_bytes())?)
}

/// The page with `generated` between its marks; a page without them is kept above.
fn page(existing: Option<&str>, name: &str, generated: &str) -> String {
    let block = format!("{BEGIN}\n\n{}\n\n{END}", generated.trim());
    let Some(text) = existing else {
        return format!("# {name}\n\n{TO_WRITE}\n\n{block}\n");
    };
    let parts = text.split_once(BEGIN).and_then(|(above, rest)| Some((above, rest.split_once(END)?.1)));
    match parts {
        Some((above, below)) => format!("{above}{block}{below}"),
        None => format!("{}\n\n{block}\n", text.trim()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_wrote_is_kept() {
        let first = page(None, "x", "one\n");
        assert_eq!(first, format!("# x\n\n{TO_WRITE}\n\n{BEGIN}\n\none\n\n{END}\n"));
        let edited = first.replace("Not written yet.", "By hand.") + "\nBelow.\n";
        let second = page(Some(&edited), "x", "two");
        assert_eq!(second, edited.replace("one", "two"));
        assert_eq!(page(Some(&second), "x", "two"), second, "the same figures change nothing");
        let unmarked = page(Some("By hand.\n"), "x", "one");
        assert_eq!(unmarked, format!("By hand.\n\n{BEGIN}\n\none\n\n{END}\n"));
    }
}
