//! `whyslow capacity`: the highest rate at which a condition holds; the curve; the knee.

mod server;

use std::path::PathBuf;
use std::time::Duration;

use analyse::capacity::{Capacity, CapacityVerdict, Purpose, Searched, Step, capacity, holds};
use analyse::{Bound, Judged};
use anyhow::Context;
use load::schedule::{Arrival, Pace};
use load::{Config, Warmup, WindowJob};
use model::job::{Endpoint, Job};
use model::plan::{Search, Try};
use model::record::LoadReport;
use model::units::Span;

use crate::cli::{self, CapacityArgs, Format, Size};
use crate::compare::progress::Progress;
use crate::compare::reach;
use crate::compare::remote::{self, fleet::Fleet};
use crate::compare::{GIT, is_from_git};
use crate::config::{self, Loaded};
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;
use crate::load_command::{self, config::TIMEOUT};

/// A confirming window is this many times as long as one of the search.
const CONFIRM_FACTOR: u32 = 3;
/// Requests in a confirming window over those that its condition needs: some are on their way at its end.
const MARGIN: f64 = 1.1;
/// Longest confirming window that is chosen and not asked for.
const LONGEST_CONFIRM: Duration = Duration::from_secs(120);
/// Windows at a low rate that a server has to come to itself in before a confirming one.
const RECOVERIES: u32 = 10;
/// Length of such a window at most.
const RECOVERY_WINDOW: Duration = Duration::from_secs(1);
/// Rates that held for a short time and are tried for long at the end, where the search has confirmed none.
const FALLBACKS: usize = 3;
/// Windows of the closed loops are at most this long: they need a rate, not a tail.
const SCALING_WINDOW: Duration = Duration::from_secs(2);
/// The search begins at this share of what the closed loop of all connections answered.
const FIRST_SHARE: f64 = 1.0 / 16.0;
/// Points of the curve, as shares of the rate that was found.
const CURVE: [f64; 4] = [0.25, 0.5, 0.75, 0.9];
/// Tries of a search that the progress bar counts on; it is extended where more are needed.
const USUAL_TRIES: f64 = 12.0;
/// Slower than any server worth a search, for servers whose closed loop answered nothing.
const SLOWEST_FIRST_PER_S: f64 = 1.0;

pub(crate) fn run(args: &CapacityArgs) -> Outcome {
    let slo: Bound = args.slo.parse().map_err(Stop::usage)?;
    if args.connections == 0 || !(args.precision > 0.0 && args.precision < 1.0) {
        return Err(Stop::usage(anyhow::anyhow!(
            "--connections must be at least 1 and --precision between 0 and 1, such as 0.05"
        )));
    }
    let args = &filled(args).map_err(Stop::usage)?;
    // What is wrong with the requests is reported before anything is started.
    let mut job = job(args).map_err(Stop::usage)?;
    let fleet = generators(args)?;
    let served = server::serve(args, &job)?;
    job.endpoints = vec![served.endpoint().clone()];
    if fleet.is_none() {
        reach::check_end(&job)?;
    }
    let mut config = config_of(&job, fleet.is_some()).map_err(Stop::usage)?;
    config.seed = args.seed;
    let interrupt = Interrupt::listen()?;
    let (steps, progress) = (Vec::new(), Progress::new(seconds(args)));
    let mut bench = Bench { args, slo, job, config, fleet, interrupt, steps, progress, strained: false };
    let searched = bench.search();
    bench.progress.finish();
    let searched = searched?;
    let found = report::worded(capacity(&bench.slo, &bench.steps, &searched));
    drop(served);
    crate::print(&match args.format {
        // Of what an interrupt cut short, what there is.
        Format::Text if args.details || searched.partial => report::capacity_details(&found),
        Format::Text => report::capacity_text(&found),
        Format::Json => report::capacity_json(&found),
        Format::Md => report::capacity_markdown(&found),
    })?;
    Ok(exit(&found))
}

/// The machines of `--load-on`, reached; nothing where the generator is here.
fn generators(args: &CapacityArgs) -> Result<Option<Fleet>, Stop> {
    if args.load_on.is_empty() {
        return Ok(None);
    }
    let here = [(args.request.unix.is_some(), "--unix"), (args.request.cacert.is_some(), "--cacert")];
    let here = here.into_iter().chain([(args.request.cert.is_some(), "--cert")]);
    if let Some((_, flag)) = here.into_iter().find(|(given, _)| *given) {
        return Err(Stop::usage(anyhow::anyhow!(
            "{flag} names what is on this machine, and with --load-on the generators are on others: leave it out"
        )));
    }
    if !args.target.contains("://") {
        return Err(Stop::usage(anyhow::anyhow!(
            "with --load-on the server is one that runs already: start '{}' where the generators reach it, and give its URL",
            args.target
        )));
    }
    remote::check_generators(&args.load_on, args.connections).map_err(Stop::usage)?;
    Ok(Some(Fleet::connect(&args.load_on)?))
}

/// What a window is like but for its pace; where its generators are on other machines, the URL's host is looked up there.
fn config_of(job: &Job, elsewhere: bool) -> Result<Config, load::LoadError> {
    let endpoint = &job.endpoints[0];
    let unresolved = Endpoint { unix: Some(PathBuf::new()), ..endpoint.clone() };
    Config::of_job(job, if elsewhere { &unresolved } else { endpoint })
}

/// The flags with what a `whyslow.toml` says in the place of what they leave open.
fn filled(args: &CapacityArgs) -> anyhow::Result<CapacityArgs> {
    let mut filled = args.clone();
    let from_git = is_from_git(&args.target) || args.target.starts_with(GIT);
    let Some(loaded) = config::load(args.config.as_deref(), from_git)? else {
        return Ok(filled);
    };
    let requests = loaded.requests();
    let Loaded { config, folder, services } = loaded;
    filled.request.beside = services.iter().map(|service| service.name.clone()).collect();
    (filled.services, filled.folder) = (services, Some(folder));
    filled.build = filled.build.or(config.build);
    filled.run = filled.run.or(config.run);
    filled.ready = filled.ready.or(config.ready);
    filled.port_env |= config.port_env;
    if filled.path.is_none() && !filled.request.has_file() {
        match requests {
            Some(file) => filled.request.requests.push(file),
            None => filled.path = config.path,
        }
    }
    Ok(filled)
}

fn exit(found: &Capacity) -> Exit {
    match found.verdict {
        CapacityVerdict::Found | CapacityVerdict::AtLeast | CapacityVerdict::Never => Exit::Done,
        CapacityVerdict::Invalid => Exit::Invalid,
        CapacityVerdict::Partial => Exit::Failed,
    }
}

/// What is asked, without whom.
fn job(args: &CapacityArgs) -> anyhow::Result<Job> {
    args.request.without_loads_own("capacity")?;
    let size = Size {
        connections: args.connections,
        threads: args.threads.min(args.connections),
        pipeline: args.pipeline,
        timeout: if args.request.sse { Span(reach::ASKING_LIMIT) } else { TIMEOUT },
    };
    let (job, notes) = args.request.job_without_timing(size)?;
    notes.iter().for_each(|note| crate::say(note));
    load::check_job(&job)?;
    Ok(job)
}

/// How long the whole search usually takes.
fn seconds(args: &CapacityArgs) -> f64 {
    let window = args.window.0.as_secs_f64();
    let one = args.warmup.0.as_secs_f64() + window;
    let scaling = f64::from(closed_loops(args.connections, args.load_on.len()).len() as u32)
        * (args.warmup.0.as_secs_f64() + SCALING_WINDOW.as_secs_f64().min(window));
    scaling + (USUAL_TRIES + CURVE.len() as f64) * one + f64::from(CONFIRM_FACTOR) * window
}

/// Connections of the closed loops: powers of two, and all; at least one for each generator.
fn closed_loops(connections: u32, generators: usize) -> Vec<u32> {
    let powers = std::iter::successors(Some(1_u32), |n| n.checked_mul(2)).take_while(|n| *n < connections);
    let mut loops: Vec<u32> = powers.filter(|n| *n as usize >= generators).collect();
    loops.push(connections);
    loops
}

/// What the windows of one search are run with.
struct Bench<'a> {
    args: &'a CapacityArgs,
    slo: Bound,
    job: Job,
    config: Config,
    /// Where the generators are, if not here.
    fleet: Option<Fleet>,
    interrupt: Interrupt,
    steps: Vec<Step>,
    progress: Progress,
    /// Whether the condition did not hold in the last window, so that the server may have a queue left.
    strained: bool,
}

impl Bench<'_> {
    fn search(&mut self) -> Result<Searched, Stop> {
        let limit = self.scaling()?;
        let first =
            self.args.from.map_or((limit * FIRST_SHARE).max(SLOWEST_FIRST_PER_S), model::units::Rate::get);
        let highest = self.args.max_rate.map_or(f64::MAX, model::units::Rate::get);
        let mut search = Search::new(first, highest, self.args.precision);
        let mut failed = None;
        let (rate_per_s, at_ceiling) = loop {
            if self.interrupt.is_set() {
                break (None, false);
            }
            let report = match search.next() {
                Try::Probe(rate) => self.open(rate, Purpose::Search, self.args.window.0)?,
                Try::Confirm(rate) => self.confirm(rate, first)?,
                Try::Found(None) => break (self.fall_back(&mut failed, first)?, false),
                Try::Found(rate) => break (rate, false),
                Try::AtLeast(rate) => break (Some(rate), true),
            };
            if report.partial {
                continue;
            }
            let confirms = matches!(search.next(), Try::Confirm(_));
            let purpose = if confirms { Purpose::Confirm } else { Purpose::Search };
            search.record(holds(&self.slo, purpose, &report));
            failed = search.failed();
            if confirms && matches!(self.slo.judge(&report), Judged::Absent) {
                // A lower rate has fewer requests still.
                break (None, false);
            }
        };
        self.curve(rate_per_s)?;
        let partial = self.interrupt.is_set();
        Ok(Searched { rate_per_s, at_ceiling, failed_at_per_s: failed, partial })
    }

    /// The longer window that confirms a rate, once the server answers normally at the rate `low`.
    fn confirm(&mut self, rate: f64, low: f64) -> Result<LoadReport, Stop> {
        self.recover(low)?;
        self.open(rate, Purpose::Confirm, self.confirming(rate))
    }

    /// How long a window has to be at this rate for the condition to be judged; the usual length where that would take too long.
    fn confirming(&self, rate: f64) -> Duration {
        let usual = self.args.window.0 * CONFIRM_FACTOR;
        let needed_s = MARGIN * self.slo.requests_needed() as f64 / rate;
        if needed_s > LONGEST_CONFIRM.as_secs_f64() {
            usual
        } else {
            usual.max(Duration::from_secs_f64(needed_s))
        }
    }

    /// Lets a server that was overloaded come to itself: until it answers normally at the rate `low`, or for so many windows.
    fn recover(&mut self, low: f64) -> Result<(), Stop> {
        for _ in 0..RECOVERIES {
            if !self.strained || self.interrupt.is_set() {
                break;
            }
            let pace = Pace::open(low, Arrival::Constant);
            let window = RECOVERY_WINDOW.min(self.args.window.0);
            let config = Config { pace, window, ..self.config.clone() };
            let report = self.window(config, "letting the server recover")?;
            self.strained = !holds(&self.slo, Purpose::Search, &report);
        }
        Ok(())
    }

    /// The highest rate below `failed` that held in the search and holds for long, too; those that do not become `failed`.
    fn fall_back(&mut self, failed: &mut Option<f64>, low: f64) -> Result<Option<f64>, Stop> {
        for rate in self.held_below(failed.unwrap_or(f64::MAX)) {
            let report = self.confirm(rate, low)?;
            if report.partial {
                break;
            }
            if holds(&self.slo, Purpose::Confirm, &report) {
                return Ok(Some(rate));
            }
            *failed = Some(rate);
        }
        Ok(None)
    }

    /// Rates below `limit` that held in the search, highest first, as many as are worth a longer window.
    fn held_below(&self, limit: f64) -> Vec<f64> {
        let held =
            |step: &&Step| step.purpose == Purpose::Search && holds(&self.slo, step.purpose, &step.report);
        let rates = self.steps.iter().filter(held).filter_map(|step| step.report.schedule.rate_per_s);
        let mut rates: Vec<f64> = rates.filter(|rate| *rate < limit).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        rates.dedup();
        rates.truncate(FALLBACKS);
        rates
    }

    /// Closed loops of few to all connections; gives the highest rate that any answered.
    fn scaling(&mut self) -> Result<f64, Stop> {
        let mut highest = 0.0_f64;
        for connections in closed_loops(self.args.connections, self.args.load_on.len()) {
            let mut config = self.config.clone();
            config.connections = connections;
            config.threads = config.threads.min(connections);
            config.window = SCALING_WINDOW.min(self.args.window.0);
            let report = self.drive(config, Purpose::Scaling, &format!("closed loop of {connections}"))?;
            highest = highest.max(report.rate_per_s);
        }
        Ok(highest)
    }

    /// Points below the rate that was found.
    fn curve(&mut self, found: Option<f64>) -> Result<(), Stop> {
        for share in CURVE {
            if let Some(rate) = found.filter(|_| !self.interrupt.is_set()) {
                self.open(rate * share, Purpose::Curve, self.args.window.0)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, rate: f64, purpose: Purpose, window: Duration) -> Result<LoadReport, Stop> {
        let arrival = match self.args.arrival {
            cli::Arrival::Constant => Arrival::Constant,
            cli::Arrival::Poisson => Arrival::Poisson,
        };
        let config = Config { pace: Pace::open(rate, arrival), window, ..self.config.clone() };
        let report = self.drive(config, purpose, &format!("{rate:.0} requests/s"))?;
        self.strained = !holds(&self.slo, purpose, &report);
        let word = if self.strained { "does not hold" } else { "holds" };
        self.progress.say(&format!("{rate:.0} requests/s: {} {word}", self.slo));
        Ok(report)
    }

    fn drive(&mut self, config: Config, purpose: Purpose, what: &str) -> Result<LoadReport, Stop> {
        let report = self.window(config, what)?;
        // What an interrupt cut short says nothing of its rate.
        if !report.partial {
            self.steps.push(Step { purpose, report: report.clone() });
        }
        Ok(report)
    }

    /// One window, of which nothing is kept.
    fn window(&mut self, mut config: Config, what: &str) -> Result<LoadReport, Stop> {
        self.progress.doing(what);
        config.warmup = Warmup::fixed(self.args.warmup.0);
        let measured = match &self.fleet {
            Some(fleet) => {
                fleet.window(&WindowJob::new(self.job.clone(), &config), self.args.cpus.as_ref())?.outcome
            }
            None => self.drive_here(&config)?,
        };
        Ok(measured.report)
    }

    fn drive_here(&mut self, config: &Config) -> Result<load::Outcome, Stop> {
        let progress = &mut self.progress;
        let measured = load::run(config, self.interrupt.flag(), &mut |_| progress.tick());
        // A server that goes away in the middle is no mistake of the command line.
        measured.map_err(if self.steps.is_empty() { load_command::refused } else { Stop::from })
    }
}

/// Pins this process, and so the generator's threads, to `cpus`.
fn pin(cpus: &model::units::CpuSet) -> anyhow::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(cpu as usize));
    rustix::thread::sched_setaffinity(None, &set).context("cannot take the generator's CPUs")
}
