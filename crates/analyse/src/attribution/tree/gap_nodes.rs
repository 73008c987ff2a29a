//! What is said of a gap, read from the tree: the nodes in which it is, and not every leaf.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::CauseId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drawn::error_ns;
use super::place::AND_BELOW;
use super::table::{Does, does_the_same};
use super::{AttributionRow, LeafCount, Place, SMALL_ONES, parts};
use crate::attribution::profile::Category;
use crate::facts::changes::Change;
use crate::facts::observed::SURE;

/// Share of a node's change that one below it must hold for that one to be said in its place.
const HOLDS: f64 = 0.7;
/// Share of the gap that is said before the rest is left.
const ENOUGH: f64 = 0.8;
/// Share of the gap below which a node is not said.
const LEAST: f64 = 0.05;
/// Nodes that are said of one gap.
const MOST: usize = 3;
/// The same of all that are named, smaller ones too: share of the gap, share below which a node is not, and number.
const NAMED: f64 = 0.95;
const LEAST_NAMED: f64 = 0.02;
const MOST_NAMED: usize = 9;
/// Share of a node's change from which on one function below it stands for it.
const STANDS: f64 = 1.0 / 3.0;
/// Nodes below that are named where no function stands for a node, each from this share of its change on.
const MOST_BELOW: usize = 3;
const LEAST_BELOW: f64 = 0.1;

/// One node in which a part of a gap is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapNode {
    /// The arm, against the baseline.
    pub arm: String,
    /// Names of the nodes from `user` or `kernel` down to this one.
    pub path: Vec<String>,
    /// Arm minus baseline, nanoseconds per request.
    pub delta_ns: f64,
    /// Standard error of that.
    pub delta_se_ns: f64,
    /// Its share of the gap in CPU per request; below 0 where it goes the other way.
    pub share: f64,
    /// How often it was done for a request, where that was counted.
    pub count: Option<LeafCount>,
    /// Part of the change that is because it was done more often.
    pub more_ns: Option<f64>,
    /// Part of the change that is because it took longer each time.
    pub dearer_ns: Option<f64>,
    /// The function of the program's own code from which most of it came.
    pub via: Option<String>,
    /// Where no such function stands for it: what holds most of it of what is below, largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// The cause to which most of it belongs.
    pub cause: Option<CauseId>,
    /// What happened to the place of most of it between both arms, where they are revisions of one repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Change>,
    /// Where that is the same code: the changed line that calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Place>,
}

/// A node as a table shows it: the sum of the leaves below it.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeNode {
    /// How many nodes are above it, the root not counted.
    pub depth: usize,
    /// Its name.
    pub name: String,
    /// In the baseline and in the arm, nanoseconds per request.
    pub ns: [f64; 2],
    /// Standard error of the change.
    pub delta_se_ns: f64,
    /// How often it was done for a request, where that was counted.
    pub count: Option<LeafCount>,
    /// Parts of the change that are more of it, and dearer each.
    pub parts: Option<[f64; 2]>,
    /// Where it is, of a leaf.
    pub place: Option<Place>,
}

/// The nodes of the tree of one arm, the whole first, each above those below it, largest change first; those that in both
/// arms are below `least`, a share of the larger CPU time, are one node, so that what is below a node sums to it.
#[must_use]
pub fn nodes(rows: &[&AttributionRow], least: f64) -> Vec<TreeNode> {
    if rows.is_empty() {
        return Vec::new();
    }
    let root = root(rows);
    let least_ns = least * root.ns[0].max(root.ns[1]);
    let mut nodes = vec![root.shown(0, WHOLE.to_owned())];
    list(&root, 1, least_ns, &mut nodes);
    nodes
}

/// The first node: CPU time of what all below it is.
const WHOLE: &str = "a request";
/// Nodes that are too small for a row each.
const SMALLER: &str = "smaller ones, together";

fn list(node: &Node, depth: usize, least_ns: f64, nodes: &mut Vec<TreeNode>) {
    let mut children: Vec<_> = node.children.iter().collect();
    children.sort_by(|a, b| b.1.delta().abs().total_cmp(&a.1.delta().abs()));
    let is_small = |child: &Node| child.ns[0].max(child.ns[1]) < least_ns;
    for (name, child) in children.iter().filter(|(_, child)| !is_small(child)) {
        let (mut name, mut only) = ((**name).to_owned(), *child);
        // One below another that has nothing else is one row with it.
        while let Some((below, next)) = only.children.iter().next().filter(|_| only.children.len() == 1) {
            name = format!("{name} › {below}");
            only = next;
        }
        nodes.push(child.shown(depth, name));
        list(only, depth + 1, least_ns, nodes);
    }
    let mut rest = Node::default();
    children.iter().filter(|(_, child)| is_small(child)).for_each(|(_, child)| rest.take(child));
    if rest.ns[0].max(rest.ns[1]) > 0.0 {
        nodes.push(TreeNode { count: None, parts: None, ..rest.shown(depth, SMALLER.to_owned()) });
    }
}

/// A node: the sum of the leaves below it.
#[derive(Default)]
struct Node<'a> {
    ns: [f64; 2],
    rows: Vec<&'a AttributionRow>,
    children: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn add(&mut self, row: &'a AttributionRow, path: &[&'a str]) {
        self.ns[0] += row.baseline_ns;
        self.ns[1] += row.arm_ns;
        self.rows.push(row);
        if let Some((first, below)) = path.split_first() {
            self.children.entry(first).or_default().add(row, below);
        }
    }

    /// Adds the leaves of another node, of which it then says nothing but their sum.
    fn take(&mut self, other: &Node<'a>) {
        self.ns[0] += other.ns[0];
        self.ns[1] += other.ns[1];
        self.rows.extend(&other.rows);
    }

    fn shown(&self, depth: usize, name: String) -> TreeNode {
        let (count, parts) = self.counted();
        let place = if let [leaf] = self.rows[..] { leaf.place.clone() } else { None };
        TreeNode { depth, name, ns: self.ns, delta_se_ns: self.error_ns(), count, parts, place }
    }

    fn delta(&self) -> f64 {
        self.ns[1] - self.ns[0]
    }

    /// Its count, and its change as more of it and dearer each.
    fn counted(&self) -> (Option<LeafCount>, Option<[f64; 2]>) {
        let count = count(&self.rows);
        let parts = count.and_then(|count| parts([count.baseline, count.arm], self.ns));
        (count.filter(|_| parts.is_some()), parts)
    }

    /// Standard error of its change: of the sum of all below it, and not the sum of theirs.
    fn error_ns(&self) -> f64 {
        error_ns(&self.rows)
    }

    fn is_sure(&self) -> bool {
        self.delta().abs() > SURE * self.error_ns()
    }
}

/// A node that may be said, with its path.
struct Candidate<'a, 'b> {
    path: Vec<&'a str>,
    node: &'b Node<'a>,
}

/// What is said of one arm.
#[derive(Default)]
pub(crate) struct Said {
    /// The nodes in which the gap is.
    pub(crate) rows: Vec<GapNode>,
    /// What is left of it, as far as that has names; largest first.
    pub(crate) smaller: Vec<GapNode>,
}

/// What is said of one arm: from the root down as long as one node holds most of the change, then beside it the largest that
/// brings the sum of what is said nearer to the gap, until enough of the gap is said: where what was saved was paid for in
/// another place, both are said. Then what is left, in the same order but node by node.
pub(crate) fn gap_nodes(arm: &str, rows: &[&AttributionRow]) -> Said {
    let root = root(rows);
    let gap = root.delta();
    let mut open: Vec<Candidate> = children(&[], &root);
    let (mut said, mut sum) = (Said::default(), 0.0);
    while said.rows.len() + said.smaller.len() < MOST_NAMED {
        let left = gap - sum;
        let weight = |candidate: &Candidate| match candidate.node.delta() {
            delta if said.rows.is_empty() => delta.abs(),
            delta => delta * left.signum(),
        };
        let Some(largest) = (0..open.len()).max_by(|a, b| weight(&open[*a]).total_cmp(&weight(&open[*b])))
        else {
            break;
        };
        let is_within = |enough: f64, least: f64| {
            left.abs() > (1.0 - enough) * gap.abs() && weight(&open[largest]) >= least * gap.abs()
        };
        let is_row = said.rows.len() < MOST && said.smaller.is_empty() && is_within(ENOUGH, LEAST);
        if !is_row && !is_within(NAMED, LEAST_NAMED) {
            break;
        }
        let largest = open.swap_remove(largest);
        let (candidate, least) = match is_row {
            true => (descend(largest, &mut open), LEAST),
            false => (largest, LEAST_NAMED),
        };
        let parts = worth_saying(&candidate, least * gap);
        if !parts.is_empty() {
            open.extend(parts);
        } else if candidate.node.is_sure() {
            sum += candidate.node.delta();
            let of = if is_row { &mut said.rows } else { &mut said.smaller };
            of.push(gap_node(arm, &candidate, gap));
        }
    }
    said
}

fn root<'a>(rows: &[&'a AttributionRow]) -> Node<'a> {
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows {
        if let Some((same, call)) = alike(row) {
            calls.entry(same).or_default().insert(call);
        }
    }
    let mut root = Node::default();
    for row in rows {
        let mut path: Vec<&str> = row.path.iter().map(String::as_str).collect();
        if let Some((same, _)) = alike(row).filter(|(same, _)| calls[same].len() > 1) {
            path.insert(1, same);
        }
        root.add(row, &path);
    }
    root
}

/// What the system call of a row does, where other calls do the same, and the call.
fn alike(row: &AttributionRow) -> Option<(&'static str, &str)> {
    let [_, call, on, ..] = &row.path[..] else { return None };
    does_the_same(call, on).map(|same| (same, call.as_str()))
}

fn children<'a, 'b>(path: &[&'a str], node: &'b Node<'a>) -> Vec<Candidate<'a, 'b>> {
    let below = |(name, node): (&&'a str, &'b Node<'a>)| Candidate { path: [path, &[*name]].concat(), node };
    node.children.iter().map(below).collect()
}

/// The deepest node that holds most of the change of all above it; what is passed on the way stays open. What has no name of its own
/// says less than the node above it.
fn descend<'a, 'b>(mut at: Candidate<'a, 'b>, open: &mut Vec<Candidate<'a, 'b>>) -> Candidate<'a, 'b> {
    loop {
        let mut below = children(&at.path, at.node);
        // One that holds far more has others beside it that take it back, as where one call stands for another.
        let is_most = |part: f64| (HOLDS..=1.0 / HOLDS).contains(&part);
        let nameless = [Does::Other.word(), SMALL_ONES];
        let is_named = |one: &Candidate| one.path.last().is_some_and(|name| !nameless.contains(name));
        let holds = |one: &Candidate| {
            is_named(one) && is_most(one.node.delta() / at.node.delta()) && one.node.is_sure()
        };
        let Some(place) = below.iter().position(holds) else { return at };
        at = below.swap_remove(place);
        open.extend(below);
    }
}

/// Of a node that says little, the nodes below it where they are worth saying: of a whole side, user or kernel, where any of them is; of
/// kinds of work that tell whose code it is and not what it does, where few hold most of it. Code that is spread over many packages is
/// said as a whole.
fn worth_saying<'a, 'b>(candidate: &Candidate<'a, 'b>, least_ns: f64) -> Vec<Candidate<'a, 'b>> {
    let least_held = match candidate.path[..] {
        [_] => 0.0,
        [_, _] if is_whose(&candidate.path) => HOLDS,
        _ => return Vec::new(),
    };
    let below = children(&candidate.path, candidate.node);
    let worth = |one: &&Candidate| one.node.is_sure() && one.node.delta().abs() >= least_ns.abs();
    let mut held: Vec<f64> = below.iter().filter(worth).map(|one| one.node.delta()).collect();
    held.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
    let most = held.iter().take(MOST).sum::<f64>() / candidate.node.delta();
    if !held.is_empty() && most >= least_held { below } else { Vec::new() }
}

/// Whether a node says whose code it is, and not what that does.
fn is_whose(path: &[&str]) -> bool {
    let kinds = [Category::Handler, Category::Runtime].map(Category::word);
    matches!(path, ["user", kind, ..] if kinds.contains(kind) || kind.ends_with(AND_BELOW))
}

/// The functions of the program's own code that asked for what these rows grew by, with how much; most first.
pub(crate) fn asked<'a>(rows: impl Iterator<Item = &'a AttributionRow>, sign: f64) -> Vec<(&'a str, f64)> {
    let mut by: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows {
        if let Some(via) = row.via.as_deref() {
            *by.entry(via).or_default() += sign * row.delta_ns;
        }
    }
    let mut by: Vec<_> = by.into_iter().collect();
    by.sort_by(|a, b| b.1.total_cmp(&a.1));
    by
}

fn gap_node(arm: &str, candidate: &Candidate, gap: f64) -> GapNode {
    let node = candidate.node;
    let (count, parts) = node.counted();
    let largest = node.rows.iter().max_by(|a, b| a.delta_ns.abs().total_cmp(&b.delta_ns.abs()));
    let stands = largest.is_some_and(|row| row.delta_ns / node.delta() >= STANDS);
    let is_own = is_whose(&candidate.path);
    let asked = asked(node.rows.iter().copied(), node.delta().signum());
    let most_asked = asked.first().map(|(name, _)| (*name).to_owned());
    GapNode {
        arm: arm.to_owned(),
        path: candidate.path.iter().map(|name| (*name).to_owned()).collect(),
        delta_ns: node.delta(),
        delta_se_ns: node.error_ns(),
        share: node.delta() / gap,
        count,
        more_ns: parts.map(|parts| parts[0]),
        dearer_ns: parts.map(|parts| parts[1]),
        via: if is_own { largest.and_then(|row| row.via.clone()) } else { most_asked },
        below: if is_own && !stands { most_below(node) } else { Vec::new() },
        cause: largest.and_then(|row| row.cause),
        changed: largest.and_then(|row| row.changed),
        caller: largest.and_then(|row| row.caller.clone()),
    }
}

/// The nodes right below one that hold most of its change, largest first.
fn most_below(node: &Node) -> Vec<String> {
    let share = |below: &Node| below.delta() / node.delta();
    let is_told = |(name, below): &(&&str, &Node)| **name != SMALL_ONES && share(below) >= LEAST_BELOW;
    let mut below: Vec<_> = node.children.iter().filter(is_told).collect();
    below.sort_by(|a, b| share(b.1).total_cmp(&share(a.1)));
    below.iter().take(MOST_BELOW).map(|(name, _)| (**name).to_owned()).collect()
}

/// The count of a node: that which all its leaves share, where they are of one call those but its switches; of calls that do the
/// same, the sum of theirs.
fn count(rows: &[&AttributionRow]) -> Option<LeafCount> {
    let mut by_call: BTreeMap<Option<&str>, Vec<&AttributionRow>> = BTreeMap::new();
    for row in rows {
        by_call.entry(alike(row).map(|(_, call)| call)).or_default().push(row);
    }
    if by_call.len() < 2 || by_call.contains_key(&None) {
        return count_of_one(rows);
    }
    let counts: Option<Vec<LeafCount>> = by_call.values().map(|rows| count_of_one(rows)).collect();
    let sum = |figure: fn(&LeafCount) -> f64| counts.as_ref().map(|all| all.iter().map(figure).sum());
    Some(LeafCount { baseline: sum(|count| count.baseline)?, arm: sum(|count| count.arm)? })
}

fn count_of_one(rows: &[&AttributionRow]) -> Option<LeafCount> {
    let is_switch = |row: &&&AttributionRow| row.path.last().is_some_and(|does| does == Does::Switch.word());
    let calls: Vec<_> = rows.iter().filter(|row| rows.len() == 1 || !is_switch(row)).collect();
    let first = calls.first()?.count?;
    calls.iter().all(|row| row.count == Some(first)).then_some(first)
}
