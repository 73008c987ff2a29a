//! Verdicts: each arm against the baseline in each metric, as far as gates let figures stand.

pub(crate) mod bound;
mod compare;
pub(crate) mod course;
pub(crate) mod figures;

use model::plan::Blocks;
use model::record::Run;

pub(crate) use compare::all;
pub use compare::{Comparison, Verdict};

use crate::facts::sheet::Sheet;
use crate::gates;

/// Blocks that the run should have before its last look, or nothing when it need not go on.
#[must_use]
pub fn extend_to(run: &Run) -> Option<u32> {
    let Blocks::TwoLooks { max, .. } = run.manifest.plan.design.blocks else { return None };
    let sheet = Sheet::new(run);
    if compare::look(&sheet) != stats::looks::Look::First {
        return None;
    }
    let comparisons = compare::all(&sheet, &gates::all(&sheet));
    let open = comparisons.iter().filter(|row| row.primary && row.verdict == Verdict::Inconclusive);
    let wanted = open.filter_map(|row| row.blocks_needed).max()?;
    let done = comparisons.iter().map(|row| row.blocks).max().unwrap_or(0);
    u32::try_from(wanted)
        .ok()
        .map_or(Some(max), |wanted| Some(wanted.min(max)))
        .filter(|wanted| *wanted > done)
}
