//! What a search for capacity says.

use analyse::capacity::{Capacity, Point, Purpose};
use model::units::format_ns;

use crate::document::{Block, Document};
use crate::resources::Detail;

/// Short, the answer alone, without the points behind it.
pub(crate) fn document(found: &Capacity, detail: Detail) -> Document {
    let (first, rest) =
        found.text.split_first().map_or((String::new(), [].as_slice()), |(a, b)| (a.clone(), b));
    let mut page = vec![Block::Paragraph(first)];
    if !rest.is_empty() {
        page.push(Block::List(rest.to_vec()));
    }
    if detail == Detail::Short {
        return page;
    }
    let mut open: Vec<&Point> = found.points.iter().filter(|point| point.offered_per_s.is_some()).collect();
    open.sort_by(|a, b| a.offered_per_s.unwrap_or(0.0).total_cmp(&b.offered_per_s.unwrap_or(0.0)));
    page.push(Block::Heading("Latency against rate".to_owned()));
    page.push(Block::table(
        ["offered/s", "due/s", "answered/s", "p50", "p99", "p99.9", "holds", "window", "for"],
        open.into_iter().map(row).collect(),
    ));
    let closed = found.points.iter().filter(|point| point.purpose == Purpose::Scaling);
    page.push(Block::Heading("Closed loops".to_owned()));
    page.push(Block::table(["connections", "answered/s", "p50", "p99"], closed.map(closed_row).collect()));
    page
}

fn ns(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format_ns(value as f64))
}

fn row(point: &Point) -> [String; 9] {
    let holds = match (point.holds, point.generator_limited) {
        (Some(true), _) => "yes",
        (Some(false), true) => "no (generator)",
        (Some(false), false) => "no",
        (None, _) => "-",
    };
    [
        format!("{:.0}", point.offered_per_s.unwrap_or(0.0)),
        point.due_per_s.map_or_else(|| "-".to_owned(), |due| format!("{due:.0}")),
        format!("{:.0}", point.rate_per_s),
        ns(point.p50_ns),
        ns(point.p99_ns),
        ns(point.p99_9_ns),
        holds.to_owned(),
        format_ns(point.window_ns as f64),
        purpose(point.purpose).to_owned(),
    ]
}

fn closed_row(point: &Point) -> [String; 4] {
    [point.connections.to_string(), format!("{:.0}", point.rate_per_s), ns(point.p50_ns), ns(point.p99_ns)]
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Search => "search",
        Purpose::Confirm => "confirm",
        Purpose::Curve => "curve",
        Purpose::Scaling => "scaling",
    }
}
