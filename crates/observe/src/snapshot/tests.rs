use std::time::Duration;

use super::*;

const MS: u64 = 1_000_000;

/// A process that used `cpu_ms`, of which one quarter in the kernel, and whose children used `children_ms`.
fn process(parent: u32, cpu_ms: u64, children_ms: u64) -> ProcessSample {
    let counters = |ms: u64| Counters {
        cpu_ns: ms * MS,
        user_ticks: ms * 3 / 40,
        system_ticks: ms / 40,
        minor_faults: ms,
        major_faults: 0,
    };
    ProcessSample {
        parent,
        start: 1,
        own: counters(cpu_ms),
        children: counters(children_ms),
        rss_bytes: 10,
        rss_peak_bytes: 20,
    }
}

fn thread(run_ns: u64, voluntary_switches: u64) -> ThreadSample {
    let sched = Schedstat { run_ns, wait_ns: run_ns / 10 };
    ThreadSample { sched, voluntary_switches, involuntary_switches: 1 }
}

fn snapshot(at: Instant, processes: &[(u32, ProcessSample)], threads: &[(u32, ThreadSample)]) -> Snapshot {
    Snapshot {
        names: threads.iter().map(|(tid, _)| (*tid, format!("worker-{tid}"))).collect(),
        at,
        processes: processes.iter().copied().collect(),
        threads: threads.iter().copied().collect(),
        supervised: Counters::default(),
    }
}

fn cpu_ms(earlier: &[(u32, ProcessSample)], later: &[(u32, ProcessSample)]) -> u64 {
    let at = Instant::now();
    snapshot(at, later, &[]).since(&snapshot(at, earlier, &[])).cpu.total_ns / MS
}

#[test]
fn a_process_that_is_there_throughout_is_its_difference() {
    let at = Instant::now();
    let earlier = snapshot(at, &[(7, process(1, 1000, 0))], &[]);
    let later = snapshot(at + Duration::from_secs(3), &[(7, process(1, 3000, 0))], &[]);
    let used = later.since(&earlier);
    assert_eq!(used.wall_ns, 3000 * MS);
    assert_eq!(used.cpu, CpuTimes { total_ns: 2000 * MS, user_ns: 1500 * MS, system_ns: 500 * MS });
    assert_eq!((used.minor_faults, used.rss_bytes, used.rss_peak_bytes, used.processes), (2000, 10, 20, 1));
}

#[test]
fn the_ticks_of_a_window_are_those_within_it() {
    let at = Instant::now();
    let earlier = snapshot(at, &[(7, process(1, 1000, 0))], &[]);
    for (cpu_ms, ticks) in [(1000, 0), (1040, 4), (3000, 200)] {
        let later = snapshot(at + Duration::from_secs(3), &[(7, process(1, cpu_ms, 0))], &[]);
        assert_eq!(later.ticks_since(&earlier), ticks, "{cpu_ms} ms");
    }
}

#[test]
fn a_child_that_ends_is_counted_once() {
    // Before: parent 100 ms, child 400 ms. The child runs 200 ms more and ends; the parent waits for all 600 ms.
    let before = [(7, process(1, 100, 0)), (8, process(7, 400, 0))];
    assert_eq!(cpu_ms(&before, &[(7, process(1, 150, 600))]), 50 + 200);
}

#[test]
fn a_child_that_comes_and_goes_is_counted() {
    assert_eq!(cpu_ms(&[(7, process(1, 100, 0))], &[(7, process(1, 100, 80))]), 80);
}

#[test]
fn what_ended_is_known_by_itself() {
    let at = Instant::now();
    let earlier =
        snapshot(at, &[(7, process(1, 100, 0))], &[(7, thread(90 * MS, 0)), (8, thread(10 * MS, 0))]);
    let later = snapshot(at, &[(7, process(1, 150, 80))], &[(7, thread(110 * MS, 0))]);
    let used = later.since(&earlier);
    assert_eq!(used.cpu.total_ns, (50 + 80) * MS);
    assert_eq!((used.ended_processes_ns, used.ended_threads_ns), (80 * MS, 30 * MS));
}

#[test]
fn a_new_child_is_counted_whole() {
    assert_eq!(cpu_ms(&[(7, process(1, 100, 0))], &[(7, process(1, 100, 0)), (8, process(7, 120, 0))]), 120);
}

#[test]
fn a_grandchild_that_ends_with_its_parent_is_counted_once() {
    let before = [(7, process(1, 0, 0)), (8, process(7, 100, 0)), (9, process(8, 200, 0))];
    assert_eq!(cpu_ms(&before, &[(7, process(1, 0, 340))]), 40);
}

#[test]
fn an_end_that_nobody_in_the_group_saw_takes_nothing_away() {
    let before = [(7, process(1, 100, 0)), (8, process(1, 400, 0))];
    assert_eq!(cpu_ms(&before, &[(7, process(1, 130, 0))]), 30);
}

#[test]
fn another_process_with_the_same_number_is_not_the_same() {
    let other = ProcessSample { start: 2, ..process(7, 50, 0) };
    let before = [(7, process(1, 100, 0)), (8, process(7, 400, 0))];
    assert_eq!(cpu_ms(&before, &[(7, process(1, 100, 440)), (8, other)]), 40 + 50);
}

#[test]
fn a_supervisor_knows_what_its_orphans_used() {
    let at = Instant::now();
    let supervised = |ms: u64| Counters { cpu_ns: ms * MS, ..Counters::default() };
    let mut earlier = snapshot(at, &[(7, process(5, 100, 0)), (8, process(5, 400, 0))], &[]);
    earlier.supervised = supervised(1000);
    let mut later = snapshot(at, &[(7, process(5, 130, 0))], &[]);
    later.supervised = supervised(1460);
    assert_eq!(later.since(&earlier).cpu.total_ns, (30 + 60) * MS);
}

#[test]
fn threads_are_matched_by_number_and_changes_are_counted() {
    let at = Instant::now();
    let earlier = snapshot(at, &[], &[(7, thread(100, 10)), (8, thread(100, 10))]);
    let later = snapshot(at, &[], &[(7, thread(400, 17)), (9, thread(200, 3))]);
    let used = later.since(&earlier);
    assert_eq!((used.voluntary_switches, used.involuntary_switches), (7 + 3, 1));
    assert_eq!((used.run_wait_ns, used.busiest_thread_ns), (30 + 20, 300));
    assert_eq!((used.threads, used.threads_changed), (2, 2));
}

#[test]
fn a_window_without_a_tick_is_split_like_the_life_so_far() {
    let mut now = process(1, 1000, 0);
    let earlier = [(7, now)];
    now.own.cpu_ns += 4 * MS;
    let at = Instant::now();
    let used = snapshot(at, &[(7, now)], &[]).since(&snapshot(at, &earlier, &[]));
    assert_eq!(used.cpu, CpuTimes { total_ns: 4 * MS, user_ns: 3 * MS, system_ns: MS });
}

#[test]
fn shares_always_sum_to_the_total() {
    for (user_ticks, system_ticks, cpu_ns) in
        [(0, 0, 5), (1, 2, 100), (3, 0, 7), (0, 3, 7), (u64::MAX / 4, 3, u64::MAX)]
    {
        let used = Counters { cpu_ns, user_ticks, system_ticks, ..Counters::default() };
        let times = split(used, Counters::default());
        assert_eq!(times.user_ns + times.system_ns, times.total_ns);
        assert_eq!(times.total_ns, cpu_ns);
    }
}
