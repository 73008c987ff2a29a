//! Gates on where the arms ran.

use model::plan::{Arm, GateId, Running, WarmupClass};
use stats::noise::Noise;

use super::{Differing, Gate, GateSays, holds};
use crate::facts::busy::busy_cores;
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

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
    let says = GateSays::SamePlace { differ: differences(sheet), shared: sheet.plan().placement.shared };
    vec![holds(GateId::Environment, says)]
}

/// The arms did not have the same CPUs. Of servers that ran already, what a request costs is compared all the same.
fn other_cpus(sheet: &Sheet, arm: &str, [baseline, other]: [&String; 2]) -> Gate {
    let runs = sheet.plan().arms.iter().any(|known| {
        known.source.running().is_some() && [arm, sheet.baseline()].contains(&known.name.as_str())
    });
    let stands = |metric: &Metric| runs && *metric == Metric::CpuPerRequest;
    let says = GateSays::OtherCpus {
        arm_on: other.clone(),
        baseline: sheet.baseline().to_owned(),
        baseline_on: baseline.clone(),
        runs,
    };
    Gate {
        ok: false,
        arm: Some(arm.to_owned()),
        voids: Metric::ALL.into_iter().filter(|metric| !stands(metric)).collect(),
        ..holds(GateId::Environment, says)
    }
}

/// `running`: of servers that ran already, whose CPU time is known; without it rate and median response decide.
pub(super) fn running(sheet: &Sheet) -> Vec<Gate> {
    let running = sheet.plan().arms.iter().filter_map(|arm| Some((arm, arm.source.running()?)));
    let row = |(arm, running): (&Arm, &Running)| {
        let is_observed = sheet.is_observed(&arm.name);
        let says = GateSays::Ran { address: running.address.to_string(), is_observed };
        let voids = if is_observed { Vec::new() } else { vec![Metric::CpuPerRequest, Metric::Rss] };
        Gate { ok: is_observed, arm: Some(arm.name.clone()), voids, ..holds(GateId::Running, says) }
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
        let says = GateSays::CopiesDiffer { baseline: first.to_owned(), metric };
        let (value, limit) = (Some(ratio), Some(1.0 + bar));
        Gate { ok: false, value, limit, voids: vec![metric], ..holds(GateId::Environment, says) }
    })
}

/// In what arms differ.
fn differences(sheet: &Sheet) -> Vec<Differing> {
    let arms = &sheet.plan().arms;
    let differs = |same: fn(&Arm, &Arm) -> bool| arms.windows(2).any(|pair| !same(&pair[0], &pair[1]));
    let builds = &sheet.run.manifest.builds;
    let warmup = |index| sheet.run.manifest.fitted.warming_of(sheet.plan(), index).class;
    let warmups: Vec<WarmupClass> = (0..arms.len()).map(warmup).collect();
    let all = [
        (builds.windows(2).any(|pair| pair[0].sha256 != pair[1].sha256), Differing::Executable),
        (differs(|a, b| a.run == b.run), Differing::Command),
        (differs(|a, b| a.env == b.env), Differing::Environment),
        (warmups.windows(2).any(|pair| pair[0] != pair[1]), Differing::Warmup),
    ];
    all.into_iter().filter(|(differ, _)| *differ).map(|(_, what)| what).collect()
}

/// `fairness`: the arms used the same number of cores; otherwise figures are to be read per core.
pub(super) fn fairness(sheet: &Sheet) -> Vec<Gate> {
    let cores = |arm: &str| sheet.median(arm, sheet.main, |window| Some(busy_cores(window)));
    let Some(baseline) = cores(sheet.baseline()).filter(|cores| *cores > 0.0) else {
        return vec![holds(GateId::Fairness, GateSays::Nothing)];
    };
    let mut rows = Vec::new();
    for arm in sheet.others() {
        let Some(other) = cores(arm) else { continue };
        let ratio = other / baseline;
        if (ratio - 1.0).abs() > MAX_CORES_DIFFERENCE {
            let says = GateSays::Cores { arm: other, baseline: (sheet.baseline().to_owned(), baseline) };
            let limit = Some(1.0 + MAX_CORES_DIFFERENCE);
            rows.push(Gate {
                ok: false,
                arm: Some(arm.to_owned()),
                value: Some(ratio),
                limit,
                ..holds(GateId::Fairness, says)
            });
        }
    }
    if rows.is_empty() {
        rows.push(holds(GateId::Fairness, GateSays::CoresAlike(baseline)));
    }
    rows
}
