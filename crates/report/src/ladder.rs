//! What a ladder says: each rung with its interval, then the whole against the product of the rungs.

use analyse::{Alone, Ladder, MetricLadder, Rung, Verdict};

use crate::direction;
use crate::document::{Block, Document};
use crate::screen;
use crate::words::names::gate_names;
use crate::words::unfinished;

pub(crate) fn document(ladder: &Ladder) -> Document {
    let partial = ladder.unfinished.as_ref().map(|run| format!("PARTIAL RUN: {}.", unfinished(run)));
    let mut page: Vec<Block> = partial.map(Block::Paragraph).into_iter().collect();
    page.push(Block::Paragraph(format!("Ladder: {}.", ladder.steps.join(" → "))));
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
    for findings in &ladder.of_rungs {
        let why = screen::why(findings);
        if !why.is_empty() {
            let to = findings.arms.iter().find(|arm| arm.name != findings.baseline);
            let to = to.map_or("", |arm| arm.name.as_str());
            page.push(Block::Heading(format!("{} → {to}", findings.baseline)));
            page.push(Block::Screen(why));
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
    let figures = direction::figures(rung.ratio, rung.ci_low, rung.ci_high);
    figures.map(|figure| figure.unwrap_or_else(|| "-".to_owned()))
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
    Some(format!("The steps multiply to {product:.3}; the last against the first is {whole:.3}."))
}
