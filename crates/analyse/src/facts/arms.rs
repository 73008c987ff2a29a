//! One row for each arm: counts pooled over its valid rounds, percentiles as medians over them.

use std::collections::BTreeMap;

use model::plan::{Arm, ArmSource, Compose, Image, Revision};
use model::record::{
    AloneReason, Background, LoadReport, Percentiles, RoundRecord, ServiceImage, SocketCounters, Window,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::alone::Alone;
use super::busy::{backlog_per_s, busy_cores, set_busy};
use super::metric::Metric;
use super::observed::{self, Counted};
use super::passes::PassFindings;
use super::shape::ResponseShape;
use super::sheet::Sheet;
use super::stalls::Stalls;

/// CPU per request by where it was spent, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPerRequest {
    /// All of it.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Soft interrupts on the server's CPUs; part of `system` if the kernel charges them to the task.
    pub softirq: f64,
}

/// Context switches per request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// The thread waited for something.
    pub voluntary: f64,
    /// The thread was interrupted.
    pub involuntary: f64,
}

/// TCP segments with data per request: one each way if requests and answers are small and not pipelined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segments {
    /// That the server received.
    pub received: f64,
    /// That the server sent.
    pub sent: f64,
}

/// Response times in nanoseconds: each percentile is the median of the rounds' percentiles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Median.
    pub p50: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p99_9: Option<f64>,
    /// Largest of all rounds.
    pub max: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
}

/// The requests of one arm that share a name. They are exploratory: there is no verdict on them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamedFindings {
    /// Requests answered in all valid windows of the condition of the findings.
    pub requests: u64,
    /// Requests that went wrong there.
    pub errors: u64,
    /// Response times at the latency condition; at the main condition where there is no other.
    pub latency_ns: Latency,
}

/// An open loop that sends more than the server can answer, so that a queue grows for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Requests per second asked for.
    pub asked_per_s: f64,
    /// Requests per second answered.
    pub answered_per_s: f64,
    /// Requests per second by which the backlog grows.
    pub backlog_per_s: f64,
}

/// The state of a git repository that an arm was built from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevisionFindings {
    /// What was asked for: a branch, a tag, a commit, or `.` for the work tree.
    pub asked: String,
    /// The commit; of the work tree the one that it began from.
    pub commit: Option<String>,
    /// The tree that was built.
    pub tree: String,
    /// Whether the tree is not the commit's: work that is not committed.
    pub changed: bool,
    /// The commit in short.
    pub text: String,
}

impl RevisionFindings {
    fn from_revision(revision: &Revision) -> Self {
        Self {
            asked: revision.asked.clone(),
            commit: revision.commit.clone(),
            tree: revision.tree.clone(),
            changed: revision.changed,
            text: revision.describe(),
        }
    }
}

/// The image that an arm ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageFindings {
    /// What was asked for, with its engine, such as `podman:shop:2.1`.
    pub asked: String,
    /// SHA-256 of its configuration, hexadecimal: the same files and command have the same.
    pub id: String,
    /// SHA-256 of its manifest, as registries name it; absent where the engine knew none.
    pub digest: Option<String>,
    /// The id as the engines print it.
    pub text: String,
}

impl ImageFindings {
    fn from_image(image: &Image) -> Self {
        Self {
            asked: image.name(),
            id: image.id.clone(),
            digest: image.digest.clone(),
            text: image.short_id().to_owned(),
        }
    }
}

/// The service of a compose file that an arm was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComposeFindings {
    /// What was asked for, such as `compose:shop.yaml#web`.
    pub asked: String,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Its services that ran beside.
    pub beside: Vec<String>,
    /// What its services ran, the one that was asked first; empty where none was started.
    #[serde(default)]
    pub images: Vec<ServiceImage>,
    /// The hash and the images in short.
    pub text: String,
}

impl ComposeFindings {
    fn from_compose(compose: &Compose, images: &[ServiceImage]) -> Self {
        let image = |image: &ServiceImage| {
            let digest = image.digest.as_ref().map(|digest| format!(", {digest}")).unwrap_or_default();
            format!("; {} ran {}, image {}{digest}", image.service, image.asked, image.short_id())
        };
        let images_text: String = images.iter().map(image).collect();
        Self {
            asked: compose.name(),
            sha256: compose.sha256.clone(),
            beside: compose.beside.clone(),
            images: images.to_vec(),
            text: format!("{}{images_text}", compose.short_hash()),
        }
    }
}

/// One arm, at the condition of the findings: counts are pooled over its valid rounds, rate and cores are their mean,
/// percentiles and memory their median.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmFindings {
    /// Name.
    pub name: String,
    /// Target, where it is one of `targets/` or built in.
    pub target: Option<String>,
    /// Variant of the target.
    pub variant: Option<String>,
    /// Command that started it.
    pub command: String,
    /// The state of a repository that it was built from.
    #[serde(default)]
    pub revision: Option<RevisionFindings>,
    /// The image that it ran, where it is one.
    #[serde(default)]
    pub image: Option<ImageFindings>,
    /// The compose file that it is a service of, where it is one.
    #[serde(default)]
    pub compose: Option<ComposeFindings>,
    /// SHA-256 of its executable or its compose file, or the id of its image.
    pub build_id: Option<String>,
    /// Whether it gave figures.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
    /// Last lines of its log, when it failed.
    pub log: Vec<String>,
    /// Valid rounds.
    pub rounds: u32,
    /// Requests completed in all valid windows.
    pub requests: u64,
    /// Requests among them that were sent again because the server closed their connection.
    #[serde(default)]
    pub resent: u64,
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Connections established.
    pub connections: u64,
    /// Server CPU per request.
    pub cpu_ns_per_request: Option<CpuPerRequest>,
    /// Lowest and highest round in server CPU per request.
    #[serde(default)]
    pub cpu_ns_per_request_range: Option<[f64; 2]>,
    /// Generator CPU per request, for comparison.
    pub generator_cpu_ns_per_request: Option<f64>,
    /// Busy cores of the server.
    pub busy_cores: Option<f64>,
    /// Share of the server's CPU set that was busy, 0 to 1.
    pub server_set_busy: Option<f64>,
    /// Lowest and highest round in it.
    #[serde(default)]
    pub server_set_busy_range: Option<[f64; 2]>,
    /// CPU of each service beside per request, by name, in nanoseconds.
    #[serde(default)]
    pub services: BTreeMap<String, f64>,
    /// Context switches.
    pub context_switches_per_request: Option<Switches>,
    /// TCP segments with data, where the kernel told of the server's connections.
    pub segments_per_request: Option<Segments>,
    /// Bytes of answers that the generator read, heads and frames with them.
    #[serde(default)]
    pub bytes_per_request: Option<f64>,
    /// Page faults that no disk was read for.
    #[serde(default)]
    pub page_faults_per_request: Option<f64>,
    /// System calls by name, where they were counted.
    pub syscalls_per_request: BTreeMap<String, f64>,
    /// The same, with how exact it is.
    #[serde(skip)]
    pub counted: Option<Counted>,
    /// Time ready threads waited for a CPU, in nanoseconds per request.
    pub run_wait_ns_per_request: Option<f64>,
    /// Response times at the latency condition; at the main condition where there is no other.
    pub latency_ns: Latency,
    /// What was asked under each name, where requests have names.
    #[serde(default)]
    pub requests_by_name: BTreeMap<String, NamedFindings>,
    /// Largest resident set.
    pub rss_peak_bytes: Option<f64>,
    /// What limits it.
    pub limiter: Option<String>,
    /// How its responses are spread over time, for each condition for which this was kept.
    #[serde(default)]
    pub response_shapes: Vec<ResponseShape>,
    /// Times in which it answered nobody, if they are at least a fiftieth of the watched time.
    #[serde(default)]
    pub stalls: Option<Stalls>,
    /// How far the rate exceeds what it can serve; absent if it kept up.
    #[serde(default)]
    pub overload: Option<Overload>,
    /// Rounds that began without a steady warm-up.
    pub unsteady_rounds: u32,
    /// CPUs that it kept busy while nobody asked it anything: during the turns of other arms, or in the pilot where that is why arms ran
    /// alone; absent otherwise.
    #[serde(default)]
    pub background_cpu_share: Option<f64>,
}

/// What was measured of one arm.
pub(crate) fn row(sheet: &Sheet, arm: &Arm, alone: &Alone, passes: &[PassFindings]) -> ArmFindings {
    let name = arm.name.as_str();
    let (target, variant) = source(&arm.source);
    let windows = sheet.windows(name, sheet.main);
    let median = |figure: &dyn Fn(&Window) -> Option<f64>| sheet.median(name, sheet.main, figure);
    let range = |figure: &dyn Fn(&Window) -> Option<f64>| sheet.range(name, sheet.main, figure);
    // Of processes that were not seen, 0 would be a wrong number.
    let seen = sheet.is_observed(name);
    let pooled = |count: fn(&Window) -> u64| sheet.pooled(name, sheet.main, count).filter(|_| seen);
    let rounds = sheet.rounds_of(name).count() as u32;
    let build = sheet.run.manifest.builds.iter().find(|build| build.arm == name);
    let counted = observed::counted(sheet, name, passes);
    let mut row = ArmFindings {
        name: name.to_owned(),
        target,
        variant,
        command: arm.what(),
        revision: arm.source.revision().map(RevisionFindings::from_revision),
        image: arm.source.image().map(ImageFindings::from_image),
        compose: arm
            .source
            .compose()
            .map(|compose| ComposeFindings::from_compose(compose, build.map_or(&[], |build| &build.images))),
        build_id: build.and_then(|build| build.sha256.clone()),
        ok: sheet.run.rounds.iter().any(|record| record.arm == name && has_answered(record)),
        rounds,
        background_cpu_share: background(sheet, name),
        requests: windows.iter().map(|window| window.load.requests).sum(),
        resent: windows.iter().map(|window| window.load.resent).sum(),
        connections: windows.iter().map(|window| window.load.connections.established).max().unwrap_or(0),
        rate_per_s: mean(&windows, |window| Metric::Rate.value_in(window).unwrap_or_default()),
        cpu_ns_per_request: cpu(pooled),
        cpu_ns_per_request_range: range(&|window| Metric::CpuPerRequest.value_in(window)),
        generator_cpu_ns_per_request: median(&|window| Some(generator_cpu(&window.load))),
        busy_cores: mean(&windows, busy_cores).filter(|_| seen),
        server_set_busy: median(&|window| Some(set_busy(&window.server_cpus))),
        server_set_busy_range: range(&|window| Some(set_busy(&window.server_cpus))),
        services: services(&windows),
        context_switches_per_request: switches(pooled),
        segments_per_request: segments(&windows, pooled),
        bytes_per_request: bytes(&windows),
        page_faults_per_request: pooled(|window| window.target.minor_faults),
        syscalls_per_request: counted.as_ref().map(|counted| counted.syscalls.clone()).unwrap_or_default(),
        counted,
        run_wait_ns_per_request: pooled(|window| window.target.run_wait_ns),
        latency_ns: latency(sheet, name),
        requests_by_name: by_name(sheet, name),
        rss_peak_bytes: median(&|window| Metric::Rss.value_in(window)),
        response_shapes: alone.shapes.clone(),
        stalls: alone.stalls.clone(),
        overload: overload(sheet, name),
        unsteady_rounds: sheet.rounds_of(name).filter(|record| !record.warmup.steady).count() as u32,
        ..ArmFindings::default()
    };
    add_failure(&mut row, sheet.run.rounds.iter().filter(|record| record.arm == name));
    row
}

/// Whether it answered anything: when it was asked whether it is ready, or in a window.
fn has_answered(record: &RoundRecord) -> bool {
    record.answer.is_some() || !record.windows.is_empty()
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

/// Bytes read for each answer.
fn bytes(windows: &[&Window]) -> Option<f64> {
    let sum = |count: fn(&LoadReport) -> u64| windows.iter().map(|window| count(&window.load)).sum::<u64>();
    let requests = sum(|load| load.requests);
    (requests > 0).then(|| sum(|load| load.bytes_read) as f64 / requests as f64)
}

/// What services used in the turns of one arm, per request answered in them.
fn services(windows: &[&Window]) -> BTreeMap<String, f64> {
    let requests: u64 = windows.iter().map(|window| window.load.requests).sum();
    let mut used: BTreeMap<String, f64> = BTreeMap::new();
    for (name, cpu_ns) in windows.iter().flat_map(|window| &window.services) {
        *used.entry(name.clone()).or_default() += *cpu_ns as f64 / requests.max(1) as f64;
    }
    used
}

fn generator_cpu(load: &LoadReport) -> f64 {
    load.cpu_ns_per_request.user + load.cpu_ns_per_request.system
}

fn source(source: &ArmSource) -> (Option<String>, Option<String>) {
    match source {
        ArmSource::BuiltIn { model } => (Some(model.clone()), None),
        ArmSource::Target { name, variant } => (Some(name.clone()), variant.clone()),
        ArmSource::Command
        | ArmSource::Git(_)
        | ArmSource::Image(_)
        | ArmSource::Compose(_)
        | ArmSource::Running(_) => (None, None),
    }
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
    // Of arms that ran alone because of it the pilot knows.
    let piloted = match &sheet.run.manifest.fitted.alone {
        Some(AloneReason::Background { arm, share }) if arm == name => Some(*share),
        _ => None,
    };
    if sum.wall_ns > 0 { Some(sum.share()) } else { piloted }
}

fn latency(sheet: &Sheet, name: &str) -> Latency {
    let index = sheet.latency.unwrap_or(sheet.main);
    let median = |metric: Metric| match sheet.latency {
        Some(_) => {
            let values: Vec<f64> = sheet.values(name, metric).into_iter().map(|(_, value)| value).collect();
            stats::descriptive::median(&values)
        }
        None => sheet.median(name, index, |window| metric.value_in(window)),
    };
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

/// The rows of named requests: counts of the main condition, response times of the latency condition.
fn by_name(sheet: &Sheet, name: &str) -> BTreeMap<String, NamedFindings> {
    let mut rows: BTreeMap<String, NamedFindings> = BTreeMap::new();
    for window in sheet.windows(name, sheet.main) {
        for (request, seen) in &window.load.requests_by_name {
            let row = rows.entry(request.clone()).or_default();
            row.requests += seen.requests;
            row.errors += seen.errors;
        }
    }
    let index = sheet.latency.unwrap_or(sheet.main);
    for (request, row) in &mut rows {
        row.latency_ns = named_latency(sheet, name, index, request);
    }
    rows
}

fn named_latency(sheet: &Sheet, name: &str, index: usize, request: &str) -> Latency {
    let seen = |window: &Window| window.load.requests_by_name.get(request).map(|row| row.response_ns.clone());
    let median = |of: fn(&Percentiles) -> Option<u64>| {
        sheet.median(name, index, |window| of(&seen(window)?).map(|ns| ns as f64))
    };
    let windows = sheet.windows(name, index);
    Latency {
        p50: median(|row| row.p50),
        p90: median(|row| row.p90),
        p99: median(|row| row.p99),
        p99_9: median(|row| row.p99_9),
        max: windows.iter().filter_map(|window| Some(seen(window)?.max as f64)).reduce(f64::max),
        mean: sheet.median(name, index, |window| Some(seen(window)?.mean)),
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
