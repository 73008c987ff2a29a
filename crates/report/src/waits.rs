//! What ended the waits of every arm's threads, and for what its goroutines waited, as tables for each.

use analyse::{Findings, ParkedRow, Place, WaitRow, below_packages};
use model::record::EndedBy;
use model::units::format_ns;

use crate::document::{Block, Document};
use crate::resources::Detail;
use crate::words::waits_for_words;

/// Rows of an arm on a short page.
const SHORT_ROWS: usize = 6;
/// Share of an arm's idle time below which a row is left out of a short page.
const SMALL: f64 = 0.01;

/// Tables for each arm whose wakers were seen.
pub(crate) fn tables(findings: &Findings, detail: Detail) -> Document {
    let tables = findings.arms.iter().filter_map(|arm| {
        let rows: Vec<&WaitRow> = findings.waits.iter().filter(|row| row.arm == arm.name).collect();
        let title = Block::Arm { arm: arm.name.clone(), title: arm.name.clone() };
        let goroutines = goroutines(findings, &arm.name, detail);
        (!rows.is_empty()).then(|| [title, table(&rows, detail)].into_iter().chain(goroutines))
    });
    tables.flatten().collect()
}

/// For what the goroutines of an arm waited; nothing where none were seen.
fn goroutines(findings: &Findings, arm: &str, detail: Detail) -> Option<Block> {
    let most = if detail == Detail::Short { SHORT_ROWS } else { usize::MAX };
    let rows = findings.goroutines.iter().filter(|row| row.arm == arm).take(most);
    let cells = |row: &ParkedRow| {
        let request = if row.answers { format_ns(row.ns_per_request) } else { "-".to_owned() };
        let place = row.place.as_ref().map_or_else(|| "-".to_owned(), at);
        [waits_for_words(row.waits_for).to_owned(), place, format!("{:.2}", row.at_a_time), request]
    };
    let rows: Vec<[String; 4]> = rows.map(cells).collect();
    (!rows.is_empty()).then(|| Block::table(["goroutines wait for", "in", "at a time", "a request"], rows))
}

fn table(rows: &[&WaitRow], detail: Detail) -> Block {
    let all_ns: f64 = rows.iter().map(|row| row.ns_per_request).sum();
    let (most, least_ns) = match detail {
        Detail::Short => (SHORT_ROWS, SMALL * all_ns),
        Detail::Full => (usize::MAX, 0.0),
    };
    let shown = rows.iter().filter(|row| row.ns_per_request >= least_ns).take(most);
    let whole = ["all waits", "", &format_ns(all_ns), "100 %", ""].map(str::to_owned);
    let header = ["the wait ended by", "in", "a request", "share", "times a request"];
    let rows = std::iter::once(whole).chain(shown.map(|row| cells(row, all_ns)));
    Block::table(header, rows.collect())
}

fn cells(row: &WaitRow, all_ns: f64) -> [String; 5] {
    [
        ended(row),
        row.place.as_ref().map_or_else(|| "-".to_owned(), at),
        format_ns(row.ns_per_request),
        format!("{:.0} %", 100.0 * row.ns_per_request / all_ns.max(f64::MIN_POSITIVE)),
        format!("{:.3}", row.count_per_request),
    ]
}

/// What ended it, who, and from where.
fn ended(row: &WaitRow) -> String {
    let by = row.by.as_deref();
    let of = |what: &str| by.map_or_else(|| what.to_owned(), |by| format!("{what} of {by}"));
    let what = match row.ended_by {
        EndedBy::Client => "a client's bytes".to_owned(),
        EndedBy::Connection => "a new connection".to_owned(),
        EndedBy::Network => "bytes from the network".to_owned(),
        EndedBy::Service => of("a reply"),
        EndedBy::Thread => of("bytes or an event"),
        EndedBy::Lock => by.map_or_else(|| "a lock".to_owned(), |by| format!("a lock that {by} let go")),
        EndedBy::Timer => "a timer".to_owned(),
        EndedBy::Disk => "the disk".to_owned(),
        EndedBy::Child => "a process or thread that ended".to_owned(),
        EndedBy::Cpu => "a CPU that became free".to_owned(),
        EndedBy::Unfinished => "nothing before watching ended".to_owned(),
        EndedBy::Unknown => "something unseen".to_owned(),
    };
    let from = row.woken_from.as_ref().map_or_else(String::new, |place| format!(", from {}", at(place)));
    let behind = row.behind.and_then(behind).unwrap_or_default();
    format!("{what}{from}{behind}")
}

/// What the other thread had waited for itself, where that says something.
fn behind(ended_by: EndedBy) -> Option<&'static str> {
    Some(match ended_by {
        EndedBy::Client | EndedBy::Connection | EndedBy::Network => ", after a client's bytes",
        EndedBy::Service => ", after another service's reply",
        EndedBy::Timer => ", after a timer",
        EndedBy::Disk => ", after the disk",
        _ => return None,
    })
}

/// A place in the code: `serve (main.rs:12)`, with the package where its file is in one: `dispatch (dataloader/index.js:281)`.
pub(crate) fn at(place: &Place) -> String {
    let file =
        place.file.as_deref().and_then(|file| below_packages(file).or_else(|| file.rsplit('/').next()));
    let line = place.line.map_or_else(String::new, |line| format!(":{line}"));
    let file = file.map_or_else(String::new, |file| format!(" ({file}{line})"));
    format!("{}{file}", place.function)
}
