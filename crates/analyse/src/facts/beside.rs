//! Services beside the arms, such as a database: what each uses for a request of an arm, and in which functions.

use std::collections::BTreeMap;

use model::record::{Frame, PassKind, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::paired;

use super::functions::brief;
use super::sheet::{Sheet, by_block};

/// Level of the interval of a difference.
const LEVEL: f64 = 0.95;
/// Functions listed for a service, at most.
const FUNCTIONS: usize = 5;
/// Below this share of the difference a function is not listed.
const SMALL: f64 = 0.05;
/// Functions that a sentence names.
const NAMED: usize = 2;

/// CPU time of a service for each request of an arm, compared with that for a request of the baseline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceGap {
    /// The service.
    pub service: String,
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// Its CPU time for a request of the baseline, in nanoseconds.
    pub baseline_ns: f64,
    /// Its CPU time for a request of the arm, in nanoseconds.
    pub arm_ns: f64,
    /// Interval of the difference, arm minus baseline, over the blocks; absent if there are fewer than two blocks.
    pub interval_ns: Option<[f64; 2]>,
    /// Its functions that changed most for a request of the arm, if it could be sampled.
    pub functions: Vec<ServiceFunction>,
}

/// A function of a service.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceFunction {
    /// Its name.
    pub name: String,
    /// The program or library that it is in.
    pub module: String,
    /// CPU time in it alone, arm minus baseline, in nanoseconds per request.
    pub delta_ns: f64,
}

impl ServiceGap {
    /// Arm minus baseline.
    pub(crate) fn delta_ns(&self) -> f64 {
        self.arm_ns - self.baseline_ns
    }

    /// Whether it is known which of the two it works more for.
    pub(crate) fn is_sure(&self) -> bool {
        self.interval_ns.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }

    /// Where most of the difference is: a program or library, and functions there; nothing where that is not known.
    pub(crate) fn place(&self) -> Option<(String, Vec<String>)> {
        let first = self.functions.first()?;
        let same = self.functions.iter().filter(|one| one.module == first.module).take(NAMED);
        Some((first.module.clone(), same.map(|one| brief(&one.name)).collect()))
    }
}

/// Every service for every arm but the baseline, in the order of the plan.
pub(crate) fn all(sheet: &Sheet) -> Vec<ServiceGap> {
    let services = &sheet.plan().services;
    sheet.others().flat_map(|arm| services.iter().map(move |one| gap(sheet, arm, &one.name))).collect()
}

fn gap(sheet: &Sheet, arm: &str, service: &str) -> ServiceGap {
    let baseline = sheet.baseline();
    let pooled = |arm: &str| {
        let windows = sheet.windows(arm, sheet.main);
        let requests: u64 = windows.iter().map(|window| window.load.requests).sum();
        windows.iter().map(|window| used(window, service)).sum::<u64>() as f64 / requests.max(1) as f64
    };
    let figures = |arm: &str| sheet.figures(arm, sheet.main, |window| per_request(window, service));
    let pairs = by_block(&figures(baseline), &figures(arm));
    let differences: Vec<f64> = pairs.iter().map(|(_, [below, above])| above - below).collect();
    let interval = paired::estimate_or_widest(&differences, LEVEL).ok().map(|found| found.interval);
    let mut gap = ServiceGap {
        service: service.to_owned(),
        baseline: baseline.to_owned(),
        arm: arm.to_owned(),
        baseline_ns: pooled(baseline),
        arm_ns: pooled(arm),
        interval_ns: interval.map(|interval| [interval.low, interval.high]),
        functions: Vec::new(),
    };
    gap.functions = functions(sheet, &gap);
    gap
}

fn used(window: &Window, service: &str) -> u64 {
    window.services.get(service).copied().unwrap_or(0)
}

fn per_request(window: &Window, service: &str) -> Option<f64> {
    let requests = window.load.requests;
    (requests > 0).then(|| used(window, service) as f64 / requests as f64)
}

/// Functions in which most of the difference is.
fn functions(sheet: &Sheet, gap: &ServiceGap) -> Vec<ServiceFunction> {
    let [below, above] = [(&gap.baseline, gap.baseline_ns), (&gap.arm, gap.arm_ns)]
        .map(|(arm, ns)| shares(sheet, arm, &gap.service).map(|shares| (shares, ns)));
    let (Some((below, below_ns)), Some((above, above_ns))) = (below, above) else { return Vec::new() };
    let mut deltas: BTreeMap<(String, String), f64> = BTreeMap::new();
    for (sign, shares, ns) in [(-1.0, below, below_ns), (1.0, above, above_ns)] {
        // Watching a service costs it something: the shares are of what it used when it was not watched.
        shares.into_iter().for_each(|(name, share)| *deltas.entry(name).or_default() += sign * share * ns);
    }
    let whole = gap.delta_ns();
    let function = |((module, name), delta_ns)| ServiceFunction { name, module, delta_ns };
    let mut found: Vec<ServiceFunction> = deltas.into_iter().map(function).collect();
    found.retain(|one| one.delta_ns * whole > 0.0 && one.delta_ns.abs() >= SMALL * whole.abs());
    found.sort_by(|a, b| b.delta_ns.abs().total_cmp(&a.delta_ns.abs()));
    found.truncate(FUNCTIONS);
    found
}

/// Share of a service's CPU time of each of its functions that has a name, in the turns of `arm`; nothing where it was not
/// sampled.
fn shares(sheet: &Sheet, arm: &str, service: &str) -> Option<BTreeMap<(String, String), f64>> {
    let records = sheet.run.diagnostics.iter().filter(|record| record.arm == arm);
    let passes = records.flat_map(|record| &record.passes).filter(|pass| pass.kind == PassKind::Beside);
    let (mut all, mut of_function) = (0_u64, BTreeMap::new());
    for profile in passes.filter_map(|pass| pass.services.get(service)) {
        for stack in &profile.stacks {
            all += stack.samples;
            let named = |frame: &&Frame| frame.resolved;
            if let Some(frame) = profile.frames_of(stack).next_back().filter(named) {
                let key = (frame.module.clone(), frame.name.clone());
                *of_function.entry(key).or_insert(0_u64) += stack.samples;
            }
        }
    }
    let share = |samples: u64| samples as f64 / all as f64;
    (all > 0).then(|| of_function.into_iter().map(|(key, samples)| (key, share(samples))).collect())
}
