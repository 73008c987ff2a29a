//! `whyslow load`: flags → generator → report.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use load::schedule::{Arrival, Dispatch, Intensity, Pace};
use load::{Config, Idle, LoadError, Outcome as Measured, Request, Warmup, export};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};
use units::CpuSet;

use crate::cli::{self, Format, IdleKind, LoadArgs, ScheduleKind};
use crate::compare::generator::Event as Told;
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;

/// How long the connections stay open for whoever takes readings at the end of a window: a server with some hundred
/// threads takes milliseconds to read.
const READINGS_TAKE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &LoadArgs) -> Outcome {
    let config = config(args).map_err(Stop::usage)?;
    let mut keeper = args.sharding.keeper();
    if let Some(cpus) = &args.cpus {
        pin(cpus).map_err(Stop::usage)?;
    }
    let interrupt = Interrupt::listen()?;
    let mut told: anyhow::Result<()> = Ok(());
    let started = SystemTime::now();
    let measured = load::run(&config, interrupt.flag(), &mut |event| {
        keeper.note(event);
        if args.events && told.is_ok() {
            told = tell(event);
        }
    })
    .map_err(refused)?;
    told?;
    keep(args, started, &measured)?;
    keeper.save(&measured)?;
    show(args, measured)?;
    Ok(Exit::Done)
}

/// What the command line asked for and cannot be had is its own fault; all else went wrong on the way.
fn refused(error: LoadError) -> Stop {
    match error {
        LoadError::Config(_)
        | LoadError::Request(_)
        | LoadError::Certificates { .. }
        | LoadError::Descriptors { .. }
        | LoadError::List { .. }
        | LoadError::Ports { .. }
        | LoadError::Source { .. } => Stop::usage(error),
        other => other.into(),
    }
}

fn show(args: &LoadArgs, measured: Measured) -> anyhow::Result<()> {
    if args.events {
        let response_buckets = export::octave_buckets(&measured.response);
        return print_event(&Told::Report { report: Box::new(measured.report), response_buckets });
    }
    let report = &measured.report;
    crate::print(&match args.format {
        Format::Text => report::load_text(report),
        Format::Json => report::load_json(report),
        Format::Md => report::load_markdown(report),
    })
}

/// Passes on what `compare` follows.
fn tell(event: load::Event) -> anyhow::Result<()> {
    match event {
        load::Event::WarmupSecond { completed } => print_event(&Told::WarmupSecond { requests: completed }),
        load::Event::WindowStart { steady, .. } => print_event(&Told::WindowStart { steady }),
        load::Event::WindowEnd { .. } => {
            print_event(&Told::WindowEnd)?;
            std::thread::sleep(READINGS_TAKE);
            Ok(())
        }
        load::Event::Connected { .. } | load::Event::Second { .. } => Ok(()),
    }
}

fn print_event(event: &Told) -> anyhow::Result<()> {
    let line = serde_json::to_string(event).context("an event is JSON")?;
    crate::print(&format!("{line}\n"))
}

/// Writes the histograms that were asked for.
fn keep(args: &LoadArgs, started: SystemTime, measured: &Measured) -> anyhow::Result<()> {
    if let Some(file) = &args.hlog {
        let length = Duration::from_nanos(measured.report.window_ns);
        let interval = |latencies, tag| export::Interval { latencies, tag, begin: Duration::ZERO, length };
        let mut intervals = vec![interval(&measured.response, None)];
        intervals.extend(measured.service.as_ref().map(|service| interval(service, Some("service"))));
        intervals.extend(measured.send_lag.as_ref().map(|lag| interval(lag, Some("send_lag"))));
        record::write_atomically(file, export::hlog(started, &intervals).as_bytes())?;
    }
    if let Some(file) = &args.hgrm {
        record::write_atomically(file, export::hgrm(&measured.response).as_bytes())?;
    }
    Ok(())
}

fn config(args: &LoadArgs) -> anyhow::Result<Config> {
    let target = args.reach.target(&args.url)?;
    let mut request = Request { method: args.method.clone(), ..Request::get(&target) };
    add_headers(&mut request, &args.headers)?;
    request.body = body(args.body.as_deref())?;
    let mut config = Config::new(target);
    config.request = request;
    args.reach.apply(&mut config);
    // wrk wants a connection for each thread and refuses fewer; fewer threads do the same work.
    config.threads = args.threads.min(args.connections.max(1));
    config.connections = args.connections;
    config.pipeline = args.pipeline;
    config.pace = pace(args);
    config.seed = args.seed;
    config.warmup = warmup(args);
    config.window = args.duration.0;
    config.requests = args.requests;
    config.timeout = Some(args.timeout.0);
    config.idle = match args.idle {
        IdleKind::Sleep => Idle::Sleep,
        IdleKind::Spin => Idle::Spin,
        IdleKind::Poll => Idle::Poll,
    };
    args.asking.apply(&mut config)?;
    // A generator that `compare` follows is a whole one, whatever started `compare`.
    if !args.events {
        args.sharding.apply(&mut config)?;
    }
    Ok(config)
}

fn pace(args: &LoadArgs) -> Pace {
    let Some(rate) = args.rate else { return Pace::Closed };
    Pace::Open {
        intensity: Intensity::Flat { per_s: rate.get() },
        arrival: match args.arrival {
            cli::Arrival::Constant => Arrival::Constant,
            cli::Arrival::Poisson => Arrival::Poisson,
        },
        dispatch: match args.schedule {
            ScheduleKind::Shared => Dispatch::Shared,
            ScheduleKind::Connection => Dispatch::Connection,
        },
    }
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

/// `Name: value`; a name that is already there (such as Host) is replaced, as wrk does.
fn add_headers(request: &mut Request, headers: &[String]) -> anyhow::Result<()> {
    for header in headers {
        let Some((name, value)) = header.split_once(':') else {
            bail!("-H '{header}' is not a header: write 'Name: value'");
        };
        request.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name.trim()));
        request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
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

fn pin(cpus: &CpuSet) -> anyhow::Result<()> {
    let allowed = crate::compare::allowed_cpus()?;
    let missing = cpus.difference(&allowed);
    if !missing.is_empty() {
        bail!("--cpus names CPU {missing}, which this process may not use: it has {allowed}");
    }
    let mut set = KernelCpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    sched_setaffinity(None, &set).context("cannot take the CPUs of --cpus")
}
