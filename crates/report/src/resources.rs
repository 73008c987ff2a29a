//! USE tables and profiles, as parts of several pages.

use analyse::{ProfileDifference, ProfileRow, UseLevel, UseRow, UseScope};
use model::units::format_ns;

use crate::document::{Block, Document};

/// How much of a long table a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What matters, for a terminal.
    Short,
    /// Everything.
    Full,
}

/// Rows of a profile's tables on a short page.
const SHORT_ROWS: usize = 12;
/// Part of the sum below which a row is left out on a short page.
const SMALL_PART: f64 = 0.005;

/// A USE table; short, the rows that are not green.
pub(crate) fn use_table(rows: &[UseRow], detail: Detail) -> Document {
    let shown = |row: &&UseRow| detail == Detail::Full || row.level != UseLevel::Green;
    let cells: Vec<[String; 5]> = rows.iter().filter(shown).map(use_row).collect();
    let left = rows.len() - cells.len();
    let mut blocks = Vec::new();
    if !cells.is_empty() {
        blocks.push(Block::table(["resource", "level", "used", "waiting", "errors"], cells));
    }
    if left > 0 {
        blocks.push(Block::Paragraph(format!("{left} resources are green (--format md shows all).")));
    }
    blocks
}

fn use_row(row: &UseRow) -> [String; 5] {
    let scope = match row.scope {
        UseScope::Target => "server",
        UseScope::Generator => "generator",
        UseScope::Host => "host",
    };
    let level = match row.level {
        UseLevel::Red => "RED",
        UseLevel::Amber => "amber",
        UseLevel::Green => "green",
    };
    let dash = || "-".to_owned();
    [
        format!("{scope}: {}", row.resource),
        level.to_owned(),
        row.utilisation.map_or_else(dash, |share| format!("{:.1} %", share * 100.0)),
        row.saturation.map_or_else(dash, |value| format!("{value:.3} {}", row.saturation_unit)),
        row.errors.map_or_else(dash, |errors| errors.to_string()),
    ]
}

/// The functions of a profile: the tree beside it has the kinds of work and the packages.
pub(crate) fn functions(difference: &ProfileDifference, detail: Detail) -> Document {
    tables(difference, &[("function", &difference.functions)], detail)
}

/// All tables of a profile that has no tree.
pub(crate) fn profile(difference: &ProfileDifference, detail: Detail) -> Document {
    let all = [
        ("kind of work", &difference.categories),
        ("crate, package or library", &difference.packages),
        ("function", &difference.functions),
    ];
    tables(difference, &all, detail)
}

fn tables(difference: &ProfileDifference, all: &[(&str, &Vec<ProfileRow>)], detail: Detail) -> Document {
    let mut blocks: Document =
        all.iter().flat_map(|(title, rows)| table(difference, title, rows, detail)).collect();
    if !difference.notes.is_empty() {
        blocks.push(Block::List(difference.notes.clone()));
    }
    blocks
}

fn table(difference: &ProfileDifference, title: &str, rows: &[ProfileRow], detail: Detail) -> Option<Block> {
    let alone = difference.baseline.is_empty();
    let largest = rows.iter().map(|row| row.difference_ns.abs()).fold(0.0, f64::max);
    let most = if detail == Detail::Short { SHORT_ROWS } else { usize::MAX };
    let worth = |row: &&ProfileRow| detail == Detail::Full || row.difference_ns.abs() > SMALL_PART * largest;
    let rows = || rows.iter().filter(worth).take(most);
    if largest == 0.0 {
        return None;
    }
    let error = |row: &ProfileRow| match row.error_ns {
        0.0 => signed(row.difference_ns, alone),
        error_ns => format!("{} ± {}", signed(row.difference_ns, alone), format_ns(error_ns)),
    };
    Some(if alone {
        Block::table([title, "time"], rows().map(|row| [name(row), error(row)]).collect())
    } else {
        let cells = rows().map(|row| {
            let only = match row.only_in.as_deref() {
                Some(name) if name == difference.arm => "arm",
                Some(_) => "baseline",
                None => "",
            };
            [name(row), format_ns(row.baseline_ns), format_ns(row.arm_ns), error(row), only.to_owned()]
        });
        Block::table([title, "baseline", "arm", "difference", "only in"], cells.collect())
    })
}

fn name(row: &ProfileRow) -> String {
    if row.category.is_empty() { row.name.clone() } else { format!("{} ({})", row.name, row.category) }
}

pub(crate) fn signed(ns: f64, alone: bool) -> String {
    if alone || ns < 0.0 { format_ns(ns) } else { format!("+{}", format_ns(ns)) }
}
