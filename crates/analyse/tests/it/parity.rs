//! Answers that differ: what is caught, how it is named, and what comes of it.

use analyse::{Metric, Verdict, analyse, difference};
use model::record::{Answer, Run};

use crate::support::{answer, change, gates, pair};

type Change = fn(&mut Answer);

/// A change of the answer, and how it is named; nothing where both count as the same answer.
const CHANGES: [(Change, Option<&str>); 11] = [
    (|_| (), None),
    (
        |answer| add_header(answer, "X-Padding", 40),
        Some("extra header x-padding, 40 bytes more in each answer"),
    ),
    (|answer| answer.wire_bytes += 40, Some("40 bytes more in each answer")),
    (|answer| answer.wire_bytes -= 3, Some("3 bytes fewer in each answer")),
    // Under 2 % of 130 bytes: a date that is one digit shorter is no other answer.
    (|answer| answer.wire_bytes += 2, None),
    (|answer| answer.headers[2].1 = "y".to_owned(), None),
    (|answer| answer.headers[0].0 = "content-TYPE".to_owned(), None),
    (|answer| drop(answer.headers.remove(2)), Some("no header date")),
    (|answer| answer.status = 500, Some("status 500 instead of 200")),
    (|answer| answer.body_sha256 = "cd".repeat(32), Some("another body of the same 13 bytes")),
    (
        |answer| {
            answer.body_sha256 = "cd".repeat(32);
            answer.body_bytes = 12;
        },
        Some("a body of 12 bytes instead of 13"),
    ),
];

fn add_header(answer: &mut Answer, name: &str, bytes: u64) {
    answer.headers.push((name.to_owned(), "x".to_owned()));
    answer.wire_bytes += bytes;
}

fn changed(change: Change) -> Run {
    let mut run = pair(1.0);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
        change(record.answer.as_mut().unwrap());
    }
    run
}

#[test]
fn each_difference_is_named() {
    for (change, want) in CHANGES {
        let mut other = answer();
        change(&mut other);
        assert_eq!(difference(&answer(), &other).as_deref(), want);
    }
}

#[test]
fn a_difference_voids_all_and_says_how_to_go_on() {
    for (change, want) in CHANGES {
        let findings = analyse(&changed(change));
        let gate = gates(&findings, "parity")[0];
        let Some(want) = want else {
            assert!(gate.ok, "{}", gate.text);
            assert!(gate.text.starts_with("2 arms answer alike: status 200, 130 bytes"), "{}", gate.text);
            continue;
        };
        let text = format!(
            "'pr' does not answer as 'main': {want}; make them alike, or pass --allow-difference to go on"
        );
        assert_eq!(gate.text, text);
        assert_eq!((gate.ok, gate.voids.as_slice()), (false, Metric::ALL.as_slice()), "{want}");
        assert!(findings.comparisons.iter().all(|row| row.verdict == Verdict::Invalid), "{want}");
        assert!(findings.causes.is_empty(), "{want}: what is not compared is not explained");
    }
}

#[test]
fn an_allowed_difference_is_told_and_voids_nothing() {
    let mut run = changed(|answer| add_header(answer, "X-Padding", 40));
    run.manifest.plan.workload.allow_difference = true;
    let findings = analyse(&run);
    let gate = gates(&findings, "parity")[0];
    assert!(gate.ok && gate.text.contains("extra header x-padding, 40 bytes more"), "{}", gate.text);
    assert!(gate.text.ends_with("allowed by --allow-difference"), "{}", gate.text);
    assert!(findings.comparisons.iter().all(|row| row.verdict != Verdict::Invalid));
}

#[test]
fn answers_that_grow_under_load_are_no_longer_the_same() {
    for (factor, ok) in [(1.0, true), (1.015, true), (1.03, false)] {
        let mut run = pair(1.0);
        change(&mut run, "pr", 0, |window| {
            window.load.bytes_read = (window.load.bytes_read as f64 * factor) as u64;
        });
        let gate = gates(&analyse(&run), "parity")[0].clone();
        assert_eq!(gate.ok, ok, "{factor}: {}", gate.text);
        assert_eq!(
            gate.text.contains("134 instead of 130 bytes in each answer under load"),
            !ok,
            "{}",
            gate.text
        );
    }
}
