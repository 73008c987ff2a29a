//! What the HTML page says: ten parts, in the order in which a reader asks.

use std::collections::BTreeSet;

use analyse::{
    ArmFindings, Cause, Comparison, Detail, Findings, Gate, Grade, LatencyCurve, Metric, RestOfGap,
    RoundDetail, Split, SplitIntervals,
};
use model::units::format_ns;

use crate::compare::{self, list};
use crate::direction::figures_of;
use crate::document::{Block, Document};
use crate::html::PageRun;
use crate::resources::Detail as Length;
use crate::{tree, waits};

/// A part of the page. Its tables say all that its chart shows.
pub(crate) struct Part {
    /// Its place in the address.
    pub(crate) id: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// One sentence on how to read it.
    pub(crate) about: &'static str,
    /// What is said instead where a run has nothing for it.
    pub(crate) without: &'static str,
    /// What it says for one choice of the baseline.
    pub(crate) of: fn(&Findings, &PageRun) -> Document,
    /// Whether that depends on the baseline.
    pub(crate) turns: bool,
}

/// The parts in their order.
pub(crate) const PARTS: [Part; 10] = [
    Part {
        id: "verdict",
        title: "Verdict",
        about: "Each mark is the ratio of an arm to the baseline with its interval: 1x is the same, and in CPU per \
                request a ratio of 0.5, half the cost, is 2x faster. Inside the grey band a difference is too small \
                to matter; the dotted lines are the noise floor, under which this run shows nothing.",
        without: "Nothing was compared.",
        of: verdict,
        turns: true,
    },
    Part {
        id: "limits",
        title: "What limits each arm, and whether to believe it",
        about: "A gate that fails voids the figures it names: no winner is named for them.",
        without: "No gate was judged.",
        of: limits,
        turns: true,
    },
    Part {
        id: "waterfall",
        title: "Where the time goes",
        about: "CPU time of a request, arm against baseline: left of the line is what the arm saves, right of it what it \
                pays. Each box is divided into those below it, and no time is in two places; what was not sampled is \
                hatched. The table below has the same boxes as rows. Waiting stands apart: it takes no CPU time.",
        without: "This run has no split: it had no two arms with figures, or was made with --no-why.",
        of: waterfall,
        turns: true,
    },
    Part {
        id: "ledger",
        title: "Causes, weighed",
        about: "Why each part of the difference is there, and how sure that is. 'Accounts for' is exact; 'bounded by' is \
                the most that it can be; 'consistent with' is what profiles saw; 'confirmed by' was tried by taking the \
                cause away. What was ruled out stays in the list.",
        without: "There is no difference to explain, or the run was made with --no-why.",
        of: ledger,
        turns: true,
    },
    Part {
        id: "profile",
        title: "Where in the code",
        about: "Each box is a function with all that it calls, in CPU time of a request. The table below has the time in \
                each function itself, without what it calls.",
        without: "This run has no profile: no arm differs, sampling was not allowed or changed the server, or the run \
                  was made with --no-why.",
        of: functions,
        turns: true,
    },
    Part {
        id: "latency",
        title: "Response times",
        about: "Medians over the rounds of each round's percentile; the band spans the lowest and the highest round. \
                Only curves at the same rate may be compared.",
        without: "No window had enough requests for a percentile.",
        of: |findings, run| [latency(run), by_name(findings)].concat(),
        turns: false,
    },
    Part {
        id: "pairs",
        title: "Pairs and rounds in the order in which they ran",
        about: "One pair a block, with its ratio to the baseline. If baseline-first and arm-first pairs lie apart, \
                the order decides; if they drift, the host does. The dashed line is the ratio of the verdict, the \
                blue band its interval.",
        without: "No block has a pair.",
        of: pairs,
        turns: true,
    },
    Part {
        id: "use",
        title: "Utilisation, saturation, errors",
        about: "Every resource of the server, the generator and the host: how much of it was used, how much waited for \
                it, what went wrong. Red first.",
        without: "This run has no readings of resources.",
        of: |findings, _| compare::use_tables(findings, Length::Full),
        turns: false,
    },
    Part {
        id: "ladder",
        title: "Ladder",
        about: "One change after another, each with its interval.",
        without: "This run is no ladder: 'whyslow ladder' makes one.",
        of: |_, run| run.ladder.as_ref().map(crate::ladder::document).unwrap_or_default(),
        turns: false,
    },
    Part {
        id: "environment",
        title: "Environment and how to repeat it",
        about: "The machine, the programs, the command.",
        without: "Nothing was recorded.",
        of: environment,
        turns: false,
    },
];

/// The title of a run: who was compared with whom.
pub(crate) fn title(findings: &Findings) -> String {
    let others: Vec<&str> = compare::others(findings).map(|arm| arm.name.as_str()).collect();
    match others.len() {
        0 => findings.baseline.clone(),
        1..=3 => format!("{} against {}", others.join(", "), findings.baseline),
        n => format!("{n} arms against {}", findings.baseline),
    }
}

/// What must be read before anything else: an incomplete run, damaged files, another host, arms that failed.
pub(crate) fn banners(findings: &Findings, run: &PageRun) -> Vec<String> {
    let mut banners: Vec<String> =
        findings.partial.iter().map(|text| format!("Partial run: {text}.")).collect();
    banners.extend(run.damaged.iter().map(|text| format!("Left out: {text}.")));
    if !run.elsewhere.is_empty() {
        banners.push(format!(
            "Made on another host than this page was written on ({}).",
            run.elsewhere.join("; ")
        ));
    }
    let failed = findings.arms.iter().filter_map(|arm| Some((&arm.name, arm.error.as_ref()?)));
    banners.extend(failed.map(|(name, error)| format!("{name} failed: {error}.")));
    banners
}

/// What a reader asks next, each with the part that answers it: what limits the arms, and what is behind the reasons.
pub(crate) fn onward(findings: &Findings) -> Vec<(&'static str, String)> {
    let limits = compare::limits(findings);
    let limits = (!limits.is_empty()).then(|| ("limits", format!("What limits each: {}", limits.join("; "))));
    let causes =
        (!findings.causes.is_empty()).then(|| ("ledger", "Every cause, and what was ruled out".to_owned()));
    limits.into_iter().chain(causes).collect()
}

/// The runs on one page, beside each other.
pub(crate) fn overview<'a>(runs: impl Iterator<Item = &'a Findings> + Clone) -> Document {
    let figures = runs.clone().flat_map(|findings| {
        findings.arms.iter().map(|arm| {
            [
                findings.run_id.clone(),
                arm.name.clone(),
                arm.cpu_ns_per_request.map_or_else(dash, |cpu| format_ns(cpu.total)),
                arm.rate_per_s.map_or_else(dash, |rate| format!("{rate:.0}")),
                arm.rounds.to_string(),
            ]
        })
    });
    let figures = Block::table(["run", "arm", "CPU/request", "requests/s", "rounds"], figures.collect());
    vec![ratios(runs), Block::Heading("Figures of each run".to_owned()), figures]
}

fn ratios<'a>(runs: impl Iterator<Item = &'a Findings>) -> Block {
    let rows = runs.flat_map(|findings| {
        findings.comparisons.iter().filter(|row| row.primary).map(|row| {
            let [ratio, interval] = figures(row);
            [
                findings.run_id.clone(),
                row.arm.clone(),
                row.baseline.clone(),
                row.metric.label().to_owned(),
                row.verdict.word().to_owned(),
                ratio,
                interval,
            ]
        })
    });
    Block::table(["run", "arm", "baseline", "metric", "verdict", "ratio", "interval"], rows.collect())
}

fn verdict(findings: &Findings, _: &PageRun) -> Document {
    let mut blocks: Document = compare::others(findings)
        .map(|arm| Block::Paragraph(compare::headline(findings, &arm.name)))
        .collect();
    blocks.extend(compare::next(findings));
    if !findings.comparisons.is_empty() {
        blocks.push(verdict_table(findings));
    }
    blocks
}

fn verdict_table(findings: &Findings) -> Block {
    let rows = findings.comparisons.iter().map(|row| {
        let [ratio, interval] = figures(row);
        [
            row.arm.clone(),
            row.metric.label().to_owned(),
            row.verdict.word().to_owned(),
            ratio,
            interval,
            row.level.map_or_else(dash, compare::percent),
            row.blocks.to_string(),
            row.noise_floor.map_or_else(dash, compare::percent),
            format!("±{}", compare::percent(row.delta)),
            if row.primary { "primary" } else { "exploratory" }.to_owned(),
            row.condition.clone(),
        ]
    });
    Block::table(
        [
            "arm",
            "metric",
            "verdict",
            "ratio",
            "interval",
            "level",
            "blocks",
            "noise floor",
            "matters from",
            "declared",
            "condition",
        ],
        rows.collect(),
    )
}

fn dash() -> String {
    "-".to_owned()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(dash, |value| format!("{value:.3}"))
}

/// Ratio and interval.
fn figures(row: &Comparison) -> [String; 2] {
    figures_of(row).map(|figure| figure.unwrap_or_else(dash))
}

fn limits(findings: &Findings, _: &PageRun) -> Document {
    let mut blocks = list([compare::limits(findings), compare::shapes(findings)].concat());
    if !findings.gates.is_empty() {
        let rows = findings.gates.iter().map(gate_row).collect();
        blocks.push(Block::table(["gate", "state", "what was seen", "voids"], rows));
    }
    let busy: Vec<[String; 6]> = findings.arms.iter().filter_map(busy_row).collect();
    if !busy.is_empty() {
        let header = [
            "arm",
            "server's CPUs busy",
            "lowest, highest round",
            "cores by this server",
            "rounds",
            "requests",
        ];
        blocks.push(Block::Heading(format!("How busy the server's CPUs were at {}", findings.condition)));
        blocks.push(Block::table(header, busy));
    }
    compare::section(&mut blocks, "Warnings", list(findings.warnings.clone()));
    blocks
}

fn busy_row(arm: &ArmFindings) -> Option<[String; 6]> {
    let range = |[low, high]: [f64; 2]| format!("[{}, {}]", compare::percent(low), compare::percent(high));
    Some([
        arm.name.clone(),
        compare::percent(arm.server_set_busy?),
        arm.server_set_busy_range.map_or_else(dash, range),
        arm.busy_cores.map_or_else(dash, |cores| format!("{cores:.2}")),
        arm.rounds.to_string(),
        arm.requests.to_string(),
    ])
}

fn gate_row(gate: &Gate) -> [String; 4] {
    let state = match (gate.ok, gate.voids.is_empty()) {
        (true, _) => "ok",
        (false, true) => "note",
        (false, false) => "failed",
    };
    let voids: Vec<&str> = gate.voids.iter().map(|metric: &Metric| metric.label()).collect();
    let voids = match voids.len() {
        0 => dash(),
        n if n == Metric::ALL.len() => "every metric".to_owned(),
        _ => voids.join(", "),
    };
    [gate.id.to_string(), state.to_owned(), gate.text.clone(), voids]
}

fn waterfall(findings: &Findings, run: &PageRun) -> Document {
    if findings.splits.is_empty() {
        return Vec::new();
    }
    let mut blocks = tree::tables_down_to(findings, length(findings, run), Length::Full);
    let waits = waits::tables(findings, Length::Full);
    compare::section(&mut blocks, "What ended the waits of its threads", waits);
    let changes = findings.splits.iter().flat_map(change_rows).collect();
    let header = ["arm minus baseline", "part", "a request", "interval", "level", "blocks"];
    let sure = vec![
        Block::table(header, changes),
        compare::arm_table(findings),
        Block::List(findings.splits.iter().map(compare::split_text).collect()),
    ];
    compare::section(&mut blocks, "How sure the change is, and what else goes with it", sure);
    blocks
}

/// The functions by their own time.
fn functions(findings: &Findings, run: &PageRun) -> Document {
    compare::functions(findings, length(findings, run))
}

/// How long tables are of which a drawing has every row: another baseline is chosen by scripts, which draw.
fn length(findings: &Findings, run: &PageRun) -> Length {
    let is_own = run.findings.first().is_some_and(|own| own.baseline == findings.baseline);
    if is_own { Length::Full } else { Length::Short }
}

/// The whole change with its interval, and that of each part.
fn change_rows(split: &Split) -> [[String; 6]; 3] {
    let known = split.intervals.as_ref();
    let row = |part: &str, ns: f64, pick: fn(&SplitIntervals) -> [f64; 2]| {
        [
            split.arm.clone(),
            part.to_owned(),
            compare::signed(ns),
            known.map_or_else(dash, |of| interval_ns(pick(of))),
            known.map_or_else(dash, |of| compare::percent(of.level)),
            known.map_or_else(dash, |of| of.blocks.to_string()),
        ]
    };
    [
        row("CPU", split.total_ns, |of| of.total_ns),
        row("user", split.user_ns, |of| of.user_ns),
        row("system", split.system_ns, |of| of.system_ns),
    ]
}

fn interval_ns([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", compare::signed(low), compare::signed(high))
}

fn ledger(findings: &Findings, _: &PageRun) -> Document {
    let mut blocks = Vec::new();
    if !findings.causes.is_empty() {
        let small = findings.rests.iter().filter(|rest| compare::is_told(rest)).map(small_row);
        let rows =
            findings.causes.iter().map(cause_row).chain(unattributed_row(findings)).chain(small).collect();
        blocks.push(Block::table(["cause", "arm", "carries", "share", "grade", "in words"], rows));
    }
    compare::section(&mut blocks, "What a request costs", compare::ledger(findings));
    compare::section(&mut blocks, "Watching", list(compare::watching(findings)));
    blocks
}

fn cause_row(cause: &Cause) -> [String; 6] {
    [
        cause.id.name().replace('_', " "),
        cause.arm.clone(),
        compare::signed(cause.ns_per_request),
        cause.share.map_or_else(dash, compare::percent),
        grade(cause.grade).to_owned(),
        cause.text.clone(),
    ]
}

/// What is left over of the gap.
fn unattributed_row(findings: &Findings) -> Option<[String; 6]> {
    let share = findings.unattributed_share.filter(|share| share.abs() >= compare::LEAST_LEFT)?;
    let arm = findings.unattributed_arm.clone().unwrap_or_else(dash);
    let words = format!("part of the gap {}", compare::UNATTRIBUTED);
    Some(["unattributed".to_owned(), arm, dash(), compare::percent(share), dash(), words])
}

/// What of a gap is in parts that are too small or unsure to be told.
fn small_row(rest: &RestOfGap) -> [String; 6] {
    let [low, high] = rest.small_between.map(compare::percent);
    let words = format!("part of the gap {}; {low} to {high}", compare::SMALL_PARTS);
    let share = compare::percent(rest.small_share);
    ["small or unsure".to_owned(), rest.arm.clone(), dash(), share, dash(), words]
}

fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::AccountsFor => "accounts for",
        Grade::BoundedBy => "bounded by",
        Grade::ConsistentWith => "consistent with",
        Grade::ConfirmedBy => "confirmed by",
        Grade::RuledOut => "ruled out",
    }
}

/// The rows by name, where requests have names.
fn by_name(findings: &Findings) -> Document {
    let table = compare::named_table(findings).into_iter();
    table.flat_map(|table| [Block::Paragraph(format!("{}:", compare::BY_NAME)), table]).collect()
}

fn latency(run: &PageRun) -> Document {
    let detail = &run.detail;
    let curves: Vec<&LatencyCurve> = detail.latency.iter().filter(|curve| !curve.points.is_empty()).collect();
    if curves.is_empty() {
        return Vec::new();
    }
    let rows = curves.iter().flat_map(|curve| {
        curve.points.iter().map(|point| {
            [
                curve.arm.clone(),
                curve.condition.clone(),
                format!("{:.0}", curve.rate_per_s),
                format!("{} %", trim(point.quantile * 100.0)),
                format_ns(point.ns),
                format!("[{}, {}]", format_ns(point.low_ns), format_ns(point.high_ns)),
                point.rounds.to_string(),
            ]
        })
    });
    let header =
        ["arm", "condition", "requests/s", "percentile", "response", "lowest, highest round", "rounds"];
    let mut blocks = vec![Block::table(header, rows.collect())];
    let open: BTreeSet<&str> =
        curves.iter().filter(|curve| !curve.closed_loop).map(|curve| curve.condition.as_str()).collect();
    if open.len() < RATES_OF_A_LINE {
        blocks.push(Block::Paragraph(ONE_RATE.to_owned()));
    }
    blocks
}

/// Equal rates from which response times can be drawn against the rate: one point is no line.
const RATES_OF_A_LINE: usize = 2;
const ONE_RATE: &str = "How response times grow with the rate cannot be shown: it needs two equal rates or more, as \
                        with --equal-rates 25,50,75.";

/// A percentage without the zeros and the dust of binary fractions: `99.9`.
fn trim(percent: f64) -> String {
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn pairs(findings: &Findings, run: &PageRun) -> Document {
    pair_table(findings, &run.detail).into_iter().collect()
}

/// What stands below a part whichever baseline is chosen.
pub(crate) fn common(part: &Part, run: &PageRun) -> Document {
    let rounds = &run.detail.rounds;
    if part.id != "pairs" || rounds.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading("Rounds".to_owned()), round_table(rounds, "counts")]
}

/// A row for each pair, with its ratio in every metric.
fn pair_table(findings: &Findings, detail: &Detail) -> Option<Block> {
    let paired = || findings.comparisons.iter().filter(|row| !row.pairs.is_empty());
    let metrics: Vec<Metric> =
        Metric::ALL.into_iter().filter(|metric| paired().any(|row| row.metric == *metric)).collect();
    let rows: Vec<Vec<String>> = compare::others(findings)
        .flat_map(|arm| {
            let own: Vec<&Comparison> = paired().filter(|row| row.arm == arm.name).collect();
            let blocks: BTreeSet<u32> =
                own.iter().flat_map(|row| &row.pairs).map(|(block, _)| *block).collect();
            let row = |block: &u32| pair_row(&own, &metrics, *block, detail);
            blocks.iter().map(row).collect::<Vec<_>>()
        })
        .collect();
    let header = ["block", "arm", "order"].into_iter().chain(metrics.iter().map(|metric| metric.label()));
    let header = header.map(str::to_owned).collect();
    (!rows.is_empty()).then_some(Block::Table { header, rows })
}

/// One block of an arm, whose comparisons are `own`.
fn pair_row(own: &[&Comparison], metrics: &[Metric], block: u32, detail: &Detail) -> Vec<String> {
    let (arm, baseline) = own.first().map_or(("", ""), |row| (row.arm.as_str(), row.baseline.as_str()));
    let place = |arm: &str| {
        let of = |round: &&RoundDetail| round.block == block && round.arm == arm && round.void.is_none();
        detail.rounds.iter().position(|round| of(&round))
    };
    let first = if place(arm) < place(baseline) { arm } else { baseline };
    let ratio = |metric: &Metric| {
        let mut pairs = own.iter().filter(|row| row.metric == *metric).flat_map(|row| &row.pairs);
        pairs.find(|(of, _)| *of == block).map(|(_, ln)| ln.exp())
    };
    let ratios = metrics.iter().map(|metric| number(ratio(metric)));
    [(block + 1).to_string(), arm.to_owned(), format!("{first} first")].into_iter().chain(ratios).collect()
}

/// A row for each round; `counts` is said of those that nothing speaks against.
pub(crate) fn round_table(rounds: &[RoundDetail], counts: &str) -> Block {
    let rows = rounds.iter().map(|round| {
        let main = round.windows.first();
        let value = |metric: Metric| main.and_then(|window| window.values.get(&metric).copied());
        [
            format!("{}.{}", round.block + 1, round.position + 1),
            round.arm.clone(),
            value(Metric::Rate).map_or_else(dash, |rate| format!("{rate:.0}")),
            value(Metric::CpuPerRequest).map_or_else(dash, format_ns),
            format!("{} turns", round.warmup_per_turn.len()),
            if round.steady { "steady" } else { "not steady" }.to_owned(),
            round.void.clone().unwrap_or_else(|| counts.to_owned()),
        ]
    });
    Block::table(
        ["block.place", "arm", "requests/s", "CPU/request", "warm-up", "when it ended", "counts?"],
        rows.collect(),
    )
}

fn environment(findings: &Findings, _: &PageRun) -> Document {
    let mut blocks = list(compare::run(findings));
    compare::section(&mut blocks, "Failed", list(compare::failures(findings)));
    let rows = findings.arms.iter().map(|arm| {
        let build = arm.build_id.as_deref().map_or_else(dash, |id| id.chars().take(12).collect());
        [arm.name.clone(), arm.command.clone(), compare::source(arm).unwrap_or_else(dash), build]
    });
    compare::section(
        &mut blocks,
        "Programs",
        vec![Block::table(["arm", "command", "commit or image", "SHA-256 begins"], rows.collect())],
    );
    compare::section(&mut blocks, "Host", vec![host_table(findings)]);
    blocks
}

fn host_table(findings: &Findings) -> Block {
    let host = &findings.host;
    if !host.is_known() {
        return Block::Paragraph("Nothing is known of it: its file could not be read.".to_owned());
    }
    let none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none seen".to_owned());
    let mut rows = vec![
        ["whyslow".to_owned(), host.tool_version.clone()],
        ["CPU model".to_owned(), host.cpu_model.clone()],
        ["CPUs".to_owned(), host.cpus.to_string()],
        ["memory".to_owned(), format!("{:.1} GiB", host.memory_bytes as f64 / (1u64 << 30) as f64)],
        ["kernel".to_owned(), host.kernel.clone()],
        ["frequency governor".to_owned(), none(&host.governor)],
        ["hypervisor".to_owned(), none(&host.hypervisor)],
        ["descriptors".to_owned(), host.descriptors.to_string()],
    ];
    for facts in [&host.mitigations, &host.cgroup, &host.sysctls] {
        rows.extend(facts.iter().map(|(name, value)| [name.clone(), value.clone()]));
    }
    Block::table(["fact", "value"], rows)
}
