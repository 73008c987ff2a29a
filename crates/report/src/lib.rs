//! Findings and load reports into what people and scripts read: text, Markdown, JSON, one HTML file.
//!
//! Nothing is computed here. What a page says is decided once, as a [`Document`]; the formats only lay it out.
#![forbid(unsafe_code)]

mod assets;
mod bisect;
mod capacity;
mod case;
mod comment;
mod compare;
mod direction;
mod document;
mod glossary;
mod history;
mod html;
mod json;
mod junit;
mod ladder;
mod load;
mod markdown;
mod metrics;
mod packed;
mod page;
mod remote_write;
mod resources;
mod screen;
mod style;
mod text;
mod tree;
mod waits;
mod watch;
mod words;

pub use comment::{LINES as COMMENT_LINES, MARKER as COMMENT_MARKER};
pub use direction::Direction;
pub use document::{Block, Document};
pub use history::{
    HistoryPoint, HistorySeries, ListedRun, history_json, history_markdown, history_page, history_text,
    runs_page,
};
pub use html::{PAGE_SCHEMA, Page, PageData, PageRun, Place, Unreadable, message_page, page};
pub use json::{
    bisect_json, bisect_schema, capacity_json, capacity_schema, case_json, case_schema, findings_json,
    findings_schema, ladder_json, load_json, load_schema, page_schema, watch_json, watch_schema,
};
pub use metrics::{LiveFigures, load_csv, load_live, load_live_otlp, load_otlp, load_prometheus};
pub use remote_write::load_remote_write;
pub use style::Style;
pub use words::{Worded, Wording, difference, too_few_answers, worded};

use analyse::capacity::Capacity;
use analyse::{Bisected, CaseFindings, Findings, Ladder, Standing, Watched};
use model::record::LoadReport;

use resources::Detail;

/// Widest line of text output, in characters.
pub const TEXT_COLUMNS: usize = 80;

/// Widest line of the first screen, in characters.
pub const SCREEN_COLUMNS: usize = screen::COLUMNS;

/// The first screen of a comparison: at most 20 lines for two arms, and 5 more for each further arm.
#[must_use]
pub fn findings_text(findings: &Worded<Findings>, style: Style) -> String {
    screen::text(findings, style)
}

/// A comparison as text of at most [`TEXT_COLUMNS`] columns, with everything that is known.
#[must_use]
pub fn findings_details(findings: &Worded<Findings>) -> String {
    text::render(&compare::document(findings, Detail::Short))
}

/// A comparison as Markdown.
#[must_use]
pub fn findings_markdown(findings: &Worded<Findings>) -> String {
    markdown::render(&compare::document(findings, Detail::Full))
}

/// A comparison as a comment on a pull request, in Markdown of at most [`COMMENT_LINES`] lines: the first screen, with the
/// details folded. Its first line is [`COMMENT_MARKER`]. `page` is where the page is kept, if that is known.
#[must_use]
pub fn findings_comment(findings: &Worded<Findings>, page: Option<&str>) -> String {
    comment::render(findings, page)
}

/// A comparison as a JUnit file: one test case for each arm and primary metric, and one for each condition of `--fail-if`.
#[must_use]
pub fn findings_junit(findings: &Worded<Findings>) -> String {
    junit::render(findings)
}

/// The outcome of a search through a history, as text.
#[must_use]
pub fn bisect_text(found: &Bisected) -> String {
    bisect::text(found)
}

/// The outcome of a search through a history, as Markdown.
#[must_use]
pub fn bisect_markdown(found: &Bisected) -> String {
    markdown::render(&bisect::document(found))
}

/// The part of the first screen that explains why the arms differ.
#[must_use]
pub fn findings_why(findings: &Worded<Findings>) -> Vec<String> {
    screen::why(findings)
}

/// How the arms stand during a run, for a line of progress.
#[must_use]
pub fn standings(standings: &[Standing]) -> String {
    let words = standings.iter().map(|standing| {
        format!("{} {:.3} [{:.3}, {:.3}]", standing.arm, standing.ratio, standing.low, standing.high)
    });
    words.collect::<Vec<_>>().join("  ")
}

/// One arm against the baseline in one sentence, by the first primary metric that has a verdict.
#[must_use]
pub fn headline(findings: &Worded<Findings>, arm: &str) -> String {
    compare::headline(findings, arm)
}

/// The first screen of a case.
#[must_use]
pub fn case_text(findings: &Worded<CaseFindings>, style: Style) -> String {
    text::render(&case::first(findings, style))
}

/// A case as text, with everything that is known.
#[must_use]
pub fn case_details(findings: &Worded<CaseFindings>) -> String {
    text::render(&case::document(findings))
}

/// A case as Markdown: the generated part of its answer.
#[must_use]
pub fn case_markdown(findings: &Worded<CaseFindings>) -> String {
    markdown::render(&case::document(findings))
}

/// The summary of a load report.
#[must_use]
pub fn load_text(report: &LoadReport) -> String {
    text::render(&load::first(report))
}

/// A load report as text, with everything that is known.
#[must_use]
pub fn load_details(report: &LoadReport) -> String {
    text::render(&load::document(report))
}

/// A load report as Markdown.
#[must_use]
pub fn load_markdown(report: &LoadReport) -> String {
    markdown::render(&load::document(report))
}

/// The summary of a search for capacity, as text.
#[must_use]
pub fn capacity_text(found: &Worded<Capacity>) -> String {
    text::render(&capacity::document(found, Detail::Short))
}

/// A search for capacity as text, with everything that was measured.
#[must_use]
pub fn capacity_details(found: &Worded<Capacity>) -> String {
    text::render(&capacity::document(found, Detail::Full))
}

/// A search for capacity as Markdown.
#[must_use]
pub fn capacity_markdown(found: &Worded<Capacity>) -> String {
    markdown::render(&capacity::document(found, Detail::Full))
}

/// A ladder as text.
#[must_use]
pub fn ladder_text(ladder: &Ladder) -> String {
    text::render(&ladder::document(ladder))
}

/// A ladder as Markdown.
#[must_use]
pub fn ladder_markdown(ladder: &Ladder) -> String {
    markdown::render(&ladder::document(ladder))
}

/// A running server as text, with everything that was seen.
#[must_use]
pub fn watch_details(watched: &Worded<Watched>) -> String {
    text::render(&watch::document(watched, Detail::Full))
}

/// A running server as text.
#[must_use]
pub fn watch_text(watched: &Worded<Watched>) -> String {
    text::render(&watch::document(watched, Detail::Short))
}

/// A running server as Markdown.
#[must_use]
pub fn watch_markdown(watched: &Worded<Watched>) -> String {
    markdown::render(&watch::document(watched, Detail::Full))
}
