//! What ended the waits of threads, as rows that sum to their idle time.

use analyse::{Findings, WaitRow};
use model::record::{EndedBy, Frame, Pass, PassKind, Run, WaitLeaf, Waits};

use crate::support::{analyse, asks_others, change};
use crate::why::{Plant, named, planted};
use crate::why_cpu::profile;

/// One own function, below the C library and the kernel.
fn frames(own: &str) -> Vec<Frame> {
    let frame = |name: &str, module: &str, kernel| Frame {
        name: name.to_owned(),
        module: module.to_owned(),
        kernel,
        resolved: true,
        ..Frame::default()
    };
    vec![
        frame("main", "server", false),
        frame(own, "server", false),
        frame("read", "libc.so.6", false),
        frame("ksys_read", "[kernel]", true),
    ]
}

fn leaf(ended_by: EndedBy, by: Option<&str>, ns: u64) -> WaitLeaf {
    WaitLeaf {
        ended_by,
        behind: None,
        by: by.map(str::to_owned),
        of_service: false,
        waited_in: vec![0, 1, 2, 3],
        woken_from: Vec::new(),
        count: 10,
        ns,
    }
}

/// A run in which the waits of the second arm were recorded, in passes of half the rate of those that nobody watched where
/// `slow`.
fn with_waits(leaves: &[WaitLeaf], slow: bool) -> Run {
    with_waits_in("ask_database", leaves, slow)
}

/// As [`told`], in a function of this name.
fn with_waits_in(function: &str, leaves: &[WaitLeaf], slow: bool) -> Run {
    add_waits(planted(Plant { idle_rate: Some(0.5), ..Plant::NONE }), function, leaves, slow)
}

fn add_waits(run: Run, function: &str, leaves: &[WaitLeaf], slow: bool) -> Run {
    add_waits_of("pr", run, function, leaves, slow)
}

fn add_waits_of(arm: &str, mut run: Run, function: &str, leaves: &[WaitLeaf], slow: bool) -> Run {
    for record in run.diagnostics.iter_mut().filter(|record| record.arm == arm) {
        let mut pass = record.passes[0].clone();
        pass.kind = PassKind::Waking;
        if slow {
            pass.window.load.requests /= 2;
        }
        let idle_ns = leaves.iter().map(|leaf| leaf.ns).sum();
        let (frames, leaves) = (frames(function), leaves.to_vec());
        pass.waits = Some(Waits { frames, leaves, idle_ns, threads: 4, ..Waits::default() });
        record.passes.push(pass);
    }
    run
}

fn sum(findings: &Findings) -> f64 {
    findings.waits.iter().map(|row| row.ns_per_request).sum()
}

#[test]
fn rows_sum_to_the_idle_time_and_say_where_and_by_whom() {
    let leaves = [
        leaf(EndedBy::Service, Some("postgres (port 5432)"), 3_000_000),
        leaf(EndedBy::Client, None, 2_000_000),
        // The same in two stacks.
        leaf(EndedBy::Client, None, 1_500_000),
    ];
    let findings = analyse(&with_waits(&leaves, false));
    let of = |row: &WaitRow| (row.arm.clone(), row.ended_by, row.by.clone());
    let client = ("pr".to_owned(), EndedBy::Client, None);
    let service = ("pr".to_owned(), EndedBy::Service, Some("postgres (port 5432)".to_owned()));
    assert_eq!(findings.waits.iter().map(of).collect::<Vec<_>>(), [client, service]);
    assert_eq!(findings.waits[0].place.as_ref().map(|place| place.function.as_str()), Some("ask_database"));
    let ratio = findings.waits[0].ns_per_request / findings.waits[1].ns_per_request;
    assert!((ratio - 3.5 / 3.0).abs() < 1e-9, "{:?}", findings.waits);
}

#[test]
fn of_many_places_the_rest_is_a_row_of_each_kind_and_nothing_is_lost() {
    let places = |count: u64| -> Vec<WaitLeaf> {
        let by = |number| leaf(EndedBy::Lock, Some(&format!("thread {number}")), 100_000);
        (0..count).map(by).collect()
    };
    let few = analyse(&with_waits(&places(10), false));
    let many = analyse(&with_waits(&places(100), false));
    assert_eq!((few.waits.len(), many.waits.len()), (10, 17));
    assert!((sum(&many) / sum(&few) - 10.0).abs() < 1e-9);
}

#[test]
fn pythons_one_lock_is_a_lock_although_a_timer_ends_the_wait_for_it() {
    let leaves = [leaf(EndedBy::Timer, None, 1_000_000)];
    for (function, ended_by) in [("PyEval_RestoreThread", EndedBy::Lock), ("pause", EndedBy::Timer)] {
        let findings = analyse(&with_waits_in(function, &leaves, false));
        assert_eq!(findings.waits[0].ended_by, ended_by, "{function}");
    }
}

#[test]
fn what_was_seen_of_a_server_that_watching_slowed_is_not_told() {
    let findings = analyse(&with_waits(&[leaf(EndedBy::Timer, None, 1_000_000)], true));
    assert!(findings.waits.is_empty());
    let pass = findings.passes.iter().find(|pass| pass.kind == PassKind::Waking).unwrap();
    assert!(!pass.used && pass.text.contains("times slower"), "{}", pass.text);
}

/// Arms that keep this share of their one CPU busy.
pub(crate) fn keep_busy(run: &mut Run, arms: [(&str, f64); 2]) {
    for (arm, busy) in arms {
        change(run, arm, 0, |window| {
            let busy_ns = (window.target.wall_ns as f64 * busy) as u64;
            window.target.cpu.total_ns = busy_ns;
            (window.target.cpu.user_ns, window.target.cpu.system_ns) = (busy_ns / 2, busy_ns / 2);
            window.target.busiest_thread_ns = busy_ns / 2;
            (window.server_cpus.cpus, window.server_cpus.user_ns) = (1, busy_ns);
            window.server_cpus.idle_ns = window.target.wall_ns - busy_ns;
        });
    }
}

/// A connection pool with one place: whoever gives it back had waited for the database. The other server does not lack CPU time by
/// much, so that nobody looked at what it waits for.
#[test]
fn threads_that_wait_for_each_other_are_told_though_the_other_arm_hardly_waits() {
    let first = |baseline_busy: f64| {
        let place = |place: u64| WaitLeaf {
            behind: Some(EndedBy::Timer),
            count: 10_000,
            ..leaf(EndedBy::Lock, Some(&format!("task-{place}")), 40_000_000)
        };
        let places: Vec<WaitLeaf> = (1..=20).map(place).collect();
        let mut run = with_waits_in("take_a_place", &places, false);
        keep_busy(&mut run, [("main", baseline_busy), ("pr", 0.2)]);
        let findings = analyse(&run);
        named(&findings).first().map(|cause| (cause.id.name(), cause.text.clone()))
    };
    let (name, text) = first(0.93).unwrap();
    assert_eq!(name, "lock_contention");
    for words in ["in take_a_place", "let go by 'task-*'", "which had waited for a time to pass"] {
        assert!(text.contains(words), "{text}");
    }
    // A thread that a runtime keeps for later waits for no lock, whichever of its own threads lets it go on.
    let idle =
        with_waits_in("runtime.findRunnable", &[leaf(EndedBy::Lock, Some("server"), 400_000_000)], false);
    assert!(named(&analyse(&idle)).iter().all(|cause| cause.id.name() != "lock_contention"));
    // Nor does one that waited before anybody watched: it is not known where.
    let before = WaitLeaf {
        waited_in: Vec::new(),
        count: 10_000,
        ..leaf(EndedBy::Thread, Some("server"), 400_000_000)
    };
    let before = with_waits_in("take_a_place", &[before], false);
    assert!(named(&analyse(&before)).iter().all(|cause| cause.id.name() != "lock_contention"));
    // Of one that waits as well, what it waits for is not known. Where all waits of the slower one are for the lock, so is the gap.
    assert_eq!(first(0.6).map(|(name, _)| name), Some("lock_contention"));
}

/// A server that asks another process of its own, which waits for a timer of its loop: that is no wait of the server. Of the other one,
/// which waits as well, nothing was seen; all of this one's waits are for answers, so that the gap is in those.
#[test]
fn what_a_service_of_its_own_waits_for_in_a_loop_is_a_part_of_the_wait_for_it() {
    let office = Some("node (port 8331)");
    let asks = WaitLeaf { count: 10_000, ..leaf(EndedBy::Service, office, 300_000_000) };
    let of_service =
        |ended_by| WaitLeaf { of_service: true, count: 10_000, ..leaf(ended_by, Some("node"), 290_000_000) };
    let first = |waits: &[WaitLeaf]| {
        let mut run = with_waits_in("uv__io_poll", waits, false);
        keep_busy(&mut run, [("main", 0.7), ("pr", 0.2)]);
        let findings = analyse(&run);
        named(&findings).first().map(|cause| (cause.id.name(), cause.text.clone()))
    };
    let (name, text) = first(&[asks.clone(), of_service(EndedBy::Timer)]).unwrap();
    assert_eq!(name, "backend_wait", "{text}");
    assert!(
        text.contains("waiting for an answer of node (port 8331)") && !text.contains("against"),
        "{text}"
    );
    // Where it is known what the service waits for, that is told.
    assert_eq!(first(&[asks, of_service(EndedBy::Disk)]).unwrap().0, "sync_writes");
}

/// A connection that is tried before each command: two answers are waited for in the place of one, each as long as before.
#[test]
fn a_wait_that_is_longer_because_others_are_asked_more_often_is_told_as_that() {
    let waits = |times: u64, ns: u64| {
        let of = |ended_by, of_service, by| WaitLeaf {
            of_service,
            count: 10_000 * times,
            ..leaf(ended_by, Some(by), ns * times)
        };
        [of(EndedBy::Service, false, "redis (port 6379)"), of(EndedBy::Timer, true, "redis")]
    };
    let first = |asked: [Option<u64>; 2], ns: [u64; 2]| {
        let mut run = with_waits_in("borrow", &waits(2, ns[1]), false);
        run = add_waits_of("main", run, "borrow", &waits(1, ns[0]), false);
        keep_busy(&mut run, [("main", 0.4), ("pr", 0.2)]);
        for (arm, times) in ["main", "pr"].into_iter().zip(asked) {
            change(&mut run, arm, 0, |window| {
                let came = window.load.requests;
                asks_others(window, came, times.map(|times| times * came));
            });
        }
        let findings = analyse(&run);
        let named: Vec<_> =
            named(&findings).into_iter().map(|cause| (cause.id.name(), cause.text.clone())).collect();
        named
    };
    // It answers half as many requests meanwhile.
    let as_long = [300_000_000, 150_000_000];
    let more = first([Some(1), Some(2)], as_long);
    assert_eq!(more[0].0, "backend_calls", "{more:?}");
    assert!(more[0].1.contains("waiting for an answer of redis (port 6379) in borrow"), "{more:?}");
    assert!(more.iter().all(|(name, _)| *name != "backend_wait"), "{more:?}");
    // Asked as often as before, or nobody knows how often.
    for asked in [[Some(2), Some(2)], [None, None]] {
        let later = first(asked, as_long);
        assert_eq!(later[0].0, "backend_wait", "{later:?}");
    }
    // Asked more often, and most of it is that each answer takes so much longer.
    let dearer = first([Some(2), Some(3)], [30_000_000, 900_000_000]);
    assert_eq!(dearer[0].0, "backend_wait", "{dearer:?}");
}

/// Threads that a runtime keeps for later wait all the time; one that waits for a disk has work.
#[test]
fn waits_for_a_disk_are_idle_time_however_many_threads_have_no_work() {
    let waits = [
        WaitLeaf { count: 10_000, ..leaf(EndedBy::Disk, None, 4_000_000_000) },
        WaitLeaf { count: 10_000, ..leaf(EndedBy::Client, None, 400_000_000_000) },
    ];
    let mut run = with_waits_in("sync_file", &waits, false);
    keep_busy(&mut run, [("main", 0.93), ("pr", 0.2)]);
    change(&mut run, "pr", 0, |window| window.load.response_ns.mean = 40e6);
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    let row = findings.waits.iter().find(|row| row.ended_by == EndedBy::Disk).unwrap();
    assert_eq!(cause.id.name(), "sync_writes");
    assert!((cause.ns_per_request / row.ns_per_request - 1.0).abs() < 0.01, "{cause:?} {row:?}");
}

/// What is sent to others is counted in whole turns, in which more requests come in than between their edges.
#[test]
fn how_often_a_server_asks_others_is_a_line_where_it_was_seen() {
    let asked = |of: fn(u64) -> Option<u64>, opened: f64| {
        let mut run = planted(Plant { idle_rate: Some(0.5), ..Plant::NONE });
        for window in run.rounds.iter_mut().flat_map(|record| &mut record.windows) {
            let came = window.load.requests * 11 / 10;
            asks_others(window, came, of(came));
            window.server_cpus.tcp.active_opens = (came as f64 * opened) as u64;
        }
        let line = analyse(&run).ledger.into_iter().find(|line| line.id == "asked");
        line.map(|line| [line.baseline, line.value].map(|times| (times * 100.0).round() / 100.0))
    };
    assert_eq!(asked(|came| Some(4 * came), 0.0), Some([4.0, 4.0]));
    // A run of before this was seen.
    assert_eq!(asked(|_| None, 0.0), None);
    // Of a connection for each request nothing is seen that has ended.
    assert_eq!(asked(|_| Some(0), 1.0), None);
}

/// All timers of an event loop are waited for in one place: what they run tells which of them it is.
#[test]
fn who_waits_for_a_timer_of_an_event_loop_is_where_that_goes_off() {
    let waits = [WaitLeaf { count: 10_000, ..leaf(EndedBy::Timer, Some("server"), 400_000_000) }];
    let mut run = with_waits_in("uv__io_poll", &waits, false);
    keep_busy(&mut run, [("main", 0.93), ("pr", 0.2)]);
    // It is as late where nobody waits for a turn.
    change(&mut run, "pr", 1, |window| {
        let response = &mut window.load.response_ns;
        (response.count, response.p50, response.mean) = (1000, Some(40_000_000), 40e6);
        window.response_buckets = vec![[40_000_000, 1000]];
    });
    let timer = |file: &str, name: &str, line| Frame {
        name: name.to_owned(),
        module: "[jit]".to_owned(),
        resolved: true,
        file: Some(file.to_owned()),
        line: Some(line),
        ..Frame::default()
    };
    for record in &mut run.diagnostics {
        let mut sampled =
            profile(&[("main;serve", 60), ("main;timers;tick", 30), ("main;timers;dispatch", 10)]);
        sampled.frames[3] = timer("node:internal/timers", "listOnTimeout", 513);
        sampled.frames[6] = sampled.frames[3].clone();
        sampled.frames[4] = timer("/srv/app.js", "tick", 7);
        // More of it than of what only one of them runs.
        sampled.frames[7] = match record.arm.as_str() {
            "pr" => timer("/srv/node_modules/dataloader/index.js", "dispatch", 281),
            _ => timer("/srv/app.js", "tick", 9),
        };
        let pass = Pass { kind: PassKind::Sampling, profile: Some(sampled), ..record.passes[0].clone() };
        record.passes.push(pass);
    }
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "timer_wait");
    assert!(cause.text.contains(", to run dispatch (dataloader/index.js:281)"), "{}", cause.text);
    let place = cause.place.as_ref().unwrap();
    assert_eq!((place.function.as_str(), place.line), ("dispatch", Some(281)));
}

/// Of the other server, which waits as well, it was not seen what ends its waits, so that calls are counted. A runtime that sleeps in a
/// futex makes the same calls as one whose threads wait for a lock.
#[test]
fn who_is_seen_to_sleep_in_a_futex_waits_for_no_lock() {
    let first = |function: &str, ended_by| {
        let run = planted(Plant { calls: &[("futex", 1.0)], idle_rate: Some(0.5), ..Plant::NONE });
        let waits = [WaitLeaf { count: 10_000, ..leaf(ended_by, Some("server"), 400_000_000) }];
        let mut run = add_waits(run, function, &waits, false);
        keep_busy(&mut run, [("main", 0.6), ("pr", 0.2)]);
        let findings = analyse(&run);
        named(&findings).first().map(|cause| (cause.id.name(), cause.text.clone()))
    };
    let (name, text) = first("nanosleep", EndedBy::Timer).unwrap();
    assert_eq!(name, "sleep", "{text}");
    assert!(!text.contains("0.00"), "{text}");
    assert_ne!(first("wait_until", EndedBy::Timer).unwrap().0, "lock_contention");
    assert_eq!(first("take_turn", EndedBy::Lock).unwrap().0, "lock_contention");
}

/// Requests stand in line for a turn: what takes the time of those that have one is where their threads wait, if it is most of it.
#[test]
fn who_serves_few_at_a_time_is_slow_where_these_wait() {
    let place = |ns| {
        let plant = Plant { late_ns: 9_000_000, idle_rate: Some(0.1), ..Plant::NONE };
        let mut run = planted(plant);
        change(&mut run, "pr", 1, |window| {
            let response = &mut window.load.response_ns;
            (response.count, response.p50, response.mean) = (1000, Some(1_000_000), 1e6);
        });
        let findings =
            analyse(&add_waits(run, "ask_depot", &[leaf(EndedBy::Thread, Some("depot"), ns)], false));
        let few = named(&findings).into_iter().find(|cause| cause.id.name() == "few_at_a_time").unwrap();
        (few.place.as_ref().map(|place| place.function.clone()), few.text.contains("ask_depot"))
    };
    assert_eq!(place(80_000_000_000), (Some("ask_depot".to_owned()), true));
    assert_eq!(place(40_000), (None, false), "a small part of what a request takes");
}
