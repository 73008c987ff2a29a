//! `whyslow bisect`: the commit that made a server slower, by comparisons with as many blocks as each needs.

mod commits;
mod state;

use std::path::{Path, PathBuf};

use analyse::{
    BISECT_SCHEMA, BisectAsk, BisectNext, BisectPurpose, BisectStep, BisectTold, Bisected, Bisection,
    Findings, Metric, NamedCommit,
};
use anyhow::{bail, ensure};
use model::plan::{HistorySearch, Plan};
use model::record::Run;
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
    /// The plan of the first comparison.
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
        let places = BisectAsk::ends(commits.count()).places;
        let hashes: Vec<&str> = places.into_iter().map(|place| commits.hash(place)).collect();
        let plan = planning::plan(&flags(design, &hashes, true), &allowed)?;
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
        let (count, most) = (self.commits.count(), HistorySearch::most_steps(self.commits.count()));
        let seconds = self.seconds(count, most);
        format!(
            "{}, at most {most} comparisons where each decides; about {seconds:.0} s and the builds\n",
            commits::counted(count)
        )
    }

    /// About how long so many comparisons in a history of `count` commits take, in seconds. Of the last one it is not known yet how many
    /// arms it has: three, unless there is one commit.
    fn seconds(&self, count: usize, comparisons: u32) -> f64 {
        let with = |arms: usize| {
            let last = self.plan.arms.last().expect("a comparison has arms");
            let arms = self.plan.arms.iter().chain(std::iter::repeat(last)).take(arms).cloned().collect();
            compare::seconds(&Plan { arms, ..self.plan.clone() })
        };
        compare::seconds(&self.plan)
            + with(2) * f64::from(comparisons - 2)
            + with(if count == 1 { 2 } else { 3 })
    }

    fn run(&self) -> Result<Bisected, Stop> {
        let state = State::open(&self.folder, self.plan.clone(), self.metric, self.args.seed.is_some());
        let mut state = state.map_err(Stop::usage)?;
        crate::say(&format!("{}kept in {}", self.describe(), self.folder.display()));
        let mut search = self.known(&state);
        if !state.last.is_empty() || !matches!(search.next(), BisectNext::Compare(_)) {
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
        if !state.ends.is_empty() {
            search.recall_ends(state.halfway);
        }
        for step in state.ends.iter().chain(&state.steps) {
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
        let name = match ask.purpose {
            BisectPurpose::Ends => "ends".to_owned(),
            BisectPurpose::Step => format!("step-{}", self.short(ask.places[1])),
            BisectPurpose::Last => "last".to_owned(),
        };
        if ask.purpose != BisectPurpose::Ends {
            crate::say(&format!("{} left", commits::counted(search.left())));
        }
        let extend = |run: &Run| search.extend_to(&ask, run);
        let run = self.compare(state, &ask, &name, &extend)?;
        let findings = analyse::analyse(&run);
        say_failures(&findings);
        self.refuse_failed(&ask, &findings, &self.folder.join(&name))?;
        let told = search.record(&ask, &search.pairs(&ask, &run));
        let number = state.steps.len() as u32 + if ask.purpose == BisectPurpose::Ends { 1 } else { 2 };
        let steps: Vec<BisectStep> = told.iter().map(|told| self.as_step(number, told, &findings)).collect();
        match ask.purpose {
            BisectPurpose::Ends => (state.ends, state.halfway) = (steps, search.halfway()),
            BisectPurpose::Step => state.steps.extend(steps),
            BisectPurpose::Last => state.last = steps,
        }
        state.keep()?;
        let why = told.last().filter(|_| ask.can_end()).map(|end| why(&ask, end, &run));
        Ok(why.unwrap_or_default())
    }

    /// An error if a commit failed without which a comparison says nothing. One that others are held against was measured before: that
    /// it fails now says nothing of them.
    fn refuse_failed(&self, ask: &BisectAsk, findings: &Findings, folder: &Path) -> anyhow::Result<()> {
        let (arms, folder) = (&findings.arms, folder.display());
        let failed =
            needed(ask).into_iter().find_map(|arm| Some((&arms[arm].name, arms[arm].error.as_ref()?)));
        match failed {
            Some((commit, error)) if ask.purpose == BisectPurpose::Ends => {
                bail!(
                    "the ends cannot be compared: '{commit}' failed: {error}; mend that and remove {folder}"
                )
            }
            Some((commit, error)) => {
                bail!("{commit} failed: {error}; mend that, remove {folder} and give the same command")
            }
            None => Ok(()),
        }
    }

    /// What the comparison with this number says of a commit, as it is stored.
    fn as_step(&self, number: u32, told: &BisectTold, findings: &Findings) -> BisectStep {
        let pair = &told.pair;
        let sides = [pair.after, pair.before].map(|place| self.commits.hash(place));
        let failed = |hash: &str| {
            let arm = findings.arms.iter().find(|arm| arm.name == Commits::short(hash))?;
            Some(format!("'{}' failed: {}", arm.name, arm.error.as_ref()?))
        };
        let reason =
            || sides.into_iter().find_map(failed).unwrap_or_else(|| "nothing was compared".to_owned());
        BisectStep::new(number, sides, pair.row.as_ref().ok_or_else(reason), told.answer)
    }

    fn short(&self, place: usize) -> &str {
        Commits::short(self.commits.hash(place))
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
        let steps = state.all_steps();
        Bisected {
            schema: BISECT_SCHEMA,
            good: self.commits.good().to_owned(),
            bad: self.commits.bad().to_owned(),
            metric: self.metric,
            commits: u32::try_from(self.commits.count()).unwrap_or(u32::MAX),
            comparisons: BisectStep::comparisons(&steps),
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

    /// Builds and compares commits, with as many blocks as `extend` asks for.
    fn compare(
        &self,
        state: &State,
        ask: &BisectAsk,
        name: &str,
        extend: &dyn Fn(&Run) -> Option<u32>,
    ) -> Result<Run, Stop> {
        // A comparison listens for itself; this is for what comes between two of them.
        self.go_on()?;
        let pair =
            |[before, after]: [usize; 2]| format!("{} against {}", self.short(after), self.short(before));
        let pairs: Vec<String> = ask.pairs().into_iter().map(pair).collect();
        crate::say(&format!("{name}: {}", pairs.join(", ")));
        let hashes: Vec<&str> = ask.places.iter().map(|place| self.commits.hash(*place)).collect();
        let flags = flags(self.args, &hashes, self.args.no_why || !ask.can_end());
        let plan = planning::plan(&CompareArgs { seed: Some(state.plan.seed), ..flags }, &self.allowed)?;
        let measured = compare::build_and_measure_into(&plan, &self.folder.join(name), &needed(ask), extend);
        self.go_on()?;
        Ok(measured?.read()?)
    }
}

/// The arms without which a comparison says nothing: of the first one either end, of others the one that is held against.
fn needed(ask: &BisectAsk) -> Vec<usize> {
    match ask.purpose {
        BisectPurpose::Ends => vec![0, ask.places.len() - 1],
        BisectPurpose::Step | BisectPurpose::Last => vec![0],
    }
}

/// The causes of what the last comparison of a search came to.
fn why(ask: &BisectAsk, end: &BisectTold, run: &Run) -> Vec<String> {
    let arm = |place: usize| ask.places.iter().position(|other| *other == place).unwrap_or(0);
    let [before, after] = [end.pair.before, end.pair.after].map(arm);
    let names = [before, after].map(|arm| run.manifest.plan.arms[arm].name.clone());
    let mut findings = analyse::analyse_from(run, before);
    findings.arms.retain(|arm| names.contains(&arm.name));
    report::findings_why(&report::worded(findings))
}

/// Says how each arm failed, with the last lines of its log: the rows of a search have room for the reason alone.
fn say_failures(findings: &Findings) {
    for arm in &findings.arms {
        if let Some(error) = &arm.error {
            crate::say(&format!("'{}' failed: {error}{}", arm.name, verify::log_end(&arm.log)));
        }
    }
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

/// The flags of a comparison of commits, of which the first one is held against.
fn flags(design: &CompareArgs, commits: &[&str], no_why: bool) -> CompareArgs {
    let arms = commits.iter().map(|commit| format!("{}=git:{commit}", Commits::short(commit))).collect();
    CompareArgs { arms, no_why, ..design.clone() }
}
