//! The page as one HTML file: the third layout beside text and Markdown.
//!
//! Everything is readable without scripts, on paper and by a screen reader; scripts draw charts above the tables and
//! let the reader choose.

use analyse::{ArmStacks, Detail, Findings, Ladder, RoundDetail, host_difference};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use model::record::Host;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::assets;
use crate::compare;
use crate::document::Block;
use crate::glossary;
use crate::packed::{self, Packed};
use crate::page::{self, PARTS, Part};
use crate::screen;
use crate::words::Worded;

/// Version of the data that a page carries. 2: profiles are packed.
pub const PAGE_SCHEMA: u32 = 2;

/// Tables of more rows are folded: they are there to look a figure up, not to be read through.
const MAX_OPEN_ROWS: usize = 24;

/// Words that mean the same wherever they stand in a table, and are coloured for it.
const WORDS: [&str; 14] = [
    "faster",
    "slower",
    "equal",
    "inconclusive",
    "invalid",
    "ok",
    "note",
    "failed",
    "ruled out",
    "not steady",
    "confirmed by",
    "RED",
    "amber",
    "green",
];

/// A run as a page shows it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageRun {
    /// Findings with each arm as the baseline, the plan's own first; only that one has `profiles`.
    #[serde(serialize_with = "once")]
    #[schemars(with = "Vec<Findings>")]
    pub findings: Vec<Worded<Findings>>,
    /// Rounds and latency curves.
    pub detail: Detail,
    /// Stacks of the arms that were sampled.
    #[serde(serialize_with = "packed::serialize")]
    #[schemars(with = "Packed")]
    pub profiles: Vec<ArmStacks>,
    /// Its arms as the steps of a ladder, if it was run as one.
    pub ladder: Option<Ladder>,
    /// Files that could not be read, one sentence each.
    pub damaged: Vec<String>,
    /// How the host of the run differs from the one that wrote the page.
    pub elsewhere: Vec<String>,
}

/// A run that cannot be read, with what is known about it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Unreadable {
    /// Name of its directory.
    pub name: String,
    /// Why it cannot be read.
    pub error: String,
    /// What its manifest says, as far as it could be made out.
    pub facts: Vec<(String, String)>,
    /// Where it was made, if that can be read.
    pub host: Option<Host>,
    /// Its rounds that can be read; none is judged.
    pub rounds: Vec<RoundDetail>,
}

/// The data of a page, which it carries as JSON for its charts and for other programs.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct PageData {
    /// Schema version.
    pub schema: u32,
    /// The runs.
    pub runs: Vec<PageRun>,
    /// Runs that cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// Functions stand once, against the plan's own baseline: they would be the same again against another one, and the stacks have
/// them all.
fn once<S: Serializer>(findings: &[Worded<Findings>], serializer: S) -> Result<S::Ok, S::Error> {
    let shortened = |(place, own): (usize, &Worded<Findings>)| {
        let mut own = own.clone().into_inner();
        if place > 0 {
            own.profiles.clear();
        }
        own
    };
    serializer.collect_seq(findings.iter().enumerate().map(shortened))
}

impl PageData {
    /// A page of these runs.
    #[must_use]
    pub fn new(runs: Vec<PageRun>, unreadable: Vec<Unreadable>) -> Self {
        Self { schema: PAGE_SCHEMA, runs, unreadable }
    }
}

/// Where a page is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// From a file: it asks nothing of anyone.
    File,
    /// From `whyslow view`; a run in progress names the address of its events.
    Served {
        /// Address of the run's events, while it goes on.
        events: Option<&'a str>,
    },
}

/// A page and the policy under which it is to be served.
#[derive(Debug, Clone)]
pub struct Page {
    /// The file.
    pub html: String,
    /// Value of its `Content-Security-Policy`.
    pub policy: String,
}

/// The page of `data`.
#[must_use]
pub fn page(data: &PageData, place: Place<'_>) -> Page {
    let policy = assets::policy(if place == Place::File { "'none'" } else { "'self'" });
    let json = serde_json::to_string(data).expect("findings hold only string keys");
    let body = html! {
        (toolbar(data, place))
        main {
            @for text in differences(data) { (banner(&text)) }
            @if data.runs.len() > 1 { (overview(data)) }
            @for (index, run) in data.runs.iter().enumerate() { (article(run, index)) }
            @for run in &data.unreadable { (unreadable(run)) }
        }
        (footer())
        script type="application/json" id="whyslow-data" { (PreEscaped(inert(&json))) }
    };
    Page { html: frame(&title(data), &policy, place, &body), policy }
}

/// A page of `whyslow view` that is no report.
pub(crate) fn frame_served(title: &str, content: &Markup) -> Page {
    let policy = assets::policy("'self'");
    let body = html! {
        header.bar { span.brand { "whyslow" } (views()) }
        main { article { (content) } }
    };
    Page { html: frame(title, &policy, Place::Served { events: None }, &body), policy }
}

/// A page of `whyslow view` with a single message, for example that a run does not exist.
#[must_use]
pub fn message_page(title: &str, text: &str) -> Page {
    frame_served(title, &html! { h1 { (title) } p { (text) } })
}

/// The pages of `whyslow view`.
fn views() -> Markup {
    html! { nav aria-label="Pages" { a href="/" { "all runs" } " " a href="/history" { "history" } } }
}

fn frame(title: &str, policy: &str, place: Place<'_>, body: &Markup) -> String {
    let events = match place {
        Place::Served { events } => events,
        Place::File => None,
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) " · whyslow" }
                style { (PreEscaped(assets::STYLE)) (PreEscaped(assets::CHART_STYLE)) }
            }
            body data-events=[events] {
                (body)
                @if let Some(script) = assets::SCRIPT { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string()
}

/// JSON in which nothing ends the element around it.
pub(crate) fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

fn title(data: &PageData) -> String {
    match data.runs.as_slice() {
        [] => "a run that cannot be read".to_owned(),
        [run] => run.findings.first().map(|own| page::title(own)).unwrap_or_default(),
        runs => format!("{} runs", runs.len()),
    }
}

/// Where the page's controls go; what stands in it without scripts is the way through the page.
fn toolbar(data: &PageData, place: Place<'_>) -> Markup {
    html! {
        a.skip href="#main" { "to the verdict" }
        header.bar {
            span.brand { "whyslow" }
            @if place != Place::File { (views()) }
            nav aria-label="Parts" {
                @if data.runs.len() == 1 {
                    @for part in PARTS { a href={ "#" (part.id) } { (short(part.id)) } " " }
                } @else {
                    @for (index, name) in names(data) { a href={ "#" (anchor("verdict", index)) } { (name) } " " }
                }
            }
            div #controls {}
        }
        div #main tabindex="-1" {}
        (without_charts(assets::SCRIPT))
    }
}

/// What a page without charts lacks, said to whom it concerns: everyone where none were built, and those whose browser
/// runs no scripts where they were.
fn without_charts(script: Option<&str>) -> Markup {
    const LACKS: &str = "Verdicts, causes and the figures behind them are all here, as tables. Only charts show the \
                         single seconds of each round, whole call stacks, and the arms against another baseline.";
    match script {
        None => banner(&format!(
            "This whyslow was built without its charts. {LACKS} With Node, 'make web' and another build bring them."
        )),
        Some(_) => html! { noscript { (banner(&format!("Charts need scripts. {LACKS}"))) } },
    }
}

/// The runs of a page with their places.
fn names(data: &PageData) -> impl Iterator<Item = (usize, &str)> {
    let own = data.runs.iter().map(|run| run.findings.first());
    own.enumerate().filter_map(|(index, own)| Some((index, own?.run_id.as_str())))
}

/// Where a part of a run is: those of the first run have the plain names that links from outside use.
fn anchor(part: &str, index: usize) -> String {
    if index == 0 { part.to_owned() } else { format!("{part}-{}", index + 1) }
}

/// The word of a part in the way through the page.
fn short(id: &str) -> &str {
    match id {
        "limits" => "gates",
        "waterfall" => "split",
        "ledger" => "causes",
        "use" => "USE",
        other => other,
    }
}

fn banner(text: &str) -> Markup {
    html! { p.banner role="note" { (text) } }
}

fn footer() -> Markup {
    html! {
        footer {
            p {
                "Every figure is of the rounds of one run; n, unit, window and method stand beside it. The data behind \
                 this page is in it, as JSON in the element "
                code { "whyslow-data" }
                "."
            }
        }
    }
}

/// Machines that differ, in one sentence for each run after the first.
fn differences(data: &PageData) -> Vec<String> {
    let mut hosts = data.runs.iter().filter_map(|run| run.findings.first());
    let Some(first) = hosts.next() else { return Vec::new() };
    hosts
        .filter_map(|other| {
            let (one, two) = (&first.run_id, &other.run_id);
            if !(first.host.is_known() && other.host.is_known()) {
                return Some(format!("Whether the hosts of runs {one} and {two} are alike is not known."));
            }
            let differences = host_difference(&first.host, &other.host);
            (!differences.is_empty()).then(|| {
                format!(
                    "Runs {one} and {two} were made on unlike hosts; their figures are not comparable ({}).",
                    differences.join("; ")
                )
            })
        })
        .collect()
}

fn overview(data: &PageData) -> Markup {
    let tables = page::overview(data.runs.iter().filter_map(|run| run.findings.first().map(|own| &**own)));
    html! { article #runs { h1 { "Runs beside each other" } div.chart data-chart="runs" {} (layout(&tables, "Runs")) } }
}

fn unreadable(run: &Unreadable) -> Markup {
    let facts: Vec<[String; 2]> =
        run.facts.iter().map(|(name, value)| [name.clone(), value.clone()]).collect();
    html! {
        article {
            h1 { "Run " (run.name) }
            (banner(&format!("This run cannot be read: {}.", run.error)))
            @if !facts.is_empty() {
                p { "What its manifest says, as far as this version can tell:" }
                (layout(&[Block::table(["field", "value"], facts)], "Manifest"))
            }
            @if let Some(host) = &run.host { p { "It was made on " (compare::host(host)) "." } }
            @if !run.rounds.is_empty() {
                p { "Its rounds. Without the manifest none is judged, and nothing follows from them:" }
                (layout(&[page::round_table(&run.rounds, "not judged")], "Rounds"))
            }
        }
    }
}

fn article(run: &PageRun, index: usize) -> Markup {
    let Some(own) = run.findings.first() else { return html! {} };
    html! {
        article.run data-run=(index) {
            h1 { (page::title(own)) }
            p.facts { (own.workload) " · run " (own.run_id) " · host: " (compare::host(&own.host)) }
            @for text in page::banners(own, run) { (banner(&text)) }
            @for part in PARTS { (section(run, &part, index)) }
        }
    }
}

fn section(run: &PageRun, part: &Part, index: usize) -> Markup {
    let views = if part.turns { run.findings.as_slice() } else { &run.findings[..1] };
    html! {
        section id=(anchor(part.id, index)) data-part=(part.id) {
            h2 { (part.title) }
            @for (place, findings) in views.iter().enumerate() {
                @let blocks = (part.of)(findings, run);
                div.view data-baseline=[part.turns.then_some(&findings.baseline)] hidden[place > 0] {
                    @if blocks.is_empty() {
                        p.without { (part.without) }
                    } @else {
                        (lead(&blocks, part, &onward(part, findings, index)))
                    }
                }
            }
            (layout(&page::common(part, run), part.title))
        }
    }
}

/// From the verdict to why, in the lines of the first screen, to what is behind it, and the words that it is said in.
fn onward(part: &Part, findings: &Findings, index: usize) -> Markup {
    html! {
        @if part.id == "verdict" {
            @let why = screen::why(findings);
            @if !why.is_empty() { (layout(&[Block::Screen(why)], part.title)) }
            @let links = page::onward(findings);
            @if !links.is_empty() {
                ul.onward { @for (part, words) in links { li { a href={ "#" (anchor(part, index)) } { (words) } } } }
            }
            (glossary())
        }
    }
}

fn glossary() -> Markup {
    html! {
        details.words {
            summary { "Words used here" }
            dl { @for (word, meaning) in glossary::meanings() { dt { (word) } dd { (meaning) } } }
        }
    }
}

/// What is said in sentences comes first, then the chart, then the tables behind it.
fn lead(blocks: &[Block], part: &Part, onward: &Markup) -> Markup {
    let sentences = |block: &&Block| {
        matches!(block, Block::Paragraph(_) | Block::Command(_) | Block::Screen(_) | Block::List(_))
    };
    let words = blocks.iter().take_while(sentences).count();
    html! {
        div.lead { (layout(&blocks[..words], part.title)) (onward) }
        p.about { (part.about) }
        div.chart data-chart=(part.id) {}
        (layout(&blocks[words..], part.title))
    }
}

/// Blocks as HTML. `name` is what a screen reader calls a table that stands under no heading of its own.
///
/// What is about one arm stands together, so that it can be left out together.
pub(crate) fn layout(blocks: &[Block], name: &str) -> Markup {
    let titled: Vec<(&Block, Title)> = blocks.iter().zip(titles(blocks)).collect();
    html! {
        @for group in titled.chunk_by(|_, (next, _)| !matches!(next, Block::Heading(_) | Block::Arm { .. })) {
            @match group[0].0 {
                Block::Arm { arm, .. } => div data-arm=(arm) { (in_order(group, name)) },
                _ => (in_order(group, name)),
            }
        }
    }
}

fn in_order(blocks: &[(&Block, Title)], name: &str) -> Markup {
    html! {
        @for (block, title) in blocks {
            @match block {
                Block::Heading(words) => h3 { (words) },
                Block::Arm { title: words, .. } if title.heading.is_some() => h4 { (words) },
                Block::Arm { title: words, .. } => h3 { (words) },
                Block::Paragraph(words) => p { (words) },
                Block::Command(command) => pre { code { (command) } },
                Block::Screen(lines) => pre { (lines.join("\n")) },
                Block::List(points) => ul { @for point in points { li { (point) } } },
                Block::Table { header, rows } if rows.len() > MAX_OPEN_ROWS => details {
                    summary { "Table: " (rows.len()) " rows" }
                    (table(header, rows, &title.text(name)))
                },
                Block::Table { header, rows } => (table(header, rows, &title.text(name))),
            }
        }
    }
}

/// What a block stands under.
#[derive(Debug, Clone, Copy, Default)]
struct Title<'a> {
    heading: Option<&'a str>,
    name: Option<&'a str>,
}

impl Title<'_> {
    /// In words; `part` is where it stands under nothing of its own.
    fn text(&self, part: &str) -> String {
        match (self.heading, self.name) {
            (Some(heading), Some(name)) => format!("{heading}: {name}"),
            (Some(only), None) => only.to_owned(),
            (None, Some(name)) => format!("{part}: {name}"),
            (None, None) => part.to_owned(),
        }
    }
}

/// What each block stands under.
fn titles(blocks: &[Block]) -> impl Iterator<Item = Title<'_>> {
    blocks.iter().scan(Title::default(), |title, block| {
        match block {
            Block::Heading(words) => *title = Title { heading: Some(words), name: None },
            Block::Arm { title: words, .. } => title.name = Some(words),
            _ => {}
        }
        Some(*title)
    })
}

fn table(header: &[String], rows: &[Vec<String>], name: &str) -> Markup {
    table_with(header, rows, name, |_, cell| html! { (cell) })
}

/// A table of which `show` writes each cell, told its column.
pub(crate) fn table_with(
    header: &[String],
    rows: &[Vec<String>],
    name: &str,
    show: impl Fn(usize, &str) -> Markup,
) -> Markup {
    let figures: Vec<bool> = (0..header.len()).map(|column| is_figures(rows, column)).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label=(name) {
            table {
                caption { (name) }
                thead { tr {
                    @for (cell, figures) in header.iter().zip(&figures) {
                        th scope="col" class=[figures.then_some("figure")] { (cell) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (show(column, cell)) } }
                                @else { td class=[class(cell, figures[column])] { (show(column, cell)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Longest cell that is a figure, in characters: what is longer is a sentence that begins with one.
const MAX_FIGURE_CHARS: usize = 28;

/// Whether a column holds figures, which then stand to the right. The first names the row.
fn is_figures(rows: &[Vec<String>], column: usize) -> bool {
    let figure = |cell: &str| {
        let begins = cell.starts_with(|c: char| c.is_ascii_digit() || "+-±[x".contains(c));
        begins && cell.contains(|c: char| c.is_ascii_digit()) && cell.chars().count() < MAX_FIGURE_CHARS
    };
    let cells = || rows.iter().filter_map(|row| row.get(column));
    column > 0 && cells().any(|cell| figure(cell)) && cells().all(|cell| cell == "-" || figure(cell))
}

/// Words that mean something have their colour.
fn class(cell: &str, figure: bool) -> Option<String> {
    if WORDS.contains(&cell) {
        return Some(format!("word {}", cell.replace(' ', "-")));
    }
    figure.then(|| "figure".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_charts_says_so_to_whom_it_concerns() {
        let none = without_charts(None).into_string();
        assert!(none.contains("built without its charts") && none.contains("make web"), "{none}");
        assert!(!none.contains("<noscript>"), "it concerns everyone: {none}");
        let some = without_charts(Some("draw()")).into_string();
        assert!(some.starts_with("<noscript>") && some.contains("Charts need scripts"), "{some}");
        assert!(!some.contains("built without"), "{some}");
    }
}
