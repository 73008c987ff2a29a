//! The comment on a pull request: what a reader needs at once, then everything else, folded.

use analyse::{Comparison, FailIfFindings, FailIfOutcome, Findings, Gate, GateSays};
use maud::{Markup, html};

use crate::compare::{gate_text, others, percent, run};
use crate::direction::figures_of;
use crate::markdown::escape;
use crate::screen::{self, printable};
use crate::words::names::outcome_words;

/// Most lines of a comment.
pub const LINES: usize = 30;
/// The first line of a comment, which Markdown does not show. It identifies the comment when it is to be updated.
pub const MARKER: &str = "<!-- whyslow -->";
/// Conditions that are said before the first screen; the others are among the details.
const CONDITIONS: usize = 3;
/// Lines around the first screen that are always there: marker, heading, two fences, two empty ones.
const AROUND: usize = 6;

/// The comment, with a way to `page` where that is kept somewhere.
pub(crate) fn render(findings: &Findings, page: Option<&str>) -> String {
    let conditions = conditions(findings);
    let details = details(findings);
    let link = page.map(|page| format!("[The whole page is kept with the run](<{page}>)"));
    let room = LINES - AROUND - conditions.len() - usize::from(link.is_some()) - details.len();
    let screen = within(room, &screen::elsewhere(findings));
    let fence = fence(&screen);
    let mut lines = vec![MARKER.to_owned(), heading(findings)];
    lines.extend(conditions);
    lines.extend([String::new(), format!("{fence}text")]);
    lines.extend(screen);
    lines.extend([fence, String::new()]);
    lines.extend(link);
    lines.extend(details);
    lines.join("\n") + "\n"
}

/// The verdict on each arm in the words of the JSON.
fn heading(findings: &Findings) -> String {
    let verdict = |arm: &analyse::ArmFindings| match screen::deciding(findings, &arm.name) {
        _ if arm.error.is_some() => format!("{} failed", arm.name),
        Some(row) => format!("{} {} against {}", arm.name, row.verdict.word(), row.baseline),
        None => format!("{} not compared", arm.name),
    };
    let arms: Vec<String> = others(findings).map(verdict).collect();
    let verdicts = if arms.is_empty() { "nothing was compared".to_owned() } else { arms.join(", ") };
    format!("### whyslow: {}", escape(&printable(&verdicts)))
}

/// Conditions that hold or could not be judged.
fn conditions(findings: &Findings) -> Vec<String> {
    let shown = findings.fail_if.iter().filter(|judged| judged.outcome != FailIfOutcome::DoesNotHold);
    let mut lines: Vec<String> =
        shown.map(|judged| format!("- {}", escape(&printable(&condition(judged))))).collect();
    if lines.len() > CONDITIONS {
        let more = lines.split_off(CONDITIONS - 1).len();
        lines.push(format!("- {more} more conditions: see below"));
    }
    lines
}

fn condition(judged: &FailIfFindings) -> String {
    format!("{} ({}): {}", judged.condition, outcome_words(judged.outcome), judged.text)
}

/// The first lines of a screen, as many as there is room for.
fn within(room: usize, screen: &str) -> Vec<String> {
    let mut lines: Vec<String> = screen.lines().map(str::to_owned).collect();
    if lines.len() > room {
        lines.truncate(room - 1);
        lines.push("…".to_owned());
    }
    lines
}

/// A fence that no line of `screen` ends.
fn fence(screen: &[String]) -> String {
    let mut fence = "```".to_owned();
    while screen.iter().any(|line| line.contains(&fence)) {
        fence.push('`');
    }
    fence
}

/// What is folded, each on one line: HTML, in which Markdown has no meaning up to the next empty line.
fn details(findings: &Findings) -> Vec<String> {
    // What had nothing to judge tells a reader nothing.
    let judged = |gate: &&Gate| !matches!(gate.says, Some(GateSays::Nothing));
    let mut gates: Vec<_> = findings.gates.iter().filter(judged).collect();
    gates.sort_by_key(|gate| gate.ok);
    let list = |points: Vec<String>| html! { ul { @for point in &points { li { (printable(point)) } } } };
    let folded = [
        ("Every metric", !findings.comparisons.is_empty(), metrics(findings)),
        ("Conditions", !findings.fail_if.is_empty(), list(findings.fail_if.iter().map(condition).collect())),
        ("Checks", !gates.is_empty(), list(gates.into_iter().map(gate_text).collect())),
        ("How it was measured", true, list(run(findings))),
    ];
    let shown = folded.into_iter().filter(|(_, any, _)| *any);
    shown.map(|(title, _, body)| html! { details { summary { (title) } (body) } }.into_string()).collect()
}

fn metrics(findings: &Findings) -> Markup {
    let ratio = |row: &Comparison| match figures_of(row) {
        [Some(ratio), Some(interval)] => format!("{ratio} {interval}"),
        _ => "–".to_owned(),
    };
    html! {
        table {
            tr { th { "arm" } th { "metric" } th { "at" } th { "verdict" } th { "ratio" } th { "level" } th { "blocks" } }
            @for row in &findings.comparisons {
                tr {
                    td { (printable(&row.arm)) }
                    td { (row.metric.label()) }
                    td { (row.condition) }
                    td { (row.verdict.word()) }
                    td { (ratio(row)) }
                    td { (row.level.map_or_else(|| "–".to_owned(), percent)) }
                    td { (row.blocks) }
                }
            }
        }
    }
}
