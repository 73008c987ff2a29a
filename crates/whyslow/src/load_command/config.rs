//! Flags → what the generator is to do.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use load::{Asked, Config, Identity, Idle, List, Request, Roots, Target, Tls, Warmup};
use model::job::{Job, Protocol, Requests, Reuse};
use model::units::CpuSet;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use super::pace::pace;
use crate::cli::{IdleKind, LoadArgs, Size, text};

pub(super) fn config(args: &LoadArgs) -> anyhow::Result<Config> {
    // wrk wants a connection for each thread and refuses fewer; fewer threads do the same work.
    let threads = args.threads.min(args.connections.max(1));
    let size = Size { connections: args.connections, threads, pipeline: args.pipeline };
    let endpoint = args.request.endpoint("", &args.url, args.expect_status);
    let (job, notes) = args.request.job(vec![endpoint], size)?;
    notes.iter().for_each(|note| crate::say(note));
    let mut config = of_job(job)?;
    config.sources.clone_from(&args.sources);
    config.pace = pace(args)?;
    config.seed = args.seed;
    config.warmup = warmup(args);
    config.window = args.duration.0;
    config.requests = args.request.count()?;
    config.idle = match args.idle {
        IdleKind::Sleep => Idle::Sleep,
        IdleKind::Spin => Idle::Spin,
        IdleKind::Poll => Idle::Poll,
    };
    config.slack = args.slack.0;
    if let Some(file) = &args.request.replay {
        replay(file, args.request.speed, &mut config)?;
    }
    // A generator that `compare` follows is a whole one, whatever started `compare`.
    if !args.events {
        args.sharding.apply(&mut config)?;
    }
    Ok(config)
}

/// What the generator is to do for the first endpoint of a job.
fn of_job(job: Job) -> anyhow::Result<Config> {
    let endpoint = job.endpoints.first().context("there is no server to load")?;
    let target = match &endpoint.unix {
        Some(socket) => Target::unix(&endpoint.url, socket.clone()),
        None => Target::resolve(&endpoint.url),
    }?;
    let asked = Asked::new(&job.requests, job.data.map(Arc::new), &target)?;
    let mut config = Config::new(target);
    if let Requests::Same(pattern) = &job.requests {
        // A script and a log have it as their pattern, whatever is to be filled in it.
        config.request = Request::of(pattern, &config.target);
    }
    config.expected_status = endpoint.expected_status;
    if let Asked::Each(list) = asked {
        config.list = Some(Arc::new(list));
    }
    match job.protocol {
        Protocol::Http1 { pipeline } => config.pipeline = pipeline,
        Protocol::Http2 { streams } => config.http2 = Some(streams),
    }
    config.tls = Tls {
        roots: match job.tls.authorities {
            _ if job.tls.insecure => Roots::Anyone,
            Some(file) => Roots::File(file),
            None => Roots::System,
        },
        identity: job.tls.identity.map(|(certificate, key)| Identity { certificate, key }),
    };
    config.threads = job.threads;
    config.connections = job.connections;
    config.per_connection = match job.reuse {
        Reuse::All => None,
        Reuse::Requests(requests) => Some(requests),
    };
    config.timeout = Some(job.timeout.0);
    Ok(config)
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

fn warmup(args: &LoadArgs) -> Warmup {
    match args.warmup_until {
        Some(until) if until > args.warmup => Warmup { min: args.warmup.0, max: until.0, steady },
        _ => Warmup::fixed(args.warmup.0),
    }
}

/// Whether the last seconds of a warm-up show a steady state.
fn steady(seconds: &[u64]) -> bool {
    let rates: Vec<f64> = seconds.iter().map(|requests| *requests as f64).collect();
    // The permutations of its change-point test are few; any fixed seed serves.
    stats::stationarity::steady(&rates, &mut stats::Rng::seeded(1))
}

pub(super) fn pin(cpus: &CpuSet) -> anyhow::Result<()> {
    let allowed = crate::compare::allowed_cpus()?;
    let missing = cpus.difference(&allowed);
    if !missing.is_empty() {
        bail!("--cpus names CPU {missing}, which this process may not use: it has {allowed}");
    }
    let mut set = KernelCpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    sched_setaffinity(None, &set).context("cannot take the CPUs of --cpus")
}
