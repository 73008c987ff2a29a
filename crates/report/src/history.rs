//! How figures moved over the runs kept here, and the list of those runs.

use analyse::Metric;
use maud::{Markup, PreEscaped, html};
use model::units::{format_ns, format_utc};
use schemars::JsonSchema;
use serde::Serialize;

use crate::document::{Block, Document};
use crate::html::{Page, frame_served, inert, table_with};

/// A run in the list of runs.
#[derive(Debug, Clone, Serialize)]
pub struct ListedRun {
    /// Name of its directory: its place in the address.
    pub name: String,
    /// When it began, in seconds of Unix time; 0 if it is not known.
    pub started_unix_s: u64,
    /// What was asked.
    pub case: String,
    /// `complete`, `partial`, `running` or `unreadable`.
    pub status: String,
    /// The machine.
    pub host: String,
    /// Its verdicts in sentences, or why it cannot be read.
    pub says: Vec<String>,
}

/// One run's figure in a series.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HistoryPoint {
    /// Name of the run's directory.
    pub run: String,
    /// When the run began, in seconds of Unix time.
    pub started_unix_s: u64,
    /// The commit, image or compose file of the arm in this run, if it has one.
    pub state: Option<String>,
    /// Median of the rounds: nanoseconds, bytes or per second.
    pub value: f64,
    /// Lowest round.
    pub low: f64,
    /// Highest round.
    pub high: f64,
    /// Rounds.
    pub rounds: u32,
    /// The commit that the arm was built from, if it came from git.
    pub commit: Option<String>,
    /// Whether the working tree had changes beyond that commit.
    pub changed: bool,
    /// p-value of a change that begins with this run, if one was found.
    pub change_p: Option<f64>,
}

/// One figure over the runs with the same workload on the same machine: in the order of their commits if these are known,
/// otherwise oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HistorySeries {
    /// Arm.
    pub arm: String,
    /// What.
    pub metric: Metric,
    /// Condition as planned.
    pub condition: String,
    /// The case and what was asked.
    pub workload: String,
    /// The machine.
    pub host: String,
    /// The runs.
    pub points: Vec<HistoryPoint>,
}

/// A history as text.
#[must_use]
pub fn history_text(series: &[HistorySeries]) -> String {
    crate::text::render(&document(series))
}

/// A history as Markdown.
#[must_use]
pub fn history_markdown(series: &[HistorySeries]) -> String {
    crate::markdown::render(&document(series))
}

/// A history as JSON.
#[must_use]
pub fn history_json(series: &[HistorySeries]) -> String {
    crate::json::pretty(&series)
}

/// A history as a page of `whyslow view`.
#[must_use]
pub fn history_page(series: &[HistorySeries]) -> Page {
    let json = serde_json::to_string(series).expect("series hold only string keys");
    let body = html! {
        h1 { "How figures moved" }
        p.about { "Each figure is the median of a run's rounds; runs that asked the same on the same machine make a \
                   series. A change is where what follows differs from what was before (p by permutation)." }
        @for (index, one) in series.iter().enumerate() {
            section data-part="history" {
                h2 { (title(one)) }
                p.facts { (one.workload) " · " (one.host) }
                div.chart data-history=(index) {}
                (linked_table(one))
            }
        }
        @if series.is_empty() { p.without { (NOTHING) } }
        script type="application/json" id="whyslow-history" { (PreEscaped(inert(&json))) }
    };
    frame_served("history", &body)
}

/// The list of runs as a page of `whyslow view`, newest first, by case.
#[must_use]
pub fn runs_page(runs: &[ListedRun]) -> Page {
    let mut cases: Vec<&str> = runs.iter().map(|run| run.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    let body = html! {
        h1 { "Runs" }
        @for case in cases {
            section data-part="runs" {
                h2 { (case) }
                (run_table(case, runs.iter().filter(|run| run.case == case)))
            }
        }
        @if runs.is_empty() { p.without { "There is no run here yet: 'whyslow compare' makes one." } }
    };
    frame_served("runs", &body)
}

fn run_table<'a>(case: &str, runs: impl Iterator<Item = &'a ListedRun>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Runs of " (case) } {
            table {
                caption { "Runs of " (case) }
                thead { tr { @for name in ["begun (UTC)", "run", "state", "what it says", "host"] { th scope="col" { (name) } } } }
                tbody {
                    @for run in runs {
                        tr {
                            th scope="row" { (date(run.started_unix_s)) }
                            td { (link(&run.name)) }
                            td { (run.status) }
                            td { @for line in &run.says { p { (line) } } }
                            td { (run.host) }
                        }
                    }
                }
            }
        }
    }
}

/// A run's page under its name.
fn link(run: &str) -> Markup {
    html! { a href={ "/run/" (encode(run)) } { (run) } }
}

/// A name as one step of a path. Source: RFC 3986, unreserved characters.
fn encode(name: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if keep(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn date(unix_s: u64) -> String {
    if unix_s == 0 { "-".to_owned() } else { format_utc(unix_s) }
}

const NOTHING: &str = "No run kept here has such a figure.";

fn document(series: &[HistorySeries]) -> Document {
    if series.is_empty() {
        return vec![Block::Paragraph(NOTHING.to_owned())];
    }
    series.iter().flat_map(part).collect()
}

/// One series: what it is of, its table, and what changed.
fn part(series: &HistorySeries) -> Vec<Block> {
    let rounds =
        rounds_of_all(series).map_or_else(String::new, |rounds| format!("; each of {rounds} rounds"));
    let about = format!("{}; {}{rounds}", series.workload, series.host);
    let columns = narrow(series);
    let header = columns.iter().map(|column| column.name.to_owned()).collect();
    let mut blocks = vec![
        Block::Heading(title(series)),
        Block::Paragraph(about),
        Block::Table { header, rows: rows(&columns) },
    ];
    let change = |point: &HistoryPoint| {
        Some(format!("From {} on it differs from before: p = {:.3}", point.run, point.change_p?))
    };
    blocks.extend(series.points.iter().filter_map(change).map(Block::Paragraph));
    blocks
}

/// Rounds behind every value, where it is the same number in all runs.
fn rounds_of_all(series: &HistorySeries) -> Option<u32> {
    let rounds = series.points.first()?.rounds;
    series.points.iter().all(|point| point.rounds == rounds).then_some(rounds)
}

fn title(series: &HistorySeries) -> String {
    format!("{}: {} at {}", series.arm, series.metric.label(), series.condition)
}

/// Places of digits in the date and time that the names of runs begin with: `20260102-030405`.
const DATE_DIGITS: usize = 8;
const TIME_DIGITS: usize = 6;

/// A column of the table of a series.
#[derive(Clone)]
struct Column {
    kind: Kind,
    name: &'static str,
    cells: Vec<String>,
}

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    State,
    Begun,
    Run,
    Figure,
    Rounds,
    Change,
}

/// All columns; what the arm was stands first, where runs say so, since the first column gives way where there is no room.
fn columns(series: &HistorySeries) -> Vec<Column> {
    let column = |kind: Kind, name: &'static str, cell: &dyn Fn(&HistoryPoint) -> String| Column {
        kind,
        name,
        cells: series.points.iter().map(cell).collect(),
    };
    let value = |ns: f64| value(series.metric, ns);
    let mut columns = vec![
        column(Kind::State, "what it was", &state),
        column(Kind::Begun, "begun (UTC)", &|point| date(point.started_unix_s)),
        column(Kind::Run, "run", &|point| point.run.clone()),
        column(Kind::Figure, "median", &|point| value(point.value)),
        column(Kind::Figure, "lowest, highest", &|point| {
            format!("[{}, {}]", value(point.low), value(point.high))
        }),
        column(Kind::Rounds, "rounds", &|point| point.rounds.to_string()),
        column(Kind::Change, "change", &|point| {
            point.change_p.map_or_else(|| "-".to_owned(), |p| format!("p = {p:.3}"))
        }),
    ];
    if series.points.iter().all(|point| point.state.is_none()) {
        columns.remove(0);
    }
    columns
}

/// What the arm was. Runs of earlier versions say of a work tree with changes only that there were some.
fn state(point: &HistoryPoint) -> String {
    match &point.state {
        Some(state) if point.changed && !state.ends_with("with changes") => format!("{state} with changes"),
        Some(state) => state.clone(),
        None => "-".to_owned(),
    }
}

/// The columns for a terminal: without what the other columns or the lines around the table say.
fn narrow(series: &HistorySeries) -> Vec<Column> {
    let mut columns = columns(series);
    let named_by_time = series.points.iter().all(|point| begins_with_time(&point.run));
    columns.retain(|column| match column.kind {
        Kind::Begun => !named_by_time,
        Kind::Rounds => rounds_of_all(series).is_none(),
        Kind::Change => false,
        _ => true,
    });
    columns
}

fn begins_with_time(run: &str) -> bool {
    let mut parts = run.splitn(3, '-');
    let mut digits = |count: usize| {
        parts.next().is_some_and(|part| part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    digits(DATE_DIGITS) && digits(TIME_DIGITS)
}

fn rows(columns: &[Column]) -> Vec<Vec<String>> {
    let count = columns.first().map_or(0, |column| column.cells.len());
    (0..count).map(|row| columns.iter().map(|column| column.cells[row].clone()).collect()).collect()
}

/// The table of a series with a way to the page of each run.
fn linked_table(series: &HistorySeries) -> Markup {
    let columns = columns(series);
    let header: Vec<String> = columns.iter().map(|column| column.name.to_owned()).collect();
    let show = |column: usize, cell: &str| {
        if columns[column].kind == Kind::Run {
            link(cell)
        } else {
            html! { (cell) }
        }
    };
    table_with(&header, &rows(&columns), &title(series), show)
}

fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Rate => format!("{value:.0}/s"),
        Metric::Rss => format!("{:.1} MiB", value / 1_048_576.0),
        _ => format_ns(value),
    }
}
