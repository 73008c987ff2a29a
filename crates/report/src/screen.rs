//! The first screen of a comparison: verdict, why, limits, trust, next, in 20 lines for two arms and 5 more for each
//! further one.

mod layout;
mod verdict;
mod why;

use std::collections::HashSet;

use analyse::{BiasSource, Comparison, DesignKind, Findings, Gate, GateSays, Metric, Stalled};
use model::units::format_ns;

use crate::compare::{others, shell_words};
use crate::direction::Direction;
use crate::style::Style;
use crate::words::names::remedy;
use layout::{LABEL, SCREEN_COLUMNS, below, below_width, blocks, cut, labelled, short, wrapped};

pub(crate) use layout::{SCREEN_COLUMNS as COLUMNS, and, printable, short_function};
pub(crate) use verdict::deciding;

/// Failed gates that are said; the others are among the details.
const GATES: usize = 2;
/// Lines of what to do next, where that is no command.
const LINES_OF_NEXT: usize = 3;
/// Lines of limits.
const LIMITS: usize = 2;
/// What is smaller than this would be written as 0.0 %.
const LEAST_BIAS: f64 = 0.0005;
/// Folder of a run whose command names no other.
const RUNS: &str = "whyslow-runs";

/// The first screen.
pub(crate) fn text(findings: &Findings, style: Style) -> String {
    join(&parts(findings, style, more(findings)))
}

/// The first screen for who reads it elsewhere: without where the rest is on this machine.
pub(crate) fn elsewhere(findings: &Findings) -> String {
    join(&parts(findings, Style::Plain, Vec::new()))
}

/// Why the arms differ.
pub(crate) fn why(findings: &Findings) -> Vec<String> {
    why::lines(findings)
}

/// Parts with an empty line between them.
fn join(parts: &[Vec<String>]) -> String {
    let parts = parts.iter().filter(|lines| !lines.is_empty());
    parts.map(|lines| lines.join("\n") + "\n").collect::<Vec<_>>().join("\n")
}

fn parts(findings: &Findings, style: Style, more: Vec<String>) -> [Vec<String>; 3] {
    let partial = findings.partial.iter().map(|why| cut(&format!("PARTIAL RUN: {why}"), SCREEN_COLUMNS));
    let mut verdicts: Vec<String> = partial.collect();
    verdicts.extend(verdict::lines(findings, style));
    verdicts.extend(verdict::rate_and_latency(findings));
    verdicts.extend(verdict::background(findings));
    let rest = [limits(findings), trust(findings), next(findings), more].concat();
    [verdicts, why::lines(findings), rest]
}

/// The verdicts on all arms, and why: what a comparison answers.
pub(crate) fn answer(findings: &Findings, style: Style) -> Vec<String> {
    [verdict::lines(findings, style), why::lines(findings)].concat()
}

/// What limits the arms, those with the same limit together.
fn limits(findings: &Findings) -> Vec<String> {
    let mut limits: Vec<(&str, Vec<String>)> = Vec::new();
    for (arm, limit) in findings.arms.iter().filter_map(|arm| Some((arm, arm.limiter.as_deref()?))) {
        match limits.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, arms)) => arms.push(short(&arm.name)),
            None => limits.push((limit, vec![short(&arm.name)])),
        }
    }
    let entries: Vec<String> = limits
        .iter()
        .map(|(limit, arms)| match arms.len() {
            n if n > 1 && n == findings.arms.len() => format!("each: {limit}"),
            1 => format!("{}: {limit}", and(arms)),
            _ => format!("{}, each: {limit}", and(arms)),
        })
        .collect();
    // Of two arms each has a line; of more, as many share one as have room in it.
    let lines = if entries.len() > LIMITS { packed(&entries) } else { entries };
    let lines = at_most(LIMITS, lines, |_| "and others".to_owned());
    under("Limits", &lines)
}

/// Words in as few lines as hold them.
fn packed(entries: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for entry in entries {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + entry.chars().count() <= below_width() => {
                *line = format!("{line}; {entry}");
            }
            _ => lines.push(entry.clone()),
        }
    }
    lines
}

/// `lines`, or as many of them as leave room for one that says how many are left out.
fn at_most(most: usize, mut lines: Vec<String>, left_out: impl Fn(usize) -> String) -> Vec<String> {
    if lines.len() > most {
        let left = lines.split_off(most - 1).len();
        lines.push(left_out(left));
    }
    lines
}

/// Lines of which the first has the label.
fn under(label: &str, lines: &[String]) -> Vec<String> {
    let line =
        |(index, words): (usize, &String)| if index == 0 { labelled(label, words) } else { below(words) };
    lines.iter().enumerate().map(line).collect()
}

/// What the verdicts rest on, and which gates failed.
fn trust(findings: &Findings) -> Vec<String> {
    let done = findings.comparisons.iter().map(|row| row.blocks).max().unwrap_or(0);
    let took = if findings.took_ns > 0 {
        format!(" in {}", seconds(findings.took_ns as f64))
    } else {
        String::new()
    };
    let mut facts = vec![format!("{}{took}", blocks(u64::from(done)))];
    let deciding = others(findings).filter_map(|arm| verdict::deciding(findings, &arm.name));
    let decided =
        deciding.filter(|row| Direction::from_comparison(row) != Direction::Void && row.ci_low.is_some());
    // The least exact of them.
    facts.extend(decided.max_by(|a, b| half_width(a).total_cmp(&half_width(b))).map(precision));
    let alone = alone(findings);
    let failed = failed(findings);
    let warnings = counted(findings.warnings.len(), "warning");
    if failed.is_empty() && !findings.gates.is_empty() && done > 0 {
        let held = match counted(notes(findings), "note") {
            None => "everything checked held".to_owned(),
            Some(notes) => format!("no check voids a figure, {notes}"),
        };
        let held = warnings.into_iter().chain([held]).collect::<Vec<String>>().join("; ");
        let facts = facts.join(", ");
        let line = format!("{facts}; {held}");
        let mut lines = if line.chars().count() <= below_width() { vec![line] } else { vec![facts, held] };
        lines.extend(alone);
        return under("Trust", &lines);
    }
    facts.extend(warnings);
    let mut facts = vec![facts.join(", ")];
    facts.extend(alone);
    let gates: Vec<String> =
        failed.iter().map(|gate| gate_words(gate, is_in_a_verdict_line(findings, gate))).collect();
    // What is said of a partial run takes the place of one.
    let most = if findings.partial.is_some() { GATES - 1 } else { GATES };
    let gates = at_most(most, gates, |left| format!("{left} more checks failed"));
    under("Trust", &[facts, gates].concat())
}

/// That arms ran one at a time, and why.
fn alone(findings: &Findings) -> Option<String> {
    let why = match &findings.design.why_alone {
        Some(why) => format!(", because {why}"),
        None => ", as asked".to_owned(),
    };
    (findings.design.kind == DesignKind::Alone && findings.design.blocks > 0)
        .then(|| format!("arms ran one at a time{why}"))
}

/// Whether a verdict line says what to do about a gate.
fn is_in_a_verdict_line(findings: &Findings, gate: &Gate) -> bool {
    let rows = others(findings).filter_map(|arm| verdict::deciding(findings, &arm.name));
    rows.filter(|row| Direction::from_comparison(row) == Direction::Void)
        .any(|row| row.void_by.first() == Some(&gate.id))
}

/// `2 warnings`, where there are any.
fn counted(number: usize, what: &str) -> Option<String> {
    match number {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{number} {what}s")),
    }
}

/// Gates that failed and void something, each once.
fn failed(findings: &Findings) -> Vec<&Gate> {
    let mut failed: Vec<&Gate> = Vec::new();
    for gate in findings.gates.iter().filter(|gate| !gate.ok && !gate.voids.is_empty()) {
        if !failed.iter().any(|other| other.id == gate.id) {
            failed.push(gate);
        }
    }
    failed
}

/// Number of checks that failed, void nothing and are worth a look: what they can have moved is in the intervals, or is not compared.
fn notes(findings: &Findings) -> usize {
    let voids_nothing = |gate: &&Gate| !gate.ok && gate.voids.is_empty() && findings.is_notable(gate);
    findings.gates.iter().filter(voids_nothing).map(|gate| gate.id).collect::<HashSet<_>>().len()
}

/// What a gate saw and what to do, in the words of the gate where they fit; what it saw where a verdict says the rest.
fn gate_words(gate: &Gate, in_verdict: bool) -> String {
    let whole = format!("{}: {}", gate.id, gate.text.trim_end_matches('.'));
    if in_verdict {
        let seen = whole.split(';').next().unwrap_or(&whole);
        return seen.to_owned();
    }
    if whole.chars().count() <= below_width() {
        return whole;
    }
    let arm = gate.arm.as_ref().map_or_else(String::new, |arm| format!(" of {}", short(arm)));
    let voids = voids(gate);
    let full =
        matches!(gate.says, Some(GateSays::Stalled { how: Stalled::Starved { refused: 1.., .. }, .. }));
    let remedy = if full { "its listen queue was full: raise listen()'s backlog" } else { remedy(gate.id) };
    // What is left out where there is no room is what was found, never what to do.
    let rows = [
        format!("check {}{arm} {voids}: {remedy}", gate.id),
        format!("check {}{arm}: {remedy}", gate.id),
        format!("{}: {remedy}", gate.id),
    ];
    let fits = rows.iter().find(|row| row.chars().count() <= below_width());
    fits.unwrap_or(&rows[2]).clone()
}

/// What a gate that failed voids, percentiles together.
fn voids(gate: &Gate) -> String {
    let latency = Metric::ALL.iter().filter(|metric| metric.is_latency());
    let all_latency = latency.clone().all(|metric| gate.voids.contains(metric));
    let apart = gate.voids.iter().filter(|metric| !(all_latency && metric.is_latency()));
    let mut names: Vec<String> = apart.map(|metric| metric.label().to_owned()).collect();
    names.extend(all_latency.then(|| "latency".to_owned()));
    match gate.voids.len() {
        all if all == Metric::ALL.len() => "voids every metric".to_owned(),
        _ => format!("voids {}", and(&names)),
    }
}

/// Half of an interval as a share of its ratio.
fn half_width(row: &Comparison) -> f64 {
    row.half_width().unwrap_or(0.0)
}

/// How much narrower half of the interval would be without these disturbances.
fn half_width_of(row: &Comparison, sources: &[&BiasSource]) -> f64 {
    let sum = |of: fn(&BiasSource) -> f64| sources.iter().map(|source| of(source)).sum::<f64>();
    let (low, high) = (sum(|source| source.low).exp(), sum(|source| source.high).exp());
    let without = Comparison {
        ci_low: row.ci_low.map(|end| end * low),
        ci_high: row.ci_high.map(|end| end / high),
        ..row.clone()
    };
    half_width(row) - half_width(&without).max(0.0)
}

/// How exact the least exact verdict is, and how much of that is due to others on the CPUs.
fn precision(row: &Comparison) -> String {
    let moved = |source: &BiasSource| source.low.max(source.high);
    let of: Vec<&BiasSource> = row.bias.of.iter().filter(|source| moved(source) >= LEAST_BIAS).collect();
    let bias = half_width_of(row, &of) * 100.0;
    match (of.as_slice(), row.noise_floor) {
        ([], Some(floor)) => format!("noise floor {:.1} %", floor * 100.0),
        ([], None) => format!("interval ±{:.1} %", half_width(row) * 100.0),
        (_, _) => {
            let who = if let [one] = of.as_slice() { &one.what } else { "several disturbances" };
            format!("interval ±{:.1} %, of which ±{bias:.1} % for {who}", half_width(row) * 100.0)
        }
    }
}

/// A time for people who wait for it: whole seconds, then minutes.
fn seconds(ns: f64) -> String {
    match ns / 1e9 {
        s if s >= 119.5 => format!("{:.0} min", s / 60.0),
        s if s >= 9.95 => format!("{s:.0} s"),
        _ => format_ns(ns),
    }
}

/// One command and why, where there is one.
fn next(findings: &Findings) -> Vec<String> {
    let Some(next) = &findings.next else { return Vec::new() };
    let Some((reason, command)) = next.split_once('\n') else {
        let lines = wrapped(&format!("{:LABEL$}", "Next"), next, LABEL);
        return lines.into_iter().take(LINES_OF_NEXT).collect();
    };
    let added = added(findings, command);
    let reason = if added.iter().any(|word| word == "--confirm") {
        "proves the cause by taking it away from both, where that can be done from outside".to_owned()
    } else {
        in_a_line(reason)
    };
    let whole = printable(command);
    let command = if whole.chars().count() <= below_width() {
        whole
    } else {
        let program: Vec<&str> = findings.command.iter().take(2).map(String::as_str).collect();
        format!("{} … {}   (whole in the details)", program.join(" "), shell_words(&added))
    };
    under("Next", &[command, reason])
}

/// Words of a command that the run's own does not have, each value with its flag.
fn added(findings: &Findings, command: &str) -> Vec<String> {
    let words = shlex::split(command).unwrap_or_default();
    let is_new = |index: usize| words.get(index).is_some_and(|word| !findings.command.contains(word));
    let is_flag = |index: usize| words.get(index).is_some_and(|word| word.starts_with("--"));
    let has_new_value = |index: usize| is_flag(index) && is_new(index + 1) && !is_flag(index + 1);
    let kept = (0..words.len()).filter(|index| is_new(*index) || has_new_value(*index));
    kept.map(|index| words[index].clone()).collect()
}

/// A reason without what stands in brackets where it is too long for a line.
fn in_a_line(reason: &str) -> String {
    let short = reason.split(" (").next().unwrap_or(reason);
    if reason.chars().count() <= below_width() { reason.to_owned() } else { short.to_owned() }
}

/// Where the rest is.
fn more(findings: &Findings) -> Vec<String> {
    let page = format!("whyslow report {}   the page", folder(findings));
    let details = format!("whyslow analyse {} --details", folder(findings));
    under("More", &[page, details])
}

/// The folder of the run: where its command put it.
fn folder(findings: &Findings) -> String {
    let mut words = findings.command.iter().take_while(|word| *word != "--");
    let mut named = None;
    while let Some(word) = words.next() {
        match word.strip_prefix("--out") {
            Some("") => named = words.next().cloned(),
            Some(rest) => named = rest.strip_prefix('=').map(str::to_owned).or(named),
            None => {}
        }
    }
    let folder = named.unwrap_or_else(|| format!("{RUNS}/{}", findings.run_id));
    printable(&shell_words(&[folder]))
}
