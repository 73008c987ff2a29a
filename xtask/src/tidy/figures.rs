//! How large the code is, crate by crate. Nothing is judged: the figures are for whoever wants to see them grow or shrink.

use std::collections::BTreeMap;
use std::fs;

use anyhow::Context;

use super::sources::{self, Source};
use crate::shell::root;

/// How a line begins that makes something public.
const PUBLIC: [&str; 8] = [
    "pub fn ",
    "pub const ",
    "pub static ",
    "pub struct ",
    "pub enum ",
    "pub trait ",
    "pub type ",
    "pub unsafe fn ",
];

/// Figures of one crate, without its tests.
#[derive(Default)]
struct Figures<'a> {
    lines: usize,
    public: usize,
    /// Functions whose name tells nothing: `of`.
    named_of: usize,
    /// The longest file, in lines.
    longest: (usize, &'a str),
}

impl<'a> Figures<'a> {
    fn add(&mut self, source: &'a Source) {
        let code: Vec<&str> = source.code().map(|(_, line)| line.trim_start()).collect();
        let is_public = |line: &&&str| PUBLIC.iter().any(|begin| line.starts_with(begin));
        self.lines += code.len();
        self.public += code.iter().filter(is_public).count();
        self.named_of += code.iter().filter(|line| line.contains("fn of(")).count();
        self.longest = self.longest.max((code.len(), &source.path));
    }
}

/// Prints a row for each crate, and how many packages Cargo.lock has.
pub(crate) fn print() -> anyhow::Result<()> {
    let sources = sources::read()?;
    let mut crates: BTreeMap<&str, Figures> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.crate_name().is_empty() && !source.is_test()) {
        crates.entry(source.crate_name()).or_default().add(source);
    }
    println!("{:10} {:>7} {:>7} {:>5}  longest file", "crate", "lines", "public", "of()");
    for (name, figures) in &crates {
        let Figures { lines, public, named_of, longest: (length, path) } = figures;
        println!("{name:10} {lines:>7} {public:>7} {named_of:>5}  {path} ({length} lines)");
    }
    let total = |figure: fn(&Figures) -> usize| crates.values().map(figure).sum::<usize>();
    let [lines, public, named_of] =
        [total(|one| one.lines), total(|one| one.public), total(|one| one.named_of)];
    println!("{:10} {lines:>7} {public:>7} {named_of:>5}  {} crates", "all", crates.len());
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("cannot read Cargo.lock")?;
    println!("{} packages in Cargo.lock", lock.matches("[[package]]").count());
    Ok(())
}
