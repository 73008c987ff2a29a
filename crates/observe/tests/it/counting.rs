//! Counters agree with what a child was told to do, exactly where that is possible.

use std::process::Command;

use model::record::Counts;
use observe::{Counting, Group, HostWatch, OwnCpus, Tracer, fingerprint, unit_costs};

use crate::filtered::{CALLS, EPERM, refusing};
use crate::support::Fixture;

/// System calls of one request of the fixture, by name.
const OF_ONE_REQUEST: [(&str, u64); 3] = [("getppid", 3), ("read", 1), ("write", 2)];
const REQUESTS: u64 = 10_007;
/// Beside its requests, the fixture hears us, answers, and waits again.
const BESIDE: u64 = 20;

/// What is counted while a fixture works; `None`, and said, where this user may not count.
fn counted(role: &[&str]) -> Option<(Counts, model::record::Usage)> {
    let mut fixture = Fixture::new(role);
    let group = Group::from_pid(fixture.pid()).unwrap();
    let counting = Counting::attach(&group, &OwnCpus::default()).unwrap();
    let (before, used) = (counting.read(), group.snapshot().unwrap());
    fixture.work();
    let counts = counting.read().since(&before);
    if counts.events.is_empty() {
        testkit::skipped(&format!("{:?}", counts.missing));
        return None;
    }
    Some((counts, group.snapshot().unwrap().since(&used)))
}

#[test]
fn system_calls_are_counted_exactly_by_name() {
    for role in ["requests", "requests-in-new-thread"] {
        let Some((counts, _)) = counted(&[role, &REQUESTS.to_string()]) else { return };
        if counts.syscalls.is_empty() {
            assert!(counts.missing.iter().any(|text| text.contains("by name")), "{counts:?}");
            return;
        }
        for (name, times) in OF_ONE_REQUEST {
            let extra = counts.syscalls[name] - times * REQUESTS;
            assert!(extra <= if name == "getppid" { 0 } else { 3 }, "{role}: {extra} more {name}");
        }
        let (all, named) = (counts.event("syscalls").unwrap(), counts.syscalls.values().sum::<u64>());
        assert!((6 * REQUESTS..6 * REQUESTS + 2 * BESIDE).contains(&all) && named <= all, "{counts:?}");
    }
}

/// Keeps a process on the first CPU, if that is allowed.
fn keep_on_first(pid: u32) -> bool {
    let mut first = rustix::thread::CpuSet::new();
    first.set(0);
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    rustix::thread::sched_setaffinity(pid, &first).is_ok()
}

/// What is counted on the first CPU while a fixture works there, with pauses or without, and what it used; `None` where
/// calls may not be counted on whole CPUs.
fn seen_on_cpu(role: &[&str], sparingly: bool) -> Option<(Counts, model::record::Usage)> {
    let mut child = Fixture::new(role);
    let own = OwnCpus { cpus: "0".parse().unwrap(), switched_often: true };
    if !keep_on_first(child.pid()) {
        return None;
    }
    let group = Group::from_pid(child.pid()).unwrap();
    let mut counting = Counting::attach(&group, &own).unwrap();
    if sparingly {
        counting = counting.sparingly(&own);
    }
    let (before, used) = (counting.read(), group.snapshot().unwrap());
    child.work();
    let counts = counting.read().since(&before);
    let usage = group.snapshot().unwrap().since(&used);
    counts.event("wakeups").is_some().then_some((counts, usage))
}

fn counted_on_cpu(role: &[&str], sparingly: bool) -> Option<Counts> {
    seen_on_cpu(role, sparingly).map(|(counts, _)| counts)
}

/// On the CPUs that a server has to itself whole CPUs are counted. Here other tests may use them, in one of six tries none.
#[test]
fn system_calls_on_a_servers_own_cpus_are_counted_by_name() {
    let mut tries = Vec::new();
    while tries.len() < 6 {
        let Some(counts) = counted_on_cpu(&["requests", &REQUESTS.to_string()], false) else { return };
        let calls = counts.syscalls["getppid"];
        assert!(counts.counted_share == 1.0 && counts.event("syscalls").unwrap() >= calls, "{counts:?}");
        if calls == 3 * REQUESTS {
            return;
        }
        tries.push(calls);
    }
    panic!("asked {} times, and counted were {tries:?}", 3 * REQUESTS);
}

/// Whoever else runs on the same CPU is not counted, whether it was there before or begins meanwhile.
#[test]
fn system_calls_of_other_processes_on_a_servers_cpus_are_not_counted() {
    const KERNELS_OWN_IDS: &str = "pid:[4026531836]";
    let own_ids = std::fs::read_link("/proc/self/ns/pid").unwrap();
    if own_ids.to_str() != Some(KERNELS_OWN_IDS) {
        return testkit::skipped("process ids of a container do not tell processes apart");
    }
    let mut tries = Vec::new();
    while tries.len() < 6 {
        let mut other = Fixture::new(&["datagrams", "50000"]);
        keep_on_first(other.pid());
        let mut begins = Command::new("sh").args(["-c", "while :; do /bin/true; done"]).spawn().unwrap();
        keep_on_first(begins.id());
        let counts = std::thread::scope(|scope| {
            scope.spawn(|| other.work());
            counted_on_cpu(&["requests", &REQUESTS.to_string()], false)
        });
        begins.kill().unwrap();
        begins.wait().unwrap();
        let Some(counts) = counts.filter(|counts| counts.missing.iter().all(|text| !text.contains("BPF")))
        else {
            return;
        };
        let calls = counts.syscalls["getppid"];
        if calls == 3 * REQUESTS && !counts.syscalls.contains_key("execve") {
            return;
        }
        tries.push(counts.syscalls);
    }
    panic!("asked {} times, and counted were {tries:?}", 3 * REQUESTS);
}

/// A server of many calls is not to be slowed by their being counted. Other tests may use its CPU, in one of six tries
/// little.
#[test]
fn many_system_calls_are_counted_in_slices_that_stand_for_all_of_the_time() {
    const DATAGRAMS: u64 = 200_000;
    let mut tries = Vec::new();
    while tries.len() < 6 {
        let Some(counts) = counted_on_cpu(&["datagrams", &DATAGRAMS.to_string()], true) else { return };
        let (calls, share) = (counts.syscalls["getppid"] as f64, counts.counted_share);
        // Those that may not use BPF count all of the time, and say so.
        let in_slices = !counts.missing.iter().any(|text| text.contains("in slices"));
        let right = if in_slices { share < 0.5 } else { share == 1.0 };
        if right && (calls / (8 * DATAGRAMS) as f64 - 1.0).abs() < 0.03 {
            return;
        }
        tries.push((calls, share));
    }
    panic!("asked {} times; counted, and in what share of the time: {tries:?}", 8 * DATAGRAMS);
}

#[test]
fn where_bpf_is_refused_calls_are_counted_all_of_the_time_and_that_is_said() {
    let role = ["requests", &REQUESTS.to_string()];
    let Some(counts) = refusing(CALLS[2], EPERM, || counted_on_cpu(&role, true)) else { return };
    assert_eq!(counts.counted_share, 1.0);
    let in_slices =
        counts.missing.iter().any(|text| text.contains("in slices") && text.contains("allow bpf"));
    assert_eq!(in_slices, counts.event("syscalls").is_some(), "{counts:?}");
    let found = refusing(CALLS[2], EPERM, observe::capabilities);
    let slices = found.iter().find(|capability| capability.id == "calls_in_slices").unwrap();
    assert!(!slices.ok && slices.text.contains("allow bpf"), "{slices:?}");
}

#[test]
fn counts_equal_those_of_a_tracer() {
    let Some((counts, _)) = counted(&["requests", "2000"]) else { return };
    let mut fixture = Fixture::new(&["requests", "2000"]);
    let tracer = match Tracer::attach(&Group::from_pid(fixture.pid()).unwrap()) {
        Ok(tracer) if !counts.syscalls.is_empty() => tracer,
        tracer => {
            testkit::skipped(&format!("{:?}, {:?}", tracer.err(), counts.missing));
            return;
        }
    };
    let before = tracer.read();
    fixture.work();
    let traced = tracer.read().since(&before);
    for (name, times) in OF_ONE_REQUEST {
        let [ours, theirs] = [&counts, &traced].map(|counts| counts.syscalls[name]);
        assert!(
            ours.abs_diff(theirs) <= 3 && theirs.abs_diff(times * 2000) <= 3,
            "{name}: {ours} and {theirs}"
        );
    }
}

/// Looks until user and system time agree with the task clock within 2 %, ten times at most. What the hypervisor and
/// interrupts take from a CPU while a thread runs is in its task clock, and not in its user and system time; the host tells
/// it in ticks. A group that has CPUs to itself is asked for with `seen_on_cpu`; processes of other tests that begin there
/// meanwhile are taken for its own.
fn agrees_with_the_task_clock(role: &[&str], see: fn(&[&str]) -> Option<(Counts, model::record::Usage)>) {
    let watch = HostWatch::new(fingerprint().allowed_cpus.parse().unwrap());
    let mut tries = Vec::new();
    while tries.len() < 10 {
        let before = watch.snapshot().unwrap();
        let Some((counts, usage)) = see(role) else { return };
        let host = watch.snapshot().unwrap().since(&before);
        let Some(clock) = counts.event("task_clock_ns") else { return };
        assert!(clock > 250_000_000, "{role:?}: {clock}");
        let (sum, taken) = (usage.cpu.user_ns + usage.cpu.system_ns, host.steal_ns + host.irq_ns);
        if (sum.saturating_sub(clock / 50)..=sum + taken + clock / 50).contains(&clock) {
            return;
        }
        tries.push((clock, sum, taken));
    }
    panic!("{role:?}: task clock, user and system, taken: {tries:?}");
}

#[test]
fn user_and_system_time_agree_with_the_task_clock() {
    for role in [&["spin", "400"][..], &["system", "400"], &["short-threads", "3", "100"]] {
        agrees_with_the_task_clock(role, counted);
    }
}

/// The kernel's own task clock stops for every switch, and would be a tenth short of what two threads take who do nothing
/// but switch. Of one that sleeps often, a tenth is between its being made ready and its first instruction.
#[test]
fn on_its_own_cpus_the_task_clock_of_a_group_has_its_switches_in_it() {
    for role in [&["turns", "200"][..], &["naps", "400"], &["spin", "400"], &["short-threads", "3", "100"]] {
        agrees_with_the_task_clock(role, |role| seen_on_cpu(role, true));
    }
}

/// What an ended process used is told by the kernel in ticks of 10 ms, so that the fixture's own word is taken.
#[test]
fn a_process_that_begins_is_in_its_groups_task_clock() {
    let Some((counts, _)) = seen_on_cpu(&["child", "400"], true) else { return };
    let Some(clock) = counts.event("task_clock_ns") else { return };
    assert!((400_000_000..430_000_000).contains(&clock), "{clock}");
}

#[test]
fn what_a_group_does_not_do_is_not_in_its_task_clock() {
    let Some((counts, _)) = seen_on_cpu(&["sleep", "1000"], true) else { return };
    let Some(clock) = counts.event("task_clock_ns") else { return };
    // 0.2 s, of which it runs some hundredths; each sleep is one time of leaving the CPU.
    assert!(clock < 100_000_000, "{clock}");
    assert!((950..1100).contains(&counts.event("context_switches").unwrap()), "{counts:?}");
}

#[test]
fn sleeps_are_switches_and_pages_are_faults() {
    let Some((counts, _)) = counted(&["sleep", "211"]) else { return };
    // As many as sleeps, but for those whose timer is over too soon, and a few for whatever else is waited for.
    assert!((190..=232).contains(&counts.event("context_switches").unwrap()), "{counts:?}");
    let (counts, _) = counted(&["faults", "4999"]).unwrap();
    assert!((4999..5100).contains(&counts.event("minor_faults").unwrap()), "{counts:?}");
}

#[test]
fn of_a_server_with_many_threads_less_is_counted_and_that_is_said() {
    for (threads, names) in [("1500", 0..1), ("300", 1..40)] {
        let fixture = Fixture::new(&["threads", threads]);
        let counting =
            Counting::attach(&Group::from_pid(fixture.pid()).unwrap(), &OwnCpus::default()).unwrap();
        let counts = counting.read().since(&counting.read());
        if counts.event("syscalls").is_none() {
            return;
        }
        let has_note = |words: &str| counts.missing.iter().any(|text| text.contains(words));
        let names = if has_note("ulimit -n") { 0..1 } else { names };
        assert!(names.contains(&counts.syscalls.len()), "{threads} threads: {:?}", counts.syscalls);
        assert!(has_note("threads only"), "{threads} threads: {:?}", counts.missing);
    }
}

#[test]
fn unit_costs_are_those_of_a_computer_and_take_less_than_three_seconds() {
    let begin = std::time::Instant::now();
    let costs = unit_costs().unwrap();
    assert!(begin.elapsed().as_secs_f64() < 3.0, "{:?} {costs:?}", begin.elapsed());
    for (name, ns, least, most) in [
        ("syscall", costs.syscall_ns, 20.0, 5_000.0),
        ("loopback write", costs.loopback_write_ns, 300.0, 50_000.0),
        ("loopback read", costs.loopback_read_ns, 50.0, 20_000.0),
        ("futex wake", costs.futex_wake_ns, 50.0, 50_000.0),
        ("context switch", costs.context_switch_ns, 100.0, 50_000.0),
        ("minor fault", costs.minor_fault_ns, 50.0, 20_000.0),
        ("malloc and free", costs.malloc_free_ns, 1.0, 2_000.0),
        ("memcpy of 1 KiB", costs.memcpy_kib_ns, 2.0, 1_000.0),
    ] {
        assert!((least..most).contains(&ns), "{name}: {ns} ns; all: {costs:?}");
    }
    assert!(costs.loopback_write_ns > costs.syscall_ns && costs.loopback_read_ns > costs.syscall_ns);
}
