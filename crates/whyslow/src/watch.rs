//! `whyslow watch`: a running server under someone else's load.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use analyse::{WatchInput, Watched, WatchedWindow};
use anyhow::{Context, anyhow, bail};
use launch::Launcher;
use model::record::{Profile, ProfileKind};
use observe::{Group, HostWatch, ObserveError, OwnCpus, Profiler, ResourceSnapshot};

use crate::cli::{Format, WatchArgs};
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;

/// How often is looked whether the server still lives, and whether we were asked to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait for a counter.
const COUNTER_LIMIT: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &WatchArgs) -> Outcome {
    let what = What::parse(&args.what).map_err(Stop::usage)?;
    if args.duration.0.is_zero() {
        return Err(Stop::usage(anyhow!("a watch of 0 s sees nothing: make it longer, as with -d 10s")));
    }
    let counter = args.counter.as_deref().map(Counter::parse).transpose().map_err(Stop::usage)?;
    let watched = report::worded(watch(what.pid()?, counter.as_ref(), args)?);
    crate::print(&match args.format {
        Format::Text if args.details => report::watch_details(&watched),
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
        Ok(Self { addr: addr.with_context(|| format!("'{host}' in '{url}' is not an address"))?, path })
    }

    /// The first number in the answer.
    fn read(&self) -> anyhow::Result<u64> {
        let (_, body) = launch::probe_with_body(self.addr, &self.path, COUNTER_LIMIT)
            .with_context(|| format!("the counter at {}{} does not answer", self.addr, self.path))?;
        let text = String::from_utf8_lossy(&body);
        let digits = text.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty());
        digits
            .and_then(|digits| digits.parse().ok())
            .with_context(|| format!("the counter at {}{} tells no number", self.addr, self.path))
    }
}

fn watch(pid: u32, counter: Option<&Counter>, args: &WatchArgs) -> anyhow::Result<Watched> {
    let group = running(pid)?;
    let allowed = group.fairness()?.allowed_cpus.parse().context("no thread of it can be seen")?;
    let cpus = HostWatch::for_process(pid, allowed);
    let watch =
        Watch { pid, group, cpus, counter, duration: args.duration.0, interrupt: Interrupt::listen()? };
    let (plain, resources) = watch.window()?;
    let mut notes = resources.notes();
    // Each in a window of its own: the ledger is of a server that nobody disturbs, and is there without them.
    let (profiles, refused) = watch.profiles(args)?;
    notes.extend(refused);
    keep(args, &profiles)?;
    let limits_hidden = !watch.cpus.sees_limits();
    Ok(analyse::watched(&WatchInput { pid, name: name(pid), limits_hidden, plain, profiles, notes }))
}

/// A server, and how it is watched.
struct Watch<'a> {
    pid: u32,
    group: Group,
    cpus: HostWatch,
    counter: Option<&'a Counter>,
    duration: Duration,
    interrupt: Interrupt,
}

/// Profiles, each with the window in which it was taken.
type Profiles = Vec<(Profile, WatchedWindow)>;
/// Attaches one kind of profiler.
type Attach<'a> = &'a dyn Fn(&Group) -> Result<Profiler, ObserveError>;

impl Watch<'_> {
    /// What happens in one window.
    fn window(&self) -> anyhow::Result<(WatchedWindow, ResourceSnapshot)> {
        let count = || self.counter.map(Counter::read).transpose();
        let group = &self.group;
        let counted = count()?;
        let before = (group.snapshot()?, self.cpus.snapshot()?, ResourceSnapshot::read(group)?);
        let lasted = wait(group, self.duration, &self.interrupt);
        if !group.is_alive() {
            bail!("process {} ended after {:.1} s of watching", self.pid, lasted.as_secs_f64());
        }
        let after = group.snapshot()?;
        let cpus = self.cpus.snapshot()?.since(&before.1);
        let resources = ResourceSnapshot::read(group)?;
        let seen = WatchedWindow {
            usage: after.since(&before.0),
            ticks: after.ticks_since(&before.0),
            cpus,
            resources: resources.since(&before.2),
            counted: count()?.zip(counted).map(|(now, before)| [before, now]),
        };
        Ok((seen, resources))
    }

    /// The profiles that were asked for, and a note on each that was refused.
    fn profiles(&self, args: &WatchArgs) -> anyhow::Result<(Profiles, Vec<String>)> {
        let sampled: Attach = &|group| Profiler::attach(group, args.frequency, &OwnCpus::default());
        let waits: Attach = &Profiler::attach_off_cpu;
        let kinds = [("The profile", args.profile, sampled), ("Where its threads wait", args.off_cpu, waits)];
        let (mut profiles, mut notes) = (Vec::new(), Vec::new());
        for (what, _, attach) in kinds.into_iter().filter(|(_, wanted, _)| *wanted) {
            if self.interrupt.is_set() {
                notes.push(format!("{what} is missing: it was stopped before."));
                continue;
            }
            match attach(&self.group) {
                Ok(profiler) => profiles.push(self.profile(profiler)?),
                Err(error) => notes.push(format!("{what} is missing: {error}.")),
            }
        }
        Ok((profiles, notes))
    }

    fn profile(&self, mut profiler: Profiler) -> anyhow::Result<(Profile, WatchedWindow)> {
        profiler.begin();
        let (seen, _) = self.window()?;
        // It ends before names are looked for, which takes time.
        let samples = profiler.stop();
        let _maps = crate::jvm::write_maps(&self.group, &Launcher::this_program());
        Ok((samples.resolve(&[]), seen))
    }
}

/// The process with all that belongs to it, where it is one and runs.
fn running(pid: u32) -> anyhow::Result<Group> {
    if let Some(process) = Group::process_of_thread(pid) {
        bail!("{pid} is a thread of process {process}: give {process}");
    }
    let group = Group::from_pid(pid)?;
    if !group.is_alive() {
        bail!("process {pid} has ended already: it is a zombie that its parent has not waited for");
    }
    Ok(group)
}

/// Writes the folded stacks where they were asked for.
fn keep(args: &WatchArgs, profiles: &[(Profile, WatchedWindow)]) -> anyhow::Result<()> {
    let profile = profiles.iter().find(|(profile, _)| profile.kind == ProfileKind::Cpu);
    if let (Some(file), Some((profile, _))) = (&args.folded, profile) {
        model::record::write_atomically(file, profile.folded().as_bytes())?;
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

fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().to_owned()
}
