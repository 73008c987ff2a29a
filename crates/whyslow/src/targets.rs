//! `whyslow targets`: what can be compared here, and what is missing to build it.

use std::path::Path;

use anyhow::Context;
use launch::{Launcher, executable_of};
use model::plan::{Arm, Need, Placement, TargetFile, Workload, fill};
use model::units::CpuSet;
use serde::Serialize;

use crate::catalogue::{BUILT_IN, Catalogue};
use crate::cli::{Format, TargetsAction, TargetsArgs};
use crate::compare;
use crate::exit::{Exit, Outcome, Stop};

pub(crate) fn run(args: &TargetsArgs) -> Outcome {
    match &args.action {
        TargetsAction::List { format } => list(*format),
        TargetsAction::Build { names, format } => build(names, *format),
        TargetsAction::Verify { names, format } => verify(names, *format),
    }
}

/// How Debian's packages are installed, with a space behind it.
const APT: &str = "apt-get install ";

/// One line of the list.
struct Row {
    name: String,
    language: String,
    state: State,
    variants: Vec<String>,
    about: String,
}

pub(crate) enum State {
    /// Built, or nothing to build.
    Ready,
    /// Everything that it needs is here.
    Buildable,
    /// Something is missing; the command that installs it.
    Missing { what: String, install: String },
    /// Not to be built from the registries at hand.
    Recipe(String),
}

impl State {
    fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Buildable => "buildable",
            Self::Missing { .. } => "missing",
            Self::Recipe(_) => "recipe",
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Ready | Self::Buildable => String::new(),
            Self::Missing { what, install } => format!("needs {what}: {install}"),
            Self::Recipe(recipe) => recipe.clone(),
        }
    }
}

fn list(format: Format) -> Outcome {
    let rows = rows()?;
    match format {
        Format::Json => crate::print_json(&values(&rows)),
        Format::Text => crate::print(&rows.iter().map(line).collect::<String>()),
        Format::Md => crate::print(&markdown(&rows)),
    }?;
    Ok(Exit::Done)
}

fn rows() -> anyhow::Result<Vec<Row>> {
    let mut rows: Vec<Row> = BUILT_IN
        .iter()
        .map(|name| Row {
            name: (*name).to_owned(),
            language: "rust".to_owned(),
            state: State::Ready,
            variants: Vec::new(),
            about: "built in".to_owned(),
        })
        .collect();
    let catalogue = Catalogue::find();
    for (_, target) in catalogue.files()? {
        let (arm, _) = catalogue.arm(&target.name)?;
        rows.push(Row {
            state: state(&target, &arm),
            variants: target.variants.iter().map(|variant| variant.name.clone()).collect(),
            name: target.name,
            language: target.language,
            about: target.about,
        });
    }
    Ok(rows)
}

/// The state of the arm that `words` names; what is built in is ready.
pub(crate) fn state_of(catalogue: &Catalogue, words: &str, arm: &Arm) -> anyhow::Result<State> {
    Ok(file_of(catalogue, words)?.map_or(State::Ready, |target| state(&target, arm)))
}

/// The file of the target that `words` names, with or without a variant; what is built in has none.
fn file_of(catalogue: &Catalogue, words: &str) -> anyhow::Result<Option<TargetFile>> {
    let name = words.split_once('@').map_or(words, |(name, _)| name);
    Ok(catalogue.files()?.into_iter().map(|(_, target)| target).find(|target| target.name == name))
}

fn state(target: &TargetFile, arm: &Arm) -> State {
    if let Some(recipe) = &target.recipe {
        return State::Recipe(recipe.clone());
    }
    match lacking(target) {
        Some(missing) => missing,
        None if is_built(arm) => State::Ready,
        None => State::Buildable,
    }
}

/// What this machine lacks of what a target needs; `None` where it has all.
fn lacking(target: &TargetFile) -> Option<State> {
    let missing: Vec<&Need> = target.needs.iter().filter(|need| !is_met(need)).collect();
    (!missing.is_empty()).then(|| missing_state(&missing))
}

/// All that is missing, and one command that installs it: packages of one manager are installed together.
fn missing_state(missing: &[&Need]) -> State {
    let what = |need: &&Need| {
        let name = need.command.clone().or_else(|| need.file.clone()).unwrap_or_default();
        match &need.package {
            Some(package) if *package != name => format!("{name} (package {package})"),
            _ => name,
        }
    };
    let packages: Option<Vec<&str>> = missing.iter().map(|need| need.install.strip_prefix(APT)).collect();
    let install = match packages {
        Some(packages) => format!("{APT}{}", packages.join(" ")),
        None => missing.iter().map(|need| need.install.as_str()).collect::<Vec<_>>().join(" && "),
    };
    State::Missing { what: missing.iter().map(what).collect::<Vec<_>>().join(", "), install }
}

fn is_met(need: &Need) -> bool {
    let command =
        need.command.as_ref().is_none_or(|name| executable_of(std::slice::from_ref(name), None).is_ok());
    command && need.file.as_ref().is_none_or(|file| Path::new(file).exists())
}

/// Whether the files that the run command takes from the build folder are there.
fn is_built(arm: &Arm) -> bool {
    let Some(build) = &arm.build_dir else { return true };
    let values = model::plan::Placeholders {
        dir: arm.dir.clone().unwrap_or_default(),
        build: build.clone(),
        ..Default::default()
    };
    // A word may be a list of paths, as a class path is.
    let parts = arm.run.iter().flat_map(|word| word.split(':')).filter(|part| part.contains("{build}"));
    let mut paths = parts.map(|part| fill(part.trim_end_matches("/*"), &values));
    arm.build.is_empty() || paths.all(|path| Path::new(&path).exists()) && Path::new(build).exists()
}

fn line(row: &Row) -> String {
    let variants =
        if row.variants.is_empty() { String::new() } else { format!(" [{}]", row.variants.join(" ")) };
    let hint = row.state.hint();
    let hint = if hint.is_empty() { String::new() } else { format!("\n    {hint}") };
    format!("{:18} {:8} {:9}{variants}{hint}\n", row.name, row.language, row.state.word())
}

fn markdown(rows: &[Row]) -> String {
    let mut text =
        "| target | language | state | variants | what it is |\n|---|---|---|---|---|\n".to_owned();
    for row in rows {
        let Row { name, language, state, variants, about } = row;
        text += &format!(
            "| {name} | {language} | {} {} | {} | {about} |\n",
            state.word(),
            state.hint(),
            variants.join(" ")
        );
    }
    text
}

fn values(rows: &[Row]) -> Vec<serde_json::Value> {
    let value = |row: &Row| {
        serde_json::json!({
            "name": row.name, "language": row.language, "state": row.state.word(), "hint": row.state.hint(),
            "variants": row.variants, "about": row.about,
        })
    };
    rows.iter().map(value).collect()
}

/// Builds each; one that fails is reported, and the others go on.
fn build(names: &[String], format: Format) -> Outcome {
    let arms = arms(names)?;
    let (launcher, catalogue) = (Launcher::this_program(), Catalogue::find());
    let mut built = Vec::new();
    for (words, (arm, _)) in names.iter().zip(&arms) {
        built.push(match file_of(&catalogue, words)?.as_ref().and_then(lacking) {
            Some(missing) => refuse(arm, &missing, format)?,
            None => build_one(&launcher, arm, format)?,
        });
    }
    if format == Format::Json {
        crate::print_json(&built)?;
    }
    Ok(if built.iter().all(|one| one.ok) { Exit::Done } else { Exit::Failed })
}

/// The message about a build that failed; its own output follows.
const WHAT_TO_DO: &str = "mend what its last lines say; a first build fetches its crates, modules or jars, so that their \
                          registry has to be within reach once";

/// How the build of one target went.
#[derive(Serialize)]
struct Built {
    name: String,
    ok: bool,
    error: Option<String>,
}

impl Built {
    fn line(&self, format: Format) -> String {
        let Self { name, error, .. } = self;
        match (format, error) {
            (Format::Json, _) => String::new(),
            (Format::Text, None) => format!("ok     {name}\n"),
            (Format::Text, Some(error)) => format!("FAILED {name}: {error}\n"),
            (Format::Md, None) => format!("- {name}: built\n"),
            (Format::Md, Some(error)) => format!("- {name}: **failed**: {error}\n"),
        }
    }
}

/// Builds `arm`; the end of its log is in the error.
pub(crate) fn build_quietly(launcher: &Launcher, arm: &Arm) -> anyhow::Result<()> {
    crate::say(&format!("building {}", arm.name));
    build_with(launcher, arm, &mut |_| {}).0.context("it does not build")
}

/// Says of a target that something it needs is not here: what runs a program of the system has nothing to build, and would
/// seem to be ready.
fn refuse(arm: &Arm, missing: &State, format: Format) -> anyhow::Result<Built> {
    let built = Built { name: arm.name.clone(), ok: false, error: Some(missing.hint()) };
    crate::print(&built.line(format))?;
    Ok(built)
}

fn build_one(launcher: &Launcher, arm: &Arm, format: Format) -> anyhow::Result<Built> {
    let (built, tail) = build_with(launcher, arm, &mut |step| {
        crate::say(&format!("{} {}/{}: {}", arm.name, step.step, step.steps, step.command));
    });
    let error = built.err().map(|error| format!("{error}; {WHAT_TO_DO}"));
    let name = arm.name.clone();
    let built = Built { name, ok: error.is_none(), error };
    crate::print(&built.line(format))?;
    if !built.ok {
        tail.iter().for_each(|line| crate::say(&format!("  {line}")));
    }
    Ok(built)
}

/// How the build went, and the last lines that it printed.
fn build_with(
    launcher: &Launcher,
    arm: &Arm,
    progress: &mut dyn FnMut(&launch::BuildStep),
) -> (Result<(), launch::LaunchError>, Vec<String>) {
    let values = model::plan::Placeholders {
        dir: arm.dir.clone().unwrap_or_default(),
        build: arm.build_dir.clone().unwrap_or_default(),
        ..Default::default()
    };
    let log = std::env::temp_dir().join(format!("whyslow-build-{}-{}.log", std::process::id(), arm.name));
    let built = launcher.build(arm, &values, &log, progress);
    let tail = launch::log_tail(&log, 20);
    // What is worth keeping of it was just read.
    let _ = std::fs::remove_file(&log);
    (built.map(drop), tail)
}

fn arms(names: &[String]) -> Result<Vec<(Arm, Option<String>)>, Stop> {
    let catalogue = Catalogue::find();
    names.iter().map(|name| catalogue.arm(name)).collect::<anyhow::Result<_>>().map_err(Stop::usage)
}

fn verify(names: &[String], format: Format) -> Outcome {
    let allowed: CpuSet = compare::allowed_cpus().map_err(Stop::usage)?;
    let placement = Placement::choose(&allowed, None, None)?;
    let arms = arms(names)?.into_iter();
    let workload = |path: Option<String>| Workload::get(path.as_deref().unwrap_or("/plaintext"), 1);
    let arms = arms.map(|(arm, path)| (arm, workload(path))).collect();
    compare::verify::verify(arms, &placement, compare::verify::READY_LIMIT, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(command: &str, package: &str, install: &str) -> Need {
        Need {
            command: Some(command.to_owned()),
            file: None,
            package: Some(package.to_owned()),
            install: install.to_owned(),
        }
    }

    #[test]
    fn what_is_missing_is_named_with_one_command() {
        let (gcc, cargo) =
            (need("gcc", "gcc", "apt-get install gcc"), need("cargo", "rustup", "curl x | sh"));
        let ocaml = need("ocamlfind", "ocaml-findlib", "apt-get install ocaml-findlib");
        for (missing, want) in [
            (vec![&gcc], "needs gcc: apt-get install gcc"),
            (
                vec![&gcc, &ocaml],
                "needs gcc, ocamlfind (package ocaml-findlib): apt-get install gcc ocaml-findlib",
            ),
            (vec![&cargo, &gcc], "needs cargo (package rustup), gcc: curl x | sh && apt-get install gcc"),
        ] {
            assert_eq!(missing_state(&missing).hint(), want);
        }
    }
}
