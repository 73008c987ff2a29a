//! One row for each arm: counts pooled over its valid rounds, percentiles as medians over them.

use model::plan::{Arm, ArmSource};
use model::record::{Background, LoadReport, RoundRecord, SocketCounters, Window};

use crate::Metric;
use crate::findings::{ArmFindings, CpuPerRequest, Latency, Overload, Segments, Switches};
use crate::gates::{backlog_per_s, set_busy};
use crate::sheet::Sheet;

pub(crate) fn all(sheet: &Sheet) -> Vec<ArmFindings> {
    sheet.plan().arms.iter().map(|arm| row(sheet, arm)).collect()
}

/// Cores that the target kept busy in a window.
pub(crate) fn busy_cores(window: &Window) -> f64 {
    window.target.cpu.total_ns as f64 / window.target.wall_ns.max(1) as f64
}

fn row(sheet: &Sheet, arm: &Arm) -> ArmFindings {
    let name = arm.name.as_str();
    let (target, variant) = source(&arm.source);
    let windows = sheet.windows(name, sheet.main);
    let median = |figure: &dyn Fn(&Window) -> Option<f64>| sheet.median(name, sheet.main, figure);
    let range = |figure: &dyn Fn(&Window) -> Option<f64>| sheet.range(name, sheet.main, figure);
    let pooled = |count: fn(&Window) -> u64| sheet.pooled(name, sheet.main, count);
    let rounds = sheet.rounds_of(name).count() as u32;
    let mut row = ArmFindings {
        name: name.to_owned(),
        target,
        variant,
        command: arm.run.join(" "),
        build_id: build_id(sheet, name),
        ok: sheet.run.rounds.iter().any(|record| record.arm == name && record.answer.is_some()),
        rounds,
        background_cpu_share: background(sheet, name),
        requests: windows.iter().map(|window| window.load.requests).sum(),
        connections: windows.iter().map(|window| window.load.connections.established).max().unwrap_or(0),
        rate_per_s: mean(&windows, |window| window.load.rate_per_s),
        cpu_ns_per_request: cpu(pooled),
        cpu_ns_per_request_range: range(&|window| Metric::CpuPerRequest.of(window)),
        generator_cpu_ns_per_request: median(&|window| Some(generator_cpu(&window.load))),
        busy_cores: mean(&windows, busy_cores),
        server_set_busy: median(&|window| Some(set_busy(&window.server_cpus))),
        server_set_busy_range: range(&|window| Some(set_busy(&window.server_cpus))),
        context_switches_per_request: switches(pooled),
        segments_per_request: segments(&windows, pooled),
        run_wait_ns_per_request: pooled(|window| window.target.run_wait_ns),
        latency_ns: latency(sheet, name),
        rss_peak_bytes: median(&|window| Metric::Rss.of(window)),
        overload: overload(sheet, name),
        unsteady_rounds: sheet.rounds_of(name).filter(|record| !record.warmup.steady).count() as u32,
        ..ArmFindings::default()
    };
    add_failure(&mut row, sheet.run.rounds.iter().filter(|record| record.arm == name));
    row
}

/// The first condition whose schedule the server, and not the generator, could not keep.
fn overload(sheet: &Sheet, name: &str) -> Option<Overload> {
    (0..sheet.plan().workload.conditions.len()).find_map(|index| {
        let median = |figure: fn(&Window) -> Option<f64>| sheet.median(name, index, figure);
        Some(Overload {
            backlog_per_s: median(backlog_per_s)?,
            asked_per_s: median(|window| window.load.schedule.rate_per_s)?,
            answered_per_s: median(|window| Some(window.load.rate_per_s))?,
        })
    })
}

fn generator_cpu(load: &LoadReport) -> f64 {
    load.cpu_ns_per_request.user + load.cpu_ns_per_request.system
}

fn source(source: &ArmSource) -> (Option<String>, Option<String>) {
    match source {
        ArmSource::BuiltIn { model } => (Some(model.clone()), None),
        ArmSource::Target { name, variant } => (Some(name.clone()), variant.clone()),
        ArmSource::Command => (None, None),
    }
}

fn build_id(sheet: &Sheet, name: &str) -> Option<String> {
    sheet.run.manifest.builds.iter().find(|build| build.arm == name)?.sha256.clone()
}

fn mean(windows: &[&Window], figure: fn(&Window) -> f64) -> Option<f64> {
    stats::descriptive::mean(&windows.iter().map(|window| figure(window)).collect::<Vec<_>>())
}

pub(crate) fn cpu(pooled: impl Fn(fn(&Window) -> u64) -> Option<f64>) -> Option<CpuPerRequest> {
    Some(CpuPerRequest {
        total: pooled(|window| window.target.cpu.total_ns)?,
        user: pooled(|window| window.target.cpu.user_ns)?,
        system: pooled(|window| window.target.cpu.system_ns)?,
        softirq: pooled(|window| window.server_cpus.softirq_ns)?,
    })
}

fn switches(pooled: impl Fn(fn(&Window) -> u64) -> Option<f64>) -> Option<Switches> {
    Some(Switches {
        voluntary: pooled(|window| window.target.voluntary_switches)?,
        involuntary: pooled(|window| window.target.involuntary_switches)?,
    })
}

fn segments(windows: &[&Window], pooled: impl Fn(fn(&Window) -> u64) -> Option<f64>) -> Option<Segments> {
    let known =
        |window: &&Window| window.resources.as_ref().is_some_and(|resources| resources.sockets.is_some());
    windows.iter().all(known).then_some(())?;
    Some(Segments {
        received: pooled(|window| server_side(window).data_segments_in)?,
        sent: pooled(|window| server_side(window).data_segments_out)?,
    })
}

fn server_side(window: &Window) -> SocketCounters {
    let sockets = window.resources.as_ref().and_then(|resources| resources.sockets.as_ref());
    sockets.map(|sockets| sockets.server).unwrap_or_default()
}

/// CPUs that an arm kept busy in the turns of others.
fn background(sheet: &Sheet, name: &str) -> Option<f64> {
    let seen: Vec<_> = sheet.rounds_of(name).filter_map(|record| record.background).collect();
    let sum = seen.iter().fold(Background::default(), |sum, one| Background {
        wall_ns: sum.wall_ns + one.wall_ns,
        cpu_ns: sum.cpu_ns + one.cpu_ns,
    });
    (sum.wall_ns > 0).then(|| sum.share())
}

fn latency(sheet: &Sheet, name: &str) -> Latency {
    let index = sheet.latency.unwrap_or(sheet.main);
    let median = |metric: Metric| sheet.median(name, index, |window| metric.of(window));
    let windows = sheet.windows(name, index);
    Latency {
        p50: median(Metric::P50),
        p90: median(Metric::P90),
        p99: median(Metric::P99),
        p99_9: median(Metric::P999),
        max: windows.iter().map(|window| window.load.response_ns.max as f64).reduce(f64::max),
        mean: sheet.median(name, index, |window| Some(window.load.response_ns.mean)),
    }
}

/// A failed round is told even where others went well; without any good round it is the arm's error.
fn add_failure<'a>(row: &mut ArmFindings, records: impl Iterator<Item = &'a RoundRecord>) {
    let failures: Vec<_> = records.filter_map(|record| record.failure.as_ref()).collect();
    if let Some(last) = failures.last() {
        row.error = Some(last.text.clone());
        row.log.clone_from(&last.log);
        row.ok = false;
    }
}
