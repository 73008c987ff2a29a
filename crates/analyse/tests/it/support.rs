//! Runs made up from figures: one server CPU, one generator CPU, a window at capacity and one at an equal rate.

use analyse::{Comparison, Findings, Gate, Metric};
use model::plan::{Blocks, Condition, GateId, Plan, SplitMix64, Turns};
use model::record::{
    Answer, CpuTimes, Fairness, Fitted, Frame, Host, HostUsage, LoadReport, Manifest, Resources, RoundRecord,
    Run, RunStatus, SCHEMA_VERSION, Slice, SocketCounters, Sockets, Usage, Warmup, Window,
};
use model::units::Rate;

/// What follows from a run, with its sentences.
pub(crate) fn analyse(run: &Run) -> Findings {
    report::worded(analyse::analyse(run)).into_inner()
}

/// The equal rate in requests per second.
pub(crate) const EQUAL_RATE_PER_S: f64 = 20_000.0;
/// Busy share of the server's one CPU at capacity.
const BUSY: f64 = 0.98;
/// Share of CPU per request that is user time.
const USER_SHARE: f64 = 0.3;
/// Spread of a figure from round to round, each way, where a test names none.
const JITTER: f64 = 0.002;

/// How an arm behaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behaves {
    pub(crate) name: &'static str,
    /// CPU per request in nanoseconds.
    pub(crate) cpu_ns: f64,
    /// Relative spread from round to round, each way.
    pub(crate) jitter: f64,
}

/// An arm of so much CPU per request, in nanoseconds.
pub(crate) fn arm(name: &'static str, cpu_ns: f64) -> Behaves {
    Behaves { name, cpu_ns, jitter: JITTER }
}

/// A complete run of `blocks` blocks, looked at once; the first arm is the baseline.
pub(crate) fn run(seed: u64, blocks: u32, arms: &[Behaves]) -> Run {
    let plan = plan(seed, blocks, arms);
    let mut random = SplitMix64::fork(seed, "jitter", 0);
    let mut rounds = Vec::new();
    for block in 0..blocks {
        for round in plan.rounds(block) {
            let arm = arms[round.arm];
            let jitter = 1.0 + arm.jitter * (2.0 * random.unit() - 1.0);
            rounds.push(record(round, arm.name, arm.cpu_ns * jitter));
        }
    }
    let manifest = Manifest {
        schema: SCHEMA_VERSION,
        run_id: "made-up".to_owned(),
        status: RunStatus::Complete,
        started_unix_s: 0,
        command: vec!["whyslow".to_owned(), "compare".to_owned()],
        plan,
        builds: Vec::new(),
        changes: Vec::new(),
        pilot_per_s: vec![0.0; arms.len()],
        fitted: Fitted::default(),
    };
    Run {
        manifest,
        host: Host { loopback_bytes_per_s: Some(5e9), ..Host::default() },
        answers: Vec::new(),
        rounds,
        diagnostics: Vec::new(),
        interventions: Vec::new(),
        damaged: Vec::new(),
    }
}

/// Two arms, 10 blocks: `main` of 10 µs a request and `pr` of `ratio` times that.
pub(crate) fn pair(ratio: f64) -> Run {
    run(1, 10, &[arm("main", 10_000.0), arm("pr", 10_000.0 * ratio)])
}

/// The same run in turns: each window in so many slices that are all alike.
pub(crate) fn sliced(mut run: Run, cycles: u32) -> Run {
    run.manifest.plan.design.turns = Turns::Slices { cycles: Some(cycles), slice: None };
    for record in &mut run.rounds {
        let place = record.round.position;
        for window in &mut record.windows {
            let each = |whole: u64| whole / u64::from(cycles);
            let slice = |cycle| Slice {
                cycle,
                turn: 2 * cycle + place,
                length_ns: each(window.load.window_ns),
                wall_ns: each(window.target.wall_ns),
                requests: each(window.load.requests),
                in_time: each(window.load.requests),
                cpu_ns: each(window.target.cpu.total_ns),
                ..Slice::default()
            };
            window.slices = (0..cycles).map(slice).collect();
        }
    }
    run
}

fn plan(seed: u64, blocks: u32, arms: &[Behaves]) -> Plan {
    let rate = Rate::per_s(EQUAL_RATE_PER_S).unwrap();
    let of_command = |arm: &Behaves| testkit::command_arm(arm.name, &[&format!("./{}", arm.name), "{port}"]);
    let mut plan = Plan { seed, ..testkit::plan(arms.iter().map(of_command).collect()) };
    plan.workload.conditions = vec![Condition::Capacity, Condition::EqualRate { rate }];
    plan.design.blocks = Blocks::Fixed { blocks };
    plan.design.turns = Turns::Alone;
    plan
}

fn record(round: model::plan::Round, arm: &str, cpu_ns: f64) -> RoundRecord {
    RoundRecord {
        schema: SCHEMA_VERSION,
        round,
        arm: arm.to_owned(),
        started_unix_ms: 0,
        port: 40_000,
        ready_ms: 5,
        answer: Some(answer()),
        fairness: Fairness { threads: 1, allowed_cpus: "0".to_owned() },
        warmup: Warmup { per_turn: vec![100_000; 5], steady: true, took_ns: 0 },
        windows: vec![at_capacity(cpu_ns), at_equal_rate(cpu_ns)],
        background: None,
        failure: None,
    }
}

pub(crate) fn answer() -> Answer {
    let headers = [("Content-Type", "text/plain"), ("Content-Length", "13"), ("Date", "x")];
    Answer {
        status: 200,
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body_bytes: 13,
        body_sha256: "ab".repeat(32),
        wire_bytes: 130,
    }
}

fn at_capacity(cpu_ns: f64) -> Window {
    window(Condition::Capacity, testkit::load_report(BUSY * 1e9 / cpu_ns), cpu_ns)
}

fn at_equal_rate(cpu_ns: f64) -> Window {
    let rate = Rate::per_s(EQUAL_RATE_PER_S).unwrap();
    let mut load = testkit::load_report(EQUAL_RATE_PER_S);
    load.rate_ratio = Some(1.0);
    load.response_ns = testkit::percentiles(load.requests, (cpu_ns * 20.0) as u64);
    load.send_lag_ns = testkit::percentiles(load.requests, 5_000);
    window(Condition::EqualRate { rate }, load, cpu_ns)
}

fn window(condition: Condition, load: LoadReport, cpu_ns: f64) -> Window {
    let wall_ns = load.window_ns;
    let total_ns = (load.requests as f64 * cpu_ns).round() as u64;
    let user_ns = (total_ns as f64 * USER_SHARE).round() as u64;
    let cpu = CpuTimes { total_ns, user_ns, system_ns: total_ns - user_ns };
    let set = |busy_ns: u64| HostUsage {
        wall_ns,
        cpus: 1,
        user_ns: busy_ns,
        idle_ns: wall_ns - busy_ns,
        ..HostUsage::default()
    };
    Window {
        condition,
        load,
        target: Usage {
            wall_ns,
            cpu,
            rss_peak_bytes: 8 << 20,
            busiest_thread_ns: total_ns,
            ..Usage::default()
        },
        generator: Usage {
            wall_ns,
            cpu: CpuTimes { total_ns: wall_ns / 2, ..CpuTimes::default() },
            ..Usage::default()
        },
        server_cpus: set(total_ns),
        load_cpus: set(wall_ns / 2),
        resources: None,
        observer_cpu_ns: 0,
        services: Default::default(),
        response_buckets: Vec::new(),
        slices: Vec::new(),
    }
}

/// Changes every window of `arm` under the condition at `index`.
pub(crate) fn change(run: &mut Run, arm: &str, index: usize, change: impl Fn(&mut Window)) {
    let records = run.rounds.iter_mut().filter(|record| record.arm == arm);
    records.for_each(|record| change(&mut record.windows[index]));
}

/// The gates called `id`.
pub(crate) fn gates(findings: &Findings, id: GateId) -> Vec<&Gate> {
    findings.gates.iter().filter(|gate| gate.id == id).collect()
}

/// The row of `arm` in `metric`.
pub(crate) fn row<'a>(findings: &'a Findings, arm: &str, metric: Metric) -> &'a Comparison {
    findings.comparisons.iter().find(|row| row.arm == arm && row.metric == metric).unwrap()
}

/// A function of the kernel, as a profile has it.
pub(crate) fn kernel_frame(name: &str) -> Frame {
    Frame {
        name: name.to_owned(),
        module: "[kernel]".to_owned(),
        kernel: true,
        resolved: true,
        ..Frame::default()
    }
}

/// A window in whose turns, edges included, so many segments came in and so many went to others, as connections that lasted tell.
pub(crate) fn asks_others(window: &mut Window, came: u64, asked: Option<u64>) {
    let segments = |out| SocketCounters { data_segments_out: out, ..SocketCounters::default() };
    let server = SocketCounters { data_segments_in: came, ..SocketCounters::default() };
    let sockets = Sockets { server, asked: asked.map(segments), ..Sockets::default() };
    window.resources = Some(Resources { sockets: Some(sockets), ..Resources::default() });
}
