//! The commit that made a server slower, in words.

use analyse::{BisectStep, Bisected, Metric, NamedCommit, StepAnswer};

use crate::direction::{DECIMALS, decimals_apart, words_of_sides};
use crate::document::{Block, Document};
use crate::screen::printable;

/// Digits of a commit's name that are enough for people.
const SHORT: usize = 10;
/// Files, and commits that it can be, that are named; the others are counted.
const NAMED: usize = 10;

pub(crate) fn text(found: &Bisected) -> String {
    let mut lines = head(found);
    lines.extend(list("it is one of", &among(found)));
    lines.push(String::new());
    lines.extend(found.steps.iter().map(|step| step_words(found.metric, step)));
    lines.push(count_words(found));
    lines.join("\n") + "\n"
}

/// The same for Markdown: the steps are a table.
pub(crate) fn document(found: &Bisected) -> Document {
    let mut head = head(found);
    let files = found.commit.as_ref().map_or(&[][..], |commit| &commit.files[..]);
    head.truncate(head.len() - list("it changes", files).len());
    let mut page: Document = head.into_iter().map(Block::Paragraph).collect();
    let among = among(found);
    for (title, all) in [("It changes", files), ("It is one of", &among[..])] {
        if let Some((_, points)) = list(title, all).split_first() {
            page.push(Block::Heading(title.to_owned()));
            page.push(Block::List(points.iter().map(|point| point.trim_start().to_owned()).collect()));
        }
    }
    page.push(Block::Heading("Steps".to_owned()));
    page.push(Block::table(
        ["comparison", "commit", "against", "answer", found.metric.label(), "blocks"],
        found.steps.iter().map(|step| step_row(found.metric, step)).collect(),
    ));
    page.push(Block::Paragraph(count_words(found)));
    page
}

/// What was found, before everything else.
fn head(found: &Bisected) -> Vec<String> {
    match (&found.commit, &found.between, &found.cannot_tell) {
        (Some(commit), _, None) => named(found, commit),
        (_, Some(between), reason) => range(found, between, reason.as_deref()),
        (_, _, reason) => vec![cannot_tell(reason.as_deref())],
    }
}

/// The range that no comparison divides: how much it costs, why, and that it is no single commit.
fn range(found: &Bisected, [good, bad]: &[String; 2], reason: Option<&str>) -> Vec<String> {
    let last = found.steps.last();
    let figures = match last.filter(|step| step.ratio.is_some()) {
        Some(step) if step.answer == StepAnswer::Bad => ratio_words(found.metric, step),
        Some(step) => format!("{}, which does not show that it is slower", ratio_words(found.metric, step)),
        None => "not compared".to_owned(),
    };
    let commits = found.among.len();
    let commits = if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") };
    let mut lines = vec![format!("between {} and {} ({commits}): {figures}", short(good), short(bad))];
    lines.extend(found.why.iter().map(|line| printable(line)));
    lines.extend(reason.map(printable));
    lines
}

/// The commits that it can be, each with what is known of it where the search ended without one.
fn among(found: &Bisected) -> Vec<String> {
    let known = |commit: &NamedCommit| {
        let of_commit = |step: &&BisectStep| step.commit == commit.hash;
        match found.steps.iter().find(of_commit).map(|step| step.answer) {
            Some(StepAnswer::Broken) => "could not be built or started",
            Some(StepAnswer::Open) => "could be told from neither end",
            Some(StepAnswer::Bad) => "as slow as the bad end",
            Some(StepAnswer::Good) => "as fast as the good end",
            None => "not measured",
        }
    };
    let words = |commit: &NamedCommit| match &found.between {
        Some(_) => format!("{}: {}", commit_words(commit), known(commit)),
        None => commit_words(commit),
    };
    found.among.iter().map(words).collect()
}

fn cannot_tell(reason: Option<&str>) -> String {
    format!("cannot tell: {}", printable(reason.unwrap_or("the search did not end")))
}

/// How many comparisons it took.
fn count_words(found: &Bisected) -> String {
    let broken = found.steps.iter().filter(|step| step.answer == StepAnswer::Broken).count();
    let passed = if broken == 0 { String::new() } else { format!(", {broken} passed by") };
    let commits =
        if found.commits == 1 { "1 commit".to_owned() } else { format!("{} commits", found.commits) };
    let made = match found.comparisons {
        1 => "1 comparison".to_owned(),
        made => format!("{made} comparisons"),
    };
    format!("{made} for {commits} (at most {} where each decides){passed}", found.most_steps)
}

fn step_row(metric: Metric, step: &BisectStep) -> [String; 6] {
    let reason = || step.reason.as_deref().map_or_else(|| "-".to_owned(), printable);
    let figures = factor_words(metric, step).unwrap_or_else(reason);
    let [commit, against] = [&step.commit, &step.against].map(|hash| short(hash).to_owned());
    let [number, blocks] = [step.comparison, step.blocks].map(|number| number.to_string());
    [number, commit, against, answer(step).to_owned(), figures, blocks]
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

/// A step in one line, after the number of its comparison.
fn step_words(metric: Metric, step: &BisectStep) -> String {
    let answer = answer(step);
    let figures =
        if step.ratio.is_some() { format!("  {}", ratio_words(metric, step)) } else { String::new() };
    let reason = step.reason.as_ref().map_or_else(String::new, |reason| format!("  {}", printable(reason)));
    let [commit, against] = [&step.commit, &step.against].map(|hash| short(hash));
    format!("{:4} {answer:9} {commit} against {against}{figures}{reason}", step.comparison)
}

/// `1.52x dearer [1.34, 1.65] in CPU per request, 6 blocks`
fn ratio_words(metric: Metric, step: &BisectStep) -> String {
    let words = factor_words(metric, step);
    words.map_or_else(String::new, |words| format!("{words} in {}, {} blocks", metric.label(), step.blocks))
}

/// `1.52x dearer [1.34, 1.65]`; nothing where nothing was measured.
fn factor_words(metric: Metric, step: &BisectStep) -> Option<String> {
    let (ratio, low, high) = (step.ratio?, step.ci_low?, step.ci_high?);
    let [above, below] = words_of_sides(metric);
    // The factor is above 1 whichever way the ratio points.
    let (word, [ratio, low, high]) = if ratio >= 1.0 {
        (above, [ratio, low, high])
    } else {
        (below, [1.0 / ratio, 1.0 / high, 1.0 / low])
    };
    let digits = decimals_apart(DECIMALS, [low, high]);
    Some(format!("{ratio:.digits$}x {word} [{low:.digits$}, {high:.digits$}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(commit: &str, against: &str, answer: StepAnswer, ratio: Option<f64>) -> BisectStep {
        BisectStep {
            comparison: 0,
            commit: commit.to_owned(),
            against: against.to_owned(),
            answer,
            ratio,
            ci_low: ratio.map(|ratio| ratio - 0.1),
            ci_high: ratio.map(|ratio| ratio + 0.1),
            level: None,
            blocks: 6,
            reason: None,
        }
    }

    #[test]
    fn a_range_that_cannot_be_divided_is_told_before_what_is_not_known() {
        let named = |hash: &str| NamedCommit {
            hash: hash.to_owned(),
            subject: format!("subject of {hash}"),
            parent: String::new(),
            files: Vec::new(),
        };
        let found = Bisected {
            schema: analyse::BISECT_SCHEMA,
            good: "aaa".to_owned(),
            bad: "ddd".to_owned(),
            metric: Metric::CpuPerRequest,
            commits: 3,
            steps: vec![
                BisectStep { comparison: 1, ..step("ddd", "aaa", StepAnswer::Bad, Some(1.5)) },
                BisectStep { comparison: 1, ..step("bbb", "aaa", StepAnswer::Broken, None) },
                BisectStep { comparison: 2, ..step("ccc", "aaa", StepAnswer::Open, Some(0.8)) },
                BisectStep { comparison: 2, ..step("ddd", "aaa", StepAnswer::Bad, Some(1.4)) },
            ],
            comparisons: 2,
            most_steps: 2,
            commit: None,
            why: vec!["Why ddd costs 3 µs more a request".to_owned()],
            cannot_tell: Some("no comparison can tell which of these commits it is".to_owned()),
            between: Some(["aaa", "ddd"].map(str::to_owned)),
            among: ["bbb", "ccc", "ddd"].map(named).to_vec(),
        };
        let text = text(&found);
        let head = "between aaa and ddd (3 commits): 1.400x dearer [1.300, 1.500] in CPU per request, 6 blocks\n\
                    Why ddd costs 3 µs more a request\n\
                    no comparison can tell which of these commits it is\n\
                    it is one of:\n   \
                    bbb  subject of bbb: could not be built or started\n   \
                    ccc  subject of ccc: could be told from neither end\n   \
                    ddd  subject of ddd: as slow as the bad end\n";
        assert!(text.starts_with(head), "{text}");
        let count = "2 comparisons for 3 commits (at most 2 where each decides), 1 passed by";
        assert!(
            text.contains("\n   1 passed by bbb against aaa\n") && text.ends_with(&format!("{count}\n")),
            "{text}"
        );
        // Both formats turn a ratio the same way.
        let page = crate::markdown::render(&document(&found));
        for words in ["1.250x cheaper", "1.111, 1.429]", "1.400x dearer", "1.300, 1.500]", count] {
            assert!(text.contains(words) && page.contains(words), "{words}: {text}{page}");
        }
    }
}
