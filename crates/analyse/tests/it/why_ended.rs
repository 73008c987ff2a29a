//! Processes and threads that begin and end are told by their time and their names.

use model::record::{PassKind, Usage};

use crate::support::{analyse, change};
use crate::why::{Plant, named, planted};
use crate::why_cpu::{sampled, sampled_beside};

#[test]
fn what_came_and_went_is_named_by_its_time() {
    type Clock = fn(&mut Usage) -> &mut u64;
    let clocks: [(&str, Clock); 2] = [
        ("child_processes", |usage| &mut usage.ended_processes_ns),
        ("short_threads", |usage| &mut usage.ended_threads_ns),
    ];
    for (expected, clock) in clocks {
        let ids = |per_request: u64| {
            let mut run = planted(Plant { user_ns: 2000.0, ..Plant::NONE });
            change(&mut run, "pr", 0, |window| {
                *clock(&mut window.target) = per_request * window.load.requests
            });
            let findings = analyse(&run);
            named(&findings).iter().map(|cause| (cause.id, cause.share.unwrap())).collect::<Vec<_>>()
        };
        let found = ids(1800);
        assert_eq!((found.len(), found[0].0.name()), (1, expected), "{found:?}");
        assert!((found[0].1 - 0.9).abs() < 0.05, "{found:?}");
        // Of 10 µs, that is what two clocks may differ by.
        assert_eq!(ids(300), []);
    }
}

#[test]
fn processes_that_ended_are_told_by_name() {
    let mut run = sampled("[ended]grep");
    change(&mut run, "pr", 0, |window| window.target.ended_processes_ns = 9000 * window.load.requests);
    let findings = analyse(&run);
    let first = named(&findings)[0];
    assert!(first.text.contains("processes that began and ended (grep): 9.00 µs"), "{}", first.text);
}

#[test]
fn a_thread_for_each_request_carries_the_switches_to_it_and_from_it() {
    let plant = Plant { system_ns: 2000.0, calls: &[("clone3", 1.0)], switches: 2.0, ..Plant::NONE };
    let mut run = planted(plant);
    change(&mut run, "pr", 0, |window| window.target.ended_threads_ns = 800 * window.load.requests);
    let findings = analyse(&run);
    let first = named(&findings)[0];
    // Of its own 800 ns, and twice 600 of switching.
    assert_eq!(first.id.name(), "short_threads", "{:?}", findings.causes);
    assert!((first.ns_per_request - 2000.0).abs() < 100.0, "{first:?}");
    let switches = findings.causes.iter().find(|cause| cause.id.name() == "context_switches").unwrap();
    assert!(switches.text.contains("of threads that begin"), "{switches:?}");
}

#[test]
fn threads_carry_what_beginning_them_takes_where_calls_were_not_counted() {
    let plant = Plant { system_ns: 9000.0, switches: 1.0, ..Plant::NONE };
    let mut run = sampled_beside(plant, &["main;serve;do_syscall_64;__x64_sys_clone3"]);
    change(&mut run, "pr", 0, |window| window.target.ended_threads_ns = 2000 * window.load.requests);
    for record in &mut run.diagnostics {
        record.passes.retain(|pass| pass.kind != PassKind::Counting);
    }
    let findings = analyse(&run);
    let first = named(&findings)[0];
    assert_eq!(first.id.name(), "short_threads", "{:?}", findings.causes);
    assert!(first.ns_per_request > 5000.0, "{first:?}");
}
