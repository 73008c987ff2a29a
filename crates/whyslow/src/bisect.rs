//! `whyslow bisect`: the commit that made a server slower, by comparisons with as many blocks as each needs.

mod commits;
mod state;

use std::path::{Path, PathBuf};

use analyse::{
    BISECT_SCHEMA, BisectAsk, BisectNext, BisectPurpose, BisectStep, Bisected, Bisection, Comparison,
    Findings, Metric, NamedCommit,
};
use anyhow::{anyhow, bail, ensure};
use model::plan::{HistorySearch, Plan};
use model::units::CpuSet;

use crate::cli::{BisectArgs, CompareArgs, Format};
use crate::compare::{self, planning, preflight, verify};
use crate::config;
use crate::exit::{Exit, Outcome, Stop};
use crate::interrupt::Interrupt;
use commits::Commits;
use state::State;

pub(crate) fn run(args: &BisectArgs) -> Outcome {
    let args = &BisectArgs {
        design: config::filled_unjudged(&args.design, true).map_err(Stop::usage)?,
        range: args.range.clone(),
        metric: args.metric.clone(),
    };
    let search = Search::new(args).map_err(Stop::usage)?;
    if args.design.list {
        crate::print(&search.describe())?;
        return Ok(Exit::Done);
    }
    let found = search.run()?;
    crate::print(&match args.design.format {
        Format::Json => report::bisect_json(&found),
        Format::Text => report::bisect_text(&found),
        Format::Md => report::bisect_markdown(&found),
    })?;
    Ok(if found.cannot_tell.is_none() { Exit::Done } else { Exit::Inconclusive })
}

/// What is asked.
struct Search<'a> {
    args: &'a CompareArgs,
    allowed: CpuSet,
    commits: Commits,
    metric: Metric,
    /// The plan of the first step.
    plan: Plan,
    folder: PathBuf,
    interrupt: Interrupt,
}

impl<'a> Search<'a> {
    /// Everything that can be wrong with the command line is found here.
    fn new(args: &'a BisectArgs) -> anyhow::Result<Self> {
        let design = &args.design;
        refuse(design)?;
        let Some(metric) = Metric::named(&args.metric) else {
            bail!("--metric '{}': write cpu_per_request, rate, p50, p90, p99, p99_9 or rss", args.metric);
        };
        let commits = Commits::in_range(&args.range)?;
        let allowed = compare::allowed_cpus()?;
        let ends = flags(design, [commits.good(), commits.bad()], true);
        let plan = planning::plan(&ends, &allowed)?;
        ensure!(
            analyse::is_compared(&plan, metric),
            "--metric {}: this run does not compare it; see --equal-rates and --rate",
            args.metric
        );
        preflight::check(&plan)?;
        let [good, bad] = [commits.good(), commits.bad()].map(Commits::short);
        let own = || {
            Path::new(compare::RUNS).join(format!("bisect-{good}-{bad}-{}", args.metric.replace('.', "_")))
        };
        let folder = design.out.clone().unwrap_or_else(own);
        let interrupt = Interrupt::listen()?;
        Ok(Self { args: design, allowed, commits, metric, plan, folder, interrupt })
    }

    fn describe(&self) -> String {
        let (count, steps) = (self.commits.count(), HistorySearch::most_steps(self.commits.count()));
        let seconds = compare::seconds(&self.plan) * f64::from(steps);
        format!(
            "{}, at most {steps} steps where each decides; about {seconds:.0} s and the builds\n",
            commits::counted(count)
        )
    }

    fn run(&self) -> Result<Bisected, Stop> {
        let state = State::open(&self.folder, self.plan.clone(), self.metric, self.args.seed.is_some());
        let mut state = state.map_err(Stop::usage)?;
        crate::say(&format!("{}kept in {}", self.describe(), self.folder.display()));
        let mut search = self.known(&state);
        if state.last.is_some() || !matches!(search.next(), BisectNext::Compare(_)) {
            let folder = self.folder.display();
            crate::say(&format!(
                "this search ended before: its result is read from {folder}; to measure again, remove that folder or name another with \
                 --out"
            ));
        }
        let mut why = Vec::new();
        loop {
            match search.next() {
                BisectNext::Compare(ask) => why = self.step(&mut state, &mut search, ask)?,
                end => return self.ended(&state, end, why),
            }
        }
    }

    /// What the steps of an earlier call say.
    fn known(&self, state: &State) -> Bisection {
        let mut search = Bisection::new(self.commits.count(), self.metric);
        if state.ends.is_some() {
            search.recall_ends(state.halfway);
        }
        for step in &state.steps {
            if let Some(place) =
                (1..self.commits.count()).find(|place| self.commits.hash(*place) == step.commit)
            {
                search.recall(place, step.answer.into());
            }
        }
        search
    }

    /// Makes one comparison and keeps what it says; gives the causes that it found.
    fn step(&self, state: &mut State, search: &mut Bisection, ask: BisectAsk) -> Result<Vec<String>, Stop> {
        let sides = [ask.before, ask.after].map(|place| self.commits.hash(place));
        let name = match ask.purpose {
            BisectPurpose::Ends => "ends".to_owned(),
            BisectPurpose::Step | BisectPurpose::Closing => {
                crate::say(&format!("{} left", commits::counted(search.left())));
                format!("step-{}", Commits::short(sides[1]))
            }
            BisectPurpose::Last => "last".to_owned(),
            BisectPurpose::Range => "range".to_owned(),
        };
        let no_why = self.args.no_why || !ask.can_end();
        let extend = |run: &model::record::Run| search.extend_to(ask, run);
        let findings = self.compare(state, sides, &name, no_why, &extend)?;
        let row = row(search, &findings);
        say_failures(&findings);
        if let (BisectPurpose::Ends, Err(reason)) = (ask.purpose, &row) {
            let run = self.folder.join(name);
            return Err(anyhow!(
                "the ends cannot be compared: {reason}; mend that and remove {}",
                run.display()
            )
            .into());
        }
        let answer = search.record(ask, row.as_ref().ok().copied());
        let step = match row {
            Ok(row) => BisectStep::from_comparison(sides[1], sides[0], row, answer),
            Err(reason) => BisectStep::broken(sides[1], sides[0], &reason),
        };
        let is_last = !matches!(search.next(), BisectNext::Compare(_));
        match ask.purpose {
            BisectPurpose::Ends => (state.ends, state.halfway) = (Some(step), search.halfway()),
            _ if is_last => state.last = Some(step),
            _ => state.steps.push(step),
        }
        state.keep()?;
        Ok(report::findings_why(&report::worded(findings)))
    }

    /// What the search comes to.
    fn ended(&self, state: &State, end: BisectNext, why: Vec<String>) -> Result<Bisected, Stop> {
        let (reason, among) = match end {
            BisectNext::Named(place) => {
                let commit = Some(self.commits.named(place)?);
                return Ok(Bisected { commit, why, ..self.result(state, None) });
            }
            BisectNext::NotShown(place) => (
                "the search ends here, but this commit was not shown to be slower than its parent: several may have \
                 made it slower, or a step was wrong"
                    .to_owned(),
                vec![place],
            ),
            BisectNext::Among(places) => {
                let reason = "no comparison can tell which of these commits it is".to_owned();
                let between = [self.commits.hash(places[0] - 1), self.commits.hash(places[places.len() - 1])];
                let among = self.all_named(places)?;
                let between = Some(between.map(str::to_owned));
                return Ok(Bisected { among, between, why, ..self.result(state, Some(reason)) });
            }
            BisectNext::NotSlower | BisectNext::Compare(_) => {
                let [good, bad] = [self.commits.good(), self.commits.bad()];
                (format!("{bad} was not shown to be slower than {good}"), Vec::new())
            }
        };
        Ok(Bisected { among: self.all_named(among)?, ..self.result(state, Some(reason)) })
    }

    fn all_named(&self, places: Vec<usize>) -> anyhow::Result<Vec<NamedCommit>> {
        places.into_iter().map(|place| self.commits.named(place)).collect()
    }

    fn result(&self, state: &State, cannot_tell: Option<String>) -> Bisected {
        let steps = state.ends.iter().chain(&state.steps).chain(&state.last).cloned().collect();
        Bisected {
            schema: BISECT_SCHEMA,
            good: self.commits.good().to_owned(),
            bad: self.commits.bad().to_owned(),
            metric: self.metric,
            commits: u32::try_from(self.commits.count()).unwrap_or(u32::MAX),
            steps,
            most_steps: HistorySearch::most_steps(self.commits.count()),
            commit: None,
            why: Vec::new(),
            cannot_tell,
            between: None,
            among: Vec::new(),
        }
    }

    /// An error once somebody asks us to stop.
    fn go_on(&self) -> anyhow::Result<()> {
        ensure!(!self.interrupt.is_set(), "interrupted: the same command goes on from here");
        Ok(())
    }

    /// Builds and compares two commits, with as many blocks as `extend` asks for.
    fn compare(
        &self,
        state: &State,
        sides: [&str; 2],
        name: &str,
        no_why: bool,
        extend: &dyn Fn(&model::record::Run) -> Option<u32>,
    ) -> Result<Findings, Stop> {
        // A comparison listens for itself; this is for what comes between two of them.
        self.go_on()?;
        crate::say(&format!("{name}: {} against {}", Commits::short(sides[1]), Commits::short(sides[0])));
        let args = CompareArgs { seed: Some(state.plan.seed), ..flags(self.args, sides, no_why) };
        let plan = planning::plan(&args, &self.allowed)?;
        let measured = compare::build_and_measure_into(&plan, &self.folder.join(name), extend);
        self.go_on()?;
        let dir = measured?;
        let findings = analyse::analyse(&dir.read()?);
        // What is held against was built and measured before: that it fails now says nothing of the other commit.
        if let Some(error) = findings.arms[0].error.as_ref() {
            say_failures(&findings);
            let (commit, dir) = (sides[0], dir.path().display());
            return Err(anyhow!(
                "{commit} failed: {error}; mend that, remove {dir} and give the same command"
            )
            .into());
        }
        Ok(findings)
    }
}

/// Says how each arm failed, with the last lines of its log: the rows of a search have room for the reason alone.
fn say_failures(findings: &Findings) {
    for arm in &findings.arms {
        if let Some(error) = &arm.error {
            crate::say(&format!("'{}' failed: {error}{}", arm.name, verify::log_end(&arm.log)));
        }
    }
}

/// The row that was asked for, or why there is none.
fn row<'f>(search: &Bisection, findings: &'f Findings) -> Result<&'f Comparison, String> {
    if let Some(arm) = findings.arms.iter().find(|arm| arm.error.is_some()) {
        return Err(format!("'{}' failed: {}", arm.name, arm.error.as_deref().unwrap_or_default()));
    }
    search.row(&findings.comparisons).ok_or_else(|| "nothing was compared".to_owned())
}

/// Flags of `compare` that a search has no use for.
fn refuse(design: &CompareArgs) -> anyhow::Result<()> {
    let judged = &design.judged;
    let refused = [
        (!design.arms.is_empty() || !design.commands.is_empty(), "more arms"),
        (design.baseline.is_some(), "--baseline"),
        (design.rigorous, "--rigorous"),
        (design.confirm, "--confirm"),
        (design.verify, "--verify"),
        (design.details, "--details"),
        (
            !judged.fail_if.is_empty() || judged.comment.is_some() || judged.junit.is_some(),
            "--fail-if, --comment and --junit",
        ),
        (judged.against.is_some(), "--against"),
    ];
    match refused.into_iter().find(|(given, _)| *given) {
        Some((_, what)) => bail!("a search through a history has no use for {what}: leave it out"),
        None => Ok(()),
    }
}

/// The flags of a comparison of two commits.
fn flags(design: &CompareArgs, sides: [&str; 2], no_why: bool) -> CompareArgs {
    let arms = sides.map(|commit| format!("{}=git:{commit}", Commits::short(commit))).to_vec();
    CompareArgs { arms, no_why, ..design.clone() }
}
