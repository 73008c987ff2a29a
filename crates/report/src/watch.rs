//! What is said of a running server.

use analyse::{LedgerRow, Watched};
use model::units::format_ns;

use crate::document::{Block, Document};
use crate::resources::{self, Detail};
use crate::tree;

/// Rows of the ledger on a short page: the times; the counts come behind them.
const SHORT_LEDGER: usize = 4;

pub(crate) fn document(watched: &Watched, detail: Detail) -> Document {
    let mut page = vec![Block::Paragraph(summary(watched))];
    let most = if detail == Detail::Short { SHORT_LEDGER } else { usize::MAX };
    page.push(Block::Heading("What it costs".to_owned()));
    let rows = watched.ledger.iter().take(most).map(row).collect();
    page.push(Block::table(["", "each second", "each request"], rows));
    page.push(Block::Heading("Resources, most urgent first".to_owned()));
    page.extend(resources::use_table(&watched.resources, detail));
    let each = if watched.requests.is_some() { "request" } else { "second" };
    if let Some(profile) = &watched.profile {
        let samples = profile.arm_samples;
        page.push(Block::Heading(format!("Where the CPU time of a {each} goes ({samples} samples)")));
        page.extend(tree::of_one(watched, detail));
        page.extend(resources::functions(profile, detail));
    }
    if let Some(waits) = &watched.waits {
        page.push(Block::Heading(format!("Where its threads wait, for each {each}")));
        page.extend(resources::profile(waits, detail));
    }
    if !watched.notes.is_empty() {
        page.push(Block::Heading("Notes".to_owned()));
        page.push(Block::List(watched.notes.clone()));
    }
    page
}

fn summary(watched: &Watched) -> String {
    let requests = match (watched.rate_per_s, watched.requests_from.as_deref()) {
        (Some(rate), Some(from)) => format!("{rate:.0} requests/s (by {from}), "),
        _ => String::new(),
    };
    format!(
        "{} (process {}): {requests}{:.2} cores busy, {:.1} MiB resident, {} threads, over {}.",
        watched.name,
        watched.pid,
        watched.busy_cores,
        watched.rss_bytes as f64 / 1_048_576.0,
        watched.threads,
        format_ns(watched.window_ns as f64),
    )
}

fn row(row: &LedgerRow) -> [String; 3] {
    let figure = |value: f64| match row.unit.as_str() {
        "ns" => format_ns(value),
        "bytes" => format!("{value:.0} B"),
        _ => format!("{value:.3}"),
    };
    [row.name.clone(), figure(row.per_s), row.per_request.map_or_else(|| "-".to_owned(), figure)]
}
