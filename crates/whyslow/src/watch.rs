//! `whyslow watch`: a running server under someone else's load.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use analyse::{WatchInput, Watched};
use anyhow::{Context, bail};
use launch::Launcher;
use observe::{Group, HostWatch, Profiler, ResourceSnapshot, Samples};
use record::{Profile, ProfileKind};

use crate::cli::{Format, WatchArgs};
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;

/// How often is looked whether the server still lives, and whether we were asked to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for a counter.
const COUNTER_LIMIT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &WatchArgs) -> Outcome {
    let what = What::parse(&args.what).map_err(Stop::usage)?;
    let counter = args.counter.as_deref().map(Counter::parse).transpose().map_err(Stop::usage)?;
    let watched = watch(what.pid()?, counter.as_ref(), args)?;
    crate::print(&match args.format {
        Format::Text => report::watch_text(&watched),
        Format::Json => report::watch_json(&watched),
        Format::Md => report::watch_markdown(&watched),
    })?;
    Ok(Exit::Done)
}

/// What to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Pid(u32),
    Port(u16),
}

impl What {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed = match text.strip_prefix(':') {
            Some(port) => port.parse().ok().filter(|port| *port > 0).map(Self::Port),
            None => text.parse().ok().filter(|pid| *pid > 0).map(Self::Pid),
        };
        parsed.with_context(|| format!("'{text}' is neither a process nor a port: write 4711 or :8080"))
    }

    fn pid(self) -> anyhow::Result<u32> {
        match self {
            Self::Pid(pid) => Ok(pid),
            Self::Port(port) => Ok(observe::listening_process(port)?),
        }
    }
}

/// A URL that tells how many requests were served.
struct Counter {
    addr: SocketAddr,
    path: String,
}

impl Counter {
    fn parse(url: &str) -> anyhow::Result<Self> {
        let rest =
            url.strip_prefix("http://").with_context(|| format!("'{url}' does not begin with http://"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = if host.contains(':') { host.to_owned() } else { format!("{host}:80") };
        let addr = host.to_socket_addrs().ok().and_then(|mut found| found.next());
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self { addr: addr.with_context(|| format!("'{host}' in '{url}' is no address"))?, path })
    }

    /// The first number in the answer.
    fn read(&self) -> anyhow::Result<u64> {
        let body = launch::body_start(self.addr, &self.path, COUNTER_LIMIT)
            .with_context(|| format!("the counter at {}{} does not answer", self.addr, self.path))?;
        let text = String::from_utf8_lossy(&body);
        let digits = text.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
        digits
            .and_then(|digits| digits.parse().ok())
            .with_context(|| format!("the counter at {}{} tells no number", self.addr, self.path))
    }
}

fn watch(pid: u32, counter: Option<&Counter>, args: &WatchArgs) -> anyhow::Result<Watched> {
    let interrupt = Interrupt::listen()?;
    let group = Group::of(pid)?;
    let notes = foreign(pid, args.profile || args.off_cpu)?;
    let cpus = HostWatch::new(group.fairness()?.allowed_cpus.parse().context("no thread of it can be seen")?);
    let mut profilers = attached(&group, args)?;
    let count = || counter.map(Counter::read).transpose();
    let counted = count()?;
    let before = (group.snapshot()?, cpus.snapshot()?, ResourceSnapshot::read(&group)?);
    profilers.iter_mut().for_each(Profiler::begin);
    let lasted = wait(&group, args.duration.0, &interrupt);
    if !group.is_alive() {
        bail!("process {pid} ended after {:.1} s of watching", lasted.as_secs_f64());
    }
    let usage = group.snapshot()?.since(&before.0);
    let input = WatchInput {
        pid,
        name: name(pid),
        usage,
        cpus: cpus.snapshot()?.since(&before.1),
        resources: ResourceSnapshot::read(&group)?.since(&before.2),
        counted: count()?.zip(counted).map(|(now, before)| now.saturating_sub(before)),
        profiles: resolved(profilers, &group),
        notes,
    };
    keep(args, &input.profiles)?;
    Ok(analyse::watched(&input))
}

/// The profilers that were asked for.
fn attached(group: &Group, args: &WatchArgs) -> anyhow::Result<Vec<Profiler>> {
    let cpu = args.profile.then(|| Profiler::attach(group, args.frequency)).transpose()?;
    let off_cpu = args.off_cpu.then(|| Profiler::attach_off_cpu(group)).transpose()?;
    Ok(cpu.into_iter().chain(off_cpu).collect())
}

fn resolved(profilers: Vec<Profiler>, group: &Group) -> Vec<Profile> {
    // All of them end before the first is given names, which takes time.
    let samples: Vec<Samples> = profilers.into_iter().map(Profiler::stop).collect();
    if !samples.is_empty() {
        crate::jvm::write_maps(group, &Launcher::this_program());
    }
    samples.into_iter().map(Samples::resolve).collect()
}

/// Writes the folded stacks where they were asked for.
fn keep(args: &WatchArgs, profiles: &[Profile]) -> anyhow::Result<()> {
    let profile = profiles.iter().find(|profile| profile.kind == ProfileKind::Cpu);
    if let (Some(file), Some(profile)) = (&args.folded, profile) {
        record::write_atomically(file, profile.folded().as_bytes())?;
    }
    Ok(())
}

/// Waits for `duration`, until the group ends, or until we are asked to stop; how long it was.
fn wait(group: &Group, duration: Duration, interrupt: &Interrupt) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < duration && group.is_alive() && !interrupt.is_set() {
        std::thread::sleep(LOOK.min(duration.saturating_sub(begin.elapsed())));
    }
    begin.elapsed()
}

/// What is not seen of a process that belongs to somebody else.
fn foreign(pid: u32, profile: bool) -> anyhow::Result<Vec<String>> {
    let own = rustix::process::geteuid();
    let owner = std::fs::metadata(format!("/proc/{pid}")).map(|file| file.uid()).unwrap_or(own.as_raw());
    if own.is_root() || owner == own.as_raw() {
        return Ok(Vec::new());
    }
    if profile {
        bail!("process {pid} belongs to user {owner}: a profile of it takes that user or root");
    }
    Ok(vec![format!(
        "Process {pid} belongs to user {owner}: its descriptors and sockets are hidden from us; that user or root sees \
         them."
    )])
}

fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}
