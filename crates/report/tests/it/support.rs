//! Findings in which every section has something to say.

use analyse::{
    ArmFindings, CASE_SCHEMA, CaseFindings, CaseRun, Cause, ClaimFindings, Comparison, CpuPerRequest,
    FINDINGS_SCHEMA, FigureFindings, Findings, FunctionCost, Gate, Grade, Latency, LedgerLine, Metric,
    PassFindings, PublishedProfile, PublishedProfileRow, Reproduced, Split, Switches, Verdict,
};
use model::plan::GateId;
use model::record::{Host, PassKind};
use report::worded;

/// The first screen of findings that get their sentences first; likewise the others below.
pub(crate) fn findings_text(found: &Findings, style: report::Style) -> String {
    report::findings_text(&worded(found.clone()), style)
}

pub(crate) fn findings_details(found: &Findings) -> String {
    report::findings_details(&worded(found.clone()))
}

pub(crate) fn findings_markdown(found: &Findings) -> String {
    report::findings_markdown(&worded(found.clone()))
}

pub(crate) fn findings_comment(found: &Findings) -> String {
    report::findings_comment(&worded(found.clone()), Some("https://ci.example/run/7"))
}

pub(crate) fn findings_junit(found: &Findings) -> String {
    report::findings_junit(&worded(found.clone()))
}

pub(crate) fn findings_json(found: &Findings) -> String {
    report::findings_json(&worded(found.clone()))
}

pub(crate) fn headline(found: &Findings, arm: &str) -> String {
    report::headline(&worded(found.clone()), arm)
}

/// Findings on `pr` against `main`.
pub(crate) fn findings() -> Findings {
    about("main", "pr")
}

pub(crate) fn split(arm: &str) -> Split {
    Split {
        arm: arm.to_owned(),
        rate_ratio: 0.909,
        busy_cores_ratio: 1.0,
        cpu_per_request_ratio: 1.1,
        residual_ln: 0.0,
        user_ns: 900.0,
        system_ns: 100.0,
        total_ns: 1000.0,
        intervals: Some(analyse::SplitIntervals {
            user_ns: [880.0, 920.0],
            system_ns: [-5.0, 110.0],
            total_ns: [980.0, 1020.0],
            level: 0.951,
            blocks: 10,
        }),
    }
}

/// Findings on `arm` against `baseline`.
pub(crate) fn about(baseline: &str, arm: &str) -> Findings {
    Findings {
        schema: FINDINGS_SCHEMA,
        run_id: "20260102-030405-9f3c".to_owned(),
        case: "compare".to_owned(),
        files: Vec::new(),
        seed: 7,
        host: Host { cpu_model: "Some CPU".to_owned(), cpus: 2, kernel: "6.1".to_owned(), ..Host::default() },
        command: ["whyslow", "compare", "main=./old --port {port}", "--seed", "7"]
            .map(str::to_owned)
            .to_vec(),
        workload: "GET / over 64 connections; server on CPU 0, generator on CPU 1".to_owned(),
        sent: None,
        partial: None,
        unfinished: None,
        condition: "capacity".to_owned(),
        latency_condition: Some("20000 requests/s".to_owned()),
        window_ns: 10_000_000_000,
        baseline: baseline.to_owned(),
        arms: vec![row(baseline, 10_000.0), row(arm, 11_000.0)],
        comparisons: vec![
            comparison(baseline, arm, Metric::CpuPerRequest, Verdict::Slower),
            comparison(baseline, arm, Metric::Rate, Verdict::Inconclusive),
            comparison(baseline, arm, Metric::P99, Verdict::Equal),
        ],
        gates: vec![
            gate(GateId::Parity, true, &[]),
            gate(GateId::Stall, false, &[Metric::P50]),
            gate(GateId::Fairness, false, &[]),
        ],
        attribution: Vec::new(),
        services: Vec::new(),
        limits: std::collections::BTreeMap::new(),
        said: Vec::new(),
        smaller: Vec::new(),
        gap_functions: Vec::new(),
        waits: Vec::new(),
        goroutines: Vec::new(),
        causes: vec![
            cause(baseline, arm, "user_time", Grade::AccountsFor),
            cause(baseline, arm, "context_switches", Grade::RuledOut),
        ],
        ledger: vec![ledger_line(arm)],
        passes: vec![pass(arm)],
        splits: vec![split(arm)],
        unattributed_share: Some(0.0),
        unattributed_arm: Some(arm.to_owned()),
        rests: Vec::new(),
        warnings: vec!["something that the reader must know".to_owned()],
        warned: Vec::new(),
        design: analyse::DesignFindings::default(),
        took_ns: 0,
        resources: vec![analyse::ArmResources { arm: arm.to_owned(), rows: use_rows() }],
        profiles: vec![profile(baseline, arm)],
        fail_if: Vec::new(),
        void_rounds: Vec::new(),
        proposed: None,
        next: Some(
            "--blocks 12 would decide at this spread\nwhyslow compare 'main=./old --port {port}' --seed 7 --blocks 12"
                .to_owned(),
        ),
    }
}

/// A function that only the arm runs.
fn profile(baseline: &str, arm: &str) -> analyse::ProfileDifference {
    let row = analyse::ProfileRow {
        name: "core::str::<impl str>::find::<a_pattern_with_a_very_long_name_that_does_not_fit>".to_owned(),
        package: "core".to_owned(),
        category: "own code".to_owned(),
        arm_ns: 900.0,
        difference_ns: 900.0,
        error_ns: 20.0,
        only_in: Some(arm.to_owned()),
        ..analyse::ProfileRow::default()
    };
    analyse::ProfileDifference {
        baseline: baseline.to_owned(),
        arm: arm.to_owned(),
        baseline_samples: 3000,
        arm_samples: 3100,
        categories: vec![analyse::ProfileRow { name: "own code".to_owned(), ..row.clone() }],
        packages: Vec::new(),
        functions: vec![row],
        system_calls: Vec::new(),
        notes: vec![format!("{arm}: it keeps no frame pointers")],
    }
}

/// One red row and one green.
pub(crate) fn use_rows() -> Vec<analyse::UseRow> {
    let row = |level, resource: &str, errors| analyse::UseRow {
        level,
        scope: analyse::UseScope::Host,
        resource: resource.to_owned(),
        utilisation: Some(0.25),
        saturation: None,
        saturation_unit: String::new(),
        errors: Some(errors),
    };
    vec![row(analyse::UseLevel::Red, "interfaces", 7), row(analyse::UseLevel::Green, "busiest disk", 0)]
}

pub(crate) fn row(name: &str, cpu_ns: f64) -> ArmFindings {
    ArmFindings {
        name: name.to_owned(),
        command: format!("./{name} --port {{port}}"),
        ok: true,
        rounds: 10,
        requests: 9_800_000,
        rate_per_s: Some(0.98e9 / cpu_ns),
        connections: 64,
        cpu_ns_per_request: Some(CpuPerRequest {
            total: cpu_ns,
            user: cpu_ns * 0.3,
            system: cpu_ns * 0.7,
            softirq: 0.0,
        }),
        busy_cores: Some(0.98),
        server_set_busy: Some(0.98),
        server_set_busy_range: Some([0.975, 0.981]),
        context_switches_per_request: Some(Switches::default()),
        latency_ns: Latency { p50: Some(2e5), p99: Some(1e6), ..Latency::default() },
        rss_peak_bytes: Some(8e6),
        limiter: Some("its CPU (98 % of 1 busy)".to_owned()),
        ..ArmFindings::default()
    }
}

pub(crate) fn comparison(baseline: &str, arm: &str, metric: Metric, verdict: Verdict) -> Comparison {
    Comparison {
        baseline: baseline.to_owned(),
        arm: arm.to_owned(),
        metric,
        primary: metric.is_primary(),
        condition: "capacity".to_owned(),
        verdict,
        ratio: Some(1.1),
        ci_low: Some(1.095),
        ci_high: Some(1.105),
        level: Some(0.98),
        p_wilcoxon: Some(0.002),
        p_sign_flip: Some(0.002),
        blocks: 10,
        paired_sd: Some(0.004),
        noise_floor: Some(0.003),
        noise_floor_from: Some("within_run".to_owned()),
        delta: metric.delta(),
        blocks_needed: Some(3),
        undecided_by: None,
        block_ratios: vec![1.1, 1.1],
        bias: analyse::BiasFindings::default(),
        pairs: vec![(0, 0.0953), (1, 0.0953)],
        void_by: Vec::new(),
    }
}

pub(crate) fn gate(id: GateId, ok: bool, voids: &[Metric]) -> Gate {
    Gate {
        id,
        ok,
        arm: None,
        value: Some(1.0),
        limit: None,
        text: format!("what {id} saw"),
        voids: voids.to_vec(),
        says: None,
    }
}

pub(crate) fn ledger_line(arm: &str) -> LedgerLine {
    LedgerLine {
        arm: arm.to_owned(),
        id: "syscall:getppid".to_owned(),
        unit: "count".to_owned(),
        baseline: 0.0,
        value: 10.0,
        change: 10.0,
        carries_ns: Some(843.5),
    }
}

fn pass(arm: &str) -> PassFindings {
    PassFindings {
        arm: arm.to_owned(),
        kind: PassKind::Counting,
        rounds: 2,
        rate_per_s: 90_000.0,
        slowdown: Some(1.07),
        rate_slowdown: 1.06,
        used: true,
        coverage: None,
        text: format!("counting slowed {arm} x1.06 (x1.07 CPU per request); used"),
        missing: vec!["no cycles or instructions".to_owned()],
        says: None,
    }
}

pub(crate) fn cause(baseline: &str, arm: &str, id: &str, grade: Grade) -> Cause {
    Cause {
        id: id.parse().expect("a cause that is known"),
        grade,
        baseline: baseline.to_owned(),
        arm: arm.to_owned(),
        ns_per_request: 900.0,
        share: Some(0.9),
        place: None,
        text: format!("{id} was weighed"),
        says: None,
    }
}

/// A case with one comparison, one figure, one claim and one profile.
pub(crate) fn case() -> CaseFindings {
    let case = model::plan::CaseFile::parse("x.toml", CASE).unwrap();
    let run = |id: &str| CaseRun {
        id: id.to_owned(),
        question: "which?".to_owned(),
        changes: vec!["fewer connections".to_owned()],
        allow_difference: None,
        findings: findings(),
    };
    CaseFindings {
        schema: CASE_SCHEMA,
        size: "quick".to_owned(),
        command: ["whyslow", "case", "run", "x"].map(str::to_owned).to_vec(),
        runs: vec![run("c"), run("d")],
        figures: vec![FigureFindings {
            figure: case.figures[0].clone(),
            comparison: Some("c".to_owned()),
            ours: Some(row("pr", 11_000.0)),
            rate_valid: false,
        }],
        claims: vec![ClaimFindings {
            text: "pr is slower".to_owned(),
            published: "x0.500".to_owned(),
            ours: "x0.9 [0.8, 0.95]".to_owned(),
            reproduced: Reproduced::Partly,
            why: "the same side".to_owned(),
            says: None,
        }],
        profiles: vec![PublishedProfile {
            id: "p".to_owned(),
            arm: "pr".to_owned(),
            requests: Some(2000),
            instructions_per_request: Some(100.0),
            rows: vec![PublishedProfileRow {
                what: "what the profile counted".to_owned(),
                published_percent: 5.0,
                percent: Some(4.0),
                instructions: Some(4.0),
            }],
            others: vec![FunctionCost { name: "main".to_owned(), instructions: 90.0 }],
        }],
        left_out: vec!["left: nothing".to_owned()],
        case,
    }
}

const CASE: &str = r#"
name = "x"
question = "Which is faster?"
source = "a document"
open = "why"
published = { machine = "m", server_cpus = 1, command = "wrk" }
workload = { path = "/", connections = 64 }
comparison = [{ id = "c", question = "which?", arms = ["main", "pr"], rates = [25] }]
figure = [{ id = "p", system = "PR", arm = "pr", rate_per_s = 50.0, mean = "2000us" }]
"#;
