//! What a ladder says: each rung with its interval, then the whole against the product of the rungs.

use analyse::{Ladder, MetricLadder, Rung, Verdict};

use crate::document::{Block, Document};

pub(crate) fn document(ladder: &Ladder) -> Document {
    let mut page = vec![Block::Paragraph(format!("Ladder: {}.", ladder.steps.join(" → ")))];
    for metric in &ladder.metrics {
        page.push(Block::Heading(format!("{} (each step against the one before it)", metric.metric.label())));
        let whole = row(&metric.whole, "whole");
        let rungs = metric.rungs.iter().map(|rung| row(rung, &rung.to));
        page.push(Block::table(
            ["step", "ratio", "interval", "blocks", "effect"],
            rungs.chain([whole]).collect(),
        ));
        page.extend(product(metric).map(Block::Paragraph));
    }
    page
}

fn row(rung: &Rung, name: &str) -> [String; 5] {
    let ratio = rung.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
    let interval = match (rung.ci_low, rung.ci_high) {
        (Some(low), Some(high)) => format!("[{low:.3}, {high:.3}]"),
        _ => "-".to_owned(),
    };
    [name.to_owned(), ratio, interval, rung.blocks.to_string(), effect(rung)]
}

/// "none" was shown; "unknown" was not.
fn effect(rung: &Rung) -> String {
    match rung.verdict {
        Verdict::Equal => "none".to_owned(),
        Verdict::Inconclusive => "unknown: more blocks".to_owned(),
        Verdict::Invalid => format!("void: {}", rung.void_by.join(", ")),
        other => other.word().to_owned(),
    }
}

fn product(metric: &MetricLadder) -> Option<String> {
    let (product, whole) = (metric.product?, metric.whole.ratio?);
    Some(format!(
        "The rungs' product is {product:.3}, the whole {whole:.3}: they differ by {:+.1} %.",
        (product / whole - 1.0) * 100.0
    ))
}
