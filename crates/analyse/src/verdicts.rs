//! Verdicts: each arm against the baseline in each metric, as far as gates let figures stand.

pub(crate) mod bound;
mod compare;
pub(crate) mod course;
pub(crate) mod figures;

use model::plan::Blocks;
use model::record::Run;

pub use compare::{BiasFindings, Comparison, UndecidedBy, Verdict};
pub(crate) use compare::{all, blocks};

use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use crate::gates;

/// How an arm stands against the baseline while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The arm.
    pub arm: String,
    /// CPU per request, arm over baseline.
    pub ratio: f64,
    /// Low end of its interval.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// Returns how many blocks the run should have before its next look, or nothing if it need not go on.
#[must_use]
pub fn extend_to(run: &Run) -> Option<u32> {
    extend_until(run, |comparisons| {
        let told = |arm: &str| {
            let mut rows = comparisons.iter().filter(|row| row.primary && row.arm == arm);
            rows.any(|row| matches!(row.verdict, Verdict::Slower | Verdict::Faster))
        };
        // An arm of which one metric was decided is slower or faster, whatever the other would tell.
        comparisons.iter().all(|row| !row.primary || compare::is_settled(row) || told(&row.arm))
    })
}

/// Returns how many blocks the run should have before its next look, or nothing if the comparisons so far are `settled`.
#[must_use]
pub fn extend_until(run: &Run, settled: impl Fn(&[Comparison]) -> bool) -> Option<u32> {
    let Blocks::Looks { max, .. } = run.manifest.plan.design.blocks else { return None };
    let sheet = Sheet::new(run);
    let next = stats::looks::next(blocks(&sheet) as usize, max as usize)?;
    let settled = settled(&all(&sheet, &gates::all(&sheet)));
    (!settled).then(|| u32::try_from(next).unwrap_or(max))
}

/// Every arm against the baseline in each metric, as far as gates let figures stand.
#[must_use]
pub fn comparisons(run: &Run) -> Vec<Comparison> {
    let sheet = Sheet::new(run);
    all(&sheet, &gates::all(&sheet))
}

/// How each arm stands against the baseline in CPU per request.
#[must_use]
pub fn standings(run: &Run) -> Vec<Standing> {
    let sheet = Sheet::new(run);
    let rows = all(&sheet, &[]);
    let of_cpu = rows.into_iter().filter(|row| row.metric == Metric::CpuPerRequest);
    of_cpu
        .filter_map(|row| {
            Some(Standing { ratio: row.ratio?, low: row.ci_low?, high: row.ci_high?, arm: row.arm })
        })
        .collect()
}
