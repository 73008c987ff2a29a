//! A published comparison as a run: h2o against akka-http, TechEmpower plaintext on 4 CPUs, 256 connections of depth 16,
//! 15 s; strace counted the calls of each in runs of its own. What its authors could not conclude must come out.

use std::collections::BTreeMap;

use analyse::{Findings, Grade};
use model::plan::GateId;
use model::record::{Counts, CpuTimes, DiagnosticRecord, Pass, PassKind, Run, UnitCosts, Window};

use crate::support::{analyse, arm, change, gates, run};

const WINDOW_NS: u64 = 15_000_000_000;
const CPUS: u32 = 4;

/// What was published of one server.
struct Published {
    name: &'static str,
    rate_per_s: f64,
    /// Shares of 4 CPUs, in percent.
    user: u64,
    system: u64,
    switches_per_s: f64,
    mean_ns: f64,
    /// Requests and write calls under strace, over 15 s.
    traced_requests: u64,
    call: &'static str,
    calls: u64,
}

const H2O: Published = Published {
    name: "h2o",
    rate_per_s: 508_095.0,
    user: 34,
    system: 66,
    switches_per_s: 7600.0,
    mean_ns: 4.46e6,
    traced_requests: 575_044,
    call: "writev",
    calls: 579_104,
};

const AKKA: Published = Published {
    name: "akka-http",
    rate_per_s: 229_654.0,
    user: 77,
    system: 22,
    switches_per_s: 46_000.0,
    mean_ns: 33.1e6,
    traced_requests: 1_781_629,
    call: "write",
    calls: 447_411,
};

fn published() -> Run {
    let mut run = run(4, 6, &[arm(H2O.name, 7900.0), arm(AKKA.name, 17_200.0)]);
    run.manifest.plan.workload.conditions.truncate(1);
    run.manifest.plan.workload.job = model::job::Job::get(256).with_depth(16);
    run.host.unit_costs =
        Some(UnitCosts { context_switch_ns: 2000.0, loopback_write_ns: 1500.0, ..UnitCosts::default() });
    for server in [&H2O, &AKKA] {
        run.rounds.iter_mut().for_each(|record| record.windows.truncate(1));
        change(&mut run, server.name, 0, |window| fill(window, server));
        let mut window =
            run.rounds.iter().find(|record| record.arm == server.name).unwrap().windows[0].clone();
        window.load.requests = server.traced_requests;
        window.load.rate_per_s = server.traced_requests as f64 / 15.0;
        // What the servers' CPUs did under strace was not published.
        window.target.cpu = CpuTimes::default();
        let counts = Counts {
            syscalls: BTreeMap::from([(server.call.to_owned(), server.calls)]),
            ..Counts::default()
        };
        let pass = Pass {
            kind: PassKind::Tracing,
            window,
            counts: Some(counts),
            profile: None,
            machine: None,
            services: BTreeMap::new(),
            waits: None,
            missing: Vec::new(),
        };
        let record = DiagnosticRecord { passes: vec![pass], ..DiagnosticRecord::new(server.name, 0) };
        run.diagnostics.push(record);
    }
    run
}

fn fill(window: &mut Window, server: &Published) {
    let requests = (server.rate_per_s * 15.0).round();
    let share = |percent: u64| u64::from(CPUS) * WINDOW_NS * percent / 100;
    let (user_ns, system_ns) = (share(server.user), share(server.system));
    window.load.window_ns = WINDOW_NS;
    window.load.requests = requests as u64;
    window.load.rate_per_s = server.rate_per_s;
    window.load.bytes_read = requests as u64 * 130;
    window.load.pipeline = 16;
    window.load.connections.requested = 256;
    window.load.connections.established = 256;
    window.load.response_ns.mean = server.mean_ns;
    window.target.wall_ns = WINDOW_NS;
    window.target.cpu = CpuTimes { total_ns: user_ns + system_ns, user_ns, system_ns };
    window.target.voluntary_switches = (server.switches_per_s * 15.0) as u64;
    window.target.busiest_thread_ns = 0;
    window.server_cpus.wall_ns = WINDOW_NS;
    window.server_cpus.cpus = CPUS;
    window.server_cpus.user_ns = user_ns;
    window.server_cpus.system_ns = system_ns;
    window.server_cpus.idle_ns = u64::from(CPUS) * WINDOW_NS - user_ns - system_ns;
}

fn text_of<'a>(findings: &'a Findings, id: &str) -> &'a str {
    &findings.causes.iter().find(|cause| cause.id.name() == id).unwrap_or_else(|| panic!("no {id}")).text
}

#[test]
fn the_published_figures_give_the_analysis_that_their_authors_lacked() {
    let findings = analyse(&published());
    let split = &findings.splits[0];
    let near = |value: f64, expected: f64, within: f64| {
        assert!((value - expected).abs() <= within, "{value} is not {expected}: {split:?}");
    };
    let cpu = |index: usize| findings.arms[index].cpu_ns_per_request.unwrap().total / 1000.0;
    near(cpu(0), 7.9, 0.05);
    near(cpu(1), 17.2, 0.05);
    near(split.user_ns / 1000.0, 10.7, 0.05);
    near(split.system_ns / 1000.0, -1.4, 0.05);
    near(1.0 / split.rate_ratio, 2.21, 0.005);
    near(1.0 / split.busy_cores_ratio, 1.01, 0.005);
    near(split.cpu_per_request_ratio, 2.19, 0.005);
    assert_eq!(
        text_of(&findings, "context_switches"),
        "context switches: 0.200 a request against 0.015: can carry at most 4.0 % of the gap"
    );
    assert_eq!(
        findings.causes.iter().find(|cause| cause.id.name() == "context_switches").unwrap().grade,
        Grade::RuledOut
    );
    assert_eq!(findings.causes[0].id.name(), "user_time");
}

#[test]
fn the_published_writes_and_what_strace_did_are_told() {
    let findings = analyse(&published());
    let writes = text_of(&findings, "small_writes");
    // What strace counted does not say what was written to.
    assert!(
        writes.starts_with("writes to the network, files or pipes: 0.25 a request against 1.01"),
        "{writes}"
    );
    let slowdowns: Vec<f64> = findings.passes.iter().map(|pass| pass.rate_slowdown).collect();
    assert!((slowdowns[0] - 13.3).abs() < 0.06 && (slowdowns[1] - 1.9).abs() < 0.06, "{slowdowns:?}");
    let turned = "it turns the order of h2o and akka-http around";
    assert!(findings.passes.iter().any(|pass| pass.text.contains(turned)), "{:?}", findings.passes);
}

#[test]
fn the_published_latencies_are_those_of_batches() {
    let findings = analyse(&published());
    let failed: Vec<_> = gates(&findings, GateId::Little).into_iter().filter(|gate| !gate.ok).collect();
    let arms: Vec<_> = failed.iter().filter_map(|gate| gate.arm.as_deref()).collect();
    assert_eq!(arms, [H2O.name, AKKA.name]);
}
