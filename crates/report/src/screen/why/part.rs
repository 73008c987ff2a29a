//! Parts of a gap in words: causes, and nodes of the tree.

use analyse::{Blocked, Carries, Cause, EndedWaits, Findings, GapNode, Grade, LeafCount, Seen, ServiceGap};
use model::plan::CauseId;
use model::record::{EndedBy, WaitsFor};

use crate::screen::layout::{count, from_to, short, short_function};
use crate::waits::at;
use crate::words::names::{
    cause_words, change_words, counted_by, grade_word, is_own_code, is_with_callees, node_name, node_words,
};
use crate::words::waits_for_words;

/// So many times what its largest node has, a cause that is counted has a row for all of them.
const SPREAD: f64 = 1.25;
/// Calls that are named of such a cause.
const CALLS: usize = 3;

/// One part of a gap.
pub(super) struct Part {
    /// Arm minus baseline, in nanoseconds per request.
    pub(super) ns: f64,
    /// What it is called.
    pub(super) name: &'static str,
    /// The same where no cause has a name for it, with counts.
    pub(super) words: String,
    /// How sure it is.
    pub(super) grade: &'static str,
}

impl Part {
    pub(super) fn of_cause(findings: &Findings, cause: &Cause) -> Self {
        let words = match cause.id {
            CauseId::ServiceBeside => services(findings, &cause.arm),
            id => {
                let place = place(findings, cause).unwrap_or_default();
                let often = || how_often(findings, cause);
                match (waits_for(cause), id) {
                    (Some(what), CauseId::BackendWait | CauseId::BackendCalls) => {
                        format!("{what}{place}{}", often())
                    }
                    (Some(what), _) => format!("{what}{place}"),
                    (None, _) => format!("{}{place}{}", cause_words(id), often()),
                }
            }
        };
        Self::with_words(cause, words)
    }

    fn with_words(cause: &Cause, words: String) -> Self {
        Self {
            ns: cause.ns_per_request,
            name: cause_words(cause.id),
            words,
            grade: grade_word(if may_be_none(cause) { Grade::ConsistentWith } else { cause.grade }),
        }
    }

    fn of_node(findings: &Findings, node: &GapNode) -> Self {
        let counts = node.count.map_or_else(String::new, |both| {
            let kind = node.cause.map_or("", |id| switches_are(findings, &node.arm, id));
            format!("{}{kind}", a_request(both))
        });
        let asked_by =
            asked_by(node).filter(|_| node.via.as_ref().is_none_or(|via| !node.path.contains(via)));
        let below: Vec<String> = node.below.iter().map(|name| short_function(name)).collect();
        let via = match &below[..] {
            [] => asked_by.unwrap_or_default(),
            // The words before it say in which library.
            below if node.path.len() > 2 && !is_own_code(&node.path) => format!(": {}", below.join(", ")),
            below => format!(" in {}", below.join(", ")),
        };
        let changed = node
            .changed
            .map_or_else(String::new, |change| format!("; {}", change_words(change, node.caller.as_ref())));
        let grade = node.cause.and_then(|id| {
            let mut causes = findings.causes.iter();
            causes.find(|cause| cause.arm == node.arm && cause.id == id).map(|cause| cause.grade)
        });
        Self {
            ns: node.delta_ns,
            name: node.cause.map_or("what is not known", cause_words),
            words: match &below[..] {
                [_, ..] if is_with_callees(&node.path) => format!("{} and what they call", below.join(", ")),
                _ => format!("{}{via}{counts}{changed}", node_words(&node.path)),
            },
            grade: grade_word(
                grade.filter(|grade| *grade != Grade::RuledOut).unwrap_or(Grade::ConsistentWith),
            ),
        }
    }
}

/// How often a request does something, in the baseline and in the arm.
fn a_request(times: LeafCount) -> String {
    format!(", {} → {} a request", count(times.baseline), count(times.arm))
}

/// What is waited for, where that is known better than by the name of the cause: which server; the lock of a file; another thread, which may hold
/// no lock; and what goroutines wait for, where of their threads it is only known how long they sleep, or that they do.
fn waits_for(cause: &Cause) -> Option<String> {
    let is_unnamed = matches!(cause.id, CauseId::TimerWait | CauseId::Stalls);
    cause.says.iter().flat_map(|says| &says.seen).find_map(|seen| match seen {
        Seen::Parked(parked) if is_unnamed && parked.waits_for != WaitsFor::Sleep => {
            Some(format!("goroutines that wait for {}", waits_for_words(parked.waits_for)))
        }
        Seen::WaitsInCalls { what: Some(Blocked::FileLock), .. } => {
            Some("threads that wait for a file lock".to_owned())
        }
        Seen::Waits(EndedWaits { cause: CauseId::LockContention, ended_by: EndedBy::Thread, .. }) => {
            Some("waiting for another of its threads or processes".to_owned())
        }
        Seen::Waits(EndedWaits { cause: CauseId::BackendWait, by: Some(who), .. }) => {
            let does = if cause.id == CauseId::BackendCalls { "calls to" } else { "waiting for" };
            Some(format!("{does} {who}"))
        }
        _ => None,
    })
}

/// Where most of a cause is: where threads or goroutines waited, what a timer runs, or the place of its largest node.
fn place(findings: &Findings, cause: &Cause) -> Option<String> {
    let within = |function: &String| format!(" in {}", short_function(function));
    let waited = cause.says.iter().flat_map(|says| &says.seen).find_map(|seen| match seen {
        Seen::Waits(EndedWaits { runs: Some(place), .. }) => Some(format!(" to run {}", at(place))),
        Seen::Waits(waits) => waits.waited_in.as_ref().map(within),
        Seen::Parked(parked) => Some(within(&parked.function)),
        Seen::WaitsInCalls { functions, .. } | Seen::FewAtATime { functions, .. } => {
            functions.first().map(within)
        }
        _ => None,
    });
    if waited.is_some() {
        return waited;
    }
    let nodes = findings.said.iter().chain(&findings.smaller).filter(|node| {
        node.arm == cause.arm && node.cause == Some(cause.id) && node.delta_ns * cause.ns_per_request > 0.0
    });
    let largest = nodes.max_by(|a, b| a.delta_ns.abs().total_cmp(&b.delta_ns.abs()))?;
    let below = largest.below.first().map(|function| format!(" in {}", short_function(function)));
    below.or_else(|| asked_by(largest))
}

/// The function that asked for a node, with the word before it.
fn asked_by(node: &GapNode) -> Option<String> {
    // Collectors and compilers work for the whole program.
    let via = node.via.as_ref().filter(|_| !matches!(node.cause, Some(CauseId::Gc | CauseId::Compiling)))?;
    let is_own = node.cause == Some(CauseId::OwnCode) || is_own_code(&node.path);
    Some(format!(" {} {}", if is_own { "in" } else { "for" }, short_function(via)))
}

/// Whether a part of the CPU time has an interval with none at all in it.
fn may_be_none(cause: &Cause) -> bool {
    let carries = cause.says.as_ref().map(|says| &says.carries);
    matches!(carries, Some(Carries::Split { between: Some([low, high]), .. }) if *low <= 0.0 && *high >= 0.0)
}

/// What is said of an arm by its tree, and the causes whose nodes have one row together; nothing where it was not sampled.
pub(super) fn of_tree(findings: &Findings, arm: &str) -> (Vec<Part>, Vec<CauseId>) {
    let nodes: Vec<&GapNode> = findings.said.iter().filter(|node| node.arm == arm).collect();
    // What was not sampled has no parts, and counts alone tell.
    let sampled = nodes.iter().all(|node| node.cause.is_some());
    let nodes: Vec<GapNode> = if sampled { by_function(&nodes) } else { Vec::new() };
    let rows = counted_rows(findings, arm, &nodes);
    let together: Vec<CauseId> = rows.iter().map(|(id, _)| *id).collect();
    let apart = nodes.iter().filter(|node| node.cause.is_none_or(|id| !together.contains(&id)));
    let parts = apart.map(|node| Part::of_node(findings, node));
    (parts.chain(rows.into_iter().map(|(_, part)| part)).collect(), together)
}

/// Causes that are counted and of which no node has most, or none is large: several calls of one connection, say. Each as one part.
fn counted_rows(findings: &Findings, arm: &str, nodes: &[GapNode]) -> Vec<(CauseId, Part)> {
    let of_arm = findings.causes.iter().filter(|cause| cause.arm == arm && cause.grade != Grade::RuledOut);
    let sampled = nodes.iter().any(|node| node.cause.is_some());
    let is_spread = |cause: &&Cause| {
        let own = nodes.iter().filter(|node| node.cause == Some(cause.id));
        let largest = own.map(|node| node.delta_ns.abs()).max_by(f64::total_cmp);
        largest.map_or(sampled, |largest| cause.ns_per_request.abs() > SPREAD * largest)
    };
    let counted = of_arm.filter(|cause| !counted_by(cause.id).is_empty()).filter(is_spread);
    let row = |cause: &Cause| {
        let all = findings.said.iter().chain(&findings.smaller);
        // What is counted is a call; entering the kernel for it has no name of its own.
        let own = all.filter(|node| node.arm == arm && node.cause == Some(cause.id));
        let mut calls: Vec<(&str, LeafCount)> = Vec::new();
        for (call, times) in own.filter_map(|node| Some((node_name(&node.path), node.count?))) {
            if calls.len() < CALLS && !calls.iter().any(|(other, _)| *other == call) {
                calls.push((call, times));
            }
        }
        let often = match (cause.id, &calls[..]) {
            // The ledger has all calls: more than those named here.
            (CauseId::ExtraSyscalls, [(_, times)]) => a_request(*times),
            (CauseId::ExtraSyscalls, [_, _, ..]) => format!("{} in all", how_often(findings, cause)),
            _ => how_often(findings, cause),
        };
        let names: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
        let colon = if names.is_empty() { "" } else { ": " };
        let what = format!("{}{colon}{}", cause_words(cause.id), names.join(", "));
        (cause.id, Part::with_words(cause, format!("{what}{often}")))
    };
    counted.map(row).collect()
}

/// The nodes, those of lines of one function as one that has all the lines, the largest first: of the function itself the row has the name.
fn by_function(nodes: &[&GapNode]) -> Vec<GapNode> {
    let mut joined: Vec<GapNode> = Vec::new();
    for node in nodes {
        let is_same = |other: &&mut GapNode| {
            line_of(node).is_some()
                && line_of(other).is_some()
                && node.path[..LINE] == other.path[..LINE]
                && node.delta_ns * other.delta_ns > 0.0
        };
        match joined.iter_mut().find(is_same) {
            Some(other) => {
                other.delta_ns += node.delta_ns;
                other.path.extend_from_slice(&node.path[LINE..]);
            }
            None => joined.push((*node).clone()),
        }
    }
    joined
}

/// Nodes above that of a line: `user`, the kind of work, the package and the function.
const LINE: usize = 4;

/// The name of a node's line, such as `main.go:13`.
fn line_of(node: &GapNode) -> Option<&str> {
    node.path.get(LINE).map(String::as_str).filter(|_| node.path[0] == "user")
}

/// The service that differs most: what it uses for a request of the baseline and of the arm, and where.
fn services(findings: &Findings, arm: &str) -> String {
    let of_arm = findings.services.iter().filter(|gap| gap.arm == arm);
    let size = |gap: &ServiceGap| (gap.arm_ns - gap.baseline_ns).abs();
    let Some(most) = of_arm.max_by(|a, b| size(a).total_cmp(&size(b))) else { return String::new() };
    let place = most.functions.first();
    let place = place.map_or_else(String::new, |one| format!(", in {}: {}", one.module, one.name));
    format!("service {}, {}{place}", short(&most.service), from_to(most.baseline_ns, most.arm_ns))
}

/// How often a cause happens for a request. Of writes that went to files as well nobody knows how many went to the network.
fn how_often(findings: &Findings, cause: &Cause) -> String {
    writes(cause).unwrap_or_else(|| counts(findings, &cause.arm, cause.id))
}

/// How often a cause writes to the network, in the baseline and in the arm.
fn writes(cause: &Cause) -> Option<String> {
    let says = cause.says.as_ref()?;
    let known = says.seen.iter().find_map(|seen| match seen {
        Seen::Writes { writes, network, .. } => Some(network.then_some(*writes)),
        _ => None,
    })?;
    let Some([slow, fast]) = known else { return Some(String::new()) };
    let [from, to] = if says.of.is_some() { [slow, fast] } else { [fast, slow] };
    Some(a_request(LeafCount { baseline: from, arm: to }))
}

/// How often it happens for a request, in the baseline and in the arm.
fn counts(findings: &Findings, arm: &str, id: CauseId) -> String {
    let mut lines = findings.ledger.iter().filter(|line| line.arm == arm).collect::<Vec<_>>();
    lines.retain(|line| counted_by(id).iter().any(|begin| line.id.starts_with(begin)));
    let sum = |of: fn(&analyse::LedgerLine) -> f64| lines.iter().map(|line| of(line)).sum::<f64>();
    let (from, to) = (sum(|line| line.baseline), sum(|line| line.value));
    match lines.first() {
        None => String::new(),
        // The answer comes later then, or one question follows the other.
        Some(line) if line.id == "asked" && count(from) == count(to) => {
            format!(", {} a request in both", count(to))
        }
        // Something else grew: connections of UDP, say, of which none are counted.
        Some(line) if line.unit == "count" && count(from) == count(to) => String::new(),
        Some(line) if line.unit == "count" => {
            let often = a_request(LeafCount { baseline: from, arm: to });
            format!("{often}{}", switches_are(findings, arm, id))
        }
        Some(_) => format!(", {}", from_to(from, to)),
    }
}

/// What kind of context switches they are.
fn switches_are(findings: &Findings, arm: &str, id: CauseId) -> &'static str {
    let change = |name: &str| {
        let mut lines = findings.ledger.iter();
        lines.find(|line| line.arm == arm && line.id == name).map_or(0.0, |line| line.change.abs())
    };
    let (waits, interrupted) = (change("voluntary_switches"), change("involuntary_switches"));
    match id {
        CauseId::ContextSwitches if waits > interrupted => " (threads sleep and are woken)",
        CauseId::ContextSwitches => " (threads are interrupted)",
        _ => "",
    }
}
