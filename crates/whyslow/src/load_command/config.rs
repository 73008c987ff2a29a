//! Flags → what the generator is to do.

use std::path::Path;

use anyhow::{Context, bail};
use load::{Config, Idle, Request, Warmup};
use model::units::CpuSet;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use super::pace::pace;
use crate::cli::{IdleKind, LoadArgs};

pub(super) fn config(args: &LoadArgs) -> anyhow::Result<Config> {
    let target = args.reach.target(args.url.as_deref().unwrap_or_default())?;
    let mut request = Request { method: args.method.clone(), ..Request::get(&target) };
    add_headers(&mut request, &args.headers)?;
    request.body = body(args.body.as_deref())?;
    let mut config = Config::new(target);
    config.reuse = request.closes().then_some(1);
    config.request = request;
    args.reach.apply(&mut config);
    // wrk wants a connection for each thread and refuses fewer; fewer threads do the same work.
    config.threads = args.threads.min(args.connections.max(1));
    config.connections = args.connections;
    config.pipeline = args.pipeline;
    config.pace = pace(args)?;
    config.seed = args.seed;
    config.warmup = Warmup::fixed(args.warmup.0);
    config.window = args.duration.0;
    config.requests = args.requests;
    config.timeout = Some(args.timeout.0);
    config.idle = match args.idle {
        IdleKind::Sleep => Idle::Sleep,
        IdleKind::Spin => Idle::Spin,
        IdleKind::Poll => Idle::Poll,
    };
    config.slack = args.slack.0;
    args.asking.apply(&mut config)?;
    args.sharding.apply(&mut config)?;
    Ok(config)
}

/// `Name: value` each.
fn add_headers(request: &mut Request, headers: &[String]) -> anyhow::Result<()> {
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            bail!("-H '{header}' is not a header: write 'Name: value'");
        };
        request.set(name.trim(), value.trim());
    }
    Ok(())
}

fn body(text: Option<&str>) -> anyhow::Result<Vec<u8>> {
    match text.map(|text| (text, text.strip_prefix('@'))) {
        None => Ok(Vec::new()),
        Some((_, Some(file))) => {
            std::fs::read(Path::new(file)).with_context(|| format!("cannot read --body @{file}"))
        }
        Some((text, None)) => Ok(text.as_bytes().to_vec()),
    }
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
