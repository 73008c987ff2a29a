//! What a comparison says, in the order in which a reader needs it: verdict, limits, split, causes, what was ruled out,
//! what is left, what to do; then the tables behind it.

use analyse::{
    ArmFindings, Cause, Comparison, DesignFindings, DesignKind, Findings, Gate, Grade, LedgerLine, Metric,
    RestOfGap, Split, Verdict,
};
use model::plan::SentFile;
use model::record::Host;
use model::units::format_ns;

use crate::direction::{DECIMALS, Direction, Times, decimals_apart, figures_of};
use crate::document::{Block, Document};
use crate::resources::{self, Detail};
use crate::screen::deciding;
use crate::words::names::gate_names;
use crate::{tree, waits};

/// What is said of the part of a gap that is left over.
pub(crate) const UNATTRIBUTED: &str = "which no suspect can carry";
/// What is said of parts that were measured and are no cause.
pub(crate) const SMALL_PARTS: &str = "in parts that are each below a tenth of it or no larger than chance";
/// What would be said to one decimal as nothing is not said.
pub(crate) const LEAST_LEFT: f64 = 0.0005;

pub(crate) fn document(findings: &Findings, detail: Detail) -> Document {
    let mut page = Vec::new();
    page.extend(findings.partial.iter().map(|text| Block::Paragraph(format!("PARTIAL RUN: {text}."))));
    page.extend(others(findings).map(|arm| Block::Paragraph(headline(findings, &arm.name))));
    section(&mut page, "What limits each", list([limits(findings), shapes(findings)].concat()));
    section(&mut page, "Why", list(why(findings)));
    section(&mut page, "Ruled out", list(ruled_out(findings)));
    page.extend(unattributed(findings).map(|text| Block::Paragraph(format!("Unattributed: {text}."))));
    page.extend(small_parts(findings).map(|text| Block::Paragraph(format!("Small or unsure: {text}."))));
    page.extend(next(findings));
    section(&mut page, "Verdicts (arm against baseline)", verdict_tables(findings));
    section(
        &mut page,
        &format!("Arms at {} (over all valid rounds)", findings.condition),
        vec![arm_table(findings)],
    );
    section(
        &mut page,
        "CPU time of services beside, a request",
        services_table(findings).into_iter().collect(),
    );
    section(&mut page, &latency_title(findings), latency_table(findings).into_iter().collect());
    section(&mut page, BY_NAME, named_table(findings).into_iter().collect());
    section(&mut page, "What a request costs", ledger(findings));
    section(&mut page, "Resources, most urgent first", use_tables(findings, detail));
    section(&mut page, "Where the CPU time of a request goes", profiles(findings, detail));
    section(&mut page, "What ended the waits of its threads", waits::tables(findings, detail));
    section(&mut page, "Watching", list(watching(findings)));
    section(&mut page, "Gates", list(gates(findings)));
    section(&mut page, "Warnings", list(findings.warnings.clone()));
    section(&mut page, "Failed", list(failures(findings)));
    section(&mut page, "Run", list(run(findings)));
    page
}

/// A heading with what is under it, or nothing when nothing is.
pub(crate) fn section(page: &mut Document, title: &str, blocks: Document) {
    if !blocks.is_empty() {
        page.push(Block::Heading(title.to_owned()));
        page.extend(blocks);
    }
}

pub(crate) fn list(points: Vec<String>) -> Document {
    if points.is_empty() { Vec::new() } else { vec![Block::List(points)] }
}

pub(crate) fn others(findings: &Findings) -> impl Iterator<Item = &ArmFindings> {
    // A second copy of the baseline is an arm that is compared with nothing.
    let compared = |name: &str| findings.comparisons.iter().any(|row| row.arm == name);
    findings.arms.iter().filter(move |arm| arm.name != findings.baseline && compared(&arm.name))
}

/// Each arm against the baseline in one sentence.
pub(crate) fn headlines(findings: &Findings) -> impl Iterator<Item = String> {
    others(findings).map(|arm| headline(findings, &arm.name))
}

/// One arm against the baseline in one sentence.
pub(crate) fn headline(findings: &Findings, arm: &str) -> String {
    let rows = || findings.comparisons.iter().filter(|row| row.primary && row.arm == arm);
    let text = match deciding(findings, arm) {
        Some(row) => {
            let other = rows().find(|other| says_something_else(row, other));
            sentence(row, findings) + &other.map(also).unwrap_or_default()
        }
        None => format!("{arm}: nothing was compared."),
    };
    match findings.arms.iter().find(|row| row.name == arm).and_then(|row| row.error.as_deref()) {
        Some(error) => format!("{arm} gave no verdict: {error}."),
        None => text,
    }
}

fn sentence(row: &Comparison, findings: &Findings) -> String {
    let Comparison { arm, baseline, condition, .. } = row;
    let metric = row.metric.label();
    let basis = basis(row, findings);
    match row.verdict {
        Verdict::Slower | Verdict::Faster => {
            format!(
                "{arm} is {} {} than {baseline} in {metric} at {condition} {basis}.",
                times(row),
                Direction::from_comparison(row).word()
            )
        }
        Verdict::Equal => {
            format!("{arm} equals {baseline} in {metric} at {condition}: {} {basis}.", plain_ratio(row))
        }
        Verdict::Inconclusive => {
            format!(
                "{arm} against {baseline}: inconclusive in {metric} at {condition}, {} {basis}.",
                plain_ratio(row)
            )
        }
        Verdict::Invalid => {
            format!(
                "{arm} against {baseline}: no verdict in {metric} at {condition}: gate {} failed.",
                gate_names(&row.void_by)
            )
        }
    }
}

/// Whether `other` was decided, and is not the same slowdown seen from another side, as the rate is that of CPU per request
/// where both arms keep their CPUs busy.
pub(crate) fn says_something_else(row: &Comparison, other: &Comparison) -> bool {
    let differs = matches!(other.verdict, Verdict::Slower | Verdict::Faster);
    differs && other.metric != row.metric && apart(slowdown(row), slowdown(other))
}

/// The interval of how many times slower the arm is, below 1 where it is faster.
fn slowdown(row: &Comparison) -> Option<(f64, f64)> {
    let (low, high) = (row.ci_low?, row.ci_high?);
    Some(if row.metric == Metric::Rate { (1.0 / high, 1.0 / low) } else { (low, high) })
}

fn apart(one: Option<(f64, f64)>, two: Option<(f64, f64)>) -> bool {
    one.zip(two).is_some_and(|(one, two)| one.1 < two.0 || two.1 < one.0)
}

/// What the first sentence does not say.
fn also(row: &Comparison) -> String {
    format!(" In {} it is {} {}.", row.metric.label(), times(row), Direction::from_comparison(row).word())
}

fn basis(row: &Comparison, findings: &Findings) -> String {
    let floor = row.noise_floor.map(|floor| format!(", noise floor {}", percent(floor))).unwrap_or_default();
    let level = row.level.map(|level| format!(", {:.1} % interval", level * 100.0)).unwrap_or_default();
    format!("({} blocks of {}{level}{floor})", row.blocks, measured(findings))
}

/// What a block is made of: `50.0 ms slices`.
pub(crate) fn measured(findings: &Findings) -> String {
    match &findings.design {
        DesignFindings { kind: DesignKind::Slices, slice_ns, .. } => {
            format!("{} slices", format_ns(*slice_ns as f64))
        }
        _ => format!("{} windows", format_ns(findings.window_ns as f64)),
    }
}

/// How many times faster or slower, with the interval.
fn times(row: &Comparison) -> String {
    let Some(times) = Times::from_comparison(row) else { return String::new() };
    let digits = decimals_apart(DECIMALS, [times.low, times.high]);
    format!("{:.digits$}x [{:.digits$}, {:.digits$}]", times.ratio, times.low, times.high)
}

fn plain_ratio(row: &Comparison) -> String {
    match figures_of(row) {
        [Some(ratio), Some(interval)] => format!("ratio {ratio} {interval}"),
        _ => "no pairs".to_owned(),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn verdict_tables(findings: &Findings) -> Document {
    let several = others(findings).count() > 1;
    let rows = findings.comparisons.iter().map(|row| verdict_row(row, several)).collect::<Vec<_>>();
    if rows.is_empty() {
        return Vec::new();
    }
    vec![Block::table(["metric", "verdict", "ratio", "interval", "blocks", "floor"], rows)]
}

fn verdict_row(row: &Comparison, several: bool) -> [String; 6] {
    let mark = if row.primary { "" } else { " (exploratory)" };
    let name = if several {
        format!("{}: {}{mark}", row.arm, row.metric.label())
    } else {
        format!("{}{mark}", row.metric.label())
    };
    let [ratio, interval] = figures_of(row).map(|figure| figure.unwrap_or_else(|| "-".to_owned()));
    let floor = row.noise_floor.map_or_else(|| "-".to_owned(), percent);
    [name, row.verdict.word().to_owned(), ratio, interval, row.blocks.to_string(), floor]
}

pub(crate) fn arm_table(findings: &Findings) -> Block {
    let rows = findings.arms.iter().map(|arm| {
        let cpu = arm.cpu_ns_per_request;
        let ns = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_ns);
        [
            arm.name.clone(),
            arm.rate_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            ns(cpu.map(|cpu| cpu.total)),
            ns(cpu.map(|cpu| cpu.user)),
            ns(cpu.map(|cpu| cpu.system)),
            arm.busy_cores.map_or_else(|| "-".to_owned(), |cores| format!("{cores:.2}")),
            arm.rss_peak_bytes
                .map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MiB", bytes / 1_048_576.0)),
        ]
    });
    Block::table(["arm", "requests/s", "CPU/request", "user", "system", "cores", "memory"], rows.collect())
}

/// A row for each arm and service.
fn services_table(findings: &Findings) -> Option<Block> {
    let of_arm = |arm: &ArmFindings| {
        let row = |(name, ns): (&String, &f64)| [arm.name.clone(), name.clone(), format_ns(*ns)];
        arm.services.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<[String; 3]> = findings.arms.iter().flat_map(of_arm).collect();
    (!rows.is_empty()).then(|| Block::table(["arm", "service", "CPU/request"], rows))
}

pub(crate) fn latency_title(findings: &Findings) -> String {
    match &findings.latency_condition {
        Some(condition) => format!("Response at {condition}"),
        None => "Response in the closed loop (not compared: each arm set its own rate)".to_owned(),
    }
}

pub(crate) fn latency_table(findings: &Findings) -> Option<Block> {
    let ns = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_ns);
    let rows: Vec<[String; 6]> = findings
        .arms
        .iter()
        .filter(|arm| arm.rounds > 0)
        .map(|arm| {
            let latency = &arm.latency_ns;
            [
                arm.name.clone(),
                ns(latency.p50),
                ns(latency.p90),
                ns(latency.p99),
                ns(latency.p99_9),
                ns(latency.max),
            ]
        })
        .collect();
    (!rows.is_empty()).then(|| Block::table(["arm", "p50", "p90", "p99", "p99.9", "max"], rows))
}

/// The heading of the rows by name.
pub(crate) const BY_NAME: &str = "Requests by name (exploratory)";

/// One row for each arm and name; nothing where requests have none.
pub(crate) fn named_table(findings: &Findings) -> Option<Block> {
    let ns = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format_ns);
    let mut names: Vec<&String> = findings.arms.iter().flat_map(|arm| arm.requests_by_name.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut rows: Vec<[String; 8]> = Vec::new();
    for name in names {
        for arm in &findings.arms {
            let Some(row) = arm.requests_by_name.get(name) else { continue };
            let times = &row.latency_ns;
            rows.push([
                name.clone(),
                arm.name.clone(),
                row.requests.to_string(),
                row.errors.to_string(),
                ns(times.p50),
                ns(times.p90),
                ns(times.p99),
                ns(times.p99_9),
            ]);
        }
    }
    let header = ["request", "arm", "requests", "errors", "p50", "p90", "p99", "p99.9"];
    (!rows.is_empty()).then(|| Block::table(header, rows))
}

pub(crate) fn limits(findings: &Findings) -> Vec<String> {
    findings.arms.iter().filter_map(|arm| Some(format!("{}: {}", arm.name, arm.limiter.as_ref()?))).collect()
}

/// How responses are spread, of arms where they gather in more than one place: of the others percentiles tell all; and
/// when an arm answers nobody.
pub(crate) fn shapes(findings: &Findings) -> Vec<String> {
    let of_arm = |arm: &ArmFindings| {
        let several = arm.response_shapes.iter().filter(|shape| shape.peaks.len() > 1);
        let texts = several.map(|shape| &shape.text).chain(arm.stalls.iter().map(|stalls| &stalls.text));
        texts.map(|text| format!("{}: {text}", arm.name)).collect::<Vec<_>>()
    };
    findings.arms.iter().flat_map(of_arm).collect()
}

pub(crate) fn why(findings: &Findings) -> Vec<String> {
    let mut points: Vec<String> =
        findings.splits.iter().filter(|split| explained(findings, &split.arm)).map(split_text).collect();
    points.extend(findings.causes.iter().filter(|cause| cause.grade != Grade::RuledOut).map(cause_text));
    points
}

/// The part of the gap that is left over.
pub(crate) fn unattributed(findings: &Findings) -> Option<String> {
    let left = findings.unattributed_share.filter(|share| share.abs() >= LEAST_LEFT)?;
    let share = percent(left.abs());
    let whose = findings.unattributed_arm.as_ref().map_or_else(String::new, |arm| format!(" of {arm}"));
    let opposed = if left < 0.0 { ", in the other direction" } else { "" };
    Some(format!("{share} of the gap{whose}{opposed}, {UNATTRIBUTED}"))
}

/// What of each gap is in parts that are too small or unsure to be told.
pub(crate) fn small_parts(findings: &Findings) -> impl Iterator<Item = String> {
    findings.rests.iter().filter(|rest| is_told(rest)).map(|rest| {
        let [low, high] = rest.small_between;
        format!(
            "{} of the gap of {} ({} to {}), {SMALL_PARTS}",
            percent(rest.small_share),
            rest.arm,
            percent(low),
            percent(high)
        )
    })
}

/// Whether the small parts of a gap are more than nothing.
pub(crate) fn is_told(rest: &RestOfGap) -> bool {
    rest.small_share.abs() >= LEAST_LEFT
}

fn explained(findings: &Findings, arm: &str) -> bool {
    findings.causes.iter().any(|cause| cause.arm == arm)
}

pub(crate) fn split_text(split: &Split) -> String {
    format!(
        "{}: rate x{:.3} = busy cores x{:.3} / CPU per request x{:.3} (residual {:+.1} %); {} CPU a request: {} user, {} system",
        split.arm,
        split.rate_ratio,
        split.busy_cores_ratio,
        split.cpu_per_request_ratio,
        split.residual_ln.exp_m1() * 100.0,
        signed(split.total_ns),
        signed(split.user_ns),
        signed(split.system_ns),
    )
}

pub(crate) fn signed(ns: f64) -> String {
    if ns >= 0.0 { format!("+{}", format_ns(ns)) } else { format_ns(ns) }
}

pub(crate) fn cause_text(cause: &Cause) -> String {
    format!("{}: {}", cause.arm, cause.text)
}

/// One table for each arm that differs: what a request takes of everything, and what the change can carry.
pub(crate) fn ledger(findings: &Findings) -> Document {
    let several = others(findings).count() > 1;
    others(findings)
        .flat_map(|arm| {
            let lines = findings.ledger.iter().filter(|line| line.arm == arm.name);
            let rows: Vec<[String; 5]> = lines.map(ledger_row).collect();
            if rows.is_empty() {
                return Vec::new();
            }
            let name = several.then(|| of_arm(&arm.name));
            let header = ["per request", "baseline", "arm", "change", "can carry"];
            name.into_iter().chain([Block::table(header, rows)]).collect::<Vec<_>>()
        })
        .collect()
}

fn ledger_row(line: &LedgerLine) -> [String; 5] {
    let figure = |value: f64| match line.unit.as_str() {
        "ns" => format_ns(value),
        "bytes" => format!("{value:.0} B"),
        _ => format!("{value:.3}"),
    };
    let sign = if line.change > 0.0 { "+" } else { "" };
    let carries = line.carries_ns.map_or_else(|| "-".to_owned(), signed);
    [
        line.id.clone(),
        figure(line.baseline),
        figure(line.value),
        format!("{sign}{}", figure(line.change)),
        carries,
    ]
}

/// What watching closely cost, and what could not be watched: the latter once, however many arms it concerns.
pub(crate) fn watching(findings: &Findings) -> Vec<String> {
    let mut points: Vec<String> = findings.passes.iter().map(|pass| pass.text.clone()).collect();
    for missing in findings.passes.iter().flat_map(|pass| &pass.missing) {
        if !points.contains(missing) {
            points.push(missing.clone());
        }
    }
    points
}

fn ruled_out(findings: &Findings) -> Vec<String> {
    findings.causes.iter().filter(|cause| cause.grade == Grade::RuledOut).map(cause_text).collect()
}

/// The tree of CPU time, and below it the functions in which it is.
pub(crate) fn profiles(findings: &Findings, detail: Detail) -> Document {
    [tree::tables(findings, detail), functions(findings, detail)].concat()
}

/// The functions of every arm beside the baseline's, by their own time.
pub(crate) fn functions(findings: &Findings, detail: Detail) -> Document {
    let page = findings.profiles.iter().map(|profile| {
        let samples = format!("{} and {} samples", profile.baseline_samples, profile.arm_samples);
        // What differs from round to round comes on top.
        let title =
            format!("{} against {} ({samples}; ± is of sampling alone)", profile.arm, profile.baseline);
        (Block::Arm { arm: profile.arm.clone(), title }, resources::functions(profile, detail))
    });
    page.flat_map(|(title, tables)| std::iter::once(title).chain(tables)).collect()
}

fn of_arm(name: &str) -> Block {
    Block::Arm { arm: name.to_owned(), title: name.to_owned() }
}

pub(crate) fn use_tables(findings: &Findings, detail: Detail) -> Document {
    let tables = findings.resources.iter().map(|arm| (&arm.arm, resources::use_table(&arm.rows, detail)));
    tables.flat_map(|(arm, table)| std::iter::once(of_arm(arm)).chain(table)).collect()
}

fn gates(findings: &Findings) -> Vec<String> {
    findings.gates.iter().map(gate_text).collect()
}

pub(crate) fn gate_text(gate: &Gate) -> String {
    let word = match (gate.ok, gate.voids.is_empty()) {
        (true, _) => "ok",
        (false, true) => "NOTE",
        (false, false) => "FAILED",
    };
    let voids: Vec<&str> = gate.voids.iter().map(|metric: &Metric| metric.label()).collect();
    let voids = match voids.len() {
        0 => String::new(),
        n if n == Metric::ALL.len() => " Voids every metric.".to_owned(),
        _ => format!(" Voids {}.", voids.join(", ")),
    };
    format!("{word} {}: {}.{voids}", gate.id, gate.text.trim_end_matches('.'))
}

pub(crate) fn failures(findings: &Findings) -> Vec<String> {
    let mut points = Vec::new();
    for arm in &findings.arms {
        if let Some(error) = &arm.error {
            points.push(format!("{}: {error}", arm.name));
            points.extend(arm.log.iter().map(|line| format!("  log: {line}")));
        }
    }
    points
}

pub(crate) fn run(findings: &Findings) -> Vec<String> {
    let mut lines = vec![
        findings.workload.clone(),
        format!("run {}, seed {}", findings.run_id, findings.seed),
        format!("host: {}", host(&findings.host)),
    ];
    if !findings.files.is_empty() {
        let files: Vec<String> = findings.files.iter().map(SentFile::describe).collect();
        lines.push(format!("what was sent is from {}", files.join(", ")));
    }
    let sources = findings.arms.iter().filter_map(|arm| Some((arm, source(arm)?)));
    lines.extend(sources.map(|(arm, source)| format!("{} is {source}", arm.name)));
    lines.push(format!("repeat with: {}", shell_words(&findings.command)));
    lines
}

/// The commit of an arm from git, the image of a container or the compose file, and what it was asked for as.
pub(crate) fn source(arm: &ArmFindings) -> Option<String> {
    if let Some(compose) = &arm.compose {
        return Some(format!("{}: file {}", compose.asked, compose.text));
    }
    if let Some(image) = &arm.image {
        let digest = image.digest.as_ref().map(|digest| format!(", {digest}")).unwrap_or_default();
        return Some(format!("{}: image {}{digest}", image.asked, image.text));
    }
    let revision = arm.revision.as_ref()?;
    Some(match revision.asked.as_str() {
        "." => format!("the work tree: {}", revision.text),
        name => format!("{name}: {}", revision.text),
    })
}

/// What to run next: the reason, and below it the command, where there is one.
pub(crate) fn next(findings: &Findings) -> Document {
    let Some(next) = &findings.next else { return Vec::new() };
    match next.split_once('\n') {
        Some((reason, command)) => {
            vec![Block::Paragraph(format!("Next: {reason}:")), Block::Command(command.to_owned())]
        }
        None => vec![Block::Paragraph(format!("Next: {next}."))],
    }
}

/// A machine and its kernel in a few words.
pub(crate) fn host(host: &Host) -> String {
    let machine = host.machine();
    if host.is_known() { format!("{machine}, Linux {}", host.kernel) } else { machine }
}

/// A command as it can be pasted into a shell.
pub(crate) fn shell_words(words: &[String]) -> String {
    let quoted = shlex::try_join(words.iter().map(String::as_str));
    // Only a word with a zero byte cannot be quoted, and no command line has one.
    quoted.unwrap_or_else(|_| words.join(" "))
}
