//! What a case says: what each comparison answers, what was repeated, published figures beside ours, how it was run, and then all figures.

use analyse::{CaseFindings, CaseRun, ClaimFindings, FigureFindings, Findings, PublishedProfile};
use model::units::format_ns;

use crate::compare;
use crate::document::{Block, Document};
use crate::resources::Detail;
use crate::screen;
use crate::style::Style;

/// Characters of a run's name that are its date: `20260102-030405-9f3c`.
const DATE_CHARS: usize = 8;
/// A comparison with more arms than this, beside the baseline, has no profiles on the page: nobody would read them.
const MOST_PROFILES: usize = 4;

pub(crate) fn document(findings: &CaseFindings) -> Document {
    let case = &findings.case;
    let mut page = vec![
        Block::Paragraph(format!("Question: {}", case.question)),
        Block::Paragraph(format!(
            "Published in {} on {}, with {}. Left open there: {}",
            case.source, case.published.machine, case.published.command, case.open
        )),
    ];
    page.extend(answers(findings, Style::Plain));
    section(&mut page, "What was repeated", list(findings.claims.iter().map(claim)));
    section(&mut page, "Published beside ours", figures(findings));
    section(&mut page, "Left out, or let through", list(findings.left_out.iter().cloned()));
    section(&mut page, "How it was run", list(how(findings).into_iter()));
    // Tables, which are long.
    for run in &findings.runs {
        section(&mut page, &format!("All of {}", run.id), run_blocks(run));
    }
    for profile in &findings.profiles {
        section(&mut page, &profile_title(profile), profile_blocks(profile));
    }
    page
}

/// What is read first: the question, what each comparison answers, and what of the publication it repeats.
pub(crate) fn first(findings: &CaseFindings, style: Style) -> Document {
    let mut page = vec![Block::Paragraph(format!("Question: {}", findings.case.question))];
    page.extend(answers(findings, style));
    let claim = |claim: &ClaimFindings| format!("{}: {}", claim.reproduced.word(), claim.text);
    section(&mut page, "Published, and here", list(findings.claims.iter().map(claim)));
    page.extend(list(findings.left_out.iter().map(|what| format!("left out: {what}"))));
    page
}

/// What each comparison answers: its verdicts, and why.
fn answers(findings: &CaseFindings, style: Style) -> Document {
    let mut page = Vec::new();
    for run in &findings.runs {
        let lines = screen::answer(&run.findings, style);
        section(&mut page, &format!("{}: {}", run.id, run.question), vec![Block::Screen(lines)]);
    }
    page
}

fn section(page: &mut Document, title: &str, blocks: Document) {
    if !blocks.is_empty() {
        page.push(Block::Heading(title.to_owned()));
        page.extend(blocks);
    }
}

fn list(points: impl Iterator<Item = String>) -> Document {
    let points: Vec<String> = points.collect();
    if points.is_empty() { Vec::new() } else { vec![Block::List(points)] }
}

fn claim(claim: &ClaimFindings) -> String {
    let ClaimFindings { text, published, ours, why, reproduced, .. } = claim;
    format!(
        "{}: {text}. Published: {published}. Here: {ours}. Rule: {why}.",
        reproduced.word().to_uppercase()
    )
}

fn figures(findings: &CaseFindings) -> Document {
    if findings.figures.is_empty() {
        return Vec::new();
    }
    let header = ["system", "published/s", "here/s", "CPU/request", "p50", "p99"];
    let mut blocks = vec![Block::table(header, findings.figures.iter().map(figure).collect())];
    if findings.figures.iter().any(|row| row.ours.is_some() && !row.rate_valid) {
        blocks.push(Block::Paragraph(
            "A rate in brackets is void: the generator was the limit, or a gate failed. CPU per request stands."
                .to_owned(),
        ));
    }
    blocks.extend(list(findings.figures.iter().map(figure_note)));
    blocks
}

fn figure(row: &FigureFindings) -> [String; 6] {
    let dash = || "-".to_owned();
    let ours = row.ours.as_ref();
    let rate = ours
        .and_then(|ours| ours.rate_per_s)
        .map_or_else(dash, |rate| if row.rate_valid { format!("{rate:.0}") } else { format!("({rate:.0})") });
    let cpu = ours.and_then(|ours| ours.cpu_ns_per_request).map_or_else(dash, |cpu| format_ns(cpu.total));
    let latency = |pick: fn(&analyse::Latency) -> Option<f64>| {
        ours.and_then(|ours| pick(&ours.latency_ns)).map_or_else(dash, format_ns)
    };
    [
        row.figure.system.clone(),
        row.figure.rate_per_s.map_or_else(dash, |rate| format!("{rate:.0}")),
        rate,
        cpu,
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
    ]
}

/// What stands for a published row here, and what else was published of it.
fn figure_note(row: &FigureFindings) -> String {
    let figure = &row.figure;
    let here = match (&figure.arm, &row.comparison) {
        (Some(arm), Some(comparison)) => format!("here {arm} in '{comparison}'"),
        (Some(arm), None) => format!("here {arm}, which gave no figures"),
        (None, _) => "not measured here".to_owned(),
    };
    let mean = figure.mean.map(|mean| format!("published mean {}", format_ns(mean.as_ns() as f64)));
    let latency = figure.latency.as_ref().map(|words| format!("published {words}"));
    let parts: Vec<String> =
        std::iter::once(here).chain(mean).chain(latency).chain(figure.note.clone()).collect();
    format!("{}: {}", figure.system, parts.join("; "))
}

fn run_blocks(run: &CaseRun) -> Document {
    let findings = &run.findings;
    let mut blocks: Document =
        findings.partial.iter().map(|text| Block::Paragraph(format!("PARTIAL RUN: {text}."))).collect();
    blocks.extend(compare::headlines(findings).map(Block::Paragraph));
    blocks.push(compare::arm_table(findings));
    blocks.push(Block::Paragraph(format!("{}:", compare::latency_title(findings))));
    blocks.extend(compare::latency_table(findings));
    let difference = run.allow_difference.iter().map(|reason| format!("answers may differ: {reason}"));
    let failed = findings.gates.iter().filter(|gate| !gate.ok).map(compare::gate_text);
    let points = compare::limits(findings)
        .into_iter()
        .map(|limit| format!("limit of {limit}"))
        .chain(compare::why(findings))
        .chain(compare::unattributed(findings).map(|text| format!("unattributed: {text}")))
        .chain(compare::small_parts(findings).map(|text| format!("small or unsure: {text}")))
        .chain(failed)
        .chain(findings.warnings.iter().cloned())
        .chain(compare::failures(findings))
        .chain(difference);
    blocks.extend(list(points));
    match findings.profiles.len() {
        ..=MOST_PROFILES => blocks.extend(compare::profiles(findings, Detail::Short)),
        many => blocks.push(Block::Paragraph(format!(
            "Where the CPU time of a request goes is not listed here for {many} arms: 'whyslow analyse --details' prints it."
        ))),
    }
    blocks
}

fn profile_title(profile: &PublishedProfile) -> String {
    match (profile.requests, profile.instructions_per_request) {
        (Some(requests), Some(total)) => format!(
            "Profile of {}: {total:.0} instructions a request in user mode (callgrind, {requests} requests)",
            profile.arm
        ),
        _ => format!("Profile of {}: not counted here (--callgrind does)", profile.arm),
    }
}

fn profile_blocks(profile: &PublishedProfile) -> Document {
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1} %"));
    let count = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"));
    let rows = profile.rows.iter().map(|row| {
        [
            row.what.clone(),
            format!("{:.1} %", row.published_percent),
            share(row.percent),
            count(row.instructions),
        ]
    });
    let mut blocks =
        vec![Block::table(["part", "published", "here", "instructions/request"], rows.collect())];
    let others = profile.others.iter().map(|function| {
        let part = profile.instructions_per_request.map(|total| function.instructions / total * 100.0);
        format!(
            "in no published line: {} {} ({:.0} instructions)",
            share(part),
            function.name,
            function.instructions
        )
    });
    blocks.extend(list(others));
    blocks
}

fn how(findings: &CaseFindings) -> Vec<String> {
    let mut points =
        vec![format!("size: {}; repeat with: {}", findings.size, compare::shell_words(&findings.command))];
    if let Some(run) = findings.runs.first() {
        points.push(format!("host: {}; {}", compare::host(&run.findings.host), date(&run.findings)));
    }
    for run in &findings.runs {
        let requests: u64 = run.findings.arms.iter().map(|arm| arm.requests).sum();
        let rounds: u32 = run.findings.arms.iter().map(|arm| arm.rounds).sum();
        points.push(format!(
            "{}: {}; {rounds} valid rounds in {:.0} s with {}, {requests} requests at {}; run {}, seed {}",
            run.id,
            run.findings.workload,
            run.findings.took_ns as f64 / 1e9,
            compare::measured(&run.findings),
            run.findings.condition,
            run.findings.run_id,
            run.findings.seed
        ));
    }
    points.extend(changes(&findings.runs));
    points
}

/// What differs from the published setting: each sentence once, with the comparisons that it is of.
fn changes(runs: &[CaseRun]) -> Vec<String> {
    let mut by_change: Vec<(&str, Vec<&str>)> = Vec::new();
    for run in runs {
        for change in &run.changes {
            match by_change.iter_mut().find(|(text, _)| text == change) {
                Some((_, ids)) => ids.push(&run.id),
                None => by_change.push((change, vec![&run.id])),
            }
        }
    }
    by_change.into_iter().map(|(text, ids)| format!("{}: {text}", ids.join(", "))).collect()
}

/// The day of a run, from its name.
fn date(findings: &Findings) -> String {
    let id = &findings.run_id;
    match id.get(..DATE_CHARS).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(digits) => format!("{}-{}-{} (UTC)", &digits[..4], &digits[4..6], &digits[6..]),
        None => id.clone(),
    }
}
