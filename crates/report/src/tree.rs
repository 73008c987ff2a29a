//! The CPU time of a request as a tree, laid out as a table.

use analyse::{AttributionRow, Findings, Place, TreeNode, Watched, nodes};
use model::units::format_ns;

use crate::document::{Block, Document};
use crate::resources::{Detail, signed};
use crate::waits::at;

/// Share of a request's CPU time below which a node is left out of a short page, and of a full one.
const LEAST: [f64; 2] = [0.02, 0.002];

/// Columns that a terminal has room for.
const SHORT_COLUMNS: usize = 4;

/// The tree of every arm beside the baseline's.
pub(crate) fn tables(findings: &Findings, detail: Detail) -> Document {
    tables_down_to(findings, detail, detail)
}

/// The same with nodes as small as `nodes_of` has them, and with the columns of `columns`.
pub(crate) fn tables_down_to(findings: &Findings, nodes_of: Detail, columns: Detail) -> Document {
    let least = LEAST[usize::from(nodes_of == Detail::Full)];
    let arms = findings.arms.iter().map(|arm| arm.name.as_str());
    let tables = arms.filter_map(|arm| {
        let rows: Vec<&AttributionRow> = findings.attribution.iter().filter(|row| row.arm == arm).collect();
        let title = format!("{arm} against {}, everything in one place and only there", findings.baseline);
        let table = table(&nodes(&rows, least), columns)?;
        Some([Block::Arm { arm: arm.to_owned(), title }, table])
    });
    tables.flatten().collect()
}

/// All columns that say something on a full page; a terminal has no room for counts.
fn table(nodes: &[TreeNode], detail: Detail) -> Option<Block> {
    let header = [
        "CPU time of",
        "baseline",
        "arm",
        "difference",
        "times a request",
        "more of it, dearer each",
        "where",
    ];
    let rows: Vec<[String; 7]> = nodes.iter().map(row).collect();
    let says = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let most = if detail == Detail::Full { header.len() } else { SHORT_COLUMNS };
    let shown: Vec<usize> = (0..most).filter(says).collect();
    let block = Block::Table {
        header: shown.iter().map(|column| header[*column].to_owned()).collect(),
        rows: rows.iter().map(|row| shown.iter().map(|column| row[*column].clone()).collect()).collect(),
    };
    (!nodes.is_empty()).then_some(block)
}

/// The tree of a server that is compared with none.
pub(crate) fn of_one(watched: &Watched, detail: Detail) -> Option<Block> {
    let nodes = watched.nodes(LEAST[usize::from(detail == Detail::Full)]);
    let whole_ns = nodes.first()?.ns[1];
    let row = |node: &TreeNode| {
        let ns = node.ns[1];
        let share = format!("{:.0} %", ns / whole_ns.max(f64::MIN_POSITIVE) * 100.0);
        [indented(node), format_ns(ns), share, place(node)]
    };
    Some(Block::table(["CPU time of", "time", "share", "where"], nodes.iter().map(row).collect()))
}

/// The name of a node, moved in by its depth with spaces that no format takes away.
fn indented(node: &TreeNode) -> String {
    format!("{}{}", "\u{a0}\u{a0}".repeat(node.depth), node.name)
}

/// Where a node is, where that says more than its name.
fn place(node: &TreeNode) -> String {
    node.place.as_ref().filter(|place| says_more(place, &node.name)).map_or_else(String::new, at)
}

fn row(node: &TreeNode) -> [String; 7] {
    let [from, to] = node.ns;
    let counts =
        node.count.map_or_else(String::new, |count| format!("{:.3} → {:.3}", count.baseline, count.arm));
    let parts = node.parts.map_or_else(String::new, |[more, dearer]| {
        format!("{}, {}", signed(more, false), signed(dearer, false))
    });
    [
        indented(node),
        format_ns(from),
        format_ns(to),
        format!("{} ± {}", signed(to - from, false), format_ns(node.delta_se_ns)),
        counts,
        parts,
        place(node),
    ]
}

/// Whether a place says more than the name of its node.
fn says_more(place: &Place, name: &str) -> bool {
    place.file.is_some() || !name.ends_with(&place.function)
}
