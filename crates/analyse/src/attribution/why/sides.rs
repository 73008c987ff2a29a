//! Where the parts are unsure and their sum is not, the sum is said: the kernel's network, the kernel, the program.

use std::collections::BTreeSet;

use model::plan::CauseId;

use super::cpu;
use super::gap::Pair;
use super::{EXAMPLES_OF_UNSURE, Suspect};
use crate::attribution::cause::Grade;
use crate::attribution::seen::Seen;
use crate::attribution::tree::AttributionRow;
use crate::attribution::tree::drawn::error_ns;
use crate::attribution::tree::place::Leaf;
use crate::facts::observed::SURE;

/// Share of the gap below which what is left of a side is not told.
pub(super) const LEAST: f64 = 0.05;

/// Causes whose leaves of the kernel are its network.
const NETWORK: [CauseId; 7] = [
    CauseId::SmallWrites,
    CauseId::NewConnections,
    CauseId::BackendCalls,
    CauseId::Readiness,
    CauseId::KernelSending,
    CauseId::KernelReceiving,
    CauseId::KernelPolling,
];

/// The sides, those within others first.
const SIDES: [CauseId; 3] = [CauseId::KernelNetwork, CauseId::KernelWhole, CauseId::ProgramWhole];

/// Whether a cause is a side, and no part of one.
pub(crate) fn is_side(id: CauseId) -> bool {
    SIDES.contains(&id)
}

/// Whether a leaf with this cause is on the side.
fn is_on(side: CauseId, leaf: &Leaf, id: CauseId) -> bool {
    match side {
        CauseId::ProgramWhole => leaf.is_user(),
        CauseId::KernelWhole => !leaf.is_user(),
        _ => !leaf.is_user() && NETWORK.contains(&id),
    }
}

/// What is left on each side of parts that are unsure, where the whole side is sure. Nothing where time was moved to threads and
/// processes that ended: then leaves have no longer what their causes have.
pub(super) fn of_unsure(pair: &Pair, known: &[Suspect], unsure: &[Suspect]) -> Vec<Suspect> {
    let ended = [CauseId::ChildProcesses, CauseId::ShortThreads];
    if known.iter().chain(unsure).any(|one| ended.contains(&one.id) && one.ns != 0.0) {
        return Vec::new();
    }
    let mut open: BTreeSet<CauseId> = unsure.iter().map(|one| one.id).collect();
    let belongs = cpu::belongs(pair);
    let cause = |leaf: &Leaf| belongs.iter().find(|(other, _)| other == leaf).map(|(_, id)| *id);
    let leaves: Vec<(&Leaf, CauseId, &AttributionRow)> =
        pair.tree.iter().filter_map(|(leaf, row)| Some((leaf, cause(leaf)?, row))).collect();
    let mut found = Vec::new();
    for side in SIDES {
        let of_side = || leaves.iter().filter(|(leaf, id, _)| is_on(side, leaf, *id));
        let whole: Vec<&AttributionRow> = of_side().map(|(_, _, row)| *row).collect();
        let left: Vec<&AttributionRow> =
            of_side().filter(|(_, id, _)| open.contains(id)).map(|(_, _, row)| *row).collect();
        if let Some(suspect) = suspect(pair, side, &whole, &left) {
            if side == CauseId::KernelNetwork {
                open.retain(|id| !NETWORK.contains(id));
            }
            found.push(suspect);
        }
    }
    found
}

fn suspect(
    pair: &Pair,
    side: CauseId,
    whole: &[&AttributionRow],
    left: &[&AttributionRow],
) -> Option<Suspect> {
    let sum = |rows: &[&AttributionRow]| pair.sign * rows.iter().map(|row| row.delta_ns).sum::<f64>();
    let (whole_ns, left_ns, whole_error_ns) = (sum(whole), sum(left), error_ns(whole));
    let is_sure = whole_ns.abs() > SURE * whole_error_ns;
    if !is_sure || whole_ns * left_ns <= 0.0 || pair.share(left_ns).abs() < LEAST {
        return None;
    }
    // Of a side that is sure no part is more than the side.
    let ns = if left_ns.abs() < whole_ns.abs() { left_ns } else { whole_ns };
    let mut most: Vec<&AttributionRow> =
        left.iter().copied().filter(|row| pair.sign * row.delta_ns * ns > 0.0).collect();
    most.sort_by(|a, b| b.delta_ns.abs().total_cmp(&a.delta_ns.abs()));
    let most = most.iter().take(EXAMPLES_OF_UNSURE).map(|row| row.path[1..].to_vec());
    Some(Suspect {
        id: side,
        grade: Grade::ConsistentWith,
        ns,
        error_ns: 0.0,
        idle_ns: 0.0,
        seen: vec![Seen::Side {
            side,
            ns: whole_ns,
            error_ns: whole_error_ns,
            unsure_ns: ns.abs(),
            most: most.collect(),
        }],
        usual: false,
    })
}
