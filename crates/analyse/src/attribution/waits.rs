//! What ended the waits of every arm's threads, as rows that sum to their idle time.

use std::collections::BTreeMap;

use model::record::{EndedBy, Frame};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::Place;
use crate::facts::Facts;
use crate::facts::functions::brief;
use crate::facts::waits::{Waited, waited};

/// Rows of an arm that have a place, longest first.
const MOST_PLACED: usize = 16;

/// Idle time of an arm's threads that one thing ended, in nanoseconds per request; all rows of an arm sum to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitRow {
    /// The arm.
    pub arm: String,
    /// What ended the waits.
    pub ended_by: EndedBy,
    /// Where another thread ended them: what had ended its own last wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<EndedBy>,
    /// Who ended them: a thread of the server, or a process and its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Where the thread waited.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Where the other one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub woken_from: Option<Place>,
    /// Threads' idle time of a request.
    pub ns_per_request: f64,
    /// Waits of a request.
    pub count_per_request: f64,
}

/// The rows of every arm whose wakers were seen, longest first.
pub(crate) fn rows(facts: &Facts) -> Vec<WaitRow> {
    let of_arm = |arm: &str| arm_rows(arm, &waited(&facts.sheet, arm, &facts.passes));
    facts.sheet.plan().arms.iter().flat_map(|arm| of_arm(&arm.name)).collect()
}

fn arm_rows(arm: &str, waits: &[Waited]) -> Vec<WaitRow> {
    let mut rows: Vec<WaitRow> = Vec::new();
    for one in waits {
        let [place, woken_from] = [&one.waited_in, &one.woken_from].map(|frame| frame.as_ref().map(place));
        let function = |place: &Option<Place>| place.as_ref().map(|place| place.function.clone());
        let key = |row: &WaitRow| {
            (row.ended_by, row.behind, row.by.clone(), function(&row.place), function(&row.woken_from))
        };
        let row = WaitRow {
            arm: arm.to_owned(),
            ended_by: one.ended_by,
            behind: one.behind,
            by: one.by.clone(),
            place,
            woken_from,
            ns_per_request: one.ns,
            count_per_request: one.count,
        };
        match rows.iter_mut().find(|other| key(other) == key(&row)) {
            Some(same) => add(same, &row),
            None => rows.push(row),
        }
    }
    rows.sort_by(|a, b| b.ns_per_request.total_cmp(&a.ns_per_request));
    let mut rest: BTreeMap<EndedBy, WaitRow> = BTreeMap::new();
    for row in rows.split_off(rows.len().min(MOST_PLACED)) {
        let plain = WaitRow { behind: None, by: None, place: None, woken_from: None, ..row };
        rest.entry(plain.ended_by).and_modify(|sum| add(sum, &plain)).or_insert(plain);
    }
    rows.extend(rest.into_values());
    rows
}

fn add(sum: &mut WaitRow, row: &WaitRow) {
    sum.ns_per_request += row.ns_per_request;
    sum.count_per_request += row.count_per_request;
}

/// A function as a place.
pub(crate) fn place(frame: &Frame) -> Place {
    Place { function: brief(&frame.name), file: frame.file.clone(), line: frame.line, commit: None }
}
