//! What explains a difference that was shown.

pub(crate) mod cause;
pub(crate) mod parked;
pub mod profile;
pub(crate) mod seen;
pub(crate) mod split;
pub(crate) mod tree;
pub(crate) mod waits;
pub(crate) mod why;

use std::collections::BTreeMap;

use cause::{Cause, Grade};
use model::plan::CauseId;
use parked::ParkedRow;
use profile::ProfileDifference;
use seen::Seen;
use split::Split;
use tree::AttributionRow;
use tree::gap_function::GapFunction;
use tree::gap_nodes::{GapNode, Said, gap_nodes};
use tree::place::Leaf;
use waits::WaitRow;
use why::{LedgerLine, Material, RestOfGap, Why};

use crate::facts::Facts;
use crate::facts::sheet::Sheet;
use crate::gates::Gate;
use crate::verdicts::Comparison;

/// Everything that explains a run.
pub(crate) struct Attribution {
    /// Exact split of the rate ratio, one for each arm but the baseline.
    pub(crate) splits: Vec<Split>,
    /// Where in the code the difference is.
    pub(crate) profiles: Vec<ProfileDifference>,
    /// CPU time of a request, leaf by leaf, of each arm but the baseline.
    pub(crate) tree: Vec<(Leaf, AttributionRow)>,
    /// What is said of each gap in CPU time that was shown, from its tree.
    pub(crate) said: Vec<GapNode>,
    /// What is left of each, as far as it has names.
    pub(crate) smaller: Vec<GapNode>,
    /// Of each gap in CPU time that was shown, the function seen in one arm alone under which most of it is.
    pub(crate) gap_functions: Vec<GapFunction>,
    /// What explains the difference, most important first.
    pub(crate) causes: Vec<Cause>,
    /// What one request costs, line by line.
    pub(crate) ledger: Vec<LedgerLine>,
    /// What ended the waits of each arm's threads.
    pub(crate) waited: Vec<WaitRow>,
    /// For what each arm's goroutines waited.
    pub(crate) parked: Vec<ParkedRow>,
    /// What arms wait for whose CPUs are idle: name, and what was seen.
    pub(crate) waits: Vec<(String, Vec<Seen>)>,
    /// What each arm waits for most, whatever the others do.
    pub(crate) own_waits: Vec<(String, Seen)>,
    /// What no cause carries of each arm's gap.
    pub(crate) rests: Vec<RestOfGap>,
    /// The arm of whose gap the largest share is left without a cause, and that share.
    pub(crate) most_left: Option<(String, f64)>,
}

impl Attribution {
    /// What explains every difference that was shown.
    pub(crate) fn from_facts(facts: &Facts, gates: &[Gate], comparisons: &[Comparison]) -> Self {
        let sheet = &facts.sheet;
        let asked = sheet.plan().design.why;
        let splits = if asked { split::all(sheet, &facts.arms) } else { Vec::new() };
        let profiles = profile::all(facts);
        let mut tree = if asked { tree::all(facts) } else { Vec::new() };
        let mut gap_functions = if asked { tree::gap_functions(facts) } else { Vec::new() };
        let material = Material { facts, gates, comparisons, tree: &tree, gap_functions: &gap_functions };
        let why = if asked { why::explain(&material) } else { Why::default() };
        for (arm, causes) in &why.belongs {
            let of_arm = tree.iter_mut().filter(|(_, row)| row.arm == *arm);
            of_arm.for_each(|(leaf, row)| row.cause = cause_of(causes, leaf));
        }
        let split = split::causes(&splits, comparisons, &facts.arms, &why.residues);
        let by_rest = || why.rests.iter().map(|rest| (rest.arm.clone(), rest.unattributed_share)).collect();
        let left: Vec<(String, f64)> = if why.rests.is_empty() { left_by_split(&split) } else { by_rest() };
        let shown =
            |arm: &str| split::is_decided(comparisons, arm) || why.in_cpu.iter().any(|own| own == arm);
        let said = all_gap_nodes(sheet, shown, &tree);
        gap_functions.retain(|function| shown(&function.arm));
        let causes = unless_said([split, why.causes].concat(), &said.rows);
        let waited = if asked { waits::rows(facts) } else { Vec::new() };
        let parked = if asked { parked::rows(facts) } else { Vec::new() };
        let placed = |cause: Cause| cause.placed(tree.iter().map(|(_, row)| row), &waited, &parked);
        let causes = causes.into_iter().map(placed).collect();
        Self {
            said: said.rows,
            smaller: said.smaller,
            gap_functions,
            causes: most_important_first(sheet, causes, &why.first),
            ledger: why.ledger,
            waited,
            parked,
            waits: why.waits,
            own_waits: why.own_waits,
            rests: why.rests,
            most_left: left.into_iter().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())),
            splits,
            profiles,
            tree,
        }
    }
}

/// Without what was ruled out as a whole where a node of it is said: parts of it that cancel out are small together, and one of them is not.
/// What a test ruled out stays so.
fn unless_said(mut causes: Vec<Cause>, said: &[GapNode]) -> Vec<Cause> {
    let is_said =
        |cause: &Cause| said.iter().any(|node| node.arm == cause.arm && node.cause == Some(cause.id));
    let is_tested = |cause: &Cause| cause.says.as_ref().is_some_and(|says| !says.tests.is_empty());
    causes.retain(|cause| cause.grade != Grade::RuledOut || is_tested(cause) || !is_said(cause));
    causes
}

/// The cause of a leaf.
fn cause_of(causes: &[(Leaf, CauseId)], leaf: &Leaf) -> Option<CauseId> {
    causes.iter().find(|(other, _)| other == leaf).map(|(_, id)| *id)
}

/// What is said of every gap in CPU time that was shown.
fn all_gap_nodes(sheet: &Sheet, shown: impl Fn(&str) -> bool, tree: &[(Leaf, AttributionRow)]) -> Said {
    let of_arm = |arm: &str| tree.iter().map(|(_, row)| row).filter(|row| row.arm == arm).collect::<Vec<_>>();
    sheet.others().filter(|arm| shown(arm)).map(|arm| gap_nodes(arm, &of_arm(arm))).fold(
        Said::default(),
        |mut all, one| {
            all.rows.extend(one.rows);
            all.smaller.extend(one.smaller);
            all
        },
    )
}

/// Causes arm by arm: what may be a cause by what it carries, then what is sure as a whole alone, then user and system time, which account for a gap but do
/// not explain it, then what was ruled out. What leads to the others comes before them.
fn most_important_first(sheet: &Sheet, mut causes: Vec<Cause>, first: &[(String, CauseId)]) -> Vec<Cause> {
    let arm = |cause: &Cause| sheet.plan().arms.iter().position(|arm| arm.name == cause.arm);
    let rank = |cause: &Cause| match cause.grade {
        Grade::ConsistentWith if why::is_side(cause.id) => 1,
        Grade::ConfirmedBy | Grade::BoundedBy | Grade::ConsistentWith => 0,
        Grade::AccountsFor if cause.id == CauseId::ServiceBeside => 0,
        Grade::AccountsFor => 2,
        Grade::RuledOut => 3,
    };
    let carried = |cause: &Cause| cause.ns_per_request.abs();
    // What makes a gap smaller comes after what makes it.
    let against = |cause: &Cause| cause.share.is_some_and(|share| share < 0.0);
    let follows = |cause: &Cause| !first.iter().any(|(arm, id)| *arm == cause.arm && *id == cause.id);
    causes.sort_by(|a, b| {
        (arm(a), rank(a), against(a), follows(a))
            .cmp(&(arm(b), rank(b), against(b), follows(b)))
            .then_with(|| carried(b).total_cmp(&carried(a)))
    });
    causes
}

/// The part of each arm's gap that its split leaves.
fn left_by_split(causes: &[Cause]) -> Vec<(String, f64)> {
    let mut accounted: BTreeMap<&str, f64> = BTreeMap::new();
    for cause in causes {
        if let Some(share) = cause.share {
            *accounted.entry(&cause.arm).or_default() += share;
        }
    }
    accounted.into_iter().map(|(arm, sum)| (arm.to_owned(), (1.0 - sum).abs())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ruled_out_is_no_cause_of_a_node_that_is_said() {
        let cause = |arm: &str, id, grade| Cause {
            id,
            grade,
            baseline: "main".to_owned(),
            arm: arm.to_owned(),
            ns_per_request: 0.0,
            share: None,
            place: None,
            text: String::new(),
            says: None,
        };
        let copying = |arm, grade| cause(arm, CauseId::Copying, grade);
        let of_others = cause("pr", CauseId::Allocation, Grade::RuledOut);
        let causes = [
            copying("pr", Grade::RuledOut),
            copying("pr", Grade::ConsistentWith),
            copying("other", Grade::RuledOut),
            of_others.clone(),
        ];
        let node: GapNode = serde_json::from_value(serde_json::json!({
            "arm": "pr", "path": ["user", "copying"], "delta_ns": 5.0, "delta_se_ns": 1.0, "share": 0.5, "count": null,
            "more_ns": null, "dearer_ns": null, "via": null, "cause": "copying",
        }))
        .unwrap();
        assert_eq!(unless_said(causes.to_vec(), &[]), causes);
        assert_eq!(unless_said(causes.to_vec(), &[node]), [causes[1].clone(), causes[2].clone(), of_others]);
    }
}
