//! What CI reads: the comment on a pull request and the JUnit file.

use analyse::{FailIfFindings, FailIfOutcome, Findings, Metric, Verdict};
use model::plan::GateId;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use report::{COMMENT_LINES, COMMENT_MARKER};

use crate::support::{comparison, findings, findings_comment, findings_junit, gate, row};

const HOSTILE: &str = "</text>``` <b>&\"'|*\u{1b}[0m\nsecond";

fn condition(outcome: FailIfOutcome) -> FailIfFindings {
    let text = format!("what was seen {HOSTILE}");
    let (condition, arm) = ("pr syscalls > 1.05x".to_owned(), "pr".to_owned());
    FailIfFindings { condition, arm, outcome, text, says: None }
}

/// Every kind of findings: with failures, with none, with many arms.
fn all() -> Vec<Findings> {
    let slower = findings();
    let mut void = findings();
    void.comparisons.iter_mut().for_each(|row| {
        row.verdict = Verdict::Invalid;
        row.void_by = vec![GateId::Parity];
    });
    void.gates = vec![gate(GateId::Parity, false, &Metric::ALL)];
    void.fail_if = vec![condition(FailIfOutcome::Void)];
    let mut failed = findings();
    failed.arms[1].error = Some(format!("it ended {HOSTILE}"));
    let mut open = findings();
    open.comparisons.iter_mut().for_each(|row| row.verdict = Verdict::Inconclusive);
    open.fail_if = [FailIfOutcome::Holds, FailIfOutcome::NotMeasured].map(condition).to_vec();
    let mut many = findings();
    for name in ["a", "b", "c", HOSTILE, "e", "f", "g"] {
        many.arms.push(row(name, 9000.0));
        many.comparisons.push(comparison("main", name, Metric::CpuPerRequest, Verdict::Faster));
    }
    many.fail_if = vec![condition(FailIfOutcome::Holds); 9];
    let mut nothing = findings();
    (nothing.arms, nothing.comparisons, nothing.gates) = (Vec::new(), Vec::new(), Vec::new());
    vec![slower, void, failed, open, many, nothing]
}

#[test]
fn a_comment_is_short_begins_with_its_marker_and_says_the_verdict() {
    let words =
        ["pr slower against main", "pr invalid against main", "pr failed", "pr inconclusive", "", "nothing"];
    for (found, word) in all().iter().zip(words) {
        let comment = findings_comment(found);
        let lines: Vec<&str> = comment.lines().collect();
        assert!(lines.len() <= COMMENT_LINES, "{} lines:\n{comment}", lines.len());
        assert_eq!(lines[0], COMMENT_MARKER);
        assert!(
            lines.contains(&"[The whole page is kept with the run](<https://ci.example/run/7>)"),
            "{comment}"
        );
        assert!(lines[1].starts_with("### whyslow: ") && lines[1].contains(word), "{comment}");
        assert!(!comment.contains('\u{1b}'), "{comment}");
        let fences: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("```")).collect();
        let [begin, end] = fences[..] else { panic!("not two fences:\n{comment}") };
        let outside = lines[..begin].iter().chain(&lines[end..]);
        assert!(outside.clone().all(|line| !line.contains("<b>")), "{comment}");
        assert!(
            lines.last().unwrap().starts_with("<details>") && comment.ends_with("</details>\n"),
            "{comment}"
        );
    }
    let open = findings_comment(&all()[3]);
    assert!(open.contains("- pr syscalls &gt; 1.05x (holds): what was seen"), "{open}");
    assert!(open.contains("(not measured)"), "{open}");
}

/// Elements of an XML text with their attributes, in order; panics where it is not well formed.
fn elements(xml: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut reader = Reader::from_str(xml);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut found) = (0, Vec::new());
    let mut read = |start: &BytesStart| {
        let attributes = start.attributes().map(|attribute| {
            let attribute = attribute.unwrap();
            let key = attribute.key.as_ref().to_owned();
            let raw = attribute.value.into_owned();
            (key, quick_xml::escape::unescape(&raw).unwrap().into_owned())
        });
        found.push((start.name().as_ref().to_owned(), attributes.collect()));
    };
    loop {
        match reader.read_event().unwrap() {
            Event::Start(start) => {
                depth += 1;
                read(&start);
            }
            Event::Empty(start) => read(&start),
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "an element is not closed");
    found
}

#[test]
fn a_junit_file_is_well_formed_and_its_counts_are_those_of_its_cases() {
    // Test cases, failures, errors and what was skipped.
    let expected = [[2, 1, 0, 1], [3, 0, 0, 3], [2, 0, 2, 0], [4, 1, 1, 2], [18, 10, 0, 1], [0; 4]];
    for (found, expected) in all().iter().zip(expected) {
        let xml = findings_junit(found);
        let elements = elements(&xml);
        let count = |name: &str| elements.iter().filter(|(element, _)| element == name).count();
        let counted = ["testcase", "failure", "error", "skipped"].map(count);
        assert_eq!((counted, count("testsuite")), (expected, 1), "{xml}");
        let suite = &elements.iter().find(|(element, _)| element == "testsuite").unwrap().1;
        let totals = ["tests", "failures", "errors", "skipped"]
            .map(|name| suite.iter().find(|(key, _)| key == name).unwrap().1.parse::<usize>().unwrap());
        assert_eq!(totals, counted, "{xml}");
        assert!(!xml.contains('\u{1b}'), "{xml}");
    }
    let elements = elements(&findings_junit(&all()[2]));
    let message =
        elements.iter().find(|(element, _)| element == "error").map(|(_, attributes)| &attributes[0].1);
    assert!(
        message.unwrap().starts_with("pr: it ended </text>``` <b>&\"'|*"),
        "escaped and read back: {message:?}"
    );
}
