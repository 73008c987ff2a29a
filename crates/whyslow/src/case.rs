//! `whyslow case`: published comparisons, repeated on this machine and held against what was published.

mod answer;
mod callgrind;
mod library;
mod prepare;
mod running;

use std::path::PathBuf;

use analyse::{CaseFindings, InstructionProfile};
use anyhow::{Context, bail};
use model::plan::{CaseComparison, CaseFile, Placement, Plan, Size, Workload};
use report::Worded;
use serde_json::json;

use crate::cli::{CaseAction, CaseArgs, CaseRunArgs, Cli, Command, Format, RequestArgs};
use crate::compare;
use crate::exit::{Exit, Outcome, Stop};
use library::Library;
use prepare::{Arms, LeftOut};

/// Folder of runs for which `--out` names no place.
const RUNS: &str = "whyslow-runs";

pub(crate) fn run(args: &CaseArgs) -> Outcome {
    match &args.action {
        CaseAction::List { format } => list(*format),
        CaseAction::Show { name, format } => show(name, *format),
        CaseAction::Run(args) => run_case(args),
    }
}

fn list(format: Format) -> Outcome {
    let cases = Library::find().map_err(Stop::usage)?.cases().map_err(Stop::usage)?;
    match format {
        Format::Text => {
            cases.iter().try_for_each(|case| crate::print(&format!("{:18} {}\n", case.name, case.question)))
        }
        Format::Md => {
            cases.iter().try_for_each(|case| crate::print(&format!("- {}: {}\n", case.name, case.question)))
        }
        Format::Json => {
            let row = |case: &CaseFile| json!({ "name": case.name, "question": case.question });
            crate::print_json(&cases.iter().map(row).collect::<Vec<_>>())
        }
    }?;
    Ok(Exit::Done)
}

fn show(name: &str, format: Format) -> Outcome {
    let case = Library::find().and_then(|library| library.case(name)).map_err(Stop::usage)?;
    let tasks: Vec<Task> = case
        .comparisons
        .iter()
        .map(|comparison| Task::plan(&case, comparison, comparison.arms.clone(), &Choice::default()))
        .collect::<anyhow::Result<_>>()
        .map_err(Stop::usage)?;
    match format {
        Format::Text => crate::print(&plan_text(&case, &tasks)),
        // What is laid out for people is so in a page of Markdown too.
        Format::Md => crate::print(&format!("```text\n{}```\n", plan_text(&case, &tasks))),
        Format::Json => {
            let planned = tasks.iter().map(
                |task| json!({ "id": task.comparison.id, "minutes": task.minutes(), "here": task.changes }),
            );
            crate::print_json(&json!({ "case": case, "planned": planned.collect::<Vec<_>>() }))
        }
    }?;
    Ok(Exit::Done)
}

fn plan_text(case: &CaseFile, tasks: &[Task]) -> String {
    let head = format!(
        "{}: {}\n\npublished in {} on {}, with {}\nleft open there: {}\n",
        case.name, case.question, case.source, case.published.machine, case.published.command, case.open
    );
    let planned: String = tasks.iter().map(Task::describe).collect();
    let claims: String = case.claims.iter().map(|claim| format!("  {}\n", claim.text)).collect();
    format!("{head}{planned}\nclaims\n{claims}")
}

/// What of the command line decides how a comparison is planned.
struct Choice {
    size: Size,
    seed: u64,
    server_cpus: Option<model::units::CpuSet>,
    load_cpus: Option<model::units::CpuSet>,
    /// What is asked in another way than the case says.
    request: Option<RequestArgs>,
}

impl Default for Choice {
    fn default() -> Self {
        Self { size: Size::Full, seed: 1, server_cpus: None, load_cpus: None, request: None }
    }
}

impl Choice {
    fn from_args(args: &CaseRunArgs) -> Self {
        let size = match (args.quick, args.smoke) {
            (_, true) => Size::Smoke,
            (true, false) => Size::Quick,
            (false, false) => Size::Full,
        };
        Self {
            size,
            seed: args.seed,
            server_cpus: args.server_cpus.clone(),
            load_cpus: args.load_cpus.clone(),
            request: Some(args.request.clone()),
        }
    }

    fn placement(&self) -> anyhow::Result<Placement> {
        let allowed = compare::allowed_cpus()?;
        Ok(Placement::choose(&allowed, self.server_cpus.as_ref(), self.load_cpus.as_ref())?)
    }
}

/// One comparison of a case, planned for this machine.
struct Task<'a> {
    comparison: &'a CaseComparison,
    plan: Plan,
    allow_difference: Option<String>,
    changes: Vec<String>,
}

impl<'a> Task<'a> {
    /// The plan of `comparison` with those of its arms that take part.
    fn plan(
        case: &CaseFile,
        comparison: &'a CaseComparison,
        arms: Vec<String>,
        choice: &Choice,
    ) -> anyhow::Result<Self> {
        let limits = running::limits(&choice.placement()?);
        let fitted = case.fit(comparison, &limits, choice.size);
        let mut words = vec!["whyslow".to_owned(), "compare".to_owned()];
        words.extend(arms);
        words.extend(fitted.design.iter().map(|word| (*word).to_owned()));
        // A file of requests has paths of its own.
        let file = choice.request.as_ref().is_some_and(RequestArgs::has_file);
        if !file {
            words.extend(["--path".to_owned(), case.path(comparison).to_owned()]);
        }
        let flags = [
            ("--connections", fitted.connections.to_string()),
            ("--pipeline", fitted.pipeline.to_string()),
            ("--seed", choice.seed.to_string()),
        ];
        words.extend(flags.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        for (name, set) in [("--server-cpus", &choice.server_cpus), ("--load-cpus", &choice.load_cpus)] {
            words.extend(set.iter().flat_map(|set| [name.to_owned(), set.to_string()]));
        }
        let mut plan = plan_of(&words, choice.request.as_ref())?;
        plan.case.clone_from(&case.name);
        plan.workload.conditions = fitted.conditions;
        plan.workload.allow_difference = fitted.allow_difference.is_some();
        for arm in &mut plan.arms {
            let expect = case.workload.expect.clone().filter(|_| plan.workload.job.is_plain_get());
            arm.expect = expect.unwrap_or_else(|| arm.expect.clone());
        }
        plan.validate()?;
        Ok(Self { comparison, plan, allow_difference: fitted.allow_difference, changes: fitted.changes })
    }

    fn minutes(&self) -> f64 {
        (compare::seconds(&self.plan) / 60.0).ceil()
    }

    fn describe(&self) -> String {
        let arms: Vec<&str> = self.comparison.arms.iter().map(String::as_str).collect();
        let changes: String = self.changes.iter().map(|change| format!("  here: {change}\n")).collect();
        format!(
            "\n{}: {} (about {:.0} min)\n  {}\n{changes}",
            self.comparison.id,
            self.comparison.question,
            self.minutes(),
            arms.join(" ")
        )
    }
}

/// The plan that a `compare` command line makes: a case is compared as anyone could compare it.
fn plan_of(words: &[String], request: Option<&RequestArgs>) -> anyhow::Result<Plan> {
    let cli = <Cli as clap::Parser>::try_parse_from(words).context("a case makes a good command line")?;
    let Command::Compare(mut args) = cli.command else { bail!("a case makes a compare command") };
    if let Some(request) = request {
        args.request = request.clone();
    }
    compare::planning::plan(&args, &compare::allowed_cpus()?)
}

fn run_case(args: &CaseRunArgs) -> Outcome {
    let library = Library::find().map_err(Stop::usage)?;
    let case = library.case(&args.name).map_err(Stop::usage)?;
    let choice = Choice::from_args(args);
    let wanted = wanted(&case, args, choice.size).map_err(Stop::usage)?;
    let arms = Arms::resolve(&case, &wanted).map_err(Stop::usage)?;
    // What is wrong with the plan as a whole is reported before anything is built.
    let plans = wanted.iter().map(|comparison| {
        Task::plan(&case, comparison, comparison.arms.clone(), &choice).map(|task| task.plan)
    });
    let plans = plans.collect::<anyhow::Result<Vec<Plan>>>().map_err(Stop::usage)?;
    let placement = choice.placement().map_err(Stop::usage)?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(RUNS).join(compare::run_name(choice.seed)));
    let mut left_out = LeftOut::default();
    left_out.comparisons(&case, &wanted);
    let workloads: Vec<(&CaseComparison, Workload)> =
        wanted.iter().copied().zip(plans.into_iter().map(|plan| plan.workload)).collect();
    let ready = arms.prepare(&case, &workloads, choice.size, &placement, &mut left_out)?;
    let mut runs = Vec::new();
    for comparison in wanted {
        let here: Vec<String> = comparison.arms.iter().filter(|arm| ready.contains(arm)).cloned().collect();
        if here.len() < 2 {
            left_out.add(format!("comparison '{}': fewer than two of its arms are there", comparison.id));
            continue;
        }
        let task = Task::plan(&case, comparison, here, &choice)?;
        runs.push(running::run(&task, &out.join(&comparison.id))?);
    }
    let profiles = if args.callgrind {
        let first = workloads.first().map(|(_, workload)| workload.clone());
        let workload = first.unwrap_or_else(|| Workload::get(&case.workload.path, 1));
        counted(&case, &ready, (&workload, &placement), &out, &mut left_out)?
    } else {
        Vec::new()
    };
    let size = format!("{:?}", choice.size).to_lowercase();
    let nothing = runs.is_empty();
    let findings =
        analyse::case_findings(&case, &size, &command(args, &choice), runs, &profiles, left_out.lines());
    let findings = report::worded(findings);
    crate::print(&render(&findings, args))?;
    crate::say(&format!("runs kept in {}", out.display()));
    if let Some(file) = answer_file(args, &library, choice.size).filter(|_| !nothing) {
        answer::write(&file, &findings)?;
        crate::say(&format!("answer written to {}", file.display()));
    }
    Ok(if nothing { Exit::Failed } else { Exit::Done })
}

/// The comparisons asked for: all, or those named; a quick run leaves the others to a full one.
fn wanted<'a>(case: &'a CaseFile, args: &CaseRunArgs, size: Size) -> anyhow::Result<Vec<&'a CaseComparison>> {
    if args.comparison.is_empty() {
        return Ok(case.comparisons.iter().filter(|one| size != Size::Quick || !one.full_only).collect());
    }
    let ids: Vec<&str> = case.comparisons.iter().map(|one| one.id.as_str()).collect();
    let find = |id: &String| {
        case.comparison(id).with_context(|| {
            format!("case '{}' has no comparison '{id}': choose one of {}", case.name, ids.join(", "))
        })
    };
    args.comparison.iter().map(find).collect()
}

fn counted(
    case: &CaseFile,
    ready: &[String],
    (workload, placement): (&Workload, &Placement),
    out: &std::path::Path,
    left_out: &mut LeftOut,
) -> anyhow::Result<Vec<InstructionProfile>> {
    let mut profiles = Vec::new();
    for profile in case.profiles.iter().filter(|profile| ready.contains(&profile.arm)) {
        match callgrind::count(case, &profile.arm, (workload, placement), out) {
            Ok(counted) => profiles.push(counted),
            Err(error) => {
                left_out.add(format!("callgrind of {}: {}", profile.arm, crate::exit::told(&error)))
            }
        }
    }
    Ok(profiles)
}

/// A smoke run decides nothing, so that it leaves the answer alone.
fn answer_file(args: &CaseRunArgs, library: &Library, size: Size) -> Option<PathBuf> {
    match &args.answer {
        Some(file) => Some(file.clone()),
        None => (size != Size::Smoke).then(|| library.answer(&args.name)),
    }
}

/// The command that repeats the figures; where they are kept is left to whoever repeats them.
fn command(args: &CaseRunArgs, choice: &Choice) -> Vec<String> {
    let mut words = ["whyslow", "case", "run", &args.name].map(str::to_owned).to_vec();
    words.extend(Some(choice.size.flag().to_owned()).filter(|flag| !flag.is_empty()));
    words.extend(args.comparison.iter().flat_map(|id| ["--comparison".to_owned(), id.clone()]));
    words.extend(args.callgrind.then(|| "--callgrind".to_owned()));
    words.extend(["--seed".to_owned(), choice.seed.to_string()]);
    for (name, set) in [("--server-cpus", &choice.server_cpus), ("--load-cpus", &choice.load_cpus)] {
        words.extend(set.iter().flat_map(|set| [name.to_owned(), set.to_string()]));
    }
    words
}

fn render(findings: &Worded<CaseFindings>, args: &CaseRunArgs) -> String {
    match args.format {
        Format::Text if args.details => report::case_details(findings),
        Format::Text => report::case_text(findings, crate::style()),
        Format::Json => report::case_json(findings),
        Format::Md => report::case_markdown(findings),
    }
}
