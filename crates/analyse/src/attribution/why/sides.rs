//! Where the parts are unsure and their sum is not, the sum is said: the kernel's network, the kernel, the program.

use std::collections::BTreeSet;

use model::plan::CauseId;
use model::units::format_ns;

use super::cpu;
use super::gap::Pair;
use super::{EXAMPLES_OF_UNSURE, Suspect};
use crate::attribution::cause::Grade;
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

/// The sides, those within others first, with their names in a sentence.
const SIDES: [(CauseId, &str); 3] = [
    (CauseId::KernelNetwork, "the kernel's network as a whole"),
    (CauseId::KernelWhole, "the kernel as a whole"),
    (CauseId::ProgramWhole, "the program's own time as a whole"),
];

/// Whether a cause is a side, and no part of one.
pub(crate) fn is_side(id: CauseId) -> bool {
    SIDES.iter().any(|(side, _)| *side == id)
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
    for (side, name) in SIDES {
        let of_side = || leaves.iter().filter(|(leaf, id, _)| is_on(side, leaf, *id));
        let whole: Vec<&AttributionRow> = of_side().map(|(_, _, row)| *row).collect();
        let left: Vec<&AttributionRow> =
            of_side().filter(|(_, id, _)| open.contains(id)).map(|(_, _, row)| *row).collect();
        if let Some(suspect) = suspect(pair, (side, name), &whole, &left) {
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
    (id, name): (CauseId, &str),
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
    let most: Vec<String> =
        most.iter().take(EXAMPLES_OF_UNSURE).map(|row| row.path[1..].join(" > ")).collect();
    let direction = if whole_ns < 0.0 { "less" } else { "more" };
    Some(Suspect {
        id,
        grade: Grade::ConsistentWith,
        ns,
        error_ns: 0.0,
        idle_ns: 0.0,
        evidence: format!(
            "{name}: {} {direction} a request, standard error {}; {} of it in parts that are not sure by themselves, most in {}",
            format_ns(whole_ns.abs()),
            format_ns(whole_error_ns),
            format_ns(ns.abs()),
            most.join(" and in "),
        ),
        usual: false,
    })
}
