//! `--confirm`: causes are put to the test by taking them away. Each change is a run of its own below the run's directory,
//! with four arms in every block: both servers as they are, and both changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use analyse::{Cause, Findings, Grade};
use anyhow::{Context, bail};
use launch::{Launcher, Spec};
use model::plan::{Blocks, CauseId, Design, Plan, Timing};
use model::record::{Run, RunDir};
use model::units::Span;

use super::remedies::{Change, Library, Remedy, against, seen_on};
use super::server::{Bench, Known};
use super::{run_id, session};
use crate::catalogue::Catalogue;

/// Most changes that one run tries: each takes a minute or two.
const MOST: usize = 6;
/// Blocks of each: one more than the fewest whose exact interval attains 95 %, for the host may spoil one.
const BLOCKS: u32 = 7;
/// Longest window: a cause that carries a tenth of the gap shows in three seconds.
const LONGEST_WINDOW: Span = Span::from_secs(3);
/// Longest time that the C compiler has for a file of seventy lines.
const COMPILE_LIMIT: Duration = Duration::from_secs(30);
/// Where the system keeps shared libraries.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/lib64",
];
const SHIM: &str = include_str!("shim.c");

/// Grades that can be put to the test.
const OPEN: [Grade; 2] = [Grade::BoundedBy, Grade::ConsistentWith];

/// Tries changes against the causes that the run in `bench.dir` names, until each is confirmed or no change is left; what
/// cannot be tried is said.
pub(super) fn run(bench: &Bench) -> anyhow::Result<()> {
    let run = bench.dir.read()?;
    let mut findings = analyse::analyse(&run);
    let all = trials(&findings, &run, bench.plan);
    if all.is_empty() {
        crate::say("nothing to confirm: no cause was named that a change from outside can take away");
    }
    let mut tried = 0;
    for (number, trial) in all.iter().enumerate() {
        if bench.interrupt.is_set() {
            break;
        }
        if trial.is_needless(&findings, bench.plan) {
            crate::say(&format!("not needed: {}, for that is confirmed already", trial.words()));
            continue;
        }
        if tried == MOST {
            crate::say(&format!("not tried: {} (at most {MOST} changes in one run)", trial.words()));
            continue;
        }
        tried += 1;
        crate::say(&format!("confirming, {} of {}: {}", number + 1, all.len(), trial.words()));
        if let Err(error) = trial.run(bench, &run.manifest.pilot_per_s) {
            crate::say(&format!("not tried: {}: {}", trial.words(), crate::exit::told(&error)));
        }
        findings = analyse::analyse(&bench.dir.read()?);
    }
    Ok(())
}

/// A change to be tried on a pair of arms, named by their places in the plan.
struct Trial {
    pair: [usize; 2],
    remedy: Remedy,
    /// The causes that it is tried against.
    causes: Vec<CauseId>,
}

/// Every change that could take away a cause of these findings, the most important cause first; each pair and change
/// once.
fn trials(findings: &Findings, run: &Run, plan: &Plan) -> Vec<Trial> {
    let catalogue = Catalogue::find();
    let place = |name: &str| plan.arms.iter().position(|arm| arm.name == name);
    let mut trials: Vec<Trial> = Vec::new();
    // What makes a gap smaller is none of its causes.
    let makes_it =
        |cause: &&Cause| OPEN.contains(&cause.grade) && cause.share.is_none_or(|share| share > 0.0);
    for cause in findings.causes.iter().filter(makes_it) {
        let (Some(baseline), Some(arm)) = (place(&cause.baseline), place(&cause.arm)) else { continue };
        let pair = [baseline, arm];
        let arms = pair.map(|index| &plan.arms[index]);
        for remedy in against(cause.id, arms, arms.map(|arm| seen_on(arm, run)), plan, &catalogue) {
            match trials.iter_mut().find(|trial| trial.pair == pair && trial.remedy == remedy) {
                Some(known) => known.causes.push(cause.id),
                None => trials.push(Trial { pair, remedy, causes: vec![cause.id] }),
            }
        }
    }
    trials
}

impl Trial {
    fn words(&self) -> String {
        let names: Vec<&str> = self.remedy.intervention.causes.iter().map(|cause| cause.name()).collect();
        format!("{} with {}", names.join(" or "), self.remedy.intervention.with)
    }

    /// Whether every cause that it is tried against has been confirmed by another change.
    fn is_needless(&self, findings: &Findings, plan: &Plan) -> bool {
        let [baseline, arm] = self.pair.map(|index| &plan.arms[index].name);
        let of_pair = findings.causes.iter().filter(|one| one.baseline == *baseline && one.arm == *arm);
        let confirmed =
            |id: &CauseId| of_pair.clone().any(|cause| cause.id == *id && cause.grade == Grade::ConfirmedBy);
        self.causes.iter().all(confirmed)
    }

    fn run(&self, bench: &Bench, pilot_per_s: &[f64]) -> anyhow::Result<()> {
        let library = self.library(bench)?;
        let plan = self.plan(bench.plan, library.as_deref(), pilot_per_s)?;
        let name = format!("{}-{}", plan.arms[1].name, self.remedy.intervention.id);
        let dir = RunDir::create(&bench.dir.intervention_path(&name))?;
        let unbuilt = session::build(&plan, &dir, bench.launcher, &[])?;
        dir.write_host(&super::host(&plan))?;
        let (run_id, started) = run_id::now(plan.seed);
        let manifest = session::manifest(&plan, run_id, started);
        let known = Known::default();
        let bench = Bench { plan: &plan, dir: &dir, known: &known, conditions: &[], ..*bench };
        session::Session::new(bench, manifest).without(unbuilt).run()
    }

    /// The arms as they are and changed, under the one condition in which the cause was named.
    fn plan(&self, whole: &Plan, library: Option<&str>, pilot_per_s: &[f64]) -> anyhow::Result<Plan> {
        let plain = self.pair.map(|index| whole.arms[index].clone());
        let changed = [0, 1].map(|side: usize| self.remedy.applied(&plain[side], library, whole));
        let slowest = pilot_per_s.iter().copied().filter(|per_s| *per_s > 0.0).fold(f64::INFINITY, f64::min);
        let condition = whole.workload.conditions[analyse::main_condition(whole)].resolve(slowest);
        let mut plan = Plan {
            arms: [plain, changed].concat(),
            baseline: 0,
            timing: timing(&whole.timing),
            design: Design {
                blocks: Blocks::Fixed { blocks: BLOCKS },
                turns: whole.design.turns,
                second_baseline: false,
                why: false,
                confirm: false,
                fewer_connections: whole.design.fewer_connections,
            },
            intervention: Some(self.remedy.intervention.clone()),
            ..whole.clone()
        };
        plan.workload.conditions = vec![condition];
        // The arms as they are were held against each other before; the changed ones may answer as their change makes them.
        plan.workload.allow_difference = true;
        plan.validate()?;
        Ok(plan)
    }

    /// The library that the change loads, found or built.
    fn library(&self, bench: &Bench) -> anyhow::Result<Option<String>> {
        let Change::Preload(library) = &self.remedy.change else { return Ok(None) };
        let path = match library {
            Library::System(file, package) => LIBRARY_FOLDERS
                .iter()
                .map(|folder| Path::new(folder).join(file))
                .find(|path| path.exists())
                .with_context(|| format!("there is no {file}: apt-get install {package}"))?,
            Library::Shim(_) => shim(bench)?,
        };
        path.into_os_string().into_string().map(Some).map_err(|_| anyhow::anyhow!("its path is not text"))
    }
}

fn timing(whole: &Timing) -> Timing {
    // No longer than the shortest warm-up of each class.
    Timing {
        window: whole.window.min(LONGEST_WINDOW),
        warmup_cap: whole.warmup,
        warmup_cap_jit: Some(whole.warmup_jit),
        ..*whole
    }
}

/// Our own library, built once in the run's directory.
fn shim(bench: &Bench) -> anyhow::Result<PathBuf> {
    let folder = std::path::absolute(bench.dir.path().join("logs"))?;
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    if library.exists() {
        return Ok(library);
    }
    model::record::write_atomically(&source, SHIM.as_bytes())?;
    let words = ["cc", "-O2", "-shared", "-fPIC", "-o"].map(str::to_owned);
    let files = [&library, &source].map(|path| path.to_string_lossy().into_owned());
    let argv = words.into_iter().chain(files).chain(["-ldl".to_owned()]).collect();
    let log = folder.join("shim.log");
    compile(&Spec { argv, log: log.clone(), ..Spec::default() }, bench.launcher)?;
    if !library.exists() {
        bail!("the C compiler did not build the library: {}", launch::log_tail(&log, 3).join(" "));
    }
    Ok(library)
}

fn compile(spec: &Spec, launcher: &Launcher) -> anyhow::Result<()> {
    let mut process = launcher.start(spec).context("a C compiler is needed: apt-get install gcc")?;
    let _ = process.wait(COMPILE_LIMIT);
    let _ = process.stop();
    Ok(())
}
