//! `whyslow load`: flags → generator → report.

pub(crate) mod config;
mod deadline;
mod elsewhere;
mod heat;
mod keep;
pub(crate) mod pace;
pub(crate) mod push;
mod scrape;
mod scripted;
mod so_far;
mod soak;
mod turns;
mod watch;

use analyse::{Bound, Judged};
use anyhow::{Context, bail};
use load::schedule::Pace;
use load::{Config, LoadError, Outcome as Measured, wrk};

use crate::cli::{Called, LoadArgs, LoadFormat};
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;
use keep::Seconds;
pub(crate) use keep::keep_figures;
use model::record::{Growth, LoadReport};
use push::Push;
use scrape::Scrape;
use scripted::{Given, Scripted};
use so_far::SoFar;
use soak::Soak;
pub(crate) use turns::latency_log;
use watch::Watch;

pub(crate) fn run(args: &LoadArgs) -> Outcome {
    // Reading the arguments, sending the load and writing the report take turns with the memory of their code.
    observe::give_back_code();
    if args.job {
        return turns::run();
    }
    check(args).map_err(Stop::usage)?;
    if !args.load_on.is_empty() {
        return elsewhere::run(args);
    }
    if let Some(cpus) = &args.cpus {
        config::pin(cpus).map_err(Stop::usage)?;
    }
    let config = config::config(args).map_err(Stop::usage)?;
    keep::check(args).map_err(Stop::usage)?;
    let mut keeper = args.sharding.keeper();
    let bounds = bounds(&args.keep.fail_if).map_err(Stop::usage)?;
    check_figures(&args.keep.fail_if, &config).map_err(Stop::usage)?;
    let mut scripted = script(args, &config).map_err(Stop::usage)?;
    let metrics = args.keep.metrics_port.as_deref().map(scrape::address).transpose().map_err(Stop::usage)?;
    let interrupt = Interrupt::listen()?;
    let figures = SoFar::new(&config.target.url);
    let scrape = metrics.map(|address| Scrape::open(address, figures.clone())).transpose();
    let scrape = scrape.map_err(Stop::usage)?;
    let pushes = pushes(args, &figures).map_err(Stop::usage)?;
    let mut soak = Soak::open(args, &config).map_err(Stop::usage)?;
    let mut seconds = Seconds::new(args.hlog.is_some());
    let mut measured = windows(args, || {
        let mut note = |event: &load::Event| {
            seconds.follow(event);
            keeper.note(*event);
            figures.follow(event);
            soak.iter_mut().for_each(|soak| soak.follow(event));
        };
        let window = measure(args, &config, scripted.as_mut(), &mut note, &interrupt)?;
        seconds.end_window(&window);
        Ok(window)
    })?;
    scrape.into_iter().for_each(Scrape::close);
    let told = pushes.into_iter().map(Push::close).fold(false, |any, told| any | told);
    measured.report.server = soak.as_ref().and_then(Soak::figures);
    // What was measured is shown also where a file of it cannot be written.
    let kept = keep::keep(args, &seconds, &measured, told).and_then(|()| keeper.save(&measured));
    show(args, &measured)?;
    kept?;
    if let Some(scripted) = scripted {
        scripted.done(&measured)?;
    }
    judge(&bounds, &measured.report)
}

/// Begins to send figures to whoever is to have them.
fn pushes(args: &LoadArgs, figures: &SoFar) -> anyhow::Result<Vec<Push>> {
    let receivers = [args.figures.otlp_receiver()?, args.keep.remote_write_receiver()?];
    receivers.into_iter().flatten().map(|receiver| Push::begin(receiver, figures.clone())).collect()
}

/// As many windows as were asked for, together; fewer if one was stopped.
fn windows(args: &LoadArgs, mut measure: impl FnMut() -> Result<Measured, Stop>) -> Result<Measured, Stop> {
    let mut windows = Vec::new();
    for number in 1..=args.repeat {
        let window = measure().map_err(|stop| if number == 1 { stop } else { after_some(stop) })?;
        if args.repeat > 1 {
            say_window(number, args.repeat, &window.report);
        }
        let stopped = window.report.partial;
        windows.push(window);
        if stopped {
            break;
        }
    }
    Ok(load::in_turn(windows).expect("at least one window is asked for"))
}

/// Why a later window could not be had: requests were sent by then, so that it went wrong on the way.
fn after_some(stop: Stop) -> Stop {
    let (Stop::Usage(error) | Stop::Failed(error)) = stop;
    Stop::Failed(error)
}

/// What one of several windows brought.
fn say_window(number: u32, of: u32, report: &LoadReport) {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| model::units::format_ns(ns as f64));
    let (p50, p99) = (time(report.response_ns.p50), time(report.response_ns.p99));
    crate::say(&format!(
        "window {number} of {of}: {:.0} requests/s, p50 {p50}, p99 {p99}, {} errors",
        report.rate_per_s,
        report.errors.total()
    ));
}

/// The conditions of `--fail-if`.
pub(crate) fn bounds(texts: &[String]) -> anyhow::Result<Vec<Bound>> {
    let parse = |text: &String| text.parse().with_context(|| "--fail-if");
    texts.iter().map(parse).collect()
}

/// Whether a closed loop is asked for what only a schedule has.
fn check_figures(conditions: &[String], config: &Config) -> anyhow::Result<()> {
    const OF_SCHEDULES: [&str; 2] = ["rate_ratio", "send_lag"];
    let scheduled = |text: &&String| OF_SCHEDULES.iter().any(|figure| text.trim_start().starts_with(figure));
    if let Some(text) = conditions.iter().find(scheduled).filter(|_| config.pace == Pace::Closed) {
        bail!(
            "--fail-if '{text}' is of a schedule, and without a rate there is none: give one with -R, or leave it out"
        );
    }
    Ok(())
}

/// Says which conditions hold, and which are not decided. One on a figure that the window could not give fails too: it must not pass unseen.
pub(crate) fn judge(bounds: &[Bound], report: &LoadReport) -> Outcome {
    let mut exit = Exit::Done;
    for bound in bounds {
        match bound.judge(report) {
            Judged::Fails(_) => {}
            Judged::Holds(value) => {
                crate::say(&format!("--fail-if: {bound} holds: it is {}", bound.print(value)));
                exit = Exit::ConditionHolds;
            }
            Judged::Undecided { growth, times_as_long } => {
                crate::say(&undecided(bound, growth, times_as_long, report));
                exit = if exit == Exit::Done { Exit::Inconclusive } else { exit };
            }
            Judged::Absent => absent(bound)?,
        }
    }
    Ok(exit)
}

/// A condition whose value lies in the interval of what was measured.
fn undecided(bound: &Bound, growth: Growth, times_as_long: f64, report: &LoadReport) -> String {
    /// Longest window that is advised, in seconds: a week.
    const LONGEST_S: f64 = 7.0 * 86_400.0;
    let needed_s = (report.window_ns as f64 / 1e9 * times_as_long).ceil();
    let remedy = match needed_s <= LONGEST_S {
        true => format!("some -d{needed_s:.0}s would do"),
        false => "no window of a week would do, so give another bound".to_owned(),
    };
    format!(
        "--fail-if: {bound} is not decided: it is between {} and {}, and the window was too short to tell; {remedy}",
        bound.print(growth.low),
        bound.print(growth.high)
    )
}

fn absent(bound: &Bound) -> anyhow::Result<()> {
    bail!(
        "--fail-if '{bound}' cannot be judged: the window had too few requests for it, or a closed loop has no such \
           figure; lengthen -d or raise the rate"
    )
}

/// What does not go together.
fn check(args: &LoadArgs) -> anyhow::Result<()> {
    if args.called == Some(Called::Wrk2) && args.rate.is_none() {
        bail!("wrk2 needs a rate: give it with -R");
    }
    if args.request.script.is_none() && !args.script_args.is_empty() {
        bail!("'{}' after the URL is for a script: give one with -s", args.script_args[0]);
    }
    Ok(())
}

fn script(args: &LoadArgs, config: &Config) -> anyhow::Result<Option<Scripted>> {
    let load = |file| {
        Scripted::load(&Given {
            file,
            target: &config.target,
            request: &config.request,
            args: &args.script_args,
            threads: config.threads,
        })
    };
    args.request.script.as_deref().map(load).transpose()
}

fn measure(
    args: &LoadArgs,
    config: &Config,
    scripted: Option<&mut Scripted>,
    note: &mut dyn FnMut(&load::Event),
    interrupt: &Interrupt,
) -> Result<Measured, Stop> {
    let deadline = scripted.as_ref().map(|scripted| scripted.deadline());
    let supplies = scripted.map(|scripted| scripted.supplies(args.batch_latency)).transpose();
    let supplies = supplies.map_err(Stop::usage)?;
    let mut watch = Watch::new(config, args.keep.live);
    let mut follow = |event: load::Event| {
        if let Some(deadline) = &deadline {
            deadline.follow(&event, config.window);
        }
        watch.follow(&event);
        note(&event);
    };
    observe::give_back_code();
    let measured = match supplies {
        Some(supplies) => load::run_fed(config, supplies, interrupt.flag(), &mut follow),
        None => load::run(config, interrupt.flag(), &mut follow),
    };
    watch.finish();
    observe::give_back_code();
    measured.map_err(refused)
}

/// What the command line asked for and cannot be had, a server that is not there included, is its own fault; what comes
/// after the first request went wrong on the way.
pub(crate) fn refused(error: LoadError) -> Stop {
    match error {
        LoadError::Config(_)
        | LoadError::Request(_)
        | LoadError::Field { .. }
        | LoadError::Feed { after: false, .. }
        | LoadError::Certificates { .. }
        | LoadError::Connect { .. }
        | LoadError::Descriptors { .. }
        | LoadError::List { .. }
        | LoadError::Ports { .. }
        | LoadError::Source { .. }
        | LoadError::Tls { after: false, .. } => Stop::usage(error),
        other => other.into(),
    }
}

fn show(args: &LoadArgs, measured: &Measured) -> anyhow::Result<()> {
    let report = &measured.report;
    crate::print(&match args.format {
        LoadFormat::Text if args.details => report::load_details(report),
        LoadFormat::Text => report::load_text(report),
        LoadFormat::Json => report::load_json(report),
        LoadFormat::Md => report::load_markdown(report),
        LoadFormat::Wrk => return show_as_wrk(args, measured),
    })
}

/// What wrk or wrk2 would print; what they have no words for goes to standard error.
fn show_as_wrk(args: &LoadArgs, measured: &Measured) -> anyhow::Result<()> {
    let page =
        wrk::Page { duration: args.duration.0, latency: args.latency, uncorrected: args.uncorrected_latency };
    crate::print(&wrk::text(measured, &page))?;
    let warnings = measured.report.warnings.iter().map(|warning| format!("warning: {}", warning.text));
    wrk::note(measured).into_iter().chain(warnings).for_each(|line| crate::say(&line));
    Ok(())
}
