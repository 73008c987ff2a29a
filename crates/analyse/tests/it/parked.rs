//! Goroutines that wait longer in the slower arm are the place of the cause of its idle time; those that wait alike in both are of none.

use analyse::{Cause, Findings};
use model::record::{Frame, Goroutines, ParkedLeaf, PassKind, Run, Slice, Waits, WaitsFor};

use crate::support::{analyse, change};
use crate::why::{Plant, named, planted};
use crate::why_idle::stalled;

/// How often all goroutines were read.
const READINGS: u64 = 100;
/// The arm answers a tenth of the requests of the other one, each 9 ms later: by Little's law so many wait at a time.
const WAITING: f64 = 80.0;

/// Goroutines that wait for this in a stack, outermost function first, and how many at a time.
type Waiting<'a> = (WaitsFor, &'a str, f64);

/// Functions of a stack that answers requests, down to this one, at line 7 of its file.
fn answering(function: &str) -> String {
    format!("runtime.goexit net/http.(*conn).serve main.answer {function}@7 runtime.gopark")
}

fn waits(goroutines: &[Waiting]) -> Waits {
    let mut frames: Vec<Frame> = Vec::new();
    let mut leaves = Vec::new();
    for (waits_for, stack, at_a_time) in goroutines {
        let begin = frames.len() as u32;
        let frame = |word: &str| {
            let (name, line) = word.split_once('@').unwrap_or((word, "1"));
            Frame {
                name: name.to_owned(),
                module: "server".to_owned(),
                resolved: true,
                file: Some("/srv/app/main.go".to_owned()),
                line: line.parse().ok(),
                ..Frame::default()
            }
        };
        frames.extend(stack.split_whitespace().map(frame));
        let count = (at_a_time * READINGS as f64) as u64;
        leaves.push(ParkedLeaf {
            waits_for: *waits_for,
            waited_in: (begin..frames.len() as u32).collect(),
            count,
        });
    }
    Waits { frames, goroutines: vec![Goroutines { readings: READINGS, leaves }], ..Waits::default() }
}

/// A run whose second arm is idle and answers late at capacity, and at the equal rate after `unhurried_ns`, and what its goroutines and those
/// of the other one waited for; of an arm without any they were not seen.
fn run(unhurried_ns: u64, main: &[Waiting], pr: &[Waiting]) -> Run {
    let mut run = planted(Plant { late_ns: 9_000_000, idle_rate: Some(0.1), ..Plant::NONE });
    change(&mut run, "pr", 1, |window| {
        let response = &mut window.load.response_ns;
        (response.count, response.p50, response.mean) = (1000, Some(unhurried_ns), unhurried_ns as f64);
    });
    see(&mut run, main, pr);
    run
}

/// Adds what was seen of the goroutines of either arm.
fn see(run: &mut Run, main: &[Waiting], pr: &[Waiting]) {
    for record in &mut run.diagnostics {
        let goroutines = if record.arm == "pr" { pr } else { main };
        if !goroutines.is_empty() {
            let mut pass = record.passes[0].clone();
            (pass.kind, pass.waits) = (PassKind::Waking, Some(waits(goroutines)));
            record.passes.push(pass);
        }
    }
}

/// Goroutines that are there in any program.
const IDLE: Waiting = (WaitsFor::Channel, "runtime.goexit runtime.main main.main@3 runtime.gopark", 1.0);

fn first(findings: &Findings) -> &Cause {
    named(findings)[0]
}

/// The name of the first cause, and the function and line that it is in.
fn at(run: &Run) -> (&'static str, Option<(String, u32)>) {
    let findings = analyse(run);
    let cause = first(&findings);
    let place = cause.place.clone().map(|place| (place.function, place.line.unwrap()));
    (cause.id.name(), place)
}

/// Whoever has asked somebody waits in a handler; an idle connection waits for its client.
#[test]
fn who_waits_for_the_network_in_a_handler_waits_for_whom_it_asked() {
    let read = "net.(*conn).Read runtime.netpollblock runtime.gopark";
    let asks = format!("runtime.goexit net/http.(*conn).serve main.answer main.ask@7 {read}");
    let idles = format!("runtime.goexit net/http.(*conn).serve net/http.(*connReader).Read@9 {read}");
    let asking = run(9_000_000, &[IDLE], &[IDLE, (WaitsFor::Network, &asks, WAITING)]);
    assert_eq!(at(&asking), ("backend_wait", Some(("main.ask".to_owned(), 7))));
    let findings = analyse(&asking);
    assert!(
        first(&findings).text.contains("goroutines wait for an answer from the network in main.ask"),
        "{}",
        first(&findings).text
    );
    let idling = analyse(&run(9_000_000, &[IDLE], &[IDLE, (WaitsFor::Network, &idles, WAITING)]));
    assert!(idling.goroutines.iter().all(|row| row.waits_for != WaitsFor::Network));
    assert!(named(&idling).iter().all(|cause| cause.id.name() != "backend_wait"), "{:?}", idling.causes);
}

#[test]
fn few_at_a_time_is_where_goroutines_wait_longer_and_says_for_what() {
    for (waits_for, what) in [(WaitsFor::Lock, "a lock"), (WaitsFor::Channel, "a channel")] {
        let stack = answering("main.pay");
        let findings = analyse(&run(1_000_000, &[IDLE], &[IDLE, (waits_for, &stack, WAITING)]));
        let cause = first(&findings);
        assert_eq!(cause.id.name(), "few_at_a_time", "{:?}", findings.causes);
        let place = cause.place.as_ref().unwrap();
        assert_eq!((place.function.as_str(), place.line), ("main.pay", Some(7)));
        assert_eq!(place.file.as_deref(), Some("/srv/app/main.go"));
        let said = format!(
            "goroutines wait for {what} in main.pay: 80.0 at a time, 8.16 ms a request, against 0.0 and"
        );
        for words in [&format!("({what});"), &said] {
            assert!(cause.text.contains(words.as_str()), "{}", cause.text);
        }
        let row = findings.goroutines.iter().find(|row| row.answers).unwrap();
        assert_eq!((row.arm.as_str(), row.waits_for), ("pr", waits_for));
        assert!(
            (row.at_a_time - WAITING).abs() < 1e-9 && (row.ns_per_request - 8.16e6).abs() < 1e4,
            "{row:?}"
        );
    }
    // Seen without goroutines it has no place.
    assert_eq!(at(&run(1_000_000, &[], &[])), ("few_at_a_time", None));
}

#[test]
fn goroutines_that_sleep_make_a_wait_for_a_time_a_sleep() {
    let stack = answering("main.rest");
    let asleep: Waiting = (WaitsFor::Sleep, &stack, WAITING);
    let place = Some(("main.rest".to_owned(), 7));
    assert_eq!(at(&run(9_500_000, &[IDLE], &[IDLE, asleep])), ("sleep", place.clone()));
    let locked: Waiting = (WaitsFor::Lock, &stack, WAITING);
    assert_eq!(at(&run(9_500_000, &[IDLE], &[IDLE, locked])), ("timer_wait", place));
}

#[test]
fn times_in_which_nobody_is_answered_are_of_the_lock_that_goroutines_wait_for_meanwhile() {
    let stack = answering("main.pay");
    let seen = |waits_for| {
        let mut run = stalled("findRunnable", 0);
        see(&mut run, &[IDLE], &[IDLE, (waits_for, &stack, 16.0)]);
        let findings = analyse(&run);
        let cause = first(&findings);
        let place = cause.place.clone().map(|place| (place.function, place.line.unwrap()));
        (cause.id.name(), place, cause.text.clone())
    };
    let place = Some(("main.pay".to_owned(), 7));
    let (id, of_lock, text) = seen(WaitsFor::Lock);
    assert_eq!((id, of_lock), ("lock_contention", place.clone()));
    let said = "(20 % of the time against 0.0 %); goroutines wait for a lock in main.pay: 16.0 at a time";
    assert!(text.contains(said), "{text}");
    // In which function of the runtime a thread sleeps meanwhile says nothing.
    assert!(!text.contains("findRunnable"), "{text}");
    let (id, of_channel, _) = seen(WaitsFor::Channel);
    assert_eq!((id, of_channel), ("stalls", place));
}

#[test]
fn a_wait_that_is_the_same_in_both_arms_is_no_cause() {
    let [pay, other] = ["main.pay", "main.settle"].map(answering);
    let worker = "runtime.goexit main.works@9 runtime.gopark";
    // The other arm answers ten times as many, so that ten times as many wait at a time if each waits as long.
    let slow: [Waiting; 2] = [(WaitsFor::Lock, &pay, WAITING), (WaitsFor::Channel, worker, WAITING)];
    let idle: Waiting = (WaitsFor::Channel, worker, WAITING);
    for (same, fast) in [
        (true, [(WaitsFor::Lock, pay.as_str(), 10.0 * WAITING), idle]),
        // Of another name, or by other means.
        (true, [(WaitsFor::Lock, other.as_str(), 10.0 * WAITING), idle]),
        (true, [(WaitsFor::Channel, other.as_str(), 10.0 * WAITING), idle]),
        (false, [(WaitsFor::Lock, pay.as_str(), WAITING), idle]),
    ] {
        let (id, place) = at(&run(1_000_000, &fast, &slow));
        let expected = (!same).then(|| ("main.pay".to_owned(), 7));
        assert_eq!((id, place), ("few_at_a_time", expected), "{fast:?}");
    }
    // Workers that are there whether anybody asks or not.
    assert_eq!(at(&run(1_000_000, &[idle], &[idle])), ("few_at_a_time", None));
    // More of them.
    let more: Waiting = (WaitsFor::Channel, worker, 2.0 * WAITING);
    assert_eq!(at(&run(1_000_000, &[idle], &[more])).1, Some(("main.works".to_owned(), 9)));
}

#[test]
fn where_the_other_arms_goroutines_were_not_seen_only_what_it_cannot_have_waited_is_said() {
    let [pay, worker] = [answering("main.pay"), "runtime.goexit main.works@9 runtime.gopark".to_owned()];
    let of = |stack: &str, count| at(&run(1_000_000, &[], &[(WaitsFor::Lock, stack, count)])).1;
    assert_eq!(of(&pay, WAITING), Some(("main.pay".to_owned(), 7)));
    assert_eq!(of(&worker, WAITING), None);
    // It answers after 0.65 ms: of a wait of 2.8 ms that leaves less than a quarter of 9 ms.
    assert_eq!(of(&pay, 28.0), None);
    // One that is busy all the time waits for its CPU.
    let mut busy = run(1_000_000, &[], &[(WaitsFor::Lock, &pay, 28.0)]);
    change(&mut busy, "main", 0, |window| {
        let offered_ns = u64::from(window.server_cpus.cpus) * window.target.wall_ns;
        let cpu = &mut window.target.cpu;
        (cpu.total_ns, cpu.user_ns, cpu.system_ns) = (offered_ns, offered_ns / 2, offered_ns / 2);
        (window.server_cpus.user_ns, window.server_cpus.idle_ns) = (offered_ns, 0);
    });
    assert_eq!(at(&busy).1, Some(("main.pay".to_owned(), 7)));
}

#[test]
fn who_waits_for_another_goroutine_waits_for_what_that_one_waits_for() {
    let handler = answering("main.handle");
    let worker = "runtime.goexit main.works@9 runtime.gopark";
    let place = |workers| {
        let goroutines: [Waiting; 2] =
            [(WaitsFor::Group, &handler, WAITING), (WaitsFor::Sleep, worker, workers)];
        at(&run(1_000_000, &[IDLE], &goroutines)).1.map(|(function, _)| function)
    };
    assert_eq!(place(60.0).as_deref(), Some("main.works"));
    // As many as there are places in a pool: that is what is waited for.
    assert_eq!(place(4.0).as_deref(), Some("main.handle"));
}

#[test]
fn goroutines_tell_where_it_waits_unless_it_is_shown_to_answer_at_another_rate_meanwhile() {
    let stack = answering("main.pay");
    // Answers of each turn that is watched, where there are a thousand in one that is not.
    let place = |answers: [u64; 3]| {
        let mut run = run(1_000_000, &[IDLE], &[(WaitsFor::Lock, &stack, WAITING)]);
        for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
            let (first, answers) = match pass.kind {
                PassKind::Waking => (1, answers),
                PassKind::Untouched => (0, [1000; 3]),
                _ => continue,
            };
            let slice = |(index, in_time): (u32, u64)| Slice {
                turn: first + 2 * index,
                length_ns: 100_000_000,
                wall_ns: 100_000_000,
                requests: in_time,
                in_time,
                ..Slice::default()
            };
            pass.window.slices = (0_u32..).zip(answers).map(slice).collect();
            let watched: u64 = answers.iter().sum();
            pass.window.load.requests = pass.window.load.requests * watched / 3000;
        }
        at(&run).1.map(|(function, _)| function)
    };
    assert_eq!(place([760, 850, 810]).as_deref(), Some("main.pay"));
    assert_eq!(place([510, 500, 505]), None);
}

#[test]
fn few_readings_and_waits_of_the_runtime_say_nothing() {
    let stack = answering("main.pay");
    let mut few = run(1_000_000, &[IDLE], &[(WaitsFor::Lock, &stack, WAITING)]);
    let waits = few.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    for process in waits.filter_map(|pass| pass.waits.as_mut()).flat_map(|waits| &mut waits.goroutines) {
        process.readings = 4;
    }
    assert_eq!(at(&few), ("few_at_a_time", None));
    assert!(analyse(&few).goroutines.is_empty());
    // Of HTTP/2, one goroutine of a connection waits for those that answer.
    let own = "runtime.goexit net/http.(*conn).serve net/http.(*http2serverConn).serve runtime.selectgo";
    assert_eq!(at(&run(1_000_000, &[IDLE], &[IDLE, (WaitsFor::Select, own, WAITING)])).1, None);
}
