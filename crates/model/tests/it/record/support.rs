//! A run to write, and folders to write it into.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use model::plan::{Arm, Blocks, Condition, Plan, Round};
use model::record::{
    Answer, Background, Build, Counts, DiagnosticRecord, Failure, FailureKind, Fairness, Fitted, Host,
    HostUsage, Manifest, Pass, PassKind, RoundRecord, RunStatus, SCHEMA_VERSION, Slice, Stopping, Stops,
    TurnCalls, UnitCosts, Usage, Warmup, Window, Writes, Written,
};

/// A folder of its own for each call, empty.
pub(crate) fn fresh_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("record-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Names of the files below `folder`, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn arm(name: &str) -> Arm {
    let env = [("NAME".to_owned(), "ä\n".to_owned())].into();
    Arm { env, ..testkit::command_arm(name, &["./server \"quoted\"", "{port}"]) }
}

fn plan() -> Plan {
    let mut plan = Plan { seed: u64::MAX, ..testkit::plan(vec![arm("main"), arm("pr")]) };
    plan.workload.poisson = true;
    plan.workload.conditions = vec![Condition::Capacity, Condition::ShareOfSlowest { percent: 50 }];
    plan.design.blocks = Blocks::Looks { first: 8, max: 24 };
    plan
}

pub(crate) fn manifest(status: RunStatus) -> Manifest {
    Manifest {
        schema: SCHEMA_VERSION,
        run_id: "20260102-030405-9f3c".to_owned(),
        status,
        started_unix_s: 1_767_323_045,
        command: vec!["whyslow".to_owned(), "compare".to_owned()],
        plan: plan(),
        builds: vec![Build {
            arm: "main".to_owned(),
            sha256: Some("ab".repeat(32)),
            bytes: 7,
            images: Vec::new(),
        }],
        changes: Vec::new(),
        fitted: Fitted {
            alone: None,
            turn_ns: 200_000_000,
            warm_up_turn_ns: 200_000_000,
            stopping: vec![Stopping {
                arm: "main".to_owned(),
                stops: Stops { count: 7, stopped_ns: 200_000_000, watched_ns: 1_700_000_000 },
            }],
            connections: Some(8),
            split: None,
            warming: Vec::new(),
        },
        pilot_per_s: vec![1.5e5, 0.0],
    }
}

pub(crate) fn host() -> Host {
    Host {
        cpu_model: "Some CPU".to_owned(),
        cpus: 2,
        descriptors: u64::MAX,
        unit_costs: Some(unit_costs()),
        ..Host::default()
    }
}

fn unit_costs() -> UnitCosts {
    UnitCosts { syscall_ns: 99.5, memcpy_kib_ns: 0.1 + 0.2, ..UnitCosts::default() }
}

/// A diagnostic round of two passes.
pub(crate) fn diagnostic(arm: &str, block: u32) -> DiagnosticRecord {
    let counts = Counts {
        counted_share: 1.0,
        events: [("task_clock_ns".to_owned(), u64::MAX)].into(),
        syscalls: [("epoll_wait".to_owned(), 7)].into(),
        writes: Some(Writes {
            network: Written { calls: 3, bytes: u64::MAX, uncounted: 1 },
            ..Writes::default()
        }),
        missing: vec!["no hardware counters".to_owned()],
        turns: vec![TurnCalls { counted_share: 0.5, syscalls: [("read".to_owned(), 7)].into() }],
    };
    let pass = |kind, counts| Pass {
        kind,
        window: window(),
        counts,
        profile: None,
        machine: None,
        services: std::collections::BTreeMap::new(),
        waits: None,
        missing: Vec::new(),
    };
    let passes = vec![pass(PassKind::Untouched, None), pass(PassKind::Counting, Some(counts))];
    DiagnosticRecord { passes, ..DiagnosticRecord::new(arm, block) }
}

fn window() -> Window {
    Window {
        condition: Condition::Capacity,
        load: testkit::load_report(98_000.0),
        target: Usage { wall_ns: 10_000_000_000, rss_peak_bytes: 1 << 40, ..Usage::default() },
        generator: Usage::default(),
        server_cpus: HostUsage { cpus: 1, frequency_khz: Some([1, 2]), ..HostUsage::default() },
        load_cpus: HostUsage::default(),
        resources: Some(model::record::Resources::default()),
        observer_cpu_ns: 12,
        slices: vec![Slice {
            cycle: 1,
            turn: 3,
            requests: 7,
            in_time: 6,
            cpu_ns: 70_000,
            ..Slice::default()
        }],
        services: Default::default(),
        response_buckets: vec![[1024, 3], [1088, u64::MAX]],
    }
}

/// A round that went well.
pub(crate) fn round(block: u32, position: u32, attempt: u32) -> RoundRecord {
    RoundRecord {
        schema: SCHEMA_VERSION,
        round: Round {
            block,
            position,
            attempt,
            arm: position as usize,
            env_padding_bytes: 17,
            arrival_seed: u64::MAX - 1,
        },
        arm: ["main", "pr"][position as usize].to_owned(),
        started_unix_ms: 1,
        port: 40_000,
        ready_ms: 3,
        answer: Some(Answer {
            status: 200,
            headers: vec![("Date".to_owned(), "x".to_owned()), ("A".to_owned(), String::new())],
            body_bytes: 13,
            body_sha256: "cd".repeat(32),
            wire_bytes: 130,
        }),
        fairness: Fairness { threads: 2, allowed_cpus: "0".to_owned() },
        warmup: Warmup { per_turn: vec![1, 2, 3], took_ns: 600_000_000, steady: true },
        windows: vec![window()],
        background: Some(Background { wall_ns: 1_200_000_000, cpu_ns: 3_000_000 }),
        failure: None,
    }
}

/// A round in which the arm ended under load.
pub(crate) fn failed_round(block: u32, position: u32) -> RoundRecord {
    let failure = Failure {
        kind: FailureKind::Crashed,
        text: "it was ended by signal 11 under load".to_owned(),
        log: vec!["one".to_owned(), "two".to_owned()],
    };
    RoundRecord { windows: Vec::new(), failure: Some(failure), ..round(block, position, 0) }
}
