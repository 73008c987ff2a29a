//! USE tables and watched servers from known readings.

use analyse::{UseInput, UseLevel, UseRow, UseScope, WatchInput, Watched, WatchedWindow, use_table};
use model::record::{
    CpuTimes, Disk, Files, Frame, HostUsage, Listener, Memory, Network, Pressure, Profile, ProfileKind,
    Resources, SocketCounters, Sockets, Stack, TcpCounters, Usage,
};

use crate::support::{analyse, change, pair};

const SECOND_NS: u64 = 1_000_000_000;

fn usage() -> Usage {
    Usage {
        wall_ns: 10 * SECOND_NS,
        cpu: CpuTimes { total_ns: 4 * SECOND_NS, user_ns: SECOND_NS, system_ns: 3 * SECOND_NS },
        run_wait_ns: SECOND_NS / 10,
        busiest_thread_ns: 3 * SECOND_NS,
        rss_bytes: 1 << 20,
        threads: 4,
        voluntary_switches: 20_000,
        ..Usage::default()
    }
}

fn cpus() -> HostUsage {
    HostUsage {
        wall_ns: 10 * SECOND_NS,
        cpus: 2,
        user_ns: SECOND_NS,
        system_ns: 3 * SECOND_NS,
        idle_ns: 16 * SECOND_NS,
        ..HostUsage::default()
    }
}

fn resources() -> Resources {
    Resources {
        memory: Memory { total_bytes: 1 << 34, available_bytes: 3 << 32, ..Memory::default() },
        pressure: Some(Pressure::default()),
        network: Network::default(),
        disk: Disk { name: "sda".to_owned(), busy_ns: SECOND_NS, waiting_ns: SECOND_NS },
        files: Files {
            open: 80,
            open_limit: 1024,
            host_open: 900,
            host_limit: 100_000,
            thread_limit: Some(1000),
        },
        sockets: Some(Sockets {
            listeners: vec![Listener { port: 80, queued: 1, backlog: 511, dropped: None }],
            server: SocketCounters {
                connections: 64,
                data_segments_in: 40_000,
                data_segments_out: 80_000,
                bytes_in: 4_000_000,
                bytes_out: 8_000_000,
                busy_us: 1_000_000,
                ..SocketCounters::default()
            },
            clients: SocketCounters::default(),
            asked: None,
        }),
    }
}

fn table(change: impl Fn(&mut Usage, &mut HostUsage, &mut Resources)) -> Vec<UseRow> {
    let (mut usage, mut cpus, mut resources) = (usage(), cpus(), resources());
    change(&mut usage, &mut cpus, &mut resources);
    let input = UseInput {
        target: &usage,
        generator: Some(&usage),
        server_cpus: &cpus,
        load_cpus: Some(&cpus),
        resources: Some(&resources),
    };
    use_table(&input)
}

#[test]
fn a_quiet_machine_is_green() {
    let rows = table(|_, _, _| ());
    assert!(rows.iter().all(|row| row.level == UseLevel::Green), "{rows:#?}");
    let cpu = rows.iter().find(|row| row.scope == UseScope::Target && row.resource == "CPU").unwrap();
    assert!((cpu.utilisation.unwrap() - 0.2).abs() < 1e-9 && (cpu.saturation.unwrap() - 0.025).abs() < 1e-9);
}

#[test]
fn what_is_used_up_waited_for_or_broken_is_red_and_first() {
    type Change = fn(&mut Usage, &mut HostUsage, &mut Resources);
    let cases: [(UseScope, &str, Change); 16] = [
        (UseScope::Target, "CPU", |usage, _, _| usage.cpu.total_ns = 20 * SECOND_NS),
        (UseScope::Target, "CPU", |usage, _, _| usage.run_wait_ns = 3 * SECOND_NS),
        (UseScope::Target, "busiest thread", |usage, _, _| usage.busiest_thread_ns = 10 * SECOND_NS),
        (UseScope::Target, "CPU limit", |_, cpus, _| cpus.throttled_ns = SECOND_NS),
        (UseScope::Target, "memory", |_, _, all| all.memory.cgroup_limit_hits = 1),
        (UseScope::Target, "memory", |_, _, all| all.memory.cgroup_limit_bytes = Some(1 << 20)),
        (UseScope::Target, "descriptors", |_, _, all| all.files.open = 1000),
        (UseScope::Target, "threads", |_, _, all| all.files.thread_limit = Some(4)),
        (UseScope::Target, "accept queue", |_, cpus, _| {
            cpus.tcp = TcpCounters { listen_overflows: 3, ..TcpCounters::default() };
        }),
        (UseScope::Target, "accept queue", |_, _, all| {
            all.sockets.as_mut().unwrap().listeners[0].queued = 400
        }),
        (UseScope::Target, "connections", |_, _, all| all.sockets.as_mut().unwrap().server.retransmits = 1),
        (UseScope::Target, "connections", |_, _, all| {
            all.sockets.as_mut().unwrap().server.send_buffer_limited_us = 600_000;
        }),
        (UseScope::Host, "CPUs, hypervisor", |_, cpus, _| cpus.steal_ns = SECOND_NS),
        (UseScope::Host, "memory", |_, _, all| all.memory.oom_kills = 1),
        (UseScope::Host, "interfaces", |_, _, all| all.network.drops = 1),
        (UseScope::Host, "busiest disk", |_, _, all| all.disk.busy_ns = 10 * SECOND_NS),
    ];
    for (scope, name, change) in cases {
        let rows = table(change);
        let red: Vec<&UseRow> = rows.iter().take_while(|row| row.level == UseLevel::Red).collect();
        assert!(red.iter().any(|row| row.scope == scope && row.resource == name), "{name}: {rows:#?}");
        assert!(rows.iter().skip(red.len()).all(|row| row.level != UseLevel::Red), "red is first: {name}");
    }
}

#[test]
fn what_is_not_known_has_no_row() {
    let (usage, cpus) = (usage(), cpus());
    let input =
        UseInput { target: &usage, generator: None, server_cpus: &cpus, load_cpus: None, resources: None };
    let rows = use_table(&input);
    assert!(
        rows.iter().all(|row| row.scope != UseScope::Generator && row.resource != "descriptors"),
        "{rows:#?}"
    );
    assert!(rows.iter().any(|row| row.resource == "CPU"));
}

#[test]
fn a_run_has_a_table_for_each_arm_with_errors_summed_over_its_windows() {
    let mut run = pair(1.0);
    let arm = run.manifest.plan.arms[1].name.clone();
    change(&mut run, &arm, 0, |window| {
        window.resources =
            Some(Resources { network: Network { drops: 2, ..Network::default() }, ..Resources::default() });
    });
    let windows = run.rounds.iter().filter(|record| record.arm == arm).count() as u64;
    let findings = analyse(&run);
    assert_eq!(findings.resources.len(), run.manifest.plan.arms.len());
    let rows = &findings.resources.iter().find(|table| table.arm == arm).unwrap().rows;
    assert!(findings.arms.iter().all(|arm| arm.segments_per_request.is_none()), "not known of every window");
    let interfaces = rows.iter().find(|row| row.resource == "interfaces").unwrap();
    assert_eq!((interfaces.errors, interfaces.level), (Some(2 * windows), UseLevel::Red));
}

fn profile() -> Profile {
    let frame = |name: &str| Frame { name: name.to_owned(), resolved: true, ..frame_of("server") };
    Profile {
        period_ns: 1_000_000,
        kernel: true,
        samples: 4000,
        frames: vec![frame("main"), frame("handle")],
        stacks: vec![Stack { frames: vec![0, 1], samples: 3000 }, Stack { frames: vec![0], samples: 1000 }],
        ..Profile::default()
    }
}

fn frame_of(module: &str) -> Frame {
    Frame { module: module.to_owned(), ..Frame::default() }
}

fn seen() -> WatchedWindow {
    WatchedWindow { usage: usage(), ticks: 400, cpus: cpus(), resources: resources(), counted: None }
}

/// What follows from what was seen, with its sentences.
fn watched(input: &WatchInput) -> Watched {
    report::worded(analyse::watched(input)).into_inner()
}

fn input(plain: WatchedWindow) -> WatchInput {
    WatchInput { pid: 7, name: "server".to_owned(), plain, ..WatchInput::default() }
}

/// A server of which a profile was taken in a window like that of its ledger.
fn profiled(profile: Profile, plain: WatchedWindow) -> WatchInput {
    WatchInput { profiles: vec![(profile, plain.clone())], ..input(plain) }
}

#[test]
fn a_watched_server_is_told_by_second_and_by_request() {
    let found = watched(&profiled(profile(), seen()));
    assert_eq!((found.requests, found.requests_from.as_deref()), (Some(40_000), Some("segments")));
    assert!((found.rate_per_s.unwrap() - 4000.0).abs() < 1e-9 && (found.busy_cores - 0.4).abs() < 1e-9);
    let row = |name: &str| found.ledger.iter().find(|row| row.name == name).unwrap();
    assert!(
        (row("CPU").per_request.unwrap() - 100_000.0).abs() < 1e-6 && (row("CPU").per_s - 4e8).abs() < 1e-3
    );
    assert!((row("segments with data out").per_request.unwrap() - 2.0).abs() < 1e-9);
    assert!((row("voluntary switches").per_request.unwrap() - 0.5).abs() < 1e-9);
    let functions = &found.profile.as_ref().unwrap().functions;
    assert_eq!(functions[0].name, "handle");
    assert!((functions[0].arm_ns - 75_000.0).abs() < 1e-6, "{functions:?}");
}

#[test]
fn without_the_kernel_a_profile_divides_user_time() {
    let user_only = Profile { kernel: false, ..profile() };
    let found = watched(&profiled(user_only, seen()));
    let user_ns =
        found.ledger.iter().find(|row| row.name == "CPU, its own code").unwrap().per_request.unwrap();
    let functions = &found.profile.as_ref().unwrap().functions;
    assert!(user_ns > 0.0 && (functions[0].arm_ns - 0.75 * user_ns).abs() < 1e-6, "{functions:?}");
}

#[test]
fn a_counter_is_believed_before_segments_and_without_both_there_are_no_requests() {
    let found = watched(&input(WatchedWindow { counted: Some([3, 400_003]), ..seen() }));
    assert_eq!((found.requests, found.requests_from.as_deref()), (Some(400_000), Some("counter")));
    assert!((found.ledger[0].per_request.unwrap() - 10_000.0).abs() < 1e-6);
    let found = watched(&profiled(profile(), WatchedWindow { resources: Resources::default(), ..seen() }));
    assert_eq!((found.requests, found.rate_per_s), (None, None));
    assert!(found.ledger.iter().all(|row| row.per_request.is_none()));
    // Then the profile is of a second.
    assert!((found.profile.unwrap().functions[0].arm_ns - 3e8).abs() < 1.0);
    assert!(found.notes.iter().any(|note| note.contains("--counter")), "{:?}", found.notes);
}

#[test]
fn a_profile_is_of_its_own_window_and_says_what_it_cost() {
    let mut slowed = seen();
    slowed.usage.cpu.total_ns *= 2;
    slowed.usage.cpu.user_ns *= 2;
    let waits = Profile { kind: ProfileKind::OffCpu, ..profile() };
    let found = watched(&WatchInput { profiles: vec![(waits, slowed)], ..input(seen()) });
    let has_note = |words: &str| found.notes.iter().any(|note| note.contains(words));
    assert!(has_note("Recording its waits was done after the window of the ledger"), "{:?}", found.notes);
    assert!(has_note("from 100 µs to 200 µs (x2.00)"), "{:?}", found.notes);
    assert!((found.ledger[0].per_request.unwrap() - 100_000.0).abs() < 1e-6);
}

#[test]
fn a_profile_that_stands_for_part_of_the_time_divides_that_part() {
    for (samples, expected_ns) in [(4000, Some(75_000.0)), (2400, Some(0.6 * 75_000.0)), (1600, None)] {
        let stacks = profile().stacks.into_iter();
        let stacks = stacks.map(|stack| Stack { samples: stack.samples * samples / 4000, ..stack }).collect();
        let taken = Profile { samples, stacks, wall_ns: usage().wall_ns, ..profile() };
        let found = watched(&profiled(taken, seen()));
        let first_ns = found.profile.as_ref().map(|profile| profile.functions[0].arm_ns);
        assert_eq!(first_ns.is_some(), expected_ns.is_some(), "{samples}: {:?}", found.notes);
        assert!(first_ns.zip(expected_ns).is_none_or(|(ns, expected)| (ns - expected).abs() < 1e-6));
        let has_note = found.notes.iter().any(|note| note.contains("stand for"));
        assert_eq!(has_note, samples < 4000, "{:?}", found.notes);
    }
}

#[test]
fn connections_that_come_and_go_are_a_doubt() {
    let mut plain = seen();
    plain.cpus.tcp.passive_opens = 39_000;
    let found = watched(&input(plain));
    assert!(found.notes.iter().any(|note| note.contains("39000 connections")), "{:?}", found.notes);
}

#[test]
fn segments_of_a_request_and_of_an_answer_are_pooled() {
    let mut run = pair(1.0);
    let arm = run.manifest.plan.arms[1].name.clone();
    change(&mut run, &arm, 0, |window| {
        let requests = window.load.requests;
        let server = SocketCounters {
            data_segments_in: requests,
            data_segments_out: 3 * requests,
            ..SocketCounters::default()
        };
        let sockets = Some(Sockets { server, ..Sockets::default() });
        window.resources = Some(Resources { sockets, ..Resources::default() });
    });
    let findings = analyse(&run);
    let found = findings.arms.iter().find(|row| row.name == arm).unwrap().segments_per_request.unwrap();
    assert!((found.received - 1.0).abs() < 0.01 && (found.sent - 3.0).abs() < 0.03, "{found:?}");
}
