//! What explains a part of a difference, and how well that is supported.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::EndedBy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parked::ParkedRow;
use super::seen::{Both, EndedWaits, Seen};
use super::tree::{AttributionRow, Place};
use super::waits::WaitRow;

/// How well a cause is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// An identity on measured counters.
    AccountsFor,
    /// A count times a calibrated cost.
    BoundedBy,
    /// An association in a profile or trace.
    ConsistentWith,
    /// An intervention removed it.
    ConfirmedBy,
    /// It cannot carry enough to matter.
    RuledOut,
}

/// Something that explains a part of the difference, or was ruled out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable name.
    pub id: CauseId,
    /// How well it is supported.
    pub grade: Grade,
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// What it carries, in nanoseconds per request; positive where the arm costs more.
    pub ns_per_request: f64,
    /// Its share of the gap, −1 to 1 and beyond where causes cancel.
    pub share: Option<f64>,
    /// Where most of it is, of what has a place: that of a row of `goroutines` where goroutines wait for it, of a row of `waits` where threads
    /// do, else of a row of `attribution`.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// One sentence.
    pub text: String,
    /// What that sentence is made from.
    #[serde(skip)]
    pub says: Option<CauseSays>,
}

impl Cause {
    /// The same with its place, by the rows of all arms.
    pub(super) fn placed<'a>(
        self,
        rows: impl Iterator<Item = &'a AttributionRow>,
        waits: &[WaitRow],
        parked: &[ParkedRow],
    ) -> Self {
        let own = rows.filter(|row| row.arm == self.arm && row.cause == Some(self.id));
        let waited = self.parked_in(parked).or_else(|| self.waited_in(waits)).or_else(|| self.only_there());
        let place = waited.or_else(|| most_of(own, self.ns_per_request.signum()));
        Self { place, ..self }
    }

    /// The function that the faster server does not run.
    fn only_there(&self) -> Option<Place> {
        self.says.as_ref()?.seen.iter().find_map(|seen| match seen {
            Seen::OnlyThere { place, .. } => Some(place.clone()),
            _ => None,
        })
    }

    /// Where the goroutines of the slower server waited for it.
    fn parked_in(&self, parked: &[ParkedRow]) -> Option<Place> {
        let says = self.says.as_ref()?;
        let seen = says.seen.iter().find_map(|seen| match seen {
            Seen::Parked(seen) => Some(seen),
            _ => None,
        })?;
        let slower = says.of.as_ref().unwrap_or(&self.arm);
        let of_slower = parked.iter().filter(|row| row.arm == *slower && row.waits_for == seen.waits_for);
        of_slower.filter_map(|row| row.place.clone()).find(|place| place.function == seen.function)
    }

    /// Where the threads of the slower server waited longest for it.
    fn waited_in(&self, waits: &[WaitRow]) -> Option<Place> {
        let says = self.says.as_ref()?;
        let slower = says.of.as_ref().unwrap_or(&self.arm);
        let of_slower = || waits.iter().filter(|row| row.arm == *slower);
        says.seen.iter().find_map(|seen| match seen {
            // All timers of a loop are waited for in one place.
            Seen::Waits(EndedWaits { runs: Some(place), .. }) => Some(place.clone()),
            // A function that waits for a lock may also sleep, in another line.
            Seen::Waits(ended) => within(
                of_slower().filter(|row| may_end(ended.cause, row.ended_by)),
                ended.waited_in.as_ref()?,
            ),
            Seen::FewAtATime { functions, .. } => within(of_slower(), functions.first()?),
            _ => None,
        })
    }
}

/// The place of the first of these waits in a function.
fn within<'a>(mut rows: impl Iterator<Item = &'a WaitRow>, function: &str) -> Option<Place> {
    rows.find_map(|row| row.place.clone().filter(|place| place.function == function))
}

/// Whether waits of a cause may end so.
fn may_end(cause: CauseId, ended_by: EndedBy) -> bool {
    match cause {
        CauseId::Sleep | CauseId::TimerWait => ended_by == EndedBy::Timer,
        CauseId::LockContention => matches!(ended_by, EndedBy::Lock | EndedBy::Thread),
        CauseId::SyncWrites => ended_by == EndedBy::Disk,
        CauseId::BackendWait => ended_by == EndedBy::Service,
        CauseId::ChildProcesses => ended_by == EndedBy::Child,
        _ => true,
    }
}

/// Nodes from the first below the root to the package of a leaf of the program, or to what a call of the kernel is on.
const PACKAGE: usize = 3;
/// Packages of Node itself: what they do is asked for by JavaScript, which is the place if it is seen.
const OF_NODE: [&str; 2] = ["node", "v8"];

/// The place of the row that changed most in the direction of `sign`, of the function that did so, in the package that did; nothing where no
/// row has one.
fn most_of<'a>(rows: impl Iterator<Item = &'a AttributionRow>, sign: f64) -> Option<Place> {
    // What has no name of its own stands for all of it in a library.
    let is_named = |place: &&Place| !place.function.starts_with('[');
    let placed = rows.filter_map(|row| Some((row, row.place.as_ref().filter(is_named)?)));
    let is_of_node =
        |row: &AttributionRow| row.path.get(PACKAGE - 1).is_some_and(|name| OF_NODE.contains(&name.as_str()));
    let (of_node, others): (Vec<_>, Vec<_>) = placed.partition(|(row, _)| is_of_node(row));
    let rows = if others.is_empty() { of_node } else { others };
    let package = |row: &'a AttributionRow| &row.path[..PACKAGE.min(row.path.len())];
    let function = |place: &'a Place| (place.function.as_str(), place.file.as_deref());
    let change = |row: &AttributionRow| sign * row.delta_ns;
    let in_package = largest(rows.iter().map(|(row, _)| (package(row), change(row))))?;
    let rows = || rows.iter().filter(|(row, _)| package(row) == in_package);
    let most = largest(rows().map(|(row, place)| (function(place), change(row))))?;
    let of_most = rows().filter(|(_, place)| function(place) == most);
    of_most.max_by(|a, b| change(a.0).total_cmp(&change(b.0))).map(|(_, place)| (*place).clone())
}

/// The name with the largest sum.
fn largest<Name: Ord>(parts: impl Iterator<Item = (Name, f64)>) -> Option<Name> {
    let mut sums: BTreeMap<Name, f64> = BTreeMap::new();
    parts.for_each(|(name, ns)| *sums.entry(name).or_default() += ns);
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
}

/// What is said of a cause.
#[derive(Debug, Clone, PartialEq)]
pub struct CauseSays {
    /// What came of putting it to the test, the last time first.
    pub tests: Vec<Tested>,
    /// The slower server, where that is the baseline: what was seen is of it.
    pub of: Option<String>,
    /// What was seen.
    pub seen: Vec<Seen>,
    /// How much that makes.
    pub carries: Carries,
}

/// How much of a gap a cause carries; times in nanoseconds per request, shares 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Carries {
    /// User or system time, by an identity.
    Split {
        /// Which of the two.
        part: CauseId,
        /// Its share of the gap in CPU time.
        share: f64,
        /// Ends of the interval of that.
        between: Option<[f64; 2]>,
        /// In the arm and in the baseline.
        ns: [f64; 2],
    },
    /// What no other cause carries of user or system time.
    Rest {
        /// Which of the two.
        part: CauseId,
        /// Its share of the gap in CPU time.
        share: f64,
    },
    /// At most this share of the gap.
    AtMost(f64),
    /// It makes the gap smaller by so much.
    Against(f64),
    /// A part of the gap.
    Part {
        /// By what kind of evidence.
        grade: Grade,
        /// How much.
        ns: f64,
        /// Its share of the gap.
        share: f64,
    },
    /// More than the gap, as other parts make that smaller.
    MoreThanGap {
        /// By what kind of evidence.
        grade: Grade,
        /// How much.
        ns: f64,
        /// The gap.
        gap_ns: f64,
    },
    /// So much that shows in neither rate nor CPU time.
    Unshown(f64),
}

/// What came of taking a cause away from both arms.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// What that says of the cause.
    pub outcome: TestOutcome,
    /// How it was taken away.
    pub with: String,
    /// The median gap as they are, and changed, in nanoseconds per request.
    pub gap_ns: Both,
    /// Ends of the interval of how much it fell.
    pub fell_ns: [f64; 2],
    /// Level of that interval, 0 to 1.
    pub level: f64,
    /// Blocks behind it.
    pub blocks: usize,
}

/// What a test says of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestOutcome {
    /// It went with the gap.
    Confirmed,
    /// The gap fell, and other suspects went with it.
    NotAlone,
    /// The gap stayed.
    RuledOut,
    /// Neither.
    NotConfirmed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::seen::EndedWaits;

    fn cause(ns_per_request: f64, seen: Vec<Seen>) -> Cause {
        Cause {
            id: CauseId::SyncWrites,
            grade: Grade::ConsistentWith,
            baseline: "main".to_owned(),
            arm: "pr".to_owned(),
            ns_per_request,
            share: None,
            place: None,
            text: String::new(),
            says: Some(CauseSays { tests: Vec::new(), of: None, seen, carries: Carries::AtMost(0.0) }),
        }
    }

    fn place(function: &str, line: u32) -> Option<Place> {
        let (function, file) = (function.to_owned(), Some("src/shop.c".to_owned()));
        Some(Place { function, file, line: Some(line), commit: None })
    }

    fn row(cause: CauseId, place: Option<Place>, delta_ns: f64) -> AttributionRow {
        AttributionRow {
            arm: "pr".to_owned(),
            cause: Some(cause),
            place,
            delta_ns,
            ..AttributionRow::default()
        }
    }

    #[test]
    fn a_cause_is_where_most_of_it_is_of_what_has_a_place() {
        let id = CauseId::SyncWrites;
        let rows = [
            row(id, None, 500.0),
            row(CauseId::Copying, place("copy", 1), 400.0),
            row(id, place("one", 10), 100.0),
            // Two lines of a function are more than one of another, and the longer one is said.
            row(id, place("two", 20), 60.0),
            row(id, place("two", 21), 70.0),
            row(id, place("saved", 30), -300.0),
        ];
        let at = |ns, rows: &[AttributionRow]| cause(ns, Vec::new()).placed(rows.iter(), &[], &[]).place;
        assert_eq!(at(800.0, &rows), place("two", 21));
        assert_eq!(at(-200.0, &rows), place("saved", 30), "what makes the gap smaller");
        assert_eq!(at(200.0, &rows[5..]), place("saved", 30), "the only one that there is");
        assert_eq!(at(800.0, &rows[..2]), None, "of another cause");
        let other = AttributionRow { arm: "other".to_owned(), ..rows[2].clone() };
        assert_eq!(at(800.0, &[other]), None, "of another arm");
    }

    #[test]
    fn a_cause_is_in_the_package_that_has_most_of_it_and_not_in_the_runtime_of_the_language() {
        let id = CauseId::SyncWrites;
        let of = |package: &str, function: &str, ns| {
            let path = ["user", "own code", package].map(str::to_owned).to_vec();
            AttributionRow { path, ..row(id, place(function, 1), ns) }
        };
        let rows = [
            of("asyncio", "writelines", 100.0),
            of("redis-server", "[redis-server]", 80.0),
            of("redis-server", "dictNext", 70.0),
            of("redis-server", "keysCommand", 60.0),
            of("v8", "Map.prototype.set", 900.0),
        ];
        let at = |rows: &[AttributionRow]| cause(300.0, Vec::new()).placed(rows.iter(), &[], &[]).place;
        assert_eq!(at(&rows), place("dictNext", 1));
        assert_eq!(at(&rows[..1]), place("writelines", 1));
        assert_eq!(at(&rows[4..]), place("Map.prototype.set", 1), "nobody else is seen");
    }

    #[test]
    fn what_threads_wait_for_is_where_they_wait() {
        let ended = EndedWaits {
            cause: CauseId::SyncWrites,
            ended_by: EndedBy::Disk,
            by: None,
            waited_in: Some("store".to_owned()),
            woken_from: None,
            behind: None,
            runs: None,
            ns: 5.0,
            other_ns: Some(0.0),
        };
        let wait = |arm: &str, place| WaitRow {
            arm: arm.to_owned(),
            ended_by: EndedBy::Disk,
            behind: None,
            by: None,
            place,
            woken_from: None,
            ns_per_request: 5.0,
            count_per_request: 1.0,
        };
        let rows = [row(CauseId::SyncWrites, place("one", 10), 100.0)];
        let waits = [
            wait("main", place("store", 1)),
            WaitRow { ended_by: EndedBy::Timer, ..wait("pr", place("store", 3)) },
            wait("pr", None),
            wait("pr", place("store", 2)),
        ];
        let cause = cause(5.0, vec![Seen::Waits(ended)]);
        assert_eq!(cause.clone().placed(rows.iter(), &waits, &[]).place, place("store", 2));
        assert_eq!(
            cause.placed(rows.iter(), &waits[..3], &[]).place,
            place("one", 10),
            "no row says where that is"
        );
    }
}
