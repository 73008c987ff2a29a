//! Findings and load reports into what people and scripts read: text, Markdown, JSON, one HTML file.
//!
//! Nothing is computed here. What a page says is decided once, as a [`Document`]; the formats only lay it out.
#![forbid(unsafe_code)]

mod assets;
mod compare;
mod document;
mod history;
mod html;
mod json;
mod load;
mod markdown;
mod page;
mod text;

pub use document::{Block, Document};
pub use history::{
    HistoryPoint, HistorySeries, ListedRun, history_json, history_markdown, history_page, history_text,
    runs_page,
};
pub use html::{PAGE_SCHEMA, Page, PageData, PageRun, Place, Unreadable, message_page, page};
pub use json::{findings_json, findings_schema, load_json, load_schema, page_schema};

use analyse::Findings;
use record::LoadReport;

/// Widest line of text output, in characters.
pub const TEXT_COLUMNS: usize = 80;

/// A comparison as text of at most [`TEXT_COLUMNS`] columns.
#[must_use]
pub fn findings_text(findings: &Findings) -> String {
    text::render(&compare::document(findings))
}

/// A comparison as Markdown.
#[must_use]
pub fn findings_markdown(findings: &Findings) -> String {
    markdown::render(&compare::document(findings))
}

/// One arm against the baseline in one sentence: the first primary metric that has a verdict.
#[must_use]
pub fn headline(findings: &Findings, arm: &str) -> String {
    compare::headline(findings, arm)
}

/// A load report as text.
#[must_use]
pub fn load_text(report: &LoadReport) -> String {
    text::render(&load::document(report))
}

/// A load report as Markdown.
#[must_use]
pub fn load_markdown(report: &LoadReport) -> String {
    markdown::render(&load::document(report))
}
