//! A page of sections, one of each row that was measured.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, ensure};

use crate::shell::root;

/// A page under `docs/benchmarks`.
pub(crate) struct Page {
    name: &'static str,
    title: &'static str,
    about: &'static str,
}

impl Page {
    pub(crate) const fn new(name: &'static str, title: &'static str, about: &'static str) -> Self {
        Self { name, title, about }
    }

    /// Folder for what rows leave behind: sessions and scripts.
    pub(crate) fn folder(&self) -> PathBuf {
        root().join("target/bench").join(self.name)
    }

    /// Puts the section of one row into the page, in the place of the one that is there; the file. The others stay as they
    /// are, and each says where it was measured: rows of one page may be of several machines. Sections come in the order of
    /// `rows`.
    pub(crate) fn keep(&self, row: &str, section: &str, rows: &[&str]) -> anyhow::Result<PathBuf> {
        let (heading, rest) = section.trim_start().split_once('\n').context("a section has a heading")?;
        let section = format!("{heading}\n\n{}{rest}", host());
        let file = root().join("docs/benchmarks").join(format!("{}.md", self.name));
        let before = match fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            read => read.with_context(|| format!("cannot read {}", file.display()))?,
        };
        let mut kept = sections(&before);
        ensure!(before.is_empty() || !kept.is_empty(), "{} has no rows: they would be lost", file.display());
        kept.insert(row, &section);
        let text = self.text(rows, &kept);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }

    fn text(&self, rows: &[&str], sections: &BTreeMap<&str, &str>) -> String {
        let mut text = format!("# {}\n\n{}\n", self.title, self.about);
        for (row, section) in rows.iter().filter_map(|row| Some((row, sections.get(row)?))) {
            write!(text, "\n{MARK}{row}{MARK_END}\n\n{}\n", section.trim())
                .expect("writing to a string cannot fail");
        }
        text
    }
}

/// What stands around the name of a row, before its section.
const MARK: &str = "<!-- row ";
const MARK_END: &str = " -->";

/// The sections of a page by their rows.
fn sections(page: &str) -> BTreeMap<&str, &str> {
    page.split(MARK).skip(1).filter_map(|part| part.split_once(MARK_END)).collect()
}

/// The machine in one line.
fn host() -> String {
    let host = observe::fingerprint();
    format!("Machine: {}, CPUs {}, Linux {}.\n", host.cpu_model, host.allowed_cpus, host.kernel)
}

/// Today as `date` says it, in UTC.
pub(crate) fn today() -> String {
    let output = crate::shell::command(&["date", "--utc", "+%F"]).output();
    output.map_or_else(|_| "?".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A Markdown table.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let names: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rules: Vec<String> =
        head.iter().enumerate().map(|(index, _)| if index == 0 { "---" } else { "--:" }.to_owned()).collect();
    let mut text = line(&names);
    text.push_str(&line(&rules).replace(' ', ""));
    rows.iter().for_each(|row| text.push_str(&line(row)));
    text
}

/// A figure that may be missing.
pub(crate) fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_measured_again_leaves_the_others_as_they_are() {
        let page = Page::new("some", "Some", "About.");
        let rows = ["first", "second", "third"];
        let both = page.text(&rows, &[("third", "## C\n\nc\n\n## D\n\nd"), ("first", "## A\n\na")].into());
        assert_eq!(
            both,
            "# Some\n\nAbout.\n\n<!-- row first -->\n\n## A\n\na\n\n<!-- row third -->\n\n## C\n\nc\n\n## D\n\nd\n"
        );
        let mut kept = sections(&both);
        kept.insert("second", "## B\n\nb\n");
        let all = page.text(&rows, &kept);
        assert_eq!(
            all,
            both.replace("\n<!-- row third", "\n<!-- row second -->\n\n## B\n\nb\n\n<!-- row third")
        );
        assert_eq!(page.text(&rows, &sections(&all)), all, "what is kept is kept as it is");
        assert!(sections("# An older page\n\n## A\n").is_empty());
    }
}
