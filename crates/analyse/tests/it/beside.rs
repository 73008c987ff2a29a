//! Services beside: what one works more for an arm that waits is the first cause, and says where.

use std::collections::BTreeMap;

use analyse::Grade;
use model::plan::{CauseId, Each, Service};
use model::record::{DiagnosticRecord, Frame, Pass, PassKind, Profile, Run, Stack};

use crate::support::{analyse, change};
use crate::why::{Plant, planted};

/// An arm that answers a tenth as many requests and waits meanwhile, for what it asks a service for.
const WAITS: Plant =
    Plant { calls: &[("read", 1.0), ("write", 1.0)], switches: 1.0, idle_rate: Some(0.1), ..Plant::NONE };
const MAIN_NS: u64 = 20_000;

/// A run with a service that works `pr_ns` for a request of `pr`.
fn with_service(plant: Plant, pr_ns: u64) -> Run {
    let mut run = planted(plant);
    run.manifest.plan.services.push(Service {
        name: "db".to_owned(),
        run: vec!["db".to_owned(), "{port}".to_owned()],
        ready: None,
        setup: None,
        each: Each::Run,
        folder: "/".to_owned(),
    });
    for (arm, ns) in [("main", MAIN_NS), ("pr", pr_ns)] {
        change(&mut run, arm, 0, |window| {
            window.services.insert("db".to_owned(), ns * window.load.requests);
        });
    }
    run
}

/// A profile of the service: of ten samples so many in the function that reads a table, the others elsewhere.
fn profile(reads: u64) -> Profile {
    let frame = |name: &str| Frame {
        name: name.to_owned(),
        module: "database".to_owned(),
        resolved: true,
        ..Frame::default()
    };
    Profile {
        frames: vec![frame("read_table"), frame("answer")],
        stacks: vec![
            Stack { frames: vec![0], samples: reads },
            Stack { frames: vec![1], samples: 10 - reads },
        ],
        samples: 10,
        ..Profile::default()
    }
}

fn add_profiles(records: &mut [DiagnosticRecord]) {
    for record in records {
        let profile = profile(if record.arm == "pr" { 9 } else { 1 });
        let services = BTreeMap::from([("db".to_owned(), profile)]);
        let plain = record.passes[0].clone();
        record.passes.push(Pass { kind: PassKind::Beside, services, ..plain });
    }
}

#[test]
fn a_service_that_works_more_while_the_arm_waits_is_the_first_cause() {
    let mut run = with_service(WAITS, 120_000);
    add_profiles(&mut run.diagnostics);
    let findings = analyse(&run);
    let first = &findings.causes[0];
    assert_eq!((first.id, first.grade), (CauseId::ServiceBeside, Grade::AccountsFor), "{first:?}");
    let want =
        "service 'db' uses 120 µs of CPU time a request against 20.0 µs (mostly in database: read_table)";
    assert!(first.text.starts_with(want), "{first:?}");
    assert!((first.ns_per_request - 100_000.0).abs() < 1.0, "{first:?}");
    let gap = &findings.services[0];
    assert_eq!((gap.service.as_str(), gap.arm.as_str()), ("db", "pr"));
    let [low, high] = gap.interval_ns.unwrap();
    assert!((low - 100_000.0).abs() < 1.0 && (high - 100_000.0).abs() < 1.0, "{gap:?}");
    // Nine tenths of 120 µs against one of 20.
    assert!((gap.functions[0].delta_ns - 106_000.0).abs() < 1.0, "{gap:?}");
    assert_eq!(gap.functions.len(), 1, "the other function takes less: {gap:?}");
    let limiter = findings.arms[1].limiter.as_ref().unwrap();
    assert!(limiter.starts_with("a wait, not its CPU: service 'db' uses "), "{limiter}");
    assert!(findings.next.unwrap().starts_with("look at what pr asks the services beside for"));
}

#[test]
fn a_service_that_works_no_more_or_for_nobody_who_waits_is_no_cause() {
    let same = analyse(&with_service(WAITS, MAIN_NS));
    let no_wait = analyse(&with_service(Plant { user_ns: 5_000.0, ..Plant::NONE }, 120_000));
    for findings in [same, no_wait] {
        assert!(
            findings.causes.iter().all(|cause| cause.id != CauseId::ServiceBeside),
            "{:?}",
            findings.causes
        );
    }
}
