//! Flags → what the generator is to do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use load::{Config, Idle, List, Warmup, WindowJob};
use model::job::{Endpoint, Job};
use model::units::{CpuSet, Span};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use super::pace::pace;
use crate::cli::{IdleKind, LoadArgs, Size, text};

/// Threads if there are CPUs for them, as wrk has.
const USUAL_THREADS: u32 = 2;
/// When a request is given up, as wrk does.
pub(crate) const TIMEOUT: Span = Span::from_secs(2);
/// The same of a stream of events: longer than a window.
const STREAM_TIMEOUT: Span = Span::from_secs(3600);

pub(super) fn config(args: &LoadArgs) -> anyhow::Result<Config> {
    let job = job(args)?;
    let mut config = Config::of_job(&job, &job.endpoints[0])?;
    config.sources.clone_from(&args.sources);
    set_timing(&mut config, args)?;
    if let Some(file) = &args.request.replay {
        replay(file, args.request.speed.unwrap_or(1.0), &mut config)?;
    }
    if let Some(scenario) = args.request.scenario(&config.target)? {
        (config.scenario, config.list) = (Some(Arc::new(scenario)), None);
    }
    args.sharding.apply(&mut config)?;
    Ok(config)
}

/// The window as generators on other machines are to drive it, where the URL's host is looked up.
pub(super) fn window(args: &LoadArgs) -> anyhow::Result<WindowJob> {
    let job = job(args)?;
    load::check_job(&job)?;
    let unresolved = Endpoint { unix: Some(PathBuf::new()), ..job.endpoints[0].clone() };
    let mut config = Config::of_job(&job, &unresolved)?;
    set_timing(&mut config, args)?;
    Ok(WindowJob::new(job, &config))
}

/// As many threads as wrk has, but no two that take one CPU from each other: what is due would be late by whole time slices.
fn usual_threads() -> u32 {
    std::thread::available_parallelism().map_or(USUAL_THREADS, |cpus| USUAL_THREADS.min(cpus.get() as u32))
}

/// What is asked, of one endpoint.
fn job(args: &LoadArgs) -> anyhow::Result<Job> {
    // wrk wants a connection for each thread and refuses fewer; fewer threads do the same work.
    let threads = args.threads.unwrap_or_else(usual_threads).min(args.connections.max(1));
    let timeout = if args.request.sse { STREAM_TIMEOUT } else { TIMEOUT };
    let size = Size { connections: args.connections, threads, pipeline: args.pipeline, timeout };
    let endpoint = args.request.endpoint("", args.url.as_deref().unwrap_or_default(), None);
    let (job, notes) = args.request.job(vec![endpoint], size)?;
    notes.iter().for_each(|note| crate::say(note));
    Ok(job)
}

fn set_timing(config: &mut Config, args: &LoadArgs) -> anyhow::Result<()> {
    config.pace = pace(args)?;
    config.seed = args.seed;
    config.warmup = Warmup::fixed(args.warmup.0);
    config.window = args.duration.0;
    config.requests = args.request.count()?;
    config.idle = match args.idle {
        IdleKind::Sleep => Idle::Sleep,
        IdleKind::Spin => Idle::Spin,
        IdleKind::Poll => Idle::Poll,
    };
    config.slack = args.slack.0;
    Ok(())
}

/// Sets an access log and its timing; `config.request` is the pattern of each request.
fn replay(file: &Path, speed: f64, config: &mut Config) -> anyhow::Result<()> {
    let list = List::access_log(&text(file)?, &config.request, speed)
        .with_context(|| format!("--replay {}", file.display()))?;
    if list.skipped > 0 {
        crate::say(&format!("{} lines of the log hold no request and are left out", list.skipped));
    }
    if let Some(pace) = list.pace() {
        config.pace = pace;
    }
    let window_s = config.window.as_secs_f64();
    if let Some(lasts_s) = list.lasts_s().filter(|lasts_s| *lasts_s >= window_s) {
        crate::say(&format!(
            "the log lasts {lasts_s:.1} s, of which the window replays the first {window_s:.1} s: give -d {:.0}s for all of \
             it",
            lasts_s.floor() + 1.0
        ));
    }
    config.list = Some(Arc::new(list));
    Ok(())
}

pub(crate) fn pin(cpus: &CpuSet) -> anyhow::Result<()> {
    let allowed = crate::compare::allowed_cpus()?;
    let missing = cpus.difference(&allowed);
    if !missing.is_empty() {
        bail!("--cpus names CPU {missing}, which this process may not use: it has {allowed}");
    }
    let mut set = KernelCpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    sched_setaffinity(None, &set).context("cannot take the CPUs of --cpus")
}
