//! What a ladder says: each rung with its interval, then the whole against the product of the rungs.

use analyse::{Alone, Ladder, MetricLadder, Rung, Verdict};

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
        if !metric.alone.is_empty() {
            page.push(Block::Paragraph(
                "Each change by itself, over the first step; and what it brings on top of the others over that, paired by block."
                    .to_owned(),
            ));
            page.push(Block::table(
                ["by itself", "ratio", "interval", "on top / alone", "interval", "effect"],
                metric.alone.iter().map(by_itself).collect(),
            ));
        }
    }
    page
}

fn row(rung: &Rung, name: &str) -> [String; 5] {
    let effect = effect(rung.verdict, &rung.void_by).unwrap_or_else(|| rung.verdict.word().to_owned());
    let interval = interval(rung.ci_low, rung.ci_high);
    [name.to_owned(), ratio(rung.ratio), interval, rung.blocks.to_string(), effect]
}

fn by_itself(one: &Alone) -> [String; 6] {
    let word = || if one.verdict == Verdict::Faster { "more on top" } else { "less on top" }.to_owned();
    [
        one.by_itself.to.clone(),
        ratio(one.by_itself.ratio),
        interval(one.by_itself.ci_low, one.by_itself.ci_high),
        ratio(one.interaction),
        interval(one.ci_low, one.ci_high),
        effect(one.verdict, &one.void_by).unwrap_or_else(word),
    ]
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
}

fn interval(low: Option<f64>, high: Option<f64>) -> String {
    low.zip(high).map_or_else(|| "-".to_owned(), |(low, high)| format!("[{low:.3}, {high:.3}]"))
}

/// "none" was shown; "unknown" was not. Nothing for an effect that has a direction.
fn effect(verdict: Verdict, void_by: &[String]) -> Option<String> {
    match verdict {
        Verdict::Equal => Some("none".to_owned()),
        Verdict::Inconclusive => Some("unknown: more blocks".to_owned()),
        Verdict::Invalid => Some(format!("void: {}", void_by.join(", "))),
        Verdict::Faster | Verdict::Slower => None,
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
