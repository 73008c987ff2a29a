//! What a child is told to do is what is counted.

use std::time::Duration;

use observe::{Group, ObserveError, ReadinessAt, ReadinessWatch, Series};

use crate::support::{Fixture, used, watch};

const MS: u64 = 1_000_000;

/// Whether `found` is within two percent of `expected`.
fn close(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 50 <= expected
}

#[test]
fn cpu_time_in_user_mode_is_found() {
    let usage = used(&["spin", "700"]);
    assert!(close(usage.cpu.total_ns, 700 * MS), "{} ms", usage.cpu.total_ns / MS);
    assert!(usage.cpu.user_ns * 10 > usage.cpu.total_ns * 9, "{:?}", usage.cpu);
    assert!(usage.wall_ns >= 700 * MS);
    assert!(close(usage.busiest_thread_ns, 700 * MS), "{} ms", usage.busiest_thread_ns / MS);
}

#[test]
fn cpu_time_in_the_kernel_is_found() {
    let usage = used(&["system", "500"]);
    assert!(close(usage.cpu.total_ns, 500 * MS), "{} ms", usage.cpu.total_ns / MS);
    assert!(usage.cpu.system_ns * 10 > usage.cpu.total_ns * 9, "{:?}", usage.cpu);
}

#[test]
fn threads_that_end_in_the_window_keep_their_time() {
    let usage = used(&["short-threads", "7", "50"]);
    assert!(close(usage.cpu.total_ns, 350 * MS), "{} ms", usage.cpu.total_ns / MS);
    assert_eq!(usage.threads, 1);
}

#[test]
fn a_child_that_comes_and_goes_in_the_window_is_counted() {
    let usage = used(&["child", "500"]);
    // Its time is known in ticks of 10 ms.
    assert!(usage.cpu.total_ns.abs_diff(500 * MS) <= 20 * MS, "{} ms", usage.cpu.total_ns / MS);
    assert_eq!(usage.processes, 1);
}

#[test]
fn sleeps_are_voluntary_switches() {
    let usage = used(&["sleep", "211"]);
    // One more when it waits for us again. A busy machine adds a few when a lock or a page is waited for, and takes a few
    // away: a timer that is over before the thread has lain down lets it go on.
    assert!((190..=232).contains(&usage.voluntary_switches), "{usage:?}");
    assert_eq!(usage.threads_changed, 0);
}

#[test]
fn fresh_pages_are_faults_and_stay_in_the_peak() {
    let usage = used(&["faults", "4999"]);
    assert!(close(usage.minor_faults, 4999), "{} faults", usage.minor_faults);
    assert!(usage.rss_bytes >= 4999 * 4096 && usage.rss_peak_bytes >= usage.rss_bytes, "{usage:?}");
}

#[test]
fn threads_that_share_a_cpu_wait_for_it() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap().to_string();
    let mut fixture = Fixture::new(&["spin-twice-on", &cpu, "200"]);
    let group = Group::from_pid(fixture.pid()).unwrap();
    let before = group.snapshot().unwrap();
    let looking = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(250));
        (group.snapshot().unwrap(), group.fairness().unwrap())
    });
    fixture.work();
    let (during, fairness) = looking.join().unwrap();
    let usage = during.since(&before);
    assert_eq!((usage.threads, usage.threads_changed), (3, 2));
    // Two threads on one CPU for a quarter of a second: while one ran, the other waited.
    assert!(usage.run_wait_ns > 150 * MS, "{} ms", usage.run_wait_ns / MS);
    assert_eq!((fairness.threads, fairness.allowed_cpus), (3, cpu));
}

#[test]
fn who_is_ready_and_has_no_cpu_is_seen_while_that_lasts() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set((0..1024).find(|cpu| allowed.is_set(*cpu)).unwrap());
    let mut both = [Fixture::new(&["spin", "300"]), Fixture::new(&["spin", "300"])];
    for fixture in &both {
        let pid = rustix::process::Pid::from_raw(fixture.pid().cast_signed());
        rustix::thread::sched_setaffinity(pid, &one).unwrap();
    }
    let groups = [Group::from_pid(both[0].pid()).unwrap(), Group::unseen()];
    let watch = ReadinessWatch::begin(&groups);
    std::thread::scope(|scope| both.iter_mut().for_each(|fixture| drop(scope.spawn(|| fixture.work()))));
    let readings = watch.end();
    let (first, last) = (readings.first().unwrap(), readings.last().unwrap());
    assert!(readings.len() > 10 && readings.is_sorted_by_key(|reading| reading.at_ns), "{}", readings.len());
    let server = |reading: &ReadinessAt| reading.groups[0][0];
    assert!(server(last).run_ns - server(first).run_ns >= 290 * MS, "{first:?} {last:?}");
    // While the other one ran.
    assert!(server(last).wait_ns - server(first).wait_ns > 100 * MS, "{first:?} {last:?}");
    assert_eq!((last.groups[0].len(), &last.groups[1]), (1, &vec![]), "nothing is known of it");
}

#[test]
fn a_series_sees_memory_and_threads() {
    let fixture = Fixture::new(&["threads", "23"]);
    let series = Series::start(Group::from_pid(fixture.pid()).unwrap(), Duration::from_millis(50));
    std::thread::sleep(Duration::from_millis(530));
    let (points, cost_ns) = series.stop();
    // It looks every 50 ms where the machine lets it.
    assert!((3..=11).contains(&points.len()), "{points:?}");
    assert!(points.iter().all(|point| point.threads == 24 && point.rss_bytes > 0 && point.running > 0));
    assert!(cost_ns > 0);
}

#[test]
fn a_process_that_is_not_there_is_an_error() {
    assert!(matches!(Group::from_pid(u32::MAX >> 1), Err(ObserveError::NoProcess(_))));
    assert!(matches!(Group::below(0), Err(ObserveError::NoProcess(0))));
}

#[test]
fn a_process_that_ends_is_an_error_and_another_with_its_number_is_not_it() {
    let fixture = Fixture::new(&["sleep", "1"]);
    let group = Group::from_pid(fixture.pid()).unwrap();
    assert!(group.snapshot().is_ok());
    drop(fixture);
    assert!(matches!(group.snapshot(), Err(ObserveError::Ended(_))));
}

#[test]
fn a_supervisor_is_not_part_of_what_is_below_it() {
    let fixture = Fixture::new(&["sleep", "1"]);
    let below = Group::below(std::process::id()).unwrap().snapshot().unwrap();
    let own = Group::from_pid(std::process::id()).unwrap().snapshot().unwrap();
    let (below, own) = (below.since(&below), own.since(&own));
    assert!(below.processes >= 1 && own.processes > below.processes, "{below:?} {own:?}");
    drop(fixture);
}

#[test]
fn two_hundred_threads_are_read_in_milliseconds() {
    let (_, snapshot) = watch(&["threads", "199"]);
    assert_eq!(snapshot.since(&snapshot).threads, 200);
}
