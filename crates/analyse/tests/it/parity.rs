//! Answers that differ: what is caught, how it is named, and what comes of it.

use analyse::{Metric, Verdict};
use model::job::Protocol;
use model::plan::{GateId, Same};
use model::record::{ArmAnswers, Reply, RequestAnswers, Run};

use crate::support::{analyse, change, gates, pair};

type Change = fn(&mut Reply);

/// A change of the answer, and how it is named; nothing where both count as the same answer.
const CHANGES: [(Change, Option<&str>); 9] = [
    (|_| (), None),
    (|reply| add_field(reply, "X-Padding"), Some("'pr' sends a field x-padding and 'main' does not")),
    (|reply| reply.fields[2].1 = "y".to_owned(), None),
    (|reply| reply.fields[0].0 = "content-TYPE".to_owned(), None),
    (|reply| drop(reply.fields.remove(2)), Some("'main' sends a field date and 'pr' does not")),
    (|reply| reply.status = 500, Some("'pr' answers with status 500 and 'main' with 200")),
    (|reply| reply.closed = true, None),
    // Text of the same length; JSON has keys.
    (|reply| *reply = with_body(reply, "Hello, Moon!!"), None),
    (
        |reply| *reply = with_body(reply, "Hello"),
        Some("'pr' answers with a body of 5 bytes and 'main' with one of 13"),
    ),
];

fn add_field(reply: &mut Reply, name: &str) {
    reply.fields.push((name.to_owned(), "x".to_owned()));
}

fn with_body(reply: &Reply, body: &str) -> Reply {
    Reply::new(reply.status, reply.fields.clone(), reply.closed, body.as_bytes())
}

fn reply() -> Reply {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = vec![field("Content-Type", "text/plain"), field("Content-Length", "13"), field("Date", "x")];
    Reply::new(200, fields, false, b"Hello, World!")
}

fn answered(request: &str, reply: Reply) -> RequestAnswers {
    RequestAnswers { request: request.to_owned(), replies: vec![reply.clone(), reply], left_open: false }
}

fn changed(change: Change) -> Run {
    let mut run = pair(1.0);
    let mut other = reply();
    change(&mut other);
    run.answers = [("main", reply()), ("pr", other)]
        .map(|(arm, reply)| ArmAnswers { arm: arm.to_owned(), requests: vec![answered("GET /", reply)] })
        .to_vec();
    run
}

#[test]
fn of_several_requests_the_one_that_differs_is_named() {
    let mut run = changed(|_| ());
    for (index, arm) in run.answers.iter_mut().enumerate() {
        arm.requests.push(answered("order", Reply { status: 201 + index as u16, ..reply() }));
    }
    let text = gates(&analyse(&run), GateId::Parity)[0].text.clone();
    assert!(text.contains("asked for 'order', 'pr' answers with status 202 and 'main' with 201"), "{text}");
    run.manifest.plan.workload.same = Same::Body;
    run.answers[1].requests[1] = run.answers[0].requests[1].clone();
    assert!(gates(&analyse(&run), GateId::Parity)[0].ok);
    run.answers[1].requests[0] = answered("GET /", with_body(&reply(), "Hello, Moon!!"));
    let text = gates(&analyse(&run), GateId::Parity)[0].text.clone();
    assert!(
        text.contains("asked for 'GET /', the bodies of 'pr' and 'main' differ from byte 7 on"),
        "{text}"
    );
}

#[test]
fn who_leaves_a_connection_open_that_is_to_be_closed_is_named() {
    for (main, pr, wanted) in
        [(false, false, None), (true, true, None), (true, false, Some("'main'")), (false, true, Some("'pr'"))]
    {
        let mut run = changed(|_| ());
        (run.answers[0].requests[0].left_open, run.answers[1].requests[0].left_open) = (main, pr);
        let gate = gates(&analyse(&run), GateId::Parity)[0].clone();
        assert_eq!(gate.ok, wanted.is_none(), "{}", gate.text);
        run.manifest.plan.workload.same = Same::Status;
        assert!(gates(&analyse(&run), GateId::Parity)[0].ok, "only the status is to be the same");
        let said = wanted.map(|arm| format!("{arm} ignores Connection: close"));
        assert!(said.is_none_or(|said| gate.text.contains(&said)), "{}", gate.text);
    }
}

#[test]
fn bodies_too_long_to_be_kept_are_told_apart_by_their_hash() {
    let long = |end: u8| {
        let mut body = vec![b'x'; 2 * Reply::KEPT_BYTES];
        body.push(end);
        Reply::new(200, Vec::new(), false, &body)
    };
    for (same, wanted) in [(Same::Shape, true), (Same::Body, false)] {
        let mut run = changed(|_| ());
        run.manifest.plan.workload.same = same;
        run.answers[0].requests = vec![answered("GET /", long(b'a'))];
        run.answers[1].requests = vec![answered("GET /", long(b'b'))];
        assert_eq!(gates(&analyse(&run), GateId::Parity)[0].ok, wanted, "{same:?}");
    }
}

#[test]
fn a_run_of_before_arms_were_asked_a_few_times_is_judged_by_its_one_answer() {
    let mut run = pair(1.0);
    assert!(gates(&analyse(&run), GateId::Parity)[0].ok);
    for record in run.rounds.iter_mut().filter(|record| record.arm == "pr") {
        record.answer.as_mut().unwrap().status = 404;
    }
    let text = gates(&analyse(&run), GateId::Parity)[0].text.clone();
    assert!(text.contains("'pr' answers with status 404 and 'main' with 200"), "{text}");
}

#[test]
fn a_difference_voids_all_and_says_how_to_go_on() {
    for (change, want) in CHANGES {
        let findings = analyse(&changed(change));
        let gate = gates(&findings, GateId::Parity)[0];
        let Some(want) = want else {
            assert!(gate.ok, "{}", gate.text);
            assert_eq!(gate.text, "2 arms answer alike: status 200, 13 bytes");
            continue;
        };
        let text = format!(
            "'pr' does not answer as 'main': {want}; make them alike, ask for less with --same, or pass --allow-difference to \
             go on"
        );
        assert_eq!(gate.text, text);
        assert_eq!((gate.ok, gate.voids.as_slice()), (false, Metric::ALL.as_slice()), "{want}");
        assert!(findings.comparisons.iter().all(|row| row.verdict == Verdict::Invalid), "{want}");
        assert!(findings.causes.is_empty(), "{want}: what is not compared is not explained");
    }
}

#[test]
fn an_allowed_difference_is_told_and_voids_nothing() {
    let mut run = changed(|reply| add_field(reply, "X-Padding"));
    run.manifest.plan.workload.allow_difference = true;
    let findings = analyse(&run);
    let gate = gates(&findings, GateId::Parity)[0];
    assert!(gate.ok && gate.text.contains("'pr' sends a field x-padding"), "{}", gate.text);
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
        let gate = gates(&analyse(&run), GateId::Parity)[0].clone();
        assert_eq!(gate.ok, ok, "{factor}: {}", gate.text);
        assert_eq!(
            gate.text.contains("134 instead of 130 bytes in each answer under load"),
            !ok,
            "{}",
            gate.text
        );
    }
}

#[test]
fn of_streams_that_are_cut_off_the_bytes_that_had_come_are_not_compared() {
    for (most, ok) in [(None, false), (Some(3), true)] {
        let mut run = pair(1.0);
        run.manifest.plan.workload.job.protocol = Protocol::Events { most };
        change(&mut run, "pr", 0, |window| window.load.bytes_read *= 2);
        let gate = gates(&analyse(&run), GateId::Parity)[0].clone();
        assert_eq!(gate.ok, ok, "{most:?}: {}", gate.text);
    }
}
