//! Gates on where the arms ran.

use model::plan::{Arm, GateId, Running};
use stats::noise::Noise;

use super::{Gate, holds};
use crate::facts::busy::busy_cores;
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use model::units::percent;

/// Level of the interval that a noise floor is read from.
pub(crate) const FLOOR_LEVEL: f64 = 0.95;
/// Busy cores that differ by more than this are not the same use of the machine.
const MAX_CORES_DIFFERENCE: f64 = 0.10;

/// `environment`: the arms met the same CPUs; what else differs between them is printed.
pub(super) fn environment(sheet: &Sheet) -> Vec<Gate> {
    let allowed = |arm: &str| sheet.rounds_of(arm).map(|record| record.fairness.allowed_cpus.clone()).next();
    let baseline = allowed(sheet.baseline());
    for arm in sheet.others() {
        let other = allowed(arm);
        if let (Some(baseline), Some(other)) = (&baseline, &other)
            && baseline != other
            // Nothing is known of the CPUs of a server that cannot be seen.
            && ![baseline, other].iter().any(|cpus| cpus.is_empty())
        {
            return vec![other_cpus(sheet, arm, [baseline, other])];
        }
    }
    let effects: Vec<Gate> =
        Metric::PRIMARY.into_iter().filter_map(|metric| position_effect(sheet, metric)).collect();
    if !effects.is_empty() {
        return effects;
    }
    let shared = if sheet.plan().placement.shared { "; server and generator share CPUs" } else { "" };
    vec![holds(
        GateId::Environment,
        format!("same host and CPUs; the arms differ in {}{shared}", differences(sheet)),
    )]
}

/// The arms did not have the same CPUs. Of servers that ran already, what a request costs is compared all the same.
fn other_cpus(sheet: &Sheet, arm: &str, [baseline, other]: [&String; 2]) -> Gate {
    let runs = sheet.plan().arms.iter().any(|known| {
        known.source.running().is_some() && [arm, sheet.baseline()].contains(&known.name.as_str())
    });
    let (why, voids) = match runs {
        true => (
            "a server that runs already has its own CPU set: give both the same (taskset -a -c -p, or --server-cpus)",
            Metric::ALL.into_iter().filter(|metric| *metric != Metric::CpuPerRequest).collect(),
        ),
        false => ("it changed its own CPU set", Metric::ALL.to_vec()),
    };
    let text = format!("'{arm}' ran on CPUs {other}, '{}' on {baseline}: {why}", sheet.baseline());
    Gate { ok: false, arm: Some(arm.to_owned()), voids, ..holds(GateId::Environment, text) }
}

/// `running`: of servers that ran already, whose CPU time is known; without it rate and median response decide.
pub(super) fn running(sheet: &Sheet) -> Vec<Gate> {
    let running = sheet.plan().arms.iter().filter_map(|arm| Some((arm, arm.source.running()?)));
    let row = |(arm, running): (&Arm, &Running)| {
        let what = format!("'{}' ran already at {}, one process for all blocks", arm.name, running.address);
        if sheet.is_observed(&arm.name) {
            return Gate { arm: Some(arm.name.clone()), ..holds(GateId::Running, what) };
        }
        let text = format!(
            "{what}; its CPU time cannot be seen, so that rate and median response decide: name its process with \
             --watch-pid, its unit with --watch-unit, or run whyslow as the user that it runs as"
        );
        let voids = vec![Metric::CpuPerRequest, Metric::Rss];
        Gate { ok: false, arm: Some(arm.name.clone()), voids, ..holds(GateId::Running, text) }
    };
    // An arm that failed has no figures to speak of.
    running.filter(|(arm, _)| sheet.rounds_of(&arm.name).next().is_some()).map(row).collect()
}

/// The two copies of the baseline in a rigorous run differ by as much as would be named: then the place within a block
/// decides, and no arm can be compared in that metric.
fn position_effect(sheet: &Sheet, metric: Metric) -> Option<Gate> {
    let first = sheet.baseline();
    let pairs = sheet.pairs(&sheet.second_baseline()?, metric);
    let differences: Vec<f64> = pairs.into_iter().map(|(_, difference)| difference).collect();
    let noise = Noise::of_pairs(&differences, FLOOR_LEVEL).ok()?;
    let (ratio, bar) = (noise.estimate.ratio(), metric.delta() / 2.0);
    (noise.position_effect() && (ratio - 1.0).abs() >= bar).then(|| {
        let text = format!(
            "the second copy of '{first}' differs from the first by {} in {}: the place within a block decides; \
             look for what the first rounds leave behind",
            percent((ratio - 1.0).abs()),
            metric.label()
        );
        let (value, limit) = (Some(ratio), Some(1.0 + bar));
        Gate { ok: false, value, limit, voids: vec![metric], ..holds(GateId::Environment, text) }
    })
}

fn differences(sheet: &Sheet) -> String {
    let arms = &sheet.plan().arms;
    let differs = |same: fn(&Arm, &Arm) -> bool| arms.windows(2).any(|pair| !same(&pair[0], &pair[1]));
    let mut names = Vec::new();
    let builds = &sheet.run.manifest.builds;
    if builds.windows(2).any(|pair| pair[0].sha256 != pair[1].sha256) {
        names.push("executable");
    }
    if differs(|a, b| a.run == b.run) {
        names.push("command");
    }
    if differs(|a, b| a.env == b.env) {
        names.push("environment variables");
    }
    if differs(|a, b| a.warmup == b.warmup) {
        names.push("warm-up");
    }
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// `fairness`: the arms used the same number of cores; otherwise figures are to be read per core.
pub(super) fn fairness(sheet: &Sheet) -> Vec<Gate> {
    let cores = |arm: &str| sheet.median(arm, sheet.main, |window| Some(busy_cores(window)));
    let Some(baseline) = cores(sheet.baseline()).filter(|cores| *cores > 0.0) else {
        return vec![holds(GateId::Fairness, "nothing to judge")];
    };
    let mut rows = Vec::new();
    for arm in sheet.others() {
        let Some(other) = cores(arm) else { continue };
        let ratio = other / baseline;
        if (ratio - 1.0).abs() > MAX_CORES_DIFFERENCE {
            let text = format!(
                "'{arm}' kept {other:.2} cores busy, '{}' {baseline:.2} ({}): compare rates per core",
                sheet.baseline(),
                percent(ratio)
            );
            let limit = Some(1.0 + MAX_CORES_DIFFERENCE);
            rows.push(Gate {
                ok: false,
                arm: Some(arm.to_owned()),
                value: Some(ratio),
                limit,
                ..holds(GateId::Fairness, text)
            });
        }
    }
    if rows.is_empty() {
        rows.push(holds(GateId::Fairness, format!("all arms kept about {baseline:.2} cores busy")));
    }
    rows
}
