//! What is known of one arm, per request: pooled over its valid rounds, and over the diagnostic passes that count.

use std::collections::BTreeMap;

use model::plan::GateId;
use model::record::{Frame, Pieces, Profile, Window};

use super::Material;
use crate::facts::arms::{self, CpuPerRequest};
use crate::facts::busy::{
    FULL, NEARLY_ALL, REFUSED, busiest_thread, busy_cores, refused, server_busy, set_busy, with_interrupts,
};
use crate::facts::metric::in_window;
use crate::facts::observed::{self, Blocked, Counted, Machine};
use crate::facts::parked::{ParkedAt, parked};
use crate::facts::passes::PassFindings;
use crate::facts::shape::Shape;
use crate::facts::sheet::Sheet;
use crate::facts::stalls::Stalls;
use crate::facts::waits::{Waited, waited};
use crate::gates;

/// One arm per request; times in nanoseconds.
pub(crate) struct Evidence {
    pub(crate) name: String,
    pub(crate) cpu: CpuPerRequest,
    /// CPU time of the server's set that was not used.
    pub(crate) idle_ns: f64,
    /// Whether the CPUs, or one thread, were full.
    pub(crate) full: bool,
    /// Whether its CPUs were full, nearly all of that with itself and nothing with services beside.
    pub(crate) crowded: bool,
    /// Whether one thread was full while the CPUs were not.
    pub(crate) one_thread_full: bool,
    /// CPUs that it may use.
    pub(crate) cpus: f64,
    /// CPUs that it kept busy.
    pub(crate) busy_cores: f64,
    /// Whether the generator may have been the limit, and nothing of the server's own is known to be: one that refuses
    /// connections keeps their clients away, however busy the generator is with the others.
    pub(crate) generator_limits: bool,
    /// Whether it starved connections.
    pub(crate) stalls: bool,
    /// Voluntary and involuntary switches.
    pub(crate) switches: [f64; 2],
    pub(crate) minor_faults: f64,
    /// Bytes of an answer.
    pub(crate) answer_bytes: f64,
    /// Segments of the whole host, both sides of the connections.
    pub(crate) segments: f64,
    /// Segments with data to others that it asks; nothing where its connections are not seen.
    pub(crate) asked: Option<f64>,
    pub(crate) delayed_acks: f64,
    /// Connections refused or dropped because too many waited to be accepted.
    pub(crate) refused: f64,
    /// Connections accepted.
    pub(crate) accepted: f64,
    /// Share of the connections that waited to be accepted, 0 to 1.
    pub(crate) waiting_to_be_accepted: f64,
    /// Time that its threads were ready to run and waited for a CPU.
    pub(crate) run_wait_ns: f64,
    /// Time between request and answer of one connection.
    pub(crate) response_ns: f64,
    /// The same, median or else mean, at the equal rate, where the main condition is another one: most servers have nothing to queue then.
    pub(crate) unhurried_ns: Option<f64>,
    /// Requests under way at a time.
    pub(crate) in_flight: f64,
    /// Share of the answers that came in pieces, and how far apart the first and the last of one were on average.
    pub(crate) pieces: Option<(f64, f64)>,
    /// CPU time by the name of the thread.
    pub(crate) threads_ns: BTreeMap<String, f64>,
    /// CPU time of processes that ended meanwhile.
    pub(crate) ended_processes_ns: f64,
    /// CPU time of threads that ended meanwhile.
    pub(crate) ended_threads_ns: f64,
    /// What was counted by perf events, where a pass counts.
    pub(crate) counted: Option<Counted>,
    pub(crate) shape: Shape,
    /// The same at the equal rate, where that was kept and the main condition is another one.
    pub(crate) unhurried_shape: Option<Shape>,
    /// When it answered nobody.
    pub(crate) stalled: Option<Stalls>,
    /// The program's functions in which its threads waited for something other than requests, longest first.
    pub(crate) waits_in: Vec<String>,
    /// Threads that waited at a time on average, by what they waited for; empty where that was not seen.
    pub(crate) blocked: BTreeMap<Blocked, f64>,
    /// What its virtual machines did, where they log it.
    pub(crate) machine: Option<Machine>,
    /// What ended the waits of its threads; empty where that was not seen.
    pub(crate) waited: Vec<Waited>,
    /// What the timers of its event loop run, with the CPU time of that.
    pub(crate) timers: BTreeMap<Frame, f64>,
    /// Its goroutines that waited, longest first; nothing where they were not seen.
    pub(crate) parked: Option<Vec<ParkedAt>>,
    /// Whether the idle threads of its runtime were told from threads that wait for something.
    pub(crate) knows_idle_threads: bool,
}

impl Evidence {
    /// What is known of `arm`; nothing where it has no valid round.
    pub(crate) fn for_arm(arm: &str, material: &Material) -> Option<Self> {
        let (sheet, passes) = (&material.facts.sheet, &material.facts.passes);
        let index = sheet.main;
        let windows = sheet.windows(arm, index);
        let pooled = |count: fn(&Window) -> u64| sheet.pooled(arm, index, count);
        let cpu = arms::cpu(pooled)?;
        let offered = pooled(|window| window.target.wall_ns * u64::from(window.server_cpus.cpus.max(1)))?;
        let tcp = |count: fn(&model::record::TcpCounters) -> u64| {
            sheet.pooled(arm, index, |window| count(&window.server_cpus.tcp)).unwrap_or(0.0)
        };
        let median =
            |figure: &dyn Fn(&Window) -> Option<f64>| sheet.median(arm, index, figure).unwrap_or(0.0);
        let waiting = waiting(sheet, arm, passes);
        let refused = sheet.pooled(arm, index, refused).unwrap_or(0.0);
        let fails = |id: GateId| gates::failed(material.gates, id, arm).is_some();
        Some(Self {
            name: arm.to_owned(),
            idle_ns: (offered - cpu.total).max(0.0),
            full: median(&|window| Some(server_busy(window))) >= FULL,
            crowded: windows.iter().all(|window| window.services.values().all(|ns| *ns == 0))
                && median(&|window| Some(set_busy(&window.server_cpus))) >= FULL
                && median(&|window| Some(with_interrupts(window))) >= NEARLY_ALL,
            one_thread_full: median(&|window| Some(busiest_thread(window))) >= FULL
                && median(&|window| Some(set_busy(&window.server_cpus))) < FULL,
            cpus: median(&|window| Some(f64::from(window.server_cpus.cpus))),
            busy_cores: median(&|window| Some(busy_cores(window))),
            generator_limits: refused < REFUSED && fails(GateId::Generator),
            stalls: fails(GateId::Stall),
            switches: [
                pooled(|window| window.target.voluntary_switches)?,
                pooled(|window| window.target.involuntary_switches)?,
            ],
            minor_faults: pooled(|window| window.target.minor_faults)?,
            answer_bytes: median(&|window| {
                Some(window.load.bytes_read as f64 / window.load.requests.max(1) as f64)
            }),
            segments: tcp(|tcp| tcp.segments_out),
            asked: asked(&windows),
            delayed_acks: tcp(|tcp| tcp.delayed_acks),
            refused,
            accepted: tcp(|tcp| tcp.passive_opens),
            waiting_to_be_accepted: mean(&windows, waiting_to_be_accepted),
            run_wait_ns: pooled(|window| window.target.run_wait_ns)?,
            pieces: pieces(&windows),
            response_ns: median(&|window| Some(window.load.response_ns.mean)),
            unhurried_ns: unhurried_ns(sheet, arm),
            in_flight: median(&|window| Some(window.load.rate_per_s * window.load.response_ns.mean / 1e9)),
            threads_ns: threads(&windows),
            ended_processes_ns: pooled(|window| window.target.ended_processes_ns)?,
            ended_threads_ns: pooled(|window| window.target.ended_threads_ns)?,
            counted: observed::counted(sheet, arm, passes),
            shape: Shape::from_windows(&windows),
            unhurried_shape: unhurried_shape(sheet, arm),
            stalled: material.facts.arm(arm).and_then(|row| row.stalls.clone()),
            machine: observed::machine(sheet, arm, passes),
            waits_in: observed::waits_in(&waiting),
            blocked: observed::blocked(&waiting),
            waited: waited(sheet, arm, passes),
            timers: timers(&observed::sampled(sheet.run, arm), cpu.total),
            parked: parked(sheet, arm, passes),
            knows_idle_threads: observed::knows_idle_threads(&waiting),
            cpu,
        })
    }

    /// System calls per request whose names are in `names`; absent where none are counted by name.
    pub(crate) fn calls(&self, names: &[&str]) -> Option<f64> {
        Some(self.counted.as_ref().filter(|counted| !counted.syscalls.is_empty())?.calls(names))
    }

    /// Switches of both kinds.
    pub(crate) fn all_switches(&self) -> f64 {
        self.switches.iter().sum()
    }
}

/// Profiles of its threads that wait.
fn waiting<'a>(sheet: &Sheet<'a>, arm: &'a str, passes: &[PassFindings]) -> Vec<&'a Profile> {
    observed::waiting(sheet, arm, passes).into_iter().map(|(_, profile)| profile).collect()
}

/// What timers run, in nanoseconds per request.
fn timers(profiles: &[&Profile], cpu_ns: f64) -> BTreeMap<Frame, f64> {
    let mut run = observed::run_by_timers(profiles);
    run.values_mut().for_each(|share| *share *= cpu_ns);
    run
}

/// Half of the responses at the equal rate, where that is another condition than the main one. Few answers have no median that could be
/// believed; the mean of each window will do here.
fn unhurried_ns(sheet: &Sheet, arm: &str) -> Option<f64> {
    let latency = sheet.latency.filter(|latency| *latency != sheet.main)?;
    sheet.median(arm, latency, |window| {
        let response = &window.load.response_ns;
        let mean = Some(response.mean).filter(|_| response.count > 0);
        response.p50.map(|p50| p50 as f64).or(mean)
    })
}

/// How responses are spread at the equal rate, where that was kept and the main condition is another one.
fn unhurried_shape(sheet: &Sheet, arm: &str) -> Option<Shape> {
    let latency = sheet.latency.filter(|latency| *latency != sheet.main)?;
    let shape = Shape::from_windows(&sheet.windows(arm, latency));
    shape.quantile_ns(0.5).is_some().then_some(shape)
}

/// Share of the connections that waited to be accepted at the end of a window.
fn waiting_to_be_accepted(window: &Window) -> f64 {
    let sockets = window.resources.as_ref().and_then(|resources| resources.sockets.as_ref());
    let queued: u32 = sockets.map_or(0, |sockets| sockets.listeners.iter().map(|one| one.queued).sum());
    (f64::from(queued) / window.load.connections.requested.max(1) as f64).min(1.0)
}

/// Segments with data that it sent to others, per request; nothing where anybody on the host opened connections meanwhile, because those
/// that have ended are not seen. Turns are counted with their edges: a request is a segment that came in, unless they are pipelined.
fn asked(windows: &[&Window]) -> Option<f64> {
    const OPENED: f64 = 0.01;
    let (mut asked, mut requests, mut opened) = (0, 0, 0);
    for window in windows {
        let sockets = window.resources.as_ref()?.sockets.as_ref()?;
        asked += sockets.asked?.data_segments_out;
        requests += sockets.server.data_segments_in.max(window.load.requests);
        opened += window.server_cpus.tcp.active_opens;
    }
    let requests = requests.max(1) as f64;
    ((opened as f64) < OPENED * requests).then_some(asked as f64 / requests)
}

/// Answers in pieces as a share of all, and the mean time from the first piece to the last; nothing where it is not known.
fn pieces(windows: &[&Window]) -> Option<(f64, f64)> {
    let mut sum = Pieces::default();
    for window in windows {
        sum += window.load.pieces?;
    }
    let answers: u64 = windows.iter().map(|window| window.load.requests).sum();
    Some((sum.answers as f64 / answers.max(1) as f64, sum.apart_ns as f64 / sum.answers.max(1) as f64))
}

fn mean(windows: &[&Window], figure: fn(&Window) -> f64) -> f64 {
    windows.iter().map(|window| figure(window)).sum::<f64>() / windows.len().max(1) as f64
}

/// CPU time per request by the name of the thread.
fn threads(windows: &[&Window]) -> BTreeMap<String, f64> {
    let requests: u64 = windows.iter().map(|window| window.load.requests).sum();
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for window in windows {
        for (name, ns) in &window.target.threads_ns {
            *sums.entry(name.clone()).or_default() += in_window(window, *ns) / requests.max(1) as f64;
        }
    }
    sums
}
