//! The commit that made a server slower, in words.

use analyse::{BisectStep, Bisected, Metric, NamedCommit, StepAnswer};

use crate::direction::words_of_sides;
use crate::document::{Block, Document};
use crate::screen::printable;

/// Digits of a commit's name that are enough for people.
const SHORT: usize = 10;
/// Files, and commits that it can be, that are named; the others are counted.
const NAMED: usize = 10;

pub(crate) fn text(found: &Bisected) -> String {
    let mut lines = match (&found.commit, &found.cannot_tell) {
        (Some(commit), None) => named(found, commit),
        (_, reason) => vec![cannot_tell(reason.as_deref())],
    };
    lines.extend(list("it is one of", &found.among.iter().map(commit_words).collect::<Vec<_>>()));
    lines.push(String::new());
    lines.extend(found.steps.iter().map(|step| step_words(found.metric, step)));
    lines.push(count_words(found));
    lines.join("\n") + "\n"
}

/// The same for Markdown: the steps are a table.
pub(crate) fn document(found: &Bisected) -> Document {
    let mut head = match (&found.commit, &found.cannot_tell) {
        (Some(commit), None) => named(found, commit),
        (_, reason) => vec![cannot_tell(reason.as_deref())],
    };
    let files = found.commit.as_ref().map_or(&[][..], |commit| &commit.files[..]);
    head.truncate(head.len() - list("it changes", files).len());
    let mut page: Document = head.into_iter().map(Block::Paragraph).collect();
    let among: Vec<String> = found.among.iter().map(commit_words).collect();
    for (title, all) in [("It changes", files), ("It is one of", &among[..])] {
        if let Some((_, points)) = list(title, all).split_first() {
            page.push(Block::Heading(title.to_owned()));
            page.push(Block::List(points.iter().map(|point| point.trim_start().to_owned()).collect()));
        }
    }
    page.push(Block::Heading("Steps".to_owned()));
    page.push(Block::table(
        ["commit", "against", "answer", "commit over what it was compared with", "blocks"],
        found.steps.iter().map(step_row).collect(),
    ));
    page.push(Block::Paragraph(count_words(found)));
    page
}

fn cannot_tell(reason: Option<&str>) -> String {
    format!("cannot tell: {}", printable(reason.unwrap_or("the search did not end")))
}

/// How many comparisons it took.
fn count_words(found: &Bisected) -> String {
    let measured = found.steps.iter().filter(|step| step.answer != StepAnswer::Broken).count();
    let broken = found.steps.len() - measured;
    let passed = if broken == 0 { String::new() } else { format!(", {broken} passed by") };
    let commits =
        if found.commits == 1 { "1 commit".to_owned() } else { format!("{} commits", found.commits) };
    format!("{measured} steps of {} for {commits}{passed}", found.most_steps)
}

fn step_row(step: &BisectStep) -> [String; 5] {
    let figures = match (step.ratio, step.ci_low, step.ci_high) {
        (Some(ratio), Some(low), Some(high)) => format!("{ratio:.3} [{low:.3}, {high:.3}]"),
        _ => step.reason.as_deref().map_or_else(|| "-".to_owned(), printable),
    };
    let [commit, against] = [&step.commit, &step.against].map(|hash| short(hash).to_owned());
    [commit, against, answer(step).to_owned(), figures, step.blocks.to_string()]
}

/// The commit, how much it costs, why, and what it changes.
fn named(found: &Bisected, commit: &NamedCommit) -> Vec<String> {
    let last = found.steps.last();
    let figures = last.map(|step| ratio_words(found.metric, step)).unwrap_or_default();
    let mut lines =
        vec![commit_words(commit), format!("{figures}, against its parent {}", short(&commit.parent))];
    lines.extend(found.why.iter().map(|line| printable(line)));
    lines.extend(list("it changes", &commit.files));
    lines
}

fn list(title: &str, all: &[String]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{title}:")];
    lines.extend(all.iter().take(NAMED).map(|one| format!("   {}", printable(one))));
    if all.len() > NAMED {
        lines.push(format!("   and {} more", all.len() - NAMED));
    }
    lines
}

fn commit_words(commit: &NamedCommit) -> String {
    printable(&format!("{}  {}", short(&commit.hash), commit.subject))
}

fn short(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}

/// The answer of a step about its commit, in words.
fn answer(step: &BisectStep) -> &'static str {
    match step.answer {
        StepAnswer::Good => "good",
        StepAnswer::Bad => "bad",
        StepAnswer::Open => "open",
        StepAnswer::Broken => "passed by",
    }
}

/// A step in one line.
fn step_words(metric: Metric, step: &BisectStep) -> String {
    let answer = answer(step);
    let figures =
        if step.ratio.is_some() { format!("  {}", ratio_words(metric, step)) } else { String::new() };
    let reason = step.reason.as_ref().map_or_else(String::new, |reason| format!("  {}", printable(reason)));
    format!("   {answer:9} {} against {}{figures}{reason}", short(&step.commit), short(&step.against))
}

/// `1.52x [1.34, 1.65] dearer in CPU per request (6 blocks)`
fn ratio_words(metric: Metric, step: &BisectStep) -> String {
    let (Some(ratio), Some(low), Some(high)) = (step.ratio, step.ci_low, step.ci_high) else {
        return String::new();
    };
    let [above, below] = words_of_sides(metric);
    // The factor is above 1 whichever way the ratio points.
    let (word, [ratio, low, high]) = if ratio >= 1.0 {
        (above, [ratio, low, high])
    } else {
        (below, [1.0 / ratio, 1.0 / high, 1.0 / low])
    };
    format!("{ratio:.3}x {word} [{low:.3}, {high:.3}] in {}, {} blocks", metric.label(), step.blocks)
}
