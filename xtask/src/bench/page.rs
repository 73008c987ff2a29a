//! A page put together from the sections that rows have written.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;

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

    /// Folder for what rows found.
    pub(crate) fn folder(&self) -> PathBuf {
        root().join("target/bench").join(self.name)
    }

    /// Keeps the section of one row, and where it was measured: rows of one page may be of several machines.
    pub(crate) fn keep(&self, row: &str, section: &str) -> anyhow::Result<()> {
        let (heading, rest) = section.trim_start().split_once('\n').context("a section has a heading")?;
        let section = format!("{heading}\n\n{}{rest}", host());
        let folder = self.folder();
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let file = folder.join(format!("{row}.md"));
        fs::write(&file, section).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Writes the page from the sections of `rows` that are kept; the file.
    pub(crate) fn write(&self, rows: &[&str]) -> anyhow::Result<PathBuf> {
        let mut text = format!("# {}\n\n{}\n", self.title, self.about);
        for row in rows {
            if let Ok(section) = fs::read_to_string(self.folder().join(format!("{row}.md"))) {
                write!(text, "\n{}", section.trim_start()).expect("writing to a string cannot fail");
            }
        }
        let file = root().join("docs/benchmarks").join(format!("{}.md", self.name));
        fs::create_dir_all(root().join("docs/benchmarks")).context("cannot make docs/benchmarks")?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
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
