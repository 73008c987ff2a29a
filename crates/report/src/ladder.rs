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
    let percent = |ratio: f64| format!("{:+.1}", (ratio - 1.0) * 100.0);
    // Without an interval nobody can tell whether a difference is one.
    let apart = metric.product_over_whole_ci.map_or_else(String::new, |ends| {
        let [low, high] = ends.map(percent);
        let word = if ends[0] <= 1.0 && ends[1] >= 1.0 { "no more than by chance" } else { "more than by chance" };
        format!(
            " They differ by {} % [{low}, {high}], {word}: block by block the rungs multiply to the whole, so that this is \
             of the medians, or of blocks that lack a step, and no effect of one step on another.",
            percent(product / whole)
        )
    });
    Some(format!("The rungs' product is {product:.3}, the whole {whole:.3}.{apart}"))
}
