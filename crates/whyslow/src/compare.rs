//! `whyslow compare`: flags → plan → run directory → findings → output.

mod arms;
mod block;
mod confirm;
pub(crate) mod contained;
mod diagnose;
mod generator;
mod holding;
pub(crate) mod judged;
mod pilot;
pub(crate) mod planning;
pub(crate) mod preflight;
pub(crate) mod progress;
pub(crate) mod reach;
mod remedies;
pub(crate) mod remote;
mod run_id;
pub(crate) mod running;
mod server;
mod services;
mod session;
mod several;
mod stopping;
mod together;
mod tracing;
pub(crate) mod verify;

use std::path::{Path, PathBuf};

use analyse::Findings;
use anyhow::Context;
use launch::Launcher;
use model::plan::Plan;
use model::record::{Failure, Manifest, RoundRecord, Run, RunDir, RunStatus};
use model::units::CpuSet;
use report::Worded;
use rustix::thread::{CpuSet as KernelCpuSet, sched_getaffinity, sched_setaffinity};

use crate::cli::{CompareArgs, Format};
use crate::config;
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;
use judged::Judged;
use remote::Elsewhere;

pub(crate) use arms::{GIT, command_arm, is_from_git};
pub(crate) use server::placeholders;
pub(crate) use services::InTurn;
pub(crate) use verify::READY_LIMIT;

/// Folder of runs for which `--out` names no place.
pub(crate) const RUNS: &str = "whyslow-runs";

/// Why something ended early.
#[derive(Debug)]
enum Early {
    /// The arm with this place in the plan failed; the others go on.
    Arm(usize, Failure),
    /// The user asked us to stop.
    Interrupted,
    /// We failed.
    Broken(anyhow::Error),
}

impl Early {
    /// The same as an error of ours.
    fn into_error(self) -> anyhow::Error {
        match self {
            Self::Arm(_, failure) => anyhow::anyhow!(failure.text),
            Self::Interrupted => anyhow::anyhow!("interrupted"),
            Self::Broken(error) => error,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Early {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

pub(crate) fn run(args: &CompareArgs) -> Outcome {
    let filled =
        config::filled(args, args.arms.iter().any(|words| is_from_git(words))).map_err(Stop::usage)?;
    run_with(&filled, |_, findings, format| render(findings, format, args.details))
}

/// Runs a comparison of flags that leave nothing to the whyslow.toml, and prints what `page` makes of its run and the findings on
/// it.
pub(crate) fn run_with(
    args: &CompareArgs,
    page: impl Fn(&Run, &Worded<Findings>, Format) -> String,
) -> Outcome {
    if args.is_elsewhere() {
        remote::refuse(args).map_err(Stop::usage)?;
    }
    let elsewhere = Elsewhere::connect(args)?;
    let plan = plan(args, &elsewhere).map_err(Stop::usage)?;
    let judged = Judged::new(&args.judged, &plan)?;
    preflight::check(&plan).map_err(Stop::usage)?;
    if args.list {
        return list(&plan, args.format);
    }
    if args.verify {
        return verify::run(&plan, args.format);
    }
    let dir = execute(args, &plan, elsewhere, &judged)?;
    let run = dir.read()?;
    let findings = judged.findings(&run);
    crate::print(&page(&run, &findings, args.format))?;
    judged.say(&run, &findings);
    crate::say(&format!("run kept in {}", dir.path().display()));
    judged.keep(&findings)?;
    Ok(judged::exit(&findings))
}

/// The plan of a comparison on the machines that it names.
fn plan(args: &CompareArgs, elsewhere: &Elsewhere) -> anyhow::Result<Plan> {
    if !args.is_elsewhere() {
        return planning::plan(args, &allowed_cpus()?);
    }
    if !args.no_why {
        crate::say("causes are not looked for on other machines: the page ends with the verdict");
    }
    planning::placed(args, elsewhere.placement(args)?)
}

/// Findings in the format asked for; as text the first screen, and behind it the details where they are asked for.
pub(crate) fn render(findings: &Worded<Findings>, format: Format, details: bool) -> String {
    match format {
        Format::Text if details => {
            let first = report::findings_text(findings, crate::style());
            format!("{first}\n{}", report::findings_details(findings))
        }
        Format::Text => report::findings_text(findings, crate::style()),
        Format::Json => report::findings_json(findings),
        Format::Md => report::findings_markdown(findings),
    }
}

/// The CPUs that this process may use.
pub(crate) fn allowed_cpus() -> anyhow::Result<CpuSet> {
    let set = sched_getaffinity(None).context("cannot read the CPU set of this process")?;
    Ok((0..KernelCpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

fn list(plan: &Plan, format: Format) -> Outcome {
    if format == Format::Json {
        let text = serde_json::to_string_pretty(&plan.masked()).context("the plan is not JSON")?;
        crate::print(&format!("{text}\n"))?;
        return Ok(Exit::Done);
    }
    crate::print(&planning::describe(plan))?;
    Ok(Exit::Done)
}

/// Runs the plan; the run directory has everything, also when it ended early.
fn execute(args: &CompareArgs, plan: &Plan, elsewhere: Elsewhere, judged: &Judged) -> Result<RunDir, Stop> {
    let interrupt = Interrupt::listen()?;
    let (run_id, started) = run_id::now(plan.seed);
    let path = args.out.clone().unwrap_or_else(|| PathBuf::from(RUNS).join(&run_id));
    let dir = RunDir::create(&path).context("give another place with --out")?;
    let launcher = Launcher::this_program().until(interrupt.flag().clone());
    let unbuilt = session::build(plan, &dir, &launcher, &[])?;
    if elsewhere.load.is_empty() {
        keep_off_the_server(&plan.placement.load);
    }
    elsewhere.begin(plan).map_err(Early::into_error)?;
    dir.write_host(&host_of(plan, &elsewhere).map_err(Early::into_error)?)?;
    let manifest = session::manifest(plan, run_id, started);
    let services = services::Services::default();
    let run_id = manifest.run_id.clone();
    let bench = server::Bench {
        plan,
        dir: &dir,
        launcher: &launcher,
        interrupt: &interrupt,
        run_id: &run_id,
        services: &services,
        elsewhere: &elsewhere,
        known: &server::Known::default(),
        conditions: judged.conditions(),
    };
    let measured = session::Session::new(bench, manifest).without(unbuilt).run().and_then(|()| {
        match plan.design.confirm && !interrupt.is_set() {
            true => confirm::run(&bench),
            false => Ok(()),
        }
    });
    if measured.is_err() {
        say_what_is_kept(&dir);
    }
    measured.map(|()| dir).map_err(Into::into)
}

/// Where a run that broke off has what it measured until then.
fn say_what_is_kept(dir: &RunDir) {
    if dir.read().is_ok_and(|run| !run.rounds.is_empty()) {
        let path = dir.path().display();
        crate::say(&format!("run kept in {path} as far as it came: whyslow analyse {path}"));
    }
}

/// The facts of the machine of the servers; with the link to it where the generator is on another.
fn host_of(plan: &Plan, elsewhere: &Elsewhere) -> Result<model::record::Host, Early> {
    if plan.placement.machines.are_one() {
        return Ok(host(plan));
    }
    let link = elsewhere.link()?;
    crate::say(&format!(
        "the link between the machines: {} there and back, {:.0} MB/s",
        model::units::format_ns(link.round_trip_ns as f64),
        link.bytes_per_s / 1e6
    ));
    let machine = elsewhere.server.as_ref().map(|remote| remote.hello.machine.clone());
    Ok(model::record::Host { link: Some(link), ..machine.unwrap_or_else(observe::fingerprint) })
}

/// The facts of this machine; with what one of each costs here, where causes are to be ranked.
fn host(plan: &Plan) -> model::record::Host {
    // Where this host refuses to be calibrated, causes are ranked without what their counts can carry.
    let unit_costs = if plan.design.why { observe::unit_costs().ok() } else { None };
    let loopback_bytes_per_s = observe::loopback_bytes_per_s().ok();
    model::record::Host { unit_costs, loopback_bytes_per_s, ..observe::fingerprint() }
}

/// About how long a run of `plan` takes, in seconds, diagnostic rounds included.
pub(crate) fn seconds(plan: &Plan) -> f64 {
    let turn_ns = u64::try_from(plan.turn().0.as_nanos()).unwrap_or(u64::MAX);
    let unfitted = model::record::Fitted { turn_ns, warm_up_turn_ns: turn_ns, ..Default::default() };
    f64::from(plan.usual_blocks()) * plan.block_seconds() + diagnose::seconds(plan, &unfitted)
}

/// A name for a run that begins now.
pub(crate) fn run_name(seed: u64) -> String {
    run_id::now(seed).0
}

/// Runs a plan whose arms are built into `path`, or goes on with the run of the same plan that is there.
pub(crate) fn measure_into(plan: &Plan, path: &Path) -> Result<RunDir, Stop> {
    go_into(plan, path, None, &analyse::extend_to)
}

/// The same of arms that are built first where they have not been; at a look it goes on as `extend` says. Where one of the arms
/// `needed`, by their places in the plan, cannot be built, nothing is measured; any other is a failed row.
pub(crate) fn build_and_measure_into(
    plan: &Plan,
    path: &Path,
    needed: &[usize],
    extend: &dyn Fn(&Run) -> Option<u32>,
) -> Result<RunDir, Stop> {
    go_into(plan, path, Some(needed), extend)
}

fn go_into(
    plan: &Plan,
    path: &Path,
    build: Option<&[usize]>,
    extend: &dyn Fn(&Run) -> Option<u32>,
) -> Result<RunDir, Stop> {
    let interrupt = Interrupt::listen()?;
    let (dir, manifest, done) = begun(plan, path)?;
    if manifest.status == RunStatus::Complete {
        crate::say(&format!("{} is complete: taken as it is", path.display()));
        return Ok(dir);
    }
    let launcher = Launcher::this_program().until(interrupt.flag().clone());
    let services = services::Services::default();
    let elsewhere = Elsewhere::default();
    let run_id = manifest.run_id.clone();
    let bench = server::Bench {
        plan,
        dir: &dir,
        launcher: &launcher,
        interrupt: &interrupt,
        run_id: &run_id,
        services: &services,
        elsewhere: &elsewhere,
        known: &server::Known::default(),
        conditions: &[],
    };
    let unbuilt = match build {
        Some(needed) => session::build(plan, &dir, &launcher, needed)?,
        None => Vec::new(),
    };
    let allowed = sched_getaffinity(None).context("cannot read the CPU set of this process")?;
    keep_off_the_server(&plan.placement.load);
    let outcome =
        session::Session::new(bench, manifest).after(&done).without(unbuilt).extending(extend).run();
    // What comes after may need all of them: the next plan is made from those that this process may use.
    sched_setaffinity(None, &allowed).context("cannot set the CPU set of this process")?;
    outcome?;
    if interrupt.is_set() {
        return Err(Stop::Failed(anyhow::anyhow!(
            "interrupted: the same command with --out goes on from here"
        )));
    }
    Ok(dir)
}

/// The run in `path` as far as it came: not begun, or of the same plan.
fn begun(plan: &Plan, path: &Path) -> anyhow::Result<(RunDir, Manifest, Vec<RoundRecord>)> {
    if path.join("manifest.json").exists() {
        let dir = RunDir::open(path);
        let run = dir.read()?;
        anyhow::ensure!(
            run.manifest.plan.masked() == plan.masked(),
            "{} holds a run of another plan: choose another folder with --out",
            path.display()
        );
        anyhow::ensure!(
            run.host.is_known(),
            "{} cannot go on without its host.json: choose another folder with --out",
            path.display()
        );
        return Ok((dir, run.manifest, run.rounds));
    }
    let (run_id, started) = run_id::now(plan.seed);
    let dir = RunDir::create(path)?;
    dir.write_host(&host(plan))?;
    Ok((dir, session::manifest(plan, run_id, started), Vec::new()))
}

/// The orchestrator shares the generator's CPUs: what it does there is seen, what it did on the server's would not be.
fn keep_off_the_server(load: &CpuSet) {
    let mut set = KernelCpuSet::new();
    load.iter().for_each(|cpu| set.set(cpu as usize));
    // Placement is checked before; where the kernel refuses, the host gate sees the load.
    let _ = sched_setaffinity(None, &set);
}
