//! What a ladder says: each rung with its interval, then the whole against the product of the rungs.

use analyse::{Alone, Ladder, MetricLadder, Rung, Verdict};

use crate::document::{Block, Document};
use crate::words::names::gate_names;

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
    let [ratio, interval] = figures(rung);
    [
        name.to_owned(),
        ratio,
        interval,
        rung.blocks.to_string(),
        effect(rung, [Verdict::Faster, Verdict::Slower].map(Verdict::word)),
    ]
}

fn by_itself(one: &Alone) -> [String; 6] {
    let [[ratio, interval], [over, of_over]] = [&one.by_itself, &one.interaction].map(figures);
    let effect = effect(&one.interaction, ["more on top", "less on top"]);
    [one.by_itself.to.clone(), ratio, interval, over, of_over, effect]
}

/// Ratio and interval.
fn figures(rung: &Rung) -> [String; 2] {
    let ratio = rung.ratio.map(|ratio| format!("{ratio:.3}"));
    let interval = rung.ci_low.zip(rung.ci_high).map(|(low, high)| format!("[{low:.3}, {high:.3}]"));
    [ratio, interval].map(|figure| figure.unwrap_or_else(|| "-".to_owned()))
}

/// "none" was shown; "unknown" was not.
fn effect(rung: &Rung, [faster, slower]: [&str; 2]) -> String {
    match rung.verdict {
        Verdict::Equal => "none".to_owned(),
        Verdict::Inconclusive => "unknown: more blocks".to_owned(),
        Verdict::Invalid => format!("void: {}", gate_names(&rung.void_by)),
        Verdict::Faster => faster.to_owned(),
        Verdict::Slower => slower.to_owned(),
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
