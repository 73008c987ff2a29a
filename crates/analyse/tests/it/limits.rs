//! What limits an arm, a made-up run for each kind. Both arms are alike, so that no cause is looked for: what is said of
//! each is told from that arm alone.

use model::record::{
    Counts, DiagnosticRecord, EndedBy, Link, Pass, PassKind, Profile, ProfileKind, Run, Stack, WaitLeaf,
    Waits, Window,
};

use crate::support::{analyse, change, kernel_frame, pair};

/// Requests a second of the made-up arms at capacity, about.
const RATE_PER_S: f64 = 98_000.0;

/// What makes an arm have a limit.
#[derive(Clone, Copy)]
struct Limited {
    window: fn(&mut Window),
    /// System calls per request.
    calls: &'static [(&'static str, f64)],
    /// Functions of the kernel, and threads that wait in them at a time.
    waits: &'static [(&'static str, f64)],
    /// What loopback carries.
    loopback_bytes_per_s: f64,
}

const NOTHING: Limited = Limited { window: |_| (), calls: &[], waits: &[], loopback_bytes_per_s: 5e9 };
/// A server that leaves most of its two CPUs idle, with a generator that has time to spare.
const IDLE: Limited = Limited { window: idle, ..NOTHING };

fn busy(window: &mut Window, share: f64, thread: f64) {
    let wall_ns = window.target.wall_ns;
    let busy_ns = (2.0 * share * wall_ns as f64) as u64;
    let cpu = &mut window.target.cpu;
    (cpu.total_ns, cpu.user_ns, cpu.system_ns) = (busy_ns, busy_ns / 2, busy_ns - busy_ns / 2);
    window.target.busiest_thread_ns = (thread * wall_ns as f64) as u64;
    window.server_cpus.cpus = 2;
    (window.server_cpus.user_ns, window.server_cpus.idle_ns) = (busy_ns, 2 * wall_ns - busy_ns);
}

fn idle(window: &mut Window) {
    busy(window, 0.4, 0.4);
}

fn refused(window: &mut Window) {
    idle(window);
    window.server_cpus.tcp.listen_overflows = window.load.requests / 100;
}

fn resent(window: &mut Window) {
    idle(window);
    window.server_cpus.tcp.retransmits = window.load.requests / 100;
}

fn generator_full(window: &mut Window) {
    idle(window);
    window.load.busiest_thread = 0.9;
}

/// So many of 1000 responses take so long, all others 0.1 ms.
fn delayed(window: &mut Window, slow: u64, slow_ns: u64) {
    idle(window);
    window.response_buckets = vec![[98_304, 1000 - slow], [slow_ns, slow]];
}

/// Something else runs on its CPUs, for which its threads wait so long for each second that they run.
fn crowd(window: &mut Window, waits: f64) {
    busy(window, 0.6, 0.6);
    window.target.run_wait_ns = (window.target.cpu.total_ns as f64 * waits) as u64;
    let taken = window.server_cpus.idle_ns * 4 / 5;
    (window.server_cpus.user_ns, window.server_cpus.idle_ns) =
        (window.server_cpus.user_ns + taken, window.server_cpus.idle_ns - taken);
}

fn run(limited: Limited) -> Run {
    let mut run = pair(1.0);
    run.host.loopback_bytes_per_s = Some(limited.loopback_bytes_per_s);
    for arm in ["main", "pr"] {
        change(&mut run, arm, 0, limited.window);
        let window = run.rounds.iter().find(|record| record.arm == arm).unwrap().windows[0].clone();
        run.diagnostics.push(diagnostic(arm, &window, limited));
    }
    run
}

fn diagnostic(arm: &str, window: &Window, limited: Limited) -> DiagnosticRecord {
    let pass = |kind| Pass {
        kind,
        window: window.clone(),
        counts: None,
        profile: None,
        machine: None,
        services: std::collections::BTreeMap::new(),
        waits: None,
        missing: Vec::new(),
    };
    let mut passes = vec![pass(PassKind::Untouched)];
    if !limited.calls.is_empty() {
        let count = |each: f64| (window.load.requests as f64 * each).round() as u64;
        let syscalls = limited.calls.iter().map(|(name, each)| ((*name).to_owned(), count(*each))).collect();
        let counts = Counts { syscalls, ..Counts::default() };
        passes.push(Pass { counts: Some(counts), ..pass(PassKind::Counting) });
    }
    if !limited.waits.is_empty() {
        passes.push(Pass { profile: Some(waits(limited.waits)), ..pass(PassKind::Waiting) });
    }
    DiagnosticRecord { passes, ..DiagnosticRecord::new(arm, 0) }
}

/// A second in which so many threads wait in each function, in samples of a microsecond.
fn waits(functions: &[(&str, f64)]) -> Profile {
    let stack = |(index, (_, threads)): (usize, &(&str, f64))| Stack {
        frames: vec![index as u32],
        samples: (threads * 1e6) as u64,
    };
    let stacks: Vec<Stack> = functions.iter().enumerate().map(stack).collect();
    Profile {
        kind: ProfileKind::OffCpu,
        period_ns: 1000,
        wall_ns: 1_000_000_000,
        samples: stacks.iter().map(|stack| stack.samples).sum(),
        kernel: true,
        kernel_symbols: true,
        callers: true,
        frames: functions.iter().map(|(name, _)| kernel_frame(name)).collect(),
        stacks,
        ..Profile::default()
    }
}

/// That both arms are said to be limited so.
fn limits(limited: Limited, expected: &str) {
    let findings = analyse(&run(limited));
    for arm in &findings.arms {
        assert_eq!(arm.limiter.as_deref(), Some(expected), "{}", arm.name);
    }
}

/// What else limits it nobody can tell; what ends its waits was seen.
#[test]
fn who_waits_for_no_known_limit_waits_for_what_is_seen_to_end_its_waits() {
    let limiter = |ended_by: EndedBy| {
        let mut run = run(Limited { window: idle, ..NOTHING });
        for record in &mut run.diagnostics {
            let leaf = WaitLeaf {
                ended_by,
                behind: None,
                by: Some("node (port 8331)".to_owned()),
                of_service: false,
                waited_in: vec![0],
                woken_from: Vec::new(),
                count: 98_000,
                ns: 98_000_000,
            };
            let frames = vec![kernel_frame("do_epoll_wait")];
            let waits =
                Waits { frames, idle_ns: leaf.ns, leaves: vec![leaf], threads: 1, ..Waits::default() };
            record.passes.push(Pass {
                kind: PassKind::Waking,
                waits: Some(waits),
                ..record.passes[0].clone()
            });
        }
        analyse(&run).arms[0].limiter.clone().unwrap()
    };
    let waits = limiter(EndedBy::Service);
    assert!(waits.starts_with("a wait, not its CPU: waiting for an answer of node (port 8331)"), "{waits}");
    assert_eq!(limiter(EndedBy::Client), "not its CPU (40 % busy): a wait of its own, unknown");
}

#[test]
fn a_link_between_machines_limits_by_what_it_carries_and_by_how_long_it_is() {
    let limited = |link: Link| {
        let mut run = run(IDLE);
        run.host.link = Some(link);
        let findings = analyse(&run);
        findings.arms[0].limiter.clone().unwrap()
    };
    // 98000 answers of 130 bytes a second; what a link carries is counted with its heads.
    let narrow = limited(Link { round_trip_ns: 100, bytes_per_s: 14e6 });
    assert_eq!(narrow, "the link between the machines (87 % of the 14.0 MB/s that it carries)");
    let long = limited(Link { round_trip_ns: 100_000_000, bytes_per_s: 14e9 });
    assert!(
        long.starts_with("the way between the machines (100 ms there and back, of a mean response of"),
        "{long}"
    );
    let neither = limited(Link { round_trip_ns: 100, bytes_per_s: 14e9 });
    assert_eq!(neither, "not its CPU (40 % busy): a wait of its own, unknown");
}

#[test]
fn each_limit_is_named_for_each_arm() {
    limits(NOTHING, "its CPU (98 % of 1 busy)");
    let one_thread = Limited { window: |window| busy(window, 0.5, 0.98), ..NOTHING };
    limits(one_thread, "one thread (98 % busy, 1.00 of 2 CPUs used)");
    let run_queue = |window: fn(&mut Window)| Limited { window, ..NOTHING };
    limits(run_queue(|window| crowd(window, 0.3)), "waiting for a CPU (30 % of its run time)");
    limits(run_queue(|window| crowd(window, 22.0)), "waiting for a CPU (22.0 times as long as it runs)");
    let crowded_out = Limited {
        window: |window| {
            busy(window, 0.02, 0.02);
            (window.server_cpus.user_ns, window.server_cpus.idle_ns) =
                (window.server_cpus.user_ns + window.server_cpus.idle_ns, 0);
        },
        ..NOTHING
    };
    limits(crowded_out, "other processes on its CPUs (100 % busy, 2.0 % by itself)");
    // Many threads that are ready at the same time wait for each other, and for no CPU that anyone lacks.
    let in_bursts = Limited {
        window: |window| {
            busy(window, 0.6, 0.6);
            window.target.run_wait_ns = window.target.cpu.total_ns * 10;
        },
        ..NOTHING
    };
    limits(in_bursts, "not its CPU (60 % busy): a wait of its own, unknown");
    limits(Limited { window: refused, ..NOTHING }, "its accept queue (connections were refused)");
    limits(
        Limited { window: resent, ..NOTHING },
        "segments that are lost and sent again (0.0100 a request; each may take a fifth of a second)",
    );
    limits(Limited { window: generator_full, ..NOTHING }, "the generator (90 % busy; the server 40 %)");
    // 98000 answers of 130 bytes a second over two CPUs.
    limits(Limited { loopback_bytes_per_s: 7e6, ..IDLE }, "the link (91 % of what loopback carries here)");
    limits(IDLE, "not its CPU (40 % busy): a wait of its own, unknown");
}

#[test]
fn what_threads_are_blocked_in_is_named_where_cpus_are_idle() {
    let blocked = |calls, waits, says: &str| {
        limits(
            Limited { calls, waits, ..IDLE },
            &format!("a wait, not its CPU (40 % busy): its threads wait for {says}"),
        );
    };
    blocked(
        &[("fsync", 1.0)],
        &[("ext4_sync_file", 0.9)],
        "the disk (1.00 writes forced to it a request, 0.9 threads at a time)",
    );
    blocked(&[("clock_nanosleep", 1.0)], &[], "a time to pass (1.00 sleeps a request)");
    blocked(
        &[("clock_nanosleep", 1.0)],
        &[("hrtimer_nanosleep", 5.0)],
        "a time to pass (1.00 sleeps a request, 5.0 threads at a time)",
    );
    let both = &[("clock_nanosleep", 1.0), ("futex", 1.5)];
    blocked(
        both,
        &[("hrtimer_nanosleep", 1.0), ("futex_wait_queue", 6.0)],
        "each other (1.50 futex calls a request, 6.0 threads at a time)",
    );
    blocked(both, &[], "a time to pass (1.00 sleeps a request)");
    blocked(
        &[("flock", 1.0)],
        &[("locks_lock_inode_wait", 6.0)],
        "file locks (1.00 flock or fcntl calls a request, 6.0 threads at a time)",
    );
    // Whoever waits for a lock waits for the disk of its holder, which a file opened so makes it wait for without a call.
    blocked(
        both,
        &[("futex_wait_queue", 6.0), ("jbd2_log_wait_commit", 0.8)],
        "the disk (0.8 threads at a time)",
    );
}

#[test]
fn threads_that_have_no_work_are_not_the_limit() {
    let pool = Limited { calls: &[("futex", 2.0)], waits: &[("futex_wait_queue", 8.0)], ..NOTHING };
    limits(Limited { window: generator_full, ..pool }, "the generator (90 % busy; the server 40 %)");
    limits(Limited { window: refused, ..pool }, "its accept queue (connections were refused)");
    let unknown = "not its CPU (40 % busy): a wait of its own, unknown";
    // A thread of its own that sleeps, or is never woken.
    limits(
        Limited {
            calls: &[("clock_nanosleep", 0.01)],
            waits: &[("hrtimer_nanosleep", 1.0), ("futex_wait_queue", 3.0)],
            ..IDLE
        },
        unknown,
    );
    // What was seen of another server.
    let mut other = run(Limited { window: idle, ..pool });
    for pass in other.diagnostics.iter_mut().flat_map(|record| &mut record.passes).skip(1) {
        pass.window.target.voluntary_switches += pass.window.load.requests;
    }
    let limiters: Vec<_> = analyse(&other).arms.into_iter().map(|arm| arm.limiter.unwrap()).collect();
    assert_eq!(limiters[0], unknown, "{limiters:?}");
}

#[test]
fn stalls_of_one_length_are_named_where_it_is_known_what_takes_as_long() {
    let delayed_acks = |window: &mut Window| {
        delayed(window, 100, 40_894_464);
        window.server_cpus.tcp.delayed_acks = 100;
    };
    let expected = "stalls of 41.9 ms, as long as acknowledgements that are delayed (set TCP_NODELAY, or write the answer \
                    at once) (10 % of the responses, 98 % of their time)";
    limits(Limited { window: delayed_acks, ..NOTHING }, expected);
    // The threads of a pool wait for work, as for a lock.
    let pool = Limited { calls: &[("futex", 3.0)], waits: &[("futex_wait", 60.0)], ..NOTHING };
    limits(Limited { window: delayed_acks, ..pool }, expected);
    let unknown = "not its CPU (40 % busy): a wait of its own, unknown";
    limits(Limited { window: |window| delayed(window, 100, 40_894_464), ..NOTHING }, unknown);
    // One request in a thousand sleeps for 10 ms: so many threads at a time, by Little's law.
    const SLEEPING: f64 = RATE_PER_S * 0.001 * 0.010;
    let sleeps = Limited {
        window: |window| delayed(window, 100, 9_961_472),
        calls: &[("clock_nanosleep", 0.001)],
        waits: &[("hrtimer_nanosleep", SLEEPING)],
        ..NOTHING
    };
    limits(sleeps, "stalls of 10.2 ms, as long as sleeps (10 % of the responses, 92 % of their time)");
    limits(Limited { waits: &[("hrtimer_nanosleep", 3.0 * SLEEPING)], ..sleeps }, unknown);
}

#[test]
fn of_several_limits_the_first_is_named() {
    let refused_and_resent = |window: &mut Window| {
        resent(window);
        refused(window);
        window.load.busiest_thread = 0.9;
    };
    limits(Limited { window: refused_and_resent, ..NOTHING }, "its accept queue (connections were refused)");
    let resent_and_full = |window: &mut Window| {
        resent(window);
        window.load.busiest_thread = 0.9;
    };
    limits(
        Limited { window: resent_and_full, ..NOTHING },
        "segments that are lost and sent again (0.0100 a request; each may take a fifth of a second)",
    );
    limits(
        Limited { window: generator_full, loopback_bytes_per_s: 7e6, ..NOTHING },
        "the generator (90 % busy; the server 40 %)",
    );
    let all_but_idle = |window: &mut Window| {
        resent(window);
        refused(window);
        busy(window, 0.96, 0.97);
    };
    limits(Limited { window: all_but_idle, ..NOTHING }, "its CPU (96 % of 2 busy)");
}

#[test]
fn at_an_equal_rate_that_is_the_limit_unless_the_server_is_overloaded() {
    let mut run = run(IDLE);
    run.manifest.plan.workload.conditions.remove(0);
    run.diagnostics.clear();
    for record in &mut run.rounds {
        record.windows.remove(0);
        idle(&mut record.windows[0]);
        if record.arm == "pr" {
            let load = &mut record.windows[0].load;
            (load.rate_ratio, load.schedule.rate_per_s) = (Some(0.9), Some(20_000.0));
        }
    }
    let limiters: Vec<_> = analyse(&run).arms.into_iter().map(|arm| arm.limiter.unwrap()).collect();
    assert_eq!(limiters, ["the rate asked for", "not its CPU (40 % busy): a wait of its own, unknown"]);
}
