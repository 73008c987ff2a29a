//! The invariants of ARCHITECTURE.md and the limits of CONTRIBUTING.md, as checks that print how much they checked.

mod actions;
mod edges;
mod figures;
mod functions;
mod rooms;
mod sources;
mod stages;
mod words;

use anyhow::bail;

pub(crate) use figures::print as print_figures;
use sources::Source;

/// What a check looked at and what it found.
pub(crate) struct Finding {
    /// What was counted.
    pub(crate) checked: usize,
    /// Its name, plural.
    pub(crate) what: &'static str,
    /// One line for each breach.
    pub(crate) breaches: Vec<String>,
}

type Check = fn(&[Source]) -> anyhow::Result<Finding>;

const CHECKS: [(&str, Check); 13] = [
    ("crates depend only as ARCHITECTURE.md says", edges::dependencies),
    ("stages of analyse name earlier ones alone", stages::order),
    ("every dependency has its reason", edges::reasons),
    ("functions are short", functions::lengths),
    ("files are short", sources::lengths),
    ("unsafe code is forbidden but where it is named", sources::unsafe_code),
    ("only launch starts processes, only record writes runs", sources::owners),
    ("pure crates touch no clock, socket, file or environment", sources::purity),
    ("no path of one machine, no registry, no words about how work is organised", words::forbidden),
    ("every file that the map names exists", words::places),
    ("every source file stands in a room of the map", rooms::listed),
    ("the map is short and its links exist", words::documents),
    ("the action reads, and has the inputs that are used", actions::read),
];

/// Runs all checks; a check that looked at nothing fails too.
pub(crate) fn run() -> anyhow::Result<()> {
    let sources = sources::read()?;
    let mut failed = 0;
    for (name, check) in CHECKS {
        let finding = check(&sources)?;
        let good = finding.breaches.is_empty() && finding.checked > 0;
        println!(
            "tidy: {} {name} ({} {})",
            if good { "ok" } else { "FAILED" },
            finding.checked,
            finding.what
        );
        finding.breaches.iter().for_each(|breach| println!("  {breach}"));
        failed += usize::from(!good);
    }
    if failed > 0 {
        bail!("tidy: {failed} of {} checks failed", CHECKS.len());
    }
    Ok(())
}
