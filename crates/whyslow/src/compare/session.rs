//! A whole run: builds, pilot, blocks, looks; everything is in the run directory before anything is concluded.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, bail};
use launch::{LaunchError, Launcher, executable_of, sha256_file};
use model::plan::{Arm, Condition, Plan, Round, fill};
use model::record::{Build, Failure, Manifest, RoundRecord, Run, RunDir, RunStatus, SCHEMA_VERSION};

use super::diagnose;
use super::progress::Progress;
use super::round::{Bench, Early, placeholders};

/// How often one round that the host spoilt is repeated before it stays void.
const MAX_REPEATS: u32 = 4;
/// Seconds that a pilot takes.
const PILOT_S: f64 = 2.0;

/// A run at work.
pub(super) struct Session<'a> {
    bench: Bench<'a>,
    manifest: Manifest,
    /// Whether an arm still takes part; one that failed does not.
    alive: Vec<bool>,
    /// Arms that could not be built.
    unbuilt: Vec<(usize, Failure)>,
    /// Rounds of an earlier call, by block and arm: they are not run again.
    done: BTreeSet<(u32, usize)>,
    /// Repeats that are still to be had.
    repeats: u32,
    /// Repeats that are still to be had because a CPU was moved.
    moves: u32,
    progress: Progress,
}

/// What the run was stopped by, if by anything.
type Step = Result<(), Early>;

impl<'a> Session<'a> {
    pub(super) fn new(bench: Bench<'a>, manifest: Manifest) -> Self {
        let plan = bench.plan;
        let blocks = f64::from(plan.design.blocks.first());
        let seconds = PILOT_S * plan.arms.len() as f64 + super::seconds(plan);
        let rounds = blocks * plan.arms.len() as f64;
        // With more void rounds than the gate takes, of all that were run, the run is invalid anyway.
        let share = |share: f64| (rounds * share / (1.0 - share)).floor().max(1.0) as u32;
        Self {
            alive: vec![true; plan.arms.len()],
            unbuilt: Vec::new(),
            done: BTreeSet::new(),
            repeats: share(analyse::MAX_VOID_SHARE),
            moves: share(analyse::MAX_MOVED_SHARE),
            progress: Progress::new(seconds),
            bench,
            manifest,
        }
    }

    /// Goes on after the rounds of an earlier call; an arm that failed then stays out.
    pub(super) fn after(mut self, rounds: &[RoundRecord]) -> Self {
        for record in rounds {
            self.done.insert((record.round.block, record.round.arm));
            // A round without windows is a pilot's: of an arm that answered otherwise.
            if record.failure.is_some() || record.windows.is_empty() {
                self.alive[record.round.arm] = false;
            }
        }
        self
    }

    /// Leaves out arms that could not be built: each is a failed row.
    pub(super) fn without(mut self, unbuilt: Vec<(usize, Failure)>) -> Self {
        self.unbuilt = unbuilt;
        self
    }

    /// Runs to the end, to the user's interruption, or to the first failure of our own.
    pub(super) fn run(mut self) -> anyhow::Result<()> {
        self.bench.dir.write_manifest(&self.manifest)?;
        self.drop_unbuilt().map_err(|early| match early {
            Early::Broken(error) => error,
            Early::Failed(_) | Early::Interrupted => anyhow::anyhow!("nothing was started yet"),
        })?;
        // The rates that an earlier call's pilot found hold for the whole run.
        let piloted = self.manifest.pilot_per_s.iter().any(|per_s| *per_s > 0.0);
        let pilot = if piloted { Ok(()) } else { self.pilot() };
        let outcome = pilot.and_then(|()| self.blocks()).and_then(|done| self.diagnose(done));
        self.progress.finish();
        let (status, error) = match outcome {
            Ok(()) => (RunStatus::Complete, None),
            Err(Early::Interrupted) => (RunStatus::Partial, None),
            Err(Early::Failed(failure)) => (RunStatus::Partial, Some(anyhow::anyhow!(failure.text))),
            Err(Early::Broken(error)) => (RunStatus::Partial, Some(error)),
        };
        self.manifest.status = status;
        self.bench.dir.write_manifest(&self.manifest)?;
        error.map_or(Ok(()), Err)
    }

    fn plan(&self) -> &'a Plan {
        self.bench.plan
    }

    /// Starts every arm once: those that fail are told now, answers are compared, and the slowest arm sets equal rates.
    fn pilot(&mut self) -> Step {
        let mut records = Vec::new();
        for round in self.plan().rounds(0) {
            if !self.alive[round.arm] {
                continue;
            }
            let arm = &self.plan().arms[round.arm];
            self.progress.doing(&format!("pilot: {}", arm.name));
            let (record, per_s) = self.bench.pilot(&round, &mut self.progress)?;
            self.manifest.pilot_per_s[round.arm] = per_s;
            if record.failure.is_some() {
                self.drop_arm(&record)?;
            } else {
                records.push(record);
            }
        }
        self.bench.dir.write_manifest(&self.manifest)?;
        self.drop_different(&records)?;
        if !self.comparable() {
            // Nothing more is run: what the arms answered is all that there is to show of them.
            for record in records.iter().filter(|record| self.alive[record.round.arm]) {
                self.bench.dir.write_round(record)?;
            }
        }
        Ok(())
    }

    /// An arm that answers differently cannot be compared: its answer is recorded, and the others go on.
    fn drop_different(&mut self, records: &[RoundRecord]) -> Step {
        let baseline = records.iter().find(|record| record.round.arm == self.plan().baseline);
        let Some(expected) = baseline.and_then(|record| record.answer.as_ref()) else { return Ok(()) };
        if self.plan().workload.allow_difference {
            return Ok(());
        }
        for record in records {
            let answer = record.answer.as_ref();
            if let Some(text) = answer.and_then(|answer| analyse::difference(expected, answer)) {
                self.alive[record.round.arm] = false;
                self.progress.say(&format!("{}: left out, it answers differently: {text}", record.arm));
                self.bench.dir.write_round(record)?;
            }
        }
        Ok(())
    }

    /// Writes down which arms were not built.
    fn drop_unbuilt(&mut self) -> Step {
        for (arm, failure) in std::mem::take(&mut self.unbuilt) {
            let rounds = self.plan().rounds(0);
            let round = rounds.iter().find(|round| round.arm == arm).context("every block has every arm")?;
            let record = RoundRecord { failure: Some(failure), ..self.bench.blank(round) };
            self.drop_arm(&record)?;
        }
        Ok(())
    }

    fn drop_arm(&mut self, record: &RoundRecord) -> Step {
        self.alive[record.round.arm] = false;
        let failure = record.failure.as_ref().map_or("", |failure| &failure.text);
        self.progress.say(&format!("{}: {failure}", record.arm));
        self.bench.dir.write_round(record)?;
        Ok(())
    }

    /// Whether there are still two arms to be measured side by side. Without the baseline no winner is named, and their
    /// figures are worth having.
    fn comparable(&self) -> bool {
        // An intervention says something only of two arms as they are and changed.
        if self.plan().intervention.is_some() {
            return self.alive.iter().all(|alive| *alive);
        }
        self.alive.iter().filter(|alive| **alive).count() > 1
    }

    /// Runs the blocks; gives how many there are.
    fn blocks(&mut self) -> Result<u32, Early> {
        let conditions = self.conditions();
        let mut wanted = self.plan().design.blocks.first();
        let mut block = 0;
        while block < wanted && self.comparable() {
            self.progress.doing(&format!("block {} of {wanted}", block + 1));
            self.block(block, &conditions)?;
            block += 1;
            if block == wanted {
                wanted = self.look(wanted)?;
            }
        }
        Ok(block)
    }

    /// Diagnostic rounds after the scored ones, where the difference is to be explained. An arm that fails in one has its
    /// figures all the same.
    fn diagnose(&mut self, first_block: u32) -> Step {
        // Differences are explained from the baseline.
        if !self.plan().design.why || !self.comparable() || !self.alive[self.plan().baseline] {
            return Ok(());
        }
        let condition = self.conditions()[analyse::main_condition(self.plan())];
        let scored = self.bench.dir.read()?;
        let mut releasing = None;
        let rounds = diagnose::rounds(self.plan());
        for block in 0..rounds {
            for round in self.plan().rounds(first_block + block) {
                if self.alive[round.arm] {
                    self.progress.doing(&format!("diagnostic round {} of {rounds}", block + 1));
                    self.diagnostic(&round, block, condition, &scored, &mut releasing)?;
                }
            }
        }
        diagnose::wait(&mut releasing);
        Ok(())
    }

    /// One diagnostic round, repeated while it meets CPUs that were moved; the last is kept as it is.
    fn diagnostic(
        &mut self,
        round: &Round,
        block: u32,
        condition: Condition,
        scored: &Run,
        releasing: &mut diagnose::Releasing,
    ) -> Step {
        for attempt in 0..=MAX_REPEATS {
            let record = self.bench.diagnose(round, block, condition, releasing, &mut self.progress)?;
            self.bench.dir.write_diagnostic(&record)?;
            if attempt == MAX_REPEATS || !analyse::strayed(scored, &record) {
                break;
            }
            self.progress.say("  diagnostic round repeated: the hypervisor moved a CPU");
        }
        Ok(())
    }

    /// The conditions with their rates, from the slowest arm of the pilot.
    fn conditions(&self) -> Vec<Condition> {
        let alive = self.manifest.pilot_per_s.iter().zip(&self.alive).filter(|(_, alive)| **alive);
        let slowest = alive.map(|(per_s, _)| *per_s).fold(f64::INFINITY, f64::min);
        self.plan().workload.conditions.iter().map(|condition| condition.resolve(slowest)).collect()
    }

    fn block(&mut self, block: u32, conditions: &[Condition]) -> Step {
        let mut done = Vec::new();
        for round in self.plan().rounds(block) {
            if !self.alive[round.arm] || self.done.contains(&(block, round.arm)) {
                continue;
            }
            let record = self.round(round, conditions)?;
            if record.failure.is_some() {
                self.drop_arm(&record)?;
            }
            done.push(record);
        }
        self.mend_pairs(&mut done, conditions)?;
        self.progress.say(&figures(block, &done));
        Ok(())
    }

    /// Repeats the rounds of a block that no other can be paired with, as a CPU was moved since.
    fn mend_pairs(&mut self, done: &mut [RoundRecord], conditions: &[Condition]) -> Step {
        loop {
            let rounds: Vec<&RoundRecord> = done.iter().filter(|record| record.failure.is_none()).collect();
            let moved = analyse::moved_since(&rounds).into_iter().next();
            let Some((index, reason)) = moved.filter(|_| self.moves > 0) else { return Ok(()) };
            let mut again = rounds[index].round.clone();
            self.moves -= 1;
            self.progress.say(&format!("  round void, repeated: {}", reason.text));
            again.attempt += 1;
            let record = self.round(again, conditions)?;
            if record.failure.is_some() {
                self.drop_arm(&record)?;
            }
            if let Some(place) = done.iter_mut().find(|earlier| earlier.round.arm == record.round.arm) {
                *place = record;
            }
        }
    }

    /// One round, repeated while the host spoils it.
    fn round(&mut self, mut round: Round, conditions: &[Condition]) -> Result<RoundRecord, Early> {
        let mut disturbed = 0;
        loop {
            let record = self.bench.run(&round, conditions, &mut self.progress)?;
            self.bench.dir.write_round(&record)?;
            let Some(fault) = analyse::host_fault(&record) else { return Ok(record) };
            disturbed += u32::from(!fault.moved);
            let left = if fault.moved { &mut self.moves } else { &mut self.repeats };
            if *left == 0 || disturbed > MAX_REPEATS {
                return Ok(record);
            }
            *left -= 1;
            round.attempt += 1;
            self.progress.say(&format!("  round void, repeated: {}", fault.text));
        }
    }

    /// Looks at what there is; gives the number of blocks to go to.
    fn look(&mut self, blocks: u32) -> Result<u32, Early> {
        let run = self.bench.dir.read()?;
        let Some(wanted) = analyse::extend_to(&run).filter(|wanted| *wanted > blocks) else {
            return Ok(blocks);
        };
        let seconds = f64::from(wanted - blocks) * self.plan().block_seconds();
        self.progress.say(&format!(
            "undecided after {blocks} blocks: going on to {wanted}, about {:.0} minutes more",
            (seconds / 60.0).ceil()
        ));
        self.progress.extend(seconds);
        Ok(wanted)
    }
}

/// The figures of one block, for someone who watches.
fn figures(block: u32, records: &[RoundRecord]) -> String {
    let figure = |record: &RoundRecord| {
        let window = record.windows.first()?;
        let cpu = analyse::Metric::CpuPerRequest.of(window)?;
        Some(format!("{} {} {:.0}/s", record.arm, model::units::format_ns(cpu), window.load.rate_per_s))
    };
    let figures: Vec<String> = records.iter().filter_map(figure).collect();
    format!("block {}: {}", block + 1, figures.join(", "))
}

/// The manifest of a run that begins now.
pub(super) fn manifest(plan: &Plan, run_id: String, started_unix_s: u64) -> Manifest {
    Manifest {
        schema: SCHEMA_VERSION,
        run_id,
        status: RunStatus::Running,
        started_unix_s,
        command: std::iter::once("whyslow".to_owned()).chain(std::env::args().skip(1)).collect(),
        plan: plan.clone(),
        builds: plan.arms.iter().map(|arm| build_id(arm, plan)).collect(),
        pilot_per_s: vec![0.0; plan.arms.len()],
    }
}

fn build_id(arm: &Arm, plan: &Plan) -> Build {
    let values = placeholders(arm, &plan.placement, 0);
    let argv: Vec<String> = arm.run.iter().map(|word| fill(word, &values)).collect();
    let file = executable_of(&argv, arm.dir.as_deref().map(Path::new));
    let hashed = file.ok().and_then(|file| sha256_file(&file).ok());
    let (sha256, bytes) = hashed.map_or((None, 0), |(sha256, bytes)| (Some(sha256), bytes));
    Build { arm: arm.name.clone(), sha256, bytes }
}

/// Builds the arms that are built; their logs lie beside those of the rounds. Gives those that could not be.
pub(super) fn build(plan: &Plan, dir: &RunDir, launcher: &Launcher) -> anyhow::Result<Vec<(usize, Failure)>> {
    let mut failed = Vec::new();
    for (index, arm) in plan.arms.iter().enumerate().filter(|(_, arm)| arm.build_dir.is_some()) {
        let log = dir.path().join("logs").join(format!("build-{}.log", arm.name));
        if !arm.build.is_empty() {
            crate::say(&format!("building {}", arm.name));
        }
        match launcher.build(arm, &placeholders(arm, &plan.placement, 0), &log, &mut |_| {}) {
            Ok(()) => {}
            Err(LaunchError::Interrupted) => bail!("interrupted while '{}' was built", arm.name),
            Err(error) => failed.push((index, error.failure())),
        }
    }
    Ok(failed)
}
