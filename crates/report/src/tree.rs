//! The CPU time of a request as a tree, laid out as a table.

use analyse::{AttributionRow, Findings, TreeNode, nodes};
use model::units::format_ns;

use crate::document::{Block, Document};
use crate::resources::{Detail, signed};
use crate::waits::at;

/// Share of a request's CPU time below which a node is left out of a short page, and of a full one.
const LEAST: [f64; 2] = [0.02, 0.002];

/// The tree of every arm beside the baseline's.
pub(crate) fn tables(findings: &Findings, detail: Detail) -> Document {
    let least = LEAST[usize::from(detail == Detail::Full)];
    let arms = findings.arms.iter().map(|arm| arm.name.as_str());
    let tables = arms.filter_map(|arm| {
        let rows: Vec<&AttributionRow> = findings.attribution.iter().filter(|row| row.arm == arm).collect();
        let title = format!("{arm} against {}, everything in one place and only there", findings.baseline);
        let table = table(&nodes(&rows, least), detail)?;
        Some([Block::Arm { arm: arm.to_owned(), title }, table])
    });
    tables.flatten().collect()
}

/// All columns on a full page; a terminal has no room for counts.
fn table(nodes: &[TreeNode], detail: Detail) -> Option<Block> {
    let rows: Vec<[String; 7]> = nodes.iter().map(row).collect();
    let header = [
        "CPU time of",
        "baseline",
        "arm",
        "difference",
        "times a request",
        "more of it, dearer each",
        "where",
    ];
    let block = match detail {
        Detail::Full => Block::table(header, rows),
        Detail::Short => {
            let [node, from, to, delta, ..] = header;
            let short = rows.into_iter().map(|[node, from, to, delta, ..]| [node, from, to, delta]);
            Block::table([node, from, to, delta], short.collect())
        }
    };
    (!nodes.is_empty()).then_some(block)
}

fn row(node: &TreeNode) -> [String; 7] {
    let [from, to] = node.ns;
    let counts =
        node.count.map_or_else(String::new, |count| format!("{:.3} → {:.3}", count.baseline, count.arm));
    let parts = node.parts.map_or_else(String::new, |[more, dearer]| {
        format!("{}, {}", signed(more, false), signed(dearer, false))
    });
    [
        // A space that no format takes away.
        format!("{}{}", "\u{a0}\u{a0}".repeat(node.depth), node.name),
        format_ns(from),
        format_ns(to),
        format!("{} ± {}", signed(to - from, false), format_ns(node.delta_se_ns)),
        counts,
        parts,
        node.place.as_ref().map_or_else(String::new, at),
    ]
}
