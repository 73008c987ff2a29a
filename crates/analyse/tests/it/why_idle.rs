//! Causes of idle time: what threads were seen to wait in, whom clients waited for, and when nobody was answered.

use model::record::{PassKind, Profile, ProfileKind, Run, Stack};

use crate::support::{analyse, change};
use crate::waits::keep_busy;
use crate::why::{Plant, apply, named, planted};
use crate::why_cpu::profile;

#[test]
fn clients_that_were_refused_are_told_of_though_the_server_is_as_fast() {
    let findings = analyse(&planted(Plant { refused: 0.002, ..Plant::NONE }));
    let causes = named(&findings);
    assert_eq!((causes.len(), causes[0].id.name(), causes[0].share), (1, "listen_backlog", None));
    assert!((causes[0].ns_per_request - 2e6).abs() < 1e4, "{:?}", causes[0]);
    assert!(causes[0].text.contains("2.00 ms a request"), "{}", causes[0].text);
    let mut both = planted(Plant { refused: 0.002, ..Plant::NONE });
    change(&mut both, "main", 0, |window| apply(window, &Plant { refused: 0.0015, ..Plant::NONE }));
    assert!(named(&analyse(&both)).is_empty());
}

#[test]
fn a_wait_of_forty_milliseconds_without_acknowledgements_is_the_programs_own() {
    let first = |acks: u64| {
        let mut run =
            planted(Plant { delayed: 100, late_ns: 9_000_000, idle_rate: Some(0.1), ..Plant::NONE });
        change(&mut run, "pr", 0, |window| {
            window.server_cpus.tcp.delayed_acks = acks * window.load.requests / 100;
        });
        named(&analyse(&run))[0].id.name()
    };
    // One may be sent for two answers.
    assert_eq!((first(60), first(1)), ("delayed_ack", "timer_wait"));
}

#[test]
fn who_waits_in_line_for_forty_milliseconds_waits_for_no_acknowledgement() {
    let first = |unhurried_ns: u64| {
        let mut run =
            planted(Plant { delayed: 100, late_ns: 39_000_000, idle_rate: Some(0.1), ..Plant::NONE });
        change(&mut run, "pr", 1, |window| {
            let response = &mut window.load.response_ns;
            (response.count, response.p50, response.mean) = (1000, Some(unhurried_ns), unhurried_ns as f64);
            window.response_buckets = vec![[unhurried_ns, 1000]];
        });
        named(&analyse(&run))[0].id.name()
    };
    assert_eq!((first(40_894_464), first(4_000_000)), ("delayed_ack", "few_at_a_time"));
}

#[test]
fn of_several_kinds_of_waits_the_one_that_threads_are_seen_in_is_first() {
    let calls = &[("clock_nanosleep", 1.0), ("futex", 2.0), ("fsync", 1.0), ("write", 1.0), ("read", 1.0)];
    for (stacks, expected) in [
        (&[("main;serve;futex_wait", 60_000), ("main;serve;hrtimer_nanosleep", 1000)][..], "lock_contention"),
        (&[("main;serve;futex_wait", 1000), ("main;serve;hrtimer_nanosleep", 60_000)], "sleep"),
        // Whoever waits for the lock waits for the disk of its holder.
        (&[("main;serve;futex_wait", 60_000), ("main;serve;ext4_sync_file", 1000)], "sync_writes"),
    ] {
        let findings = analyse(&waiting_in(calls, stacks));
        assert_eq!(named(&findings)[0].id.name(), expected, "{:?}", findings.causes);
    }
}

#[test]
fn who_waits_for_the_lock_of_a_file_need_not_ask_for_it_more_often() {
    let stacks = &[
        ("main;open_session;locks_lock_inode_wait", 60_000),
        // Who waits for a CPU waits for nothing else.
        ("main;parse;exit_to_user_mode_loop;[waiting for a CPU]", 90_000),
    ];
    let first = |stacks| {
        let findings = analyse(&waiting_in(&[], stacks));
        let first = named(&findings)[0];
        (first.id.name(), first.text.clone())
    };
    let (id, text) = first(stacks);
    assert_eq!(id, "lock_contention");
    assert!(text.contains("file locks (in open_session)") && !text.contains("parse"), "{text}");
    assert_ne!(first(&stacks[1..]).0, "lock_contention");
}

#[test]
fn a_server_that_works_more_and_waits_too_is_limited_by_its_wait() {
    let limit = |stacks| {
        let mut run = waiting_in_at(0.5, &[], stacks);
        keep_busy(&mut run, [("main", 0.93), ("pr", 0.8)]);
        analyse(&run).arms[1].limiter.clone().unwrap()
    };
    let waits = limit(&[("main;open_session;locks_lock_inode_wait", 60_000)]);
    assert!(waits.contains("waiting for file locks (in open_session)"), "{waits}");
    let unseen = limit(&[]);
    assert!(unseen.contains("serving about"), "{unseen}");
}

/// A server that makes these calls and whose threads were seen to wait in these stacks.
pub(crate) fn waiting_in(calls: &'static [(&'static str, f64)], stacks: &[(&str, u64)]) -> Run {
    waiting_in_at(0.1, calls, stacks)
}

/// The same at a rate that is so much of the other's.
fn waiting_in_at(rate: f64, calls: &'static [(&'static str, f64)], stacks: &[(&str, u64)]) -> Run {
    let mut run = planted(Plant { calls, idle_rate: Some(rate), ..Plant::NONE });
    let mut waits = Profile { wall_ns: 1_000_000_000, ..profile(stacks) };
    waits.kind = model::record::ProfileKind::OffCpu;
    for record in run.diagnostics.iter_mut().filter(|record| record.arm == "pr") {
        let mut pass = record.passes[0].clone();
        (pass.kind, pass.profile) = (PassKind::Waiting, Some(waits.clone()));
        record.passes.push(pass);
    }
    run
}

#[test]
fn waits_are_not_told_apart_without_the_kernels_names() {
    let mut run = waiting_in(&[("clock_nanosleep", 1.0)], &[("main;serve;[kernel]", 60_000)]);
    let passes = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    passes.filter_map(|pass| pass.profile.as_mut()).for_each(|profile| profile.kernel_symbols = false);
    // What was counted still tells.
    assert_eq!(named(&analyse(&run))[0].id.name(), "sleep");
}

#[test]
fn calls_that_were_not_counted_are_not_none() {
    let mut run = waiting_in(&[("futex", 2.0)], &[("main;serve;futex_wait", 60_000)]);
    for record in run.diagnostics.iter_mut().filter(|record| record.arm == "pr") {
        record.passes.retain(|pass| pass.kind != PassKind::Counting);
    }
    let findings = analyse(&run);
    let first = named(&findings)[0];
    assert_eq!(first.id.name(), "lock_contention", "{:?}", findings.causes);
    assert!(!first.text.contains("futex calls"), "{}", first.text);
    let calls: Vec<_> = findings.ledger.iter().filter(|line| line.id.starts_with("syscall:")).collect();
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn switches_of_a_server_that_drops_connections_are_told_of_the_dropping() {
    let plant =
        Plant { refused: 0.01, switches: 2.0, system_ns: 3000.0, idle_rate: Some(0.8), ..Plant::NONE };
    let findings = analyse(&planted(plant));
    let causes: Vec<(&str, f64)> =
        named(&findings).iter().map(|cause| (cause.id.name(), cause.ns_per_request)).collect();
    assert!(
        matches!(causes[..], [("listen_backlog", most), ("context_switches", less), ..] if most > less),
        "{:?}",
        findings.causes
    );
}

#[test]
fn a_request_that_is_seldom_waited_for_carries_less_than_one_that_always_is() {
    let calls = &[("clock_nanosleep", 0.2), ("read", 1.0), ("write", 1.0)];
    let findings = analyse(&planted(Plant { calls, idle_rate: Some(0.1), ..Plant::NONE }));
    let ids: Vec<&str> = named(&findings).iter().map(|cause| cause.id.name()).collect();
    assert_eq!(ids[0], "backend_wait", "{ids:?}");
    let reads = Plant { calls: &[("read", 1.0)], idle_rate: Some(0.1), ..Plant::NONE };
    let findings = analyse(&planted(reads));
    assert!(named(&findings).iter().all(|cause| cause.id.name() != "backend_wait"), "nobody was asked");
}

#[test]
fn who_answers_soon_when_there_are_few_requests_takes_few_at_a_time() {
    let slow = |count, p50, mean| {
        let mut run = planted(Plant { late_ns: 9_000_000, idle_rate: Some(0.1), ..Plant::NONE });
        change(&mut run, "pr", 1, |window| {
            let response = &mut window.load.response_ns;
            (response.count, response.p50, response.mean) = (count, p50, mean);
        });
        analyse(&run)
    };
    let pool = slow(1000, Some(1_000_000), 9e9);
    let cause = named(&pool)[0];
    assert_eq!(cause.id.name(), "few_at_a_time", "{:?}", pool.causes);
    assert!(cause.text.contains("at the equal rate it answers in 1.00 ms, at capacity in"), "{}", cause.text);
    let seldom_asked = slow(75, None, 1e6);
    assert_eq!(named(&seldom_asked)[0].text, cause.text);
    let timer = slow(1000, Some(9_500_000), 1e6);
    assert_eq!(named(&timer)[0].id.name(), "timer_wait", "{:?}", timer.causes);
    assert!(!named(&timer)[0].text.contains("for a turn"), "{}", named(&timer)[0].text);
    let unknown = slow(0, None, 0.0);
    assert_eq!(named(&unknown)[0].id.name(), "timer_wait", "{:?}", unknown.causes);
    assert!(named(&unknown)[0].text.contains("or for a turn"), "{}", named(&unknown)[0].text);
}

#[test]
fn work_that_one_thread_does_is_told_where_the_other_server_uses_all_cpus() {
    let mut run = planted(Plant::NONE);
    for arm in ["main", "pr"] {
        change(&mut run, arm, 0, |window| {
            let cores = if arm == "main" { 2 } else { 1 };
            let busy_ns = cores * window.target.wall_ns * 98 / 100;
            window.target.cpu.total_ns = busy_ns;
            window.target.cpu.user_ns = busy_ns / 2;
            window.target.cpu.system_ns = busy_ns / 2;
            window.target.busiest_thread_ns = window.target.wall_ns * 98 / 100;
            window.server_cpus.user_ns = busy_ns;
            window.server_cpus.idle_ns = 2 * window.target.wall_ns - busy_ns;
            if arm == "pr" {
                window.load.requests /= 2;
                window.load.bytes_read /= 2;
                window.load.rate_per_s /= 2.0;
            }
        });
    }
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "one_thread", "{:?}", findings.causes);
    assert!(cause.text.contains("0.98 CPUs busy, against 1.96"), "{}", cause.text);
}

#[test]
fn a_collector_does_not_carry_more_idle_time_than_it_stops_the_world_for() {
    // Nine tenths of the time the server waits for something else, and its collector takes a hundredth of a request.
    let mut run = planted(Plant { delayed: 50, idle_rate: Some(0.1), ..Plant::NONE });
    for (arm, each) in [("main", 10.0), ("pr", 100.0)] {
        change(&mut run, arm, 0, |window| {
            let ns = (window.load.requests as f64 * each) as u64;
            window.target.threads_ns = [("VM Thread".to_owned(), ns)].into();
        });
    }
    let findings = analyse(&run);
    assert_eq!(named(&findings)[0].id.name(), "delayed_ack", "{:?}", findings.causes);
    assert!(named(&findings).iter().all(|cause| cause.id.name() != "gc"), "{:?}", findings.causes);
}

#[test]
fn a_wait_is_told_with_the_function_that_waits() {
    let mut run = planted(Plant { calls: &[("clock_nanosleep", 1.0)], idle_rate: Some(0.1), ..Plant::NONE });
    let mut waits = profile(&[("main;serve;ask_backend;nanosleep", 900), ("main;serve;epoll_wait", 99_000)]);
    waits.kind = model::record::ProfileKind::OffCpu;
    for frame in &mut waits.frames {
        if frame.name == "nanosleep" {
            frame.module = "libc.so.6".to_owned();
        }
        if frame.name == "epoll_wait" {
            (frame.name, frame.kernel) = ("ep_poll".to_owned(), true);
        }
    }
    for record in run.diagnostics.iter_mut().filter(|record| record.arm == "pr") {
        let mut pass = record.passes[0].clone();
        (pass.kind, pass.profile) = (PassKind::Waiting, Some(waits.clone()));
        record.passes.push(pass);
    }
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert!(cause.text.starts_with("sleeps (in ask_backend): "), "{}", cause.text);
}

/// A run whose second arm is idle for a fifth of the time, in stalls in which one more thread waits in `function`; a pass
/// that times waits saw it, in profiles of a second. Even its quickest answers are `late_ns` late.
pub(crate) fn stalled(function: &str, late_ns: u64) -> Run {
    let mut run = planted(Plant { idle_rate: Some(0.8), late_ns, ..Plant::NONE });
    for record in &mut run.diagnostics {
        let mut pass = record.passes[0].clone();
        pass.kind = PassKind::Waiting;
        let held = format!("main;tick;{function};hrtimer_nanosleep");
        // A thread of a pool waits all the time.
        let pool = ("pool;take;futex_wait", 1_000_000);
        let stacks: Vec<(&str, u64)> = match &*record.arm {
            "pr" => vec![pool, (&held, 200_000)],
            _ => vec![pool],
        };
        let mut seen = Profile { kind: ProfileKind::OffCpu, period_ns: 1_000, ..profile(&stacks) };
        seen.wall_ns = 1_000_000_000;
        if record.arm == "pr" {
            seen.stalls_ns = vec![50_000_000; 4];
            seen.stalled =
                seen.stacks.iter().map(|stack| Stack { samples: 200_000, ..stack.clone() }).collect();
        }
        pass.profile = Some(seen);
        record.passes.push(pass);
    }
    run
}

#[test]
fn a_server_that_answers_nobody_for_a_while_is_told_with_what_it_waits_in_meanwhile() {
    let findings = analyse(&stalled("save", 0));
    let text = "answers nobody 8 times in 2.00 s watched, for 50.0 ms on average (20 % of the time); meanwhile it waits in \
                main > tick > save (1.00 threads at a time, 0.00 at other times)";
    assert_eq!(findings.arms[0].stalls, None);
    assert_eq!(findings.arms[1].stalls.as_ref().unwrap().text, text);
    let causes = named(&findings);
    assert_eq!(
        causes.iter().map(|cause| cause.id.name()).collect::<Vec<_>>(),
        ["stalls"],
        "{:?}",
        findings.causes
    );
    assert!(
        causes[0].text.contains("50.0 ms at a time (20 % of the time against 0.0 %)"),
        "{}",
        causes[0].text
    );
    let mut without = stalled("save", 0);
    for pass in without.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
        pass.profile
            .iter_mut()
            .for_each(|profile| (profile.stalls_ns, profile.stalled) = (Vec::new(), Vec::new()));
    }
    let findings = analyse(&without);
    assert!(named(&findings).iter().all(|cause| cause.id.name() != "stalls"), "{:?}", findings.causes);
}

#[test]
fn where_each_request_waits_nobody_is_answered_now_and_then_and_that_is_no_stall() {
    let findings = analyse(&stalled("save", 9_000_000));
    assert_eq!(named(&findings)[0].id.name(), "timer_wait", "{:?}", findings.causes);
    // A queue may hide it at capacity: the answers that nothing hurries tell.
    let mut run = stalled("save", 0);
    change(&mut run, "pr", 1, |window| window.load.response_ns.p50 = Some(9_500_000));
    let findings = analyse(&run);
    let first = named(&findings)[0];
    assert_eq!(first.id.name(), "timer_wait", "{:?}", findings.causes);
    assert!(first.text.contains("half of the answers take 9.50 ms, against"), "{}", first.text);
}
