//! Where the parts are small or unsure and their sum is not, the sum is said: the kernel's network, the kernel, the program.

use model::plan::CauseId;

use super::code::ended_suspect;
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

/// What is said of parts that are unsure, and how exact the sum of those is of which nothing is said.
#[derive(Default)]
pub(super) struct Told {
    pub(super) sides: Vec<Suspect>,
    pub(super) rest_error_ns: f64,
}

/// A leaf of the tree, its cause, and its row.
type Part<'a> = (&'a Leaf, CauseId, &'a AttributionRow);

/// What is left on each side of parts that are unsure, where that or the whole side is sure. Nothing where time was moved to threads
/// and processes that ended: then leaves have no longer what their causes have.
pub(super) fn of_unsure(pair: &Pair, unsure: &[Suspect]) -> Told {
    let ended = [CauseId::ChildProcesses, CauseId::ShortThreads];
    if ended.iter().any(|id| ended_suspect(pair, *id).is_some()) {
        let variance: f64 = unsure.iter().map(|one| one.error_ns.powi(2)).sum();
        return Told { sides: Vec::new(), rest_error_ns: variance.sqrt() };
    }
    let belongs = cpu::belongs(pair);
    let cause = |leaf: &Leaf| belongs.iter().find(|(other, _)| other == leaf).map(|(_, id)| *id);
    let parts: Vec<Part> =
        pair.tree.iter().filter_map(|(leaf, row)| Some((leaf, cause(leaf)?, row))).collect();
    let is_open = |id: CauseId| unsure.iter().any(|one| one.id == id);
    let mut open: Vec<Part> = parts.iter().copied().filter(|(_, id, _)| is_open(*id)).collect();
    let mut told = Told::default();
    for side in SIDES {
        let is_of_side = |(leaf, id, _): &Part| is_on(side, leaf, *id);
        let whole = rows(parts.iter().copied().filter(is_of_side));
        let left = rows(open.iter().copied().filter(is_of_side));
        if let Some(suspect) = suspect(pair, side, &whole, &left) {
            open.retain(|part| !is_of_side(part));
            told.sides.push(suspect);
        }
    }
    told.rest_error_ns = error_ns(&rows(open.into_iter()));
    told
}

fn rows<'a>(parts: impl Iterator<Item = Part<'a>>) -> Vec<&'a AttributionRow> {
    parts.map(|(_, _, row)| row).collect()
}

fn suspect(
    pair: &Pair,
    side: CauseId,
    whole: &[&AttributionRow],
    left: &[&AttributionRow],
) -> Option<Suspect> {
    let sum = |rows: &[&AttributionRow]| pair.sign * rows.iter().map(|row| row.delta_ns).sum::<f64>();
    let (whole, left_error_ns, ns) = ([sum(whole), error_ns(whole)], error_ns(left), sum(left));
    let is_sure = |ns: f64, error_ns: f64| ns.abs() > SURE * error_ns;
    // Of a side that is sure what goes its way is a part of it.
    let whole =
        Some(whole).filter(|[whole_ns, error_ns]| is_sure(*whole_ns, *error_ns) && whole_ns * ns > 0.0);
    if pair.share(ns).abs() < LEAST || whole.is_none() && !is_sure(ns, left_error_ns) {
        return None;
    }
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
        seen: vec![Seen::Side { side, whole, parts: [ns, left_error_ns], most: most.collect() }],
        usual: false,
    })
}
