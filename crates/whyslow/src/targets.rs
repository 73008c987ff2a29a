//! `whyslow targets`: what can be compared here, and what is missing to build it.

use std::path::Path;

use anyhow::Context;
use launch::{Launcher, executable_of};
use plan::{Arm, Need, Placement, TargetFile, fill};
use units::CpuSet;

use crate::catalogue::{BUILT_IN, Catalogue};
use crate::cli::{Format, TargetsAction, TargetsArgs};
use crate::compare;
use crate::exit::{Exit, Outcome, Stop};

pub(crate) fn run(args: &TargetsArgs) -> Outcome {
    match &args.action {
        TargetsAction::List { format } => list(*format),
        TargetsAction::Build { names } => build(names),
        TargetsAction::Verify { names } => verify(names),
    }
}

/// One line of the list.
struct Row {
    name: String,
    language: String,
    state: State,
    variants: Vec<String>,
    about: String,
}

enum State {
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

    fn hint(&self) -> String {
        match self {
            Self::Ready | Self::Buildable => String::new(),
            Self::Missing { what, install } => format!("needs {what}: {install}"),
            Self::Recipe(recipe) => recipe.clone(),
        }
    }
}

fn list(format: Format) -> Outcome {
    let rows = rows()?;
    let text = match format {
        Format::Json => json(&rows)?,
        Format::Text => rows.iter().map(line).collect(),
        Format::Md => markdown(&rows),
    };
    crate::print(&text)?;
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

fn state(target: &TargetFile, arm: &Arm) -> State {
    if let Some(recipe) = &target.recipe {
        return State::Recipe(recipe.clone());
    }
    if let Some(need) = target.needs.iter().find(|need| !is_met(need)) {
        let what = need.command.clone().or_else(|| need.file.clone()).unwrap_or_default();
        return State::Missing { what, install: need.install.clone() };
    }
    if is_built(arm) { State::Ready } else { State::Buildable }
}

fn is_met(need: &Need) -> bool {
    let command =
        need.command.as_ref().is_none_or(|name| executable_of(std::slice::from_ref(name), None).is_ok());
    command && need.file.as_ref().is_none_or(|file| Path::new(file).exists())
}

/// Whether the files that the run command takes from the build folder are there.
fn is_built(arm: &Arm) -> bool {
    let Some(build) = &arm.build_dir else { return true };
    let values = plan::Placeholders {
        dir: arm.dir.clone().unwrap_or_default(),
        build: build.clone(),
        ..Default::default()
    };
    let from_build = arm.run.iter().filter(|word| word.contains("{build}"));
    let mut paths = from_build.map(|word| fill(word, &values));
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

fn json(rows: &[Row]) -> anyhow::Result<String> {
    let values: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "name": row.name, "language": row.language, "state": row.state.word(), "hint": row.state.hint(),
                "variants": row.variants, "about": row.about,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&values).context("a list of targets is JSON")? + "\n")
}

/// Builds each; one that fails is told, and the others go on.
fn build(names: &[String]) -> Outcome {
    let arms = arms(names)?;
    let launcher = Launcher::this_program();
    let mut good = true;
    for (arm, _) in &arms {
        good &= build_one(&launcher, arm)?;
    }
    Ok(if good { Exit::Done } else { Exit::Failed })
}

fn build_one(launcher: &Launcher, arm: &Arm) -> anyhow::Result<bool> {
    let values = plan::Placeholders {
        dir: arm.dir.clone().unwrap_or_default(),
        build: arm.build_dir.clone().unwrap_or_default(),
        ..Default::default()
    };
    let log = std::env::temp_dir().join(format!("whyslow-build-{}-{}.log", std::process::id(), arm.name));
    let built = launcher.build(arm, &values, &log, &mut |step| {
        crate::say(&format!("{} {}/{}: {}", arm.name, step.step, step.steps, step.command));
    });
    let tail = launch::log_tail(&log, 20);
    // What is worth keeping of it was just read.
    let _ = std::fs::remove_file(&log);
    match built {
        Ok(()) => crate::print(&format!("ok     {}\n", arm.name))?,
        Err(ref error) => {
            crate::print(&format!("FAILED {}: {error}\n", arm.name))?;
            tail.iter().for_each(|line| crate::say(&format!("  {line}")));
        }
    }
    Ok(built.is_ok())
}

fn arms(names: &[String]) -> Result<Vec<(Arm, Option<String>)>, Stop> {
    let catalogue = Catalogue::find();
    names.iter().map(|name| catalogue.arm(name)).collect::<anyhow::Result<_>>().map_err(Stop::usage)
}

fn verify(names: &[String]) -> Outcome {
    let mut good = true;
    for (arm, path) in arms(names)? {
        let path = path.unwrap_or_else(|| "/plaintext".to_owned());
        let allowed: CpuSet = compare::allowed_cpus().map_err(Stop::usage)?;
        let placement = Placement::choose(&allowed, None, None)?;
        good &= compare::verify::verify(&arm, &path, &placement)?;
    }
    Ok(if good { Exit::Done } else { Exit::Failed })
}
