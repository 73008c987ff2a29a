//! What is searched: a URL that somebody else serves, or a target that is started for it.

use std::path::PathBuf;

use anyhow::Context;
use launch::{Launcher, Process, Spec, free_port};
use model::job::{Endpoint, Job};
use model::plan::{Arm, Engine, Expect, Placement, ReadyBy, Service, Workload};
use model::units::CpuSet;

use crate::catalogue::Catalogue;
use crate::cli::CapacityArgs;
use crate::compare::contained::{self, COMPOSE, Started};
use crate::compare::reach::{Place, Starting, on_loopback};
use crate::compare::{self, GIT, InTurn, command_arm};
use crate::exit::Stop;
use crate::revision::{self, Recipe};

/// Path where neither a flag nor a target names one.
const DEFAULT_PATH: &str = "/";

/// What stands for a run in the name of a container.
const SEARCHING: &str = "capacity";

/// Something that answers, ended when it is dropped if it was started here.
pub(super) struct Served {
    endpoint: Endpoint,
    process: Option<Process>,
    log: Option<PathBuf>,
    /// What it needs beside it, which ends after it.
    _beside: Option<InTurn>,
}

impl Served {
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = process.stop();
        }
        if let Some(log) = &self.log {
            // It was for the text of a failure only.
            let _ = std::fs::remove_file(log);
            let _ = std::fs::remove_file(contained::overlay_of(log));
        }
    }
}

/// The URL as it is, or the target started on the first half of the CPUs.
pub(super) fn serve(args: &CapacityArgs, job: &Job) -> Result<Served, Stop> {
    if args.target.contains("://") {
        if let Some(cpus) = args.cpus.as_ref().filter(|_| args.load_on.is_empty()) {
            super::pin(cpus).map_err(Stop::usage)?;
        }
        let endpoint = args.request.endpoint("", &args.target, None);
        return Ok(Served { endpoint, process: None, log: None, _beside: None });
    }
    let (mut arm, own_path) = arm(args).map_err(Stop::usage)?;
    arm.services = Service::of_all(&args.services, std::slice::from_ref(&arm)).map_err(Stop::usage)?;
    arm.validate().map_err(Stop::usage)?;
    let path = args.path.clone().or(own_path).unwrap_or_else(|| DEFAULT_PATH.to_owned());
    let allowed: CpuSet = compare::allowed_cpus().map_err(Stop::usage)?;
    let placement = Placement::choose(&allowed, None, args.cpus.as_ref()).map_err(Stop::usage)?;
    let workload = workload(args, path, job).map_err(Stop::usage)?;
    Ok(start(&arm, &workload, &placement)?)
}

fn arm(args: &CapacityArgs) -> anyhow::Result<(Arm, Option<String>)> {
    let expect = Expect::default();
    let Some((name, what)) = named(&args.target) else {
        return Catalogue::find().arm(&args.target);
    };
    if let Some(revision) = what.strip_prefix(GIT) {
        let (build, run) = (args.build.clone(), args.run.clone());
        let recipe = Recipe::new(name, build, run, args.port_env, args.folder.as_deref())?;
        return Ok((revision::arm(&recipe, revision, &expect)?, None));
    }
    match contained::arm(name, what, (args.run.as_deref(), args.port_env), &expect)? {
        Some(arm) => Ok((arm, None)),
        None => Ok((command_arm(name, what, args.port_env, &expect)?, None)),
    }
}

/// The name of a target that is none of `targets/`, and what it is. A single one needs no name where its kind stands before it.
fn named(target: &str) -> Option<(&str, &str)> {
    let engines = Engine::ALL
        .map(|engine| (engine.word(), Engine::split_prefix(target).is_some_and(|(own, _)| own == engine)));
    let others = [GIT, COMPOSE].map(|kind| (kind.trim_end_matches(':'), target.starts_with(kind)));
    let kind = engines.into_iter().chain(others).find(|(_, is_it)| *is_it);
    kind.map(|(kind, _)| (kind, target)).or_else(|| target.split_once('='))
}

fn workload(args: &CapacityArgs, path: String, job: &Job) -> anyhow::Result<Workload> {
    Ok(Workload {
        job: job.clone(),
        reach: args.request.reach(),
        ready: args.ready.as_deref().map(ReadyBy::parse).transpose()?,
        ..Workload::get(&path, job.connections)
    })
}

fn start(arm: &Arm, workload: &Workload, placement: &Placement) -> anyhow::Result<Served> {
    let launcher = Launcher::this_program();
    let log = std::env::temp_dir().join(format!("whyslow-capacity-{}-{}.log", std::process::id(), arm.name));
    let values = compare::placeholders(arm, placement, 0);
    launcher
        .build(arm, &values, &log, &mut |step| crate::say(&format!("{}: {}", arm.name, step.command)))
        .with_context(|| format!("'{}' does not build", arm.name))?;
    let port = free_port(u64::from(std::process::id()))?;
    let mut beside = InTurn::new();
    let services = beside.places(arm, &launcher, placement, compare::READY_LIMIT)?;
    let mut place = Place { workload, arm, placement, address: on_loopback(port.number()), services };
    let spec = Spec { cpus: Some(placement.server.clone()), ..Spec::of_arm(arm, &place.values(), &log) };
    let limit = compare::READY_LIMIT;
    let started = contained::start(&launcher, arm, spec, SEARCHING, limit);
    let not_ready = || format!("'{}' is not ready", arm.name);
    let Started { mut process, .. } = started.with_context(not_ready)?;
    let ready = place.wait_ready(&mut process, &Starting { launcher: &launcher, log: &log, limit });
    // A search drives what a user may: whatever status is below 400 is right.
    let endpoint = Endpoint { expected_status: None, ..place.endpoint() };
    let served = Served { endpoint, process: Some(process), log: Some(log.clone()), _beside: Some(beside) };
    ready.map_err(|error| contained::explained(arm, error)).with_context(not_ready)?;
    super::pin(&placement.load)?;
    Ok(served)
}
