//! A whole run: builds, pilot, blocks, looks, diagnosis; everything is in the run directory before anything is concluded.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use launch::{BuildStep, Built, LaunchError, Launcher, executable_of, sha256_file};
use model::plan::{Arm, Condition, Plan, fill};
use model::record::{
    ArmAnswers, Build, Failure, Fitted, Manifest, RoundRecord, Run, RunDir, RunStatus, SCHEMA_VERSION,
    Stopping,
};
use model::units::format_ns;

use super::Early;
use super::diagnose;
use super::pilot::{Basis, Piloted};
use super::progress::Progress;
use super::server::{Bench, placeholders};
use super::stopping::{self, Watched};
use super::verify;

/// Seconds that the pilot of one arm takes.
const PILOT_S: f64 = 1.5;
/// How often connections are lowered at most: once to what the pilots found, and once more where that was only guessed, of an arm
/// that had given no answer.
const LOWERINGS: u32 = 2;

/// A run at work.
pub(super) struct Session<'a> {
    bench: Bench<'a>,
    manifest: Manifest,
    /// Whether an arm still takes part; one that failed does not.
    alive: Vec<bool>,
    /// Arms that could not be built.
    unbuilt: Vec<(usize, Failure)>,
    /// Blocks of an earlier call: they are not run again.
    done: BTreeSet<u32>,
    progress: Progress,
    begun: Instant,
    /// Seconds that a block of this call took on average, once there is one.
    block_s: Option<f64>,
    /// What turns and blocks are fitted to; nothing where an earlier call's pilot found it.
    basis: Option<Basis>,
    /// Blocks to go on to at a look.
    extend: &'a dyn Fn(&Run) -> Option<u32>,
}

/// What the run was stopped by, if by anything.
type Step = Result<(), Early>;

impl<'a> Session<'a> {
    pub(super) fn new(bench: Bench<'a>, manifest: Manifest) -> Self {
        let plan = bench.plan;
        Self {
            alive: vec![true; plan.arms.len()],
            unbuilt: Vec::new(),
            done: BTreeSet::new(),
            progress: Progress::new(PILOT_S * plan.arms.len() as f64 + super::seconds(plan)),
            bench,
            manifest,
            begun: Instant::now(),
            block_s: None,
            basis: None,
            extend: &analyse::extend_to,
        }
    }

    /// Goes on after the rounds of an earlier call; an arm that failed then stays out. The block that the call ended in is
    /// run again: its arms took turns.
    pub(super) fn after(mut self, rounds: &[RoundRecord]) -> Self {
        for record in rounds {
            self.done.insert(record.round.block);
            // A round without windows is a pilot's: of an arm that answered otherwise.
            if record.failure.is_some() || record.windows.is_empty() {
                self.alive[record.round.arm] = false;
            }
        }
        self
    }

    /// Goes on at a look as `extend` says, in the place of until it is decided which arm is slower.
    pub(super) fn extending(mut self, extend: &'a dyn Fn(&Run) -> Option<u32>) -> Self {
        self.extend = extend;
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
            Early::Arm(..) | Early::Interrupted => anyhow::anyhow!("nothing was started yet"),
        })?;
        // What an earlier call's pilot found holds for the whole run.
        let piloted = self.manifest.pilot_per_s.iter().any(|per_s| *per_s > 0.0);
        let pilot = if piloted { Ok(()) } else { self.pilot() };
        let outcome = pilot.and_then(|()| self.blocks()).and_then(|done| self.diagnose(done));
        self.progress.finish();
        // Whatever ended it, a connection that is lost is the reason.
        let outcome = match self.bench.elsewhere.check() {
            Err(lost) if outcome.is_err() => Err(Early::Broken(lost)),
            _ => outcome,
        };
        let (status, error) = match outcome {
            Ok(()) => (RunStatus::Complete, None),
            Err(Early::Interrupted) => (RunStatus::Partial, None),
            Err(Early::Arm(_, failure)) => (RunStatus::Partial, Some(anyhow::anyhow!(failure.text))),
            Err(Early::Broken(error)) => (RunStatus::Partial, Some(error)),
        };
        self.manifest.status = status;
        self.bench.dir.write_manifest(&self.manifest)?;
        error.map_or(Ok(()), Err)
    }

    fn plan(&self) -> &'a Plan {
        self.bench.plan
    }

    /// Starts every arm once: those that fail are reported now, answers are compared, and the plan is fitted to what was found.
    fn pilot(&mut self) -> Step {
        let requested = self.plan().workload.job.connections;
        let mut connections = requested;
        let mut pilots = self.pilots(connections, true)?;
        let mut held_by = None;
        for left in (0..LOWERINGS).rev() {
            let Some(fewer) = self.bench.fewer_connections(&pilots, connections) else { break };
            let tried = self.pilots(fewer.connections, left > 0)?;
            if self.bench.is_refuted(&fewer, connections, &pilots, &tried) {
                pilots.iter_mut().for_each(Piloted::holds_none);
                continue;
            }
            connections = fewer.connections;
            held_by = fewer.held_by;
            pilots = tried;
        }
        let (fitted, basis) = self.bench.fit(&pilots, connections);
        self.manifest.fitted = fitted;
        self.basis = Some(basis);
        self.manifest.fitted.connections = (connections < requested).then_some(connections);
        for piloted in &mut pilots {
            let arm = piloted.record.round.arm;
            self.manifest.pilot_per_s[arm] = piloted.per_s;
            self.manifest.builds[arm].images = std::mem::take(&mut piloted.images);
        }
        self.say_fitted(held_by.as_deref());
        super::judged::say_foreseen(&self.bench, &self.manifest.fitted, &self.manifest.pilot_per_s);
        self.progress.expect(self.seconds_left());
        let answers = pilots.iter_mut().map(|piloted| ArmAnswers {
            arm: piloted.record.arm.clone(),
            requests: std::mem::take(&mut piloted.answers),
        });
        let mut answers: Vec<ArmAnswers> = answers.filter(|answers| !answers.requests.is_empty()).collect();
        // Pilots go in a random order.
        answers.sort_by_key(|answers| self.bench.plan.arms.iter().position(|arm| arm.name == answers.arm));
        self.bench.dir.write_answers(answers.clone())?;
        let records: Vec<RoundRecord> = pilots.into_iter().map(|piloted| piloted.record).collect();
        for record in records.iter().filter(|record| record.failure.is_some()) {
            self.drop_arm(record)?;
        }
        self.bench.dir.write_manifest(&self.manifest)?;
        let working: Vec<RoundRecord> =
            records.into_iter().filter(|record| record.failure.is_none()).collect();
        self.drop_different(&working, &answers)?;
        if !self.comparable() {
            // Nothing more is run: what the arms answered is all that there is to show of them.
            for record in working.iter().filter(|record| self.alive[record.round.arm]) {
                self.bench.dir.write_round(record)?;
            }
        }
        Ok(())
    }

    /// About how long blocks and diagnosis take as they were fitted.
    fn seconds_left(&self) -> f64 {
        let (plan, fitted) = (self.plan(), &self.manifest.fitted);
        let blocks_s = fitted.split.map_or_else(
            || f64::from(plan.usual_blocks()) * (plan.block_seconds() + fitted.late_s(plan)),
            |split| f64::from(split.blocks) * split.block_s,
        );
        blocks_s + self.diagnosis_s()
    }

    /// About how long the diagnosis takes as the plan was fitted.
    fn diagnosis_s(&self) -> f64 {
        diagnose::seconds(self.plan(), &self.manifest.fitted)
    }

    /// The pilots of all arms; `briefly` of those up to the first for which connections are lowered without a doubt.
    fn pilots(&mut self, connections: u32, briefly: bool) -> Result<Vec<Piloted>, Early> {
        let mut pilots = Vec::new();
        for round in self.plan().rounds(0) {
            if self.alive[round.arm] {
                self.progress.doing(&format!("pilot: {}", self.plan().arms[round.arm].name));
                pilots.push(self.bench.pilot(&round, connections)?);
                self.progress.tick();
            }
            let silent = briefly && pilots.last().is_some_and(Piloted::is_silent);
            if silent && self.bench.fewer_connections(&pilots, connections).is_some() {
                break;
            }
        }
        Ok(pilots)
    }

    /// Says what was made of the plan that nobody asked for.
    fn say_fitted(&self, held_by: Option<&str>) {
        if let Some(connections) = self.manifest.fitted.connections {
            let why = match held_by {
                Some(arm) => {
                    format!("'{arm}' answers on no more at a time, and leaves the others without any answer")
                }
                None => "the slowest arm does not answer more within a second".to_owned(),
            };
            let noun = if connections == 1 { "connection" } else { "connections" };
            let requested = self.plan().workload.job.connections;
            crate::say(&format!("{connections} {noun} instead of {requested}: {why}"));
        }
        if let Some(reason) = &self.manifest.fitted.alone {
            crate::say(&format!("one arm at a time: {reason}"));
        }
    }

    /// An arm that answers differently cannot be compared: its answer is recorded, and the others go on.
    fn drop_different(&mut self, records: &[RoundRecord], answers: &[ArmAnswers]) -> Step {
        let workload = &self.plan().workload;
        let of = |name: &str| answers.iter().find(|answers| answers.arm == name);
        let Some(expected) = of(&self.plan().arms[self.plan().baseline].name) else { return Ok(()) };
        if workload.allow_difference {
            return Ok(());
        }
        for record in records {
            let difference = |other| analyse::difference(expected, other, workload.same);
            if let Some(found) = of(&record.arm).and_then(difference) {
                let text = report::difference(&found);
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
        let mut wanted = self.manifest.fitted.blocks(self.plan());
        let (pilots_s, begun) = (self.begun.elapsed().as_secs_f64(), Instant::now());
        let (mut block, mut first_s) = (0, 0.0);
        while block < wanted && self.comparable() {
            if !self.done.contains(&block) {
                self.progress.doing(&format!("block {} of {wanted}", block + 1));
                self.block(block, &conditions)?;
            }
            block += 1;
            // How long those of an earlier call took is not known, and the first one takes longer than all that follow.
            let taken_s = begun.elapsed().as_secs_f64();
            match block - u32::try_from(self.done.len()).unwrap_or(0).min(block) {
                0 => {}
                1 => first_s = taken_s,
                here => self.block_s = Some((taken_s - first_s) / f64::from(here - 1)),
            }
            let with_next_s = taken_s + self.block_s();
            if self.done.is_empty() && !self.plan().has_time(block, with_next_s, pilots_s, self.diagnosis_s())
            {
                wanted = block;
                self.manifest.fitted.split.iter_mut().for_each(|split| split.blocks = block);
            }
            if block == wanted {
                wanted = self.look(wanted)?;
            }
            let left = f64::from(wanted - block);
            self.progress.expect(left * self.block_s() + self.diagnosis_s());
        }
        Ok(block)
    }

    /// Seconds that a block takes: by those that were run, else as planned.
    fn block_s(&self) -> f64 {
        let fitted = &self.manifest.fitted;
        let planned_s = || self.plan().block_seconds() + fitted.late_s(self.plan());
        self.block_s.or(fitted.split.map(|split| split.block_s)).unwrap_or_else(planned_s)
    }

    fn block(&mut self, block: u32, conditions: &[Condition]) -> Step {
        let fitted = self.manifest.fitted.clone();
        let mut ran = self.bench.block(block, &self.alive, conditions, &fitted, &mut self.progress)?;
        if self.holds_stops(std::mem::take(&mut ran.stops))? {
            let fitted = self.manifest.fitted.clone();
            ran = self.bench.block(block, &self.alive, conditions, &fitted, &mut self.progress)?;
        }
        for record in &ran.records {
            if record.failure.is_some() {
                self.drop_arm(record)?;
            } else {
                self.bench.dir.write_round(record)?;
            }
        }
        self.say_standings()
    }

    /// Whether turns are longer from now on, because of stops that a first block showed: it is run again.
    fn holds_stops(&mut self, stops: Vec<(usize, Watched)>) -> Result<bool, Early> {
        let arms = &self.plan().arms;
        let named = stops.into_iter().map(|(arm, watched)| (arms[arm].name.as_str(), watched));
        let stopping = stopping::apart(&named.collect::<Vec<_>>());
        let Some(basis) = self.basis.filter(|_| !stopping.is_empty()) else { return Ok(false) };
        let fitted = std::mem::take(&mut self.manifest.fitted);
        let turn_ns = fitted.turn_ns;
        self.manifest.fitted = self.bench.holding_stops(fitted, &basis, stopping);
        self.bench.dir.write_manifest(&self.manifest)?;
        let fitted = &self.manifest.fitted;
        let longer = fitted.turn_ns > turn_ns;
        crate::say(&stopping_words(&fitted.stopping, longer.then_some(fitted.turn_ns)));
        self.progress.expect(self.seconds_left());
        Ok(longer)
    }

    /// How the arms stand after a block, for someone who watches.
    fn say_standings(&self) -> Step {
        if !self.progress.is_shown() {
            return Ok(());
        }
        let run = self.bench.dir.read()?;
        self.progress.standing(&report::standings(&analyse::standings(&run)));
        Ok(())
    }

    /// A block after the scored ones in which the arms are watched closely, where the difference is to be explained. An arm
    /// that fails in it has its figures all the same.
    fn diagnose(&mut self, block: u32) -> Step {
        // Differences are explained from the baseline.
        if !self.plan().design.why || !self.comparable() || !self.alive[self.plan().baseline] {
            return Ok(());
        }
        let condition = self.conditions()[analyse::main_condition(self.plan())];
        self.progress.doing("looking for causes");
        let fitted = self.manifest.fitted.clone();
        let standings = analyse::standings(&self.bench.dir.read()?);
        let left_s = self.plan().whole_s().map(|whole_s| whole_s - self.begun.elapsed().as_secs_f64());
        let spare_s = left_s.map_or(f64::INFINITY, |left_s| left_s - self.diagnosis_s());
        let sampled = diagnose::sampled_turns(&standings, spare_s);
        let (alive, progress) = (&self.alive, &mut self.progress);
        let records = diagnose::block(&self.bench, block, alive, sampled, condition, &fitted, progress)?;
        for record in &records {
            self.bench.dir.write_diagnostic(record)?;
        }
        Ok(())
    }

    /// The conditions with their rates, from the slowest arm of the pilot.
    fn conditions(&self) -> Vec<Condition> {
        let alive = self.manifest.pilot_per_s.iter().zip(&self.alive).filter(|(_, alive)| **alive);
        let slowest = alive.map(|(per_s, _)| *per_s).fold(f64::INFINITY, f64::min);
        self.plan().workload.conditions.iter().map(|condition| condition.resolve(slowest)).collect()
    }

    /// Looks at what there is; gives the number of blocks to go to.
    fn look(&mut self, blocks: u32) -> Result<u32, Early> {
        let run = self.bench.dir.read()?;
        let Some(wanted) = (self.extend)(&run).filter(|wanted| *wanted > blocks) else {
            return Ok(blocks);
        };
        let seconds = f64::from(wanted - blocks) * self.block_s();
        self.progress.say(&format!(
            "undecided after {blocks} blocks: going on to {wanted}, about {seconds:.0} seconds more"
        ));
        Ok(wanted)
    }
}

/// What is said of arms that stop for everybody, and of turns of so many nanoseconds that are longer because of it.
fn stopping_words(stopping: &[Stopping], turn_ns: Option<u64>) -> String {
    let each = |one: &Stopping| {
        let (share, every) = (one.stops.share().min(1.0) * 100.0, format_ns(one.stops.every_ns()));
        format!("'{}' stops answering everybody every {every} ({share:.0} % of the time)", one.arm)
    };
    let all: Vec<String> = stopping.iter().map(each).collect();
    let turns = turn_ns.map_or_else(String::new, |ns| {
        format!(": each turn is {} long, to hold some of these stops", format_ns(ns as f64))
    });
    all.join(", ") + &turns
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
        changes: crate::revision::changes(plan),
        pilot_per_s: vec![0.0; plan.arms.len()],
        fitted: Fitted::default(),
    }
}

fn build_id(arm: &Arm, plan: &Plan) -> Build {
    let made = |sha256, bytes| Build { arm: arm.name.clone(), sha256, bytes, images: Vec::new() };
    // What an image runs is known by its id; a program of this name here is another one.
    let image = arm.source.image().map(|image| &image.id);
    if let Some(sha256) = image.or(arm.source.compose().map(|compose| &compose.sha256)) {
        return made(Some(sha256.clone()), 0);
    }
    let values = placeholders(arm, &plan.placement, 0);
    let argv: Vec<String> = arm.run.iter().map(|word| fill(word, &values)).collect();
    // A file of this name here is not the one of another machine.
    let here = plan.placement.machines.server.is_none();
    let file = executable_of(&argv, arm.dir.as_deref().map(Path::new));
    let hashed = file.ok().filter(|_| here).and_then(|file| sha256_file(&file).ok());
    let (sha256, bytes) = hashed.map_or((None, 0), |(sha256, bytes)| (Some(sha256), bytes));
    made(sha256, bytes)
}

/// Builds the arms that have a build, those that are `needed` first; their logs lie beside those of the rounds. Gives those that could not
/// be built; it is an error where one of those is `needed`.
pub(super) fn build(
    plan: &Plan,
    dir: &RunDir,
    launcher: &Launcher,
    needed: &[usize],
) -> anyhow::Result<Vec<(usize, Failure)>> {
    let mut failed = Vec::new();
    let mut built: Vec<(usize, &Arm)> =
        plan.arms.iter().enumerate().filter(|(_, arm)| arm.build_dir.is_some()).collect();
    built.sort_by_key(|(index, _)| !needed.contains(index));
    for (index, arm) in built {
        let log = dir.path().join("logs").join(format!("build-{}.log", arm.name));
        let mut say = |step: &BuildStep| {
            if step.step == 1 {
                crate::say(&format!("building {}", crate::revision::called(arm)));
            }
        };
        match launcher.build(arm, &placeholders(arm, &plan.placement, 0), &log, &mut say) {
            Ok(Built::Now) => {}
            Ok(Built::Before) => crate::say(&format!("{} was built before", crate::revision::called(arm))),
            Err(LaunchError::Interrupted) => bail!("interrupted while '{}' was built", arm.name),
            Err(error) => {
                let failure = error.failure();
                ensure!(
                    !needed.contains(&index),
                    "'{}' failed, and nothing can be compared without it: {}{}",
                    arm.name,
                    failure.text,
                    verify::log_end(&failure.log)
                );
                failed.push((index, failure));
            }
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use model::record::Stops;

    use super::*;

    #[test]
    fn stops_are_said_once_with_what_follows_and_turns_only_where_there_are_some() {
        let stops = Stops { count: 2, stopped_ns: 180_000_000, watched_ns: 1_000_000_000 };
        let one = |arm: &str| Stopping { arm: arm.to_owned(), stops };
        let words = |turn_ns| stopping_words(&[one("a"), one("b")], turn_ns);
        let stop = "stops answering everybody every 500 ms (18 % of the time)";
        assert_eq!(
            words(Some(1_000_000_000)),
            format!("'a' {stop}, 'b' {stop}: each turn is 1.00 s long, to hold some of these stops")
        );
        assert_eq!(words(None), format!("'a' {stop}, 'b' {stop}"));
    }
}
