//! The page of the corpus, as Markdown.

use analyse::{Comparison, Metric, Verdict};
use stats::descriptive::quantile;

use super::COMMAND;
use super::judge::{Judged, Located};
use super::truth::{Role, Truth};
use crate::calibrate::matrix::matrix;

/// What a cell of a row says of a pair that is right.
const YES: &str = "yes";
/// Cells of a row, between its bars: the name, what tells whether the first cause is right, and whether the place is.
const NAME: usize = 1;
const RIGHT: usize = 6;
const PLACE: usize = 7;

/// A share that is none in whole percent.
const NONE: f64 = 0.005;

/// Shares of the pairs that changed no rule of which the cause must be right, be among the first three, and have its place.
const FIRST: f64 = 0.9;
const AMONG_FIRST: f64 = 0.97;
const PLACED: f64 = 0.85;

/// The page.
pub(super) fn page(judged: &[Judged]) -> String {
    let first_run = of_role(judged, true);
    let training = of_role(judged, false);
    let mut text = format!(
        "# Recorded slowdowns\n\n{}\n\nEach pair is a published slowdown of real software, or a service by an author who had not seen the rules, without the fault and \
         with it, recorded once by `whyslow compare` and kept in [corpus](../../corpus/README.md). What follows is what the rules of today say of the recordings; a test holds the page \
         against them. Repeat with `{COMMAND}`.\n\n",
        headline(&first_run)
    );
    text.push_str(
        "Right, and the place, are what each pair's author wrote down as words. A first cause is right if its name or its sentence has them. A place \
         is named with the causes if one of the first three sentences has it, or elsewhere if the report has it outside of what was ruled out.\n\n",
    );
    text.push_str(&totals(&[("first-run", &first_run), ("training", &training)]));
    for (title, pairs) in [("First-run pairs", &first_run), ("Training pairs", &training)] {
        text.push_str(&section(title, pairs));
    }
    text
}

fn of_role(judged: &[Judged], first_run: bool) -> Vec<&Judged> {
    judged.iter().filter(|one| (one.truth.role == Role::FirstRun) == first_run).collect()
}

fn headline(first_run: &[&Judged]) -> String {
    if first_run.is_empty() {
        return "No pair is kept yet that has changed no rule, so there is no figure for what the rules have not seen.".to_owned();
    }
    let bar = |is: fn(&Judged) -> bool, least: f64| {
        let met = count(first_run, is) as f64 >= least * first_run.len() as f64;
        format!(
            "{}, bar {}: {}",
            share(first_run, is),
            percent(least),
            if met { "met" } else { "**missed**" }
        )
    };
    format!(
        "Of recorded slowdowns that have changed no rule, the right cause is named first in {}; among the first three \
         in {}; and the place with it in {}.",
        bar(Judged::is_right, FIRST),
        bar(Judged::is_among_first, AMONG_FIRST),
        bar(|one| one.located == Located::WithCauses, PLACED),
    )
}

/// The sentence that a page begins with.
pub(super) fn headline_of(page: &str) -> Option<&str> {
    page.lines().nth(2)
}

fn count(pairs: &[&Judged], is: impl Fn(&Judged) -> bool) -> usize {
    pairs.iter().filter(|one| is(one)).count()
}

fn share(pairs: &[&Judged], is: impl Fn(&Judged) -> bool) -> String {
    let right = count(pairs, is);
    format!("{right} of {} ({})", pairs.len(), percent(right as f64 / pairs.len().max(1) as f64))
}

/// A row for each role.
fn totals(roles: &[(&str, &Vec<&Judged>)]) -> String {
    let mut text = "| pairs | number | right first | right among the first three | place named with the causes | or elsewhere | \
                    not explained, median | largest |\n|---|--:|--:|--:|--:|--:|--:|--:|\n"
        .to_owned();
    for (role, pairs) in roles {
        let left: Vec<f64> = pairs.iter().filter_map(|one| one.left).map(f64::abs).collect();
        let left = |part: f64| quantile(&left, part).map_or_else(|| "–".to_owned(), percent);
        text.push_str(&format!(
            "| {role} | {} | {} | {} | {} | {} | {} | {} |\n",
            pairs.len(),
            count(pairs, Judged::is_right),
            count(pairs, Judged::is_among_first),
            count(pairs, |one| one.located == Located::WithCauses),
            count(pairs, |one| one.located == Located::InReport),
            left(0.5),
            left(1.0),
        ));
    }
    text
}

/// The pairs of one role: a row each, what they have changed, and what was mistaken for what.
fn section(title: &str, pairs: &[&Judged]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n## {title}\n\n| pair | software | slowdown | arm over baseline, with interval | named first | right | place | not explained | \
         small or unsure parts | sum of the tree |\n|---|---|---|---|---|---|---|--:|--:|--:|\n"
    );
    pairs.iter().for_each(|one| text.push_str(&row(one)));
    text.push_str(
        "\nNot explained is the share of the gap of which nothing was seen, below 0 where causes carry more than it. Small or unsure parts were \
         measured, and each is below a tenth of the gap or no larger than chance: their share, with three standard errors of samples to either side. The sum of \
         the tree is that of its leaves over CPU time per request, of the arm for which it is further from 100 %.\n",
    );
    let changed: Vec<String> = pairs.iter().filter_map(|one| changed(&one.truth)).collect();
    if !changed.is_empty() {
        text.push_str(&format!("\nWhat they have changed:\n\n{}", changed.concat()));
    }
    let kinds: Vec<_> = pairs.iter().filter_map(|one| one.kinds()).collect();
    text.push_str(&format!(
        "\nWhat was there (rows) against what was named first (columns), in pairs, by kinds of causes{}:\n\n{}",
        if kinds.len() < pairs.len() { "; pairs without a kind are left out" } else { "" },
        matrix("was there", &kinds)
    ));
    text.push_str(&format!("\nRecorded: {}.\n", hosts(pairs).join("; ")));
    text
}

fn changed(truth: &Truth) -> Option<String> {
    match &truth.role {
        Role::FirstRun => None,
        Role::Training { changed } => Some(format!("- {}: {changed}\n", truth.name)),
    }
}

/// Each date and host once.
fn hosts(pairs: &[&Judged]) -> Vec<String> {
    let of = |truth: &Truth| format!("{} on {}, {} CPUs", truth.recorded, truth.cpu_model, truth.cpus);
    let mut hosts: Vec<String> = pairs.iter().map(|one| of(&one.truth)).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn row(one: &Judged) -> String {
    let truth = &one.truth;
    let version = if truth.version.is_empty() { String::new() } else { format!(" {}", truth.version) };
    let language = if truth.language.is_empty() { String::new() } else { format!(" ({})", truth.language) };
    let cells = [
        truth.name.clone(),
        format!("[{}{version}]({}){language}", truth.software, truth.source),
        truth.slowdown.clone(),
        ratios(&one.primary),
        one.first.map_or_else(
            || "nothing".to_owned(),
            |(id, share)| {
                format!(
                    "`{}`{}",
                    id.name(),
                    share.map_or_else(String::new, |share| format!(" {}", percent(share)))
                )
            },
        ),
        right(one).to_owned(),
        place(one.located).to_owned(),
        one.left.map_or_else(|| "–".to_owned(), percent),
        small(one),
        one.tree.map_or_else(|| "–".to_owned(), |sum| format!("{:.1} %", 100.0 * sum)),
    ];
    // A bar in a cell would end it.
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "/")).join(" | "))
}

fn ratios(primary: &[Comparison]) -> String {
    let one = |row: &Comparison| {
        let metric = if row.metric == Metric::Rate { "rate" } else { "CPU" };
        let interval = row.ci_low.zip(row.ci_high);
        let interval = interval.map_or_else(String::new, |(low, high)| format!(" [{low:.3}, {high:.3}]"));
        let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.3}"));
        let verdict = match row.verdict {
            Verdict::Slower | Verdict::Faster => "",
            Verdict::Equal => " equal",
            Verdict::Inconclusive => " inconclusive",
            Verdict::Invalid => " invalid",
        };
        format!("{metric} {ratio}{interval}{verdict}")
    };
    let all: Vec<String> = primary.iter().map(one).collect();
    if all.is_empty() { "–".to_owned() } else { all.join("; ") }
}

fn right(one: &Judged) -> &'static str {
    match one.place {
        Some(1) => YES,
        Some(2) => "second",
        Some(3) => "third",
        _ => "no",
    }
}

fn place(located: Located) -> &'static str {
    match located {
        Located::WithCauses => YES,
        Located::InReport => "elsewhere",
        Located::Nowhere => "no",
    }
}

/// Parts that are too small or unsure to be told; of none, nothing is said.
fn small(one: &Judged) -> String {
    let Some((share, [low, high])) = one.small else { return "–".to_owned() };
    let is_none = [share, low, high].iter().all(|share| share.abs() < NONE);
    if is_none { percent(0.0) } else { format!("{} [{}, {}]", percent(share), percent(low), percent(high)) }
}

/// A share in whole percent, without the sign of a zero.
fn percent(share: f64) -> String {
    format!("{:.0} %", (100.0 * share).round() + 0.0)
}

/// What the page `written` says is right and today's rules do not, a sentence each.
pub(super) fn no_longer_right(written: &str, judged: &[Judged]) -> Vec<String> {
    let rows = written.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.filter(|cells| cells.len() > PLACE).collect();
    let mut lost = Vec::new();
    for one in judged {
        let name = &one.truth.name;
        let Some(cells) = rows.iter().find(|cells| cells[NAME] == name.as_str()) else { continue };
        if cells[RIGHT] == YES && !one.is_right() {
            let named = one.first.map_or("nothing", |(id, _)| id.name());
            lost.push(format!("{name}: the right cause was named first, and now {named} is"));
        }
        if cells[PLACE] == YES && one.located != Located::WithCauses {
            lost.push(format!("{name}: the first causes named the place, and no longer do"));
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use model::plan::CauseId;

    use super::*;

    fn one(name: &str, role: Role, first: CauseId, place: Option<usize>, located: Located) -> Judged {
        let truth = Truth {
            name: name.to_owned(),
            software: "server".to_owned(),
            version: "1.2".to_owned(),
            language: "C".to_owned(),
            source: "https://example.org".to_owned(),
            slowdown: "a | b".to_owned(),
            base: String::new(),
            arm: String::new(),
            path: "/".to_owned(),
            flags: Vec::new(),
            right: vec![CauseId::Sleep],
            cause_words: String::new(),
            where_words: String::new(),
            recorded: "2026-01-31".to_owned(),
            cpu_model: "X".to_owned(),
            cpus: 2,
            role,
        };
        Judged {
            truth,
            primary: Vec::new(),
            first: Some((first, Some(0.5))),
            place,
            located,
            left: Some(-0.25),
            small: Some((0.1, [-0.04, 0.24])),
            tree: Some(1.0),
        }
    }

    #[test]
    fn first_run_pairs_are_the_headline_and_a_pair_without_a_verdict_has_a_row() {
        let pairs = [
            one("a", Role::FirstRun, CauseId::Sleep, Some(1), Located::WithCauses),
            one("b", Role::FirstRun, CauseId::Gc, Some(2), Located::InReport),
            one("c", Role::Training { changed: "x".to_owned() }, CauseId::Gc, None, Located::Nowhere),
        ];
        let text = page(&pairs);
        for line in [
            "the right cause is named first in 1 of 2 (50 %), bar 90 %: **missed**; among the first three in 2 of 2 (100 %), bar 97 %: met; and \
             the place with it in 1 of 2 (50 %), bar 85 %: **missed**.",
            "| first-run | 2 | 1 | 2 | 1 | 1 | 25 % | 25 % |",
            "| training | 1 | 0 | 0 | 0 | 0 | 25 % | 25 % |",
            "| b | [server 1.2](https://example.org) (C) | a / b | – | `gc` 50 % | second | elsewhere | -25 % | 10 % [-4 %, 24 %] | 100.0 % |",
            "| waits |  |  | 1 |  |  |  |  |  | 1 |  |  |",
            "- c: x",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let changed = [
            one("a", Role::FirstRun, CauseId::Gc, None, Located::InReport),
            one("b", Role::FirstRun, CauseId::Gc, None, Located::Nowhere),
        ];
        assert_eq!(no_longer_right(&text, &pairs), Vec::<String>::new());
        assert_eq!(no_longer_right(&text, &changed).len(), 2, "{:?}", no_longer_right(&text, &changed));
    }

    #[test]
    fn without_first_run_pairs_there_is_no_figure() {
        assert!(page(&[]).contains("No pair is kept yet"));
    }
}
