//! `whyslow history`: how figures moved over the runs kept here.

mod commits;
mod index;
mod shelf;

use std::path::Path;

use analyse::Metric;
use anyhow::{anyhow, ensure};
use report::{HistoryPoint, HistorySeries};
use stats::{Rng, changepoint};

use crate::cli::{Format, HistoryArgs};
use crate::exit::{Exit, Outcome, Stop};

pub(crate) use index::Index;
pub(crate) use shelf::{Shelf, Stamp};

/// A change is named where chance alone would show it in one of a hundred series of this length.
const ALPHA: f64 = 0.01;
/// Fewest runs on either side of a change: one odd run is no change.
const MIN_RUNS: usize = 3;
/// Runs that are named where another one is not there.
const NAMED: usize = 3;
/// Seed of the permutations: the same runs give the same p-values.
const SEED: u64 = 1;

pub(crate) fn run(args: &HistoryArgs) -> Outcome {
    let metric = shown(args).map_err(Stop::usage)?;
    folder_is_there(&args.runs).map_err(Stop::usage)?;
    let shelf = Shelf::of_folder(&args.runs);
    let mut index = Index::open(Some(&args.runs))?;
    index.refresh(&shelf)?;
    let mut series = index.series(args.target.as_deref())?;
    if let Some(target) = args.target.as_deref().filter(|_| series.is_empty()) {
        is_known(target, &index.names()?, &args.runs).map_err(Stop::usage)?;
    }
    commits::order(&mut series);
    series.iter_mut().for_each(|one| mark_changes(&mut one.points));
    let all = series.len();
    series.retain(|one| metric.is_none_or(|metric| one.metric == metric));
    if args.metric.is_none() && series.len() < all {
        crate::say(&format!(
            "{} more tables of other metrics: --metric NAME, or --details for all",
            all - series.len()
        ));
    }
    crate::print(&match args.format {
        Format::Text => report::history_text(&series),
        Format::Json => report::history_json(&series),
        Format::Md => report::history_markdown(&series),
    })?;
    Ok(Exit::Done)
}

/// The only metric that is shown; nothing for all of them, as whoever reads JSON expects.
fn shown(args: &HistoryArgs) -> anyhow::Result<Option<Metric>> {
    match &args.metric {
        Some(name) => parse_metric(name).map(Some),
        None if args.details || args.format == Format::Json => Ok(None),
        None => Ok(Some(Metric::CpuPerRequest)),
    }
}

/// An error where the folder that was named for runs is not there. The usual one comes with the first run.
pub(crate) fn folder_is_there(runs: &Path) -> anyhow::Result<()> {
    let usual = runs == Path::new(crate::compare::RUNS);
    let shown = runs.display();
    ensure!(
        usual || runs.is_dir(),
        "--runs {shown}: there is no such folder; name one that compare has kept runs in, such as {}",
        crate::compare::RUNS
    );
    Ok(())
}

/// What is said where `run` is no run directory, with the last runs of `folder`.
pub(crate) fn missing(run: &Path, folder: &Path) -> Option<anyhow::Error> {
    if run.join("manifest.json").exists() || run.join("rounds").exists() {
        return None;
    }
    let (run, reason) = match run.is_dir() {
        true => (run.display(), "that folder holds no run"),
        false => (run.display(), "there is no such run"),
    };
    let kept = Shelf::of_folder(folder).runs();
    let kept: Vec<String> = kept.values().rev().take(NAMED).map(|path| path.display().to_string()).collect();
    Some(match kept.is_empty() {
        true => anyhow!(
            "{run}: {reason}; there is none in {} either: whyslow compare makes one",
            folder.display()
        ),
        false => anyhow!("{run}: {reason}; the last ones here are {}", kept.join(", ")),
    })
}

/// An error where no run has an arm or target of this name.
fn is_known(target: &str, known: &[String], runs: &Path) -> anyhow::Result<()> {
    let runs = runs.display();
    ensure!(!known.is_empty(), "there is no arm or target '{target}': {runs} holds no run with figures");
    ensure!(
        known.iter().any(|name| name == target),
        "no run in {runs} has an arm or target '{target}': there are {}",
        known.join(", ")
    );
    Ok(())
}

fn parse_metric(name: &str) -> anyhow::Result<Metric> {
    serde_json::from_value(serde_json::Value::from(name)).map_err(|_| {
        anyhow!("there is no metric '{name}': it is cpu_per_request, rate, p50, p90, p99, p99_9 or rss")
    })
}

/// Every series of the index, oldest run first, with the changes in it.
pub(crate) fn series(index: &Index) -> anyhow::Result<Vec<HistorySeries>> {
    let mut series = index.series(None)?;
    for one in &mut series {
        mark_changes(&mut one.points);
    }
    Ok(series)
}

/// Changes are looked for in logarithms, so that a doubling weighs as much as a halving.
fn mark_changes(points: &mut [HistoryPoint]) {
    // A search of more would take minutes; the oldest runs are the ones to leave out.
    let first = points.len().saturating_sub(changepoint::MAX_VALUES);
    let recent = &mut points[first..];
    let values: Vec<f64> = recent.iter().map(|point| point.value.ln()).collect();
    let found = changepoint::detect(&values, MIN_RUNS, ALPHA, &mut Rng::seeded(SEED));
    // Values are positive and not too many: there is nothing to refuse.
    for change in found.unwrap_or_default() {
        recent[change.index].change_p = Some(change.p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(values: &[f64]) -> Vec<HistoryPoint> {
        let point = |value: &f64| HistoryPoint {
            run: String::new(),
            started_unix_s: 0,
            state: None,
            value: *value,
            low: *value,
            high: *value,
            rounds: 10,
            commit: None,
            changed: false,
            change_p: None,
        };
        values.iter().map(point).collect()
    }

    fn changes(values: &[f64]) -> Vec<usize> {
        let mut points = points(values);
        mark_changes(&mut points);
        (0..points.len()).filter(|index| points[*index].change_p.is_some()).collect()
    }

    #[test]
    fn a_step_is_a_change_and_noise_or_one_odd_run_is_none() {
        let noise = [100.0, 101.0, 99.5, 100.4, 99.8, 100.9, 100.1, 99.6, 100.3, 99.9, 100.7, 100.2];
        assert_eq!(changes(&noise), [0; 0]);
        let mut step = noise;
        step[7..].iter_mut().for_each(|value| *value *= 1.2);
        assert_eq!(changes(&step), [7]);
        let mut odd = noise;
        odd[5] *= 1.5;
        assert_eq!(changes(&odd), [0; 0]);
        assert_eq!(changes(&[]), [0; 0]);
    }
}
