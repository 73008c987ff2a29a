//! What ended the waits of every arm's threads, as rows that sum to their idle time.

use std::collections::BTreeMap;

use model::plan::Arm;
use model::record::{EndedBy, Frame};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tree::Place;
use crate::facts::Facts;
use crate::facts::changes::within;
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
    facts.sheet.plan().arms.iter().flat_map(|arm| of_arm(facts, arm)).collect()
}

fn of_arm(facts: &Facts, arm: &Arm) -> Vec<WaitRow> {
    let checkout = arm.source.revision().map(|revision| revision.checkout.as_str());
    let rows = arm_rows(&arm.name, &waited(&facts.sheet, &arm.name, &facts.passes));
    let named = |row: WaitRow| {
        let [place, woken_from] =
            [row.place, row.woken_from].map(|place| place.map(|place| within_checkout(place, checkout)));
        WaitRow { place, woken_from, ..row }
    };
    rows.into_iter().map(named).collect()
}

/// A place whose file is named from the arm's checkout on, and not from the cache that this is in.
pub(super) fn within_checkout(mut place: Place, checkout: Option<&str>) -> Place {
    let path = checkout.zip(place.file.as_ref()).and_then(|(folder, file)| within(folder, file));
    place.file = path.or(place.file.take());
    place
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
    Place::of(frame, brief(&frame.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_assembler_of_a_c_library_is_no_place() {
        let frame = |file: &str| Frame {
            name: "readlink".to_owned(),
            file: Some(file.to_owned()),
            line: Some(117),
            ..Frame::default()
        };
        let at = |file| (place(&frame(file)).file.is_some(), place(&frame(file)).line);
        assert_eq!(at("../sysdeps/unix/syscall-template.S"), (false, None));
        assert_eq!(at("io/readlink.c"), (true, Some(117)));
    }

    #[test]
    fn files_of_an_arm_from_git_are_named_from_its_checkout_on() {
        let named = |file: &str, checkout| {
            let place = Place {
                function: "bill".to_owned(),
                file: Some(file.to_owned()),
                line: Some(3),
                commit: None,
            };
            within_checkout(place, checkout).file.unwrap()
        };
        let (folder, own) =
            ("/home/me/.cache/whyslow/builds/1", "/home/me/.cache/whyslow/builds/1/app/shop.py");
        assert_eq!(named(own, None), own);
        assert_eq!(named(own, Some(folder)), "app/shop.py");
        let other = "/usr/lib/python3.11/queue.py";
        assert_eq!(named(other, Some(folder)), other);
    }
}
