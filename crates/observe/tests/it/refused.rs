//! What is refused is told as refused, with what refused it.

use std::error::Error;
use std::path::Path;

use observe::{Capability, Counting, Group, OwnCpus, Profiler, capabilities};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::filtered::{CALLS, ENOSYS, EPERM, refusing};
use crate::support::Fixture;

/// What is said where a filter may be the reason.
const FILTER: &str = "a seccomp filter is a likely reason";

fn capability<'a>(found: &'a [Capability], id: &str) -> &'a Capability {
    found.iter().find(|capability| capability.id == id).unwrap()
}

fn paranoid() -> i32 {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap().trim().parse().unwrap()
}

/// An error and its sources, as a program prints them.
fn chain(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[test]
fn perf_events_that_a_filter_refuses_are_no_capabilities_and_the_filter_is_named() {
    let free = capabilities();
    for (errno, words) in [(EPERM, "Operation not permitted"), (ENOSYS, "Function not implemented")] {
        let found = refusing(CALLS[0], errno, capabilities);
        for id in ["sampling", "sampling_kernel", "tracepoints", "hardware_counters"] {
            assert!(!capability(&found, id).ok, "{words}: {:?}", capability(&found, id));
        }
        for id in ["sampling", "sampling_kernel"] {
            assert!(capability(&found, id).text.contains(FILTER), "{words}: {:?}", capability(&found, id));
        }
        // What can be counted without the filter fails for the filter alone.
        for id in ["tracepoints", "hardware_counters"].into_iter().filter(|id| capability(&free, id).ok) {
            let text = &capability(&found, id).text;
            assert!(text.contains(FILTER) && text.contains(words), "{text}");
        }
        assert!(capability(&found, "cpu_time").ok);
    }
    assert!(free.iter().all(|capability| !capability.text.contains(FILTER)), "{free:?}");
}

#[test]
fn the_error_of_a_refused_event_names_the_filter_and_tells_its_cause_once() {
    for (errno, words) in [(EPERM, "(os error 1)"), (ENOSYS, "(os error 38)")] {
        let fixture = Fixture::new(&["sleep", "1"]);
        let group = Group::from_pid(fixture.pid()).unwrap();
        let error =
            refusing(CALLS[0], errno, || Profiler::attach(&group, 99, &OwnCpus::default())).unwrap_err();
        let chain_text = chain(&error);
        assert!(chain_text.contains(FILTER) && chain_text.contains("perf_event_open"), "{chain_text}");
        assert_eq!(chain_text.matches(words).count(), 1, "{chain_text}");
        let counts = refusing(CALLS[0], errno, || {
            Counting::attach(&group, &OwnCpus::default())
                .map(|counting| counting.read().since(&counting.read()))
        });
        let missing = counts.unwrap().missing;
        assert!(missing.len() == 1 && missing[0].contains(FILTER), "{missing:?}");
    }
}

#[test]
fn root_without_rights_is_an_ordinary_user() {
    let all = rustix::thread::capabilities(None).unwrap();
    if !all.effective.contains(CapabilitySet::SYS_PTRACE | CapabilitySet::SYS_ADMIN) {
        testkit::skipped("there are no rights to be given up");
        return;
    }
    let none = CapabilitySet::empty();
    let nothing = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let found = std::thread::spawn(move || {
        rustix::thread::set_capabilities(None, nothing).unwrap();
        capabilities()
    });
    let found = found.join().unwrap();
    assert!(!capability(&found, "others").ok && !capability(&found, "bpftrace").ok, "{found:?}");
    let tracing = capability(&found, "call_tracing");
    assert!(!tracing.ok || tracing.text.contains("of servers of this user"), "{tracing:?}");
    assert_eq!(capability(&found, "sampling").ok, paranoid() <= 2, "{found:?}");
    assert_eq!(capability(&found, "sampling_kernel").ok, paranoid() <= 1, "{found:?}");
    if paranoid() > 1 {
        let tracepoints = capability(&found, "tracepoints");
        // Where nobody mounted it before, whoever has rights does so for himself, and this one has none.
        let mounted = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"]
            .iter()
            .any(|place| Path::new(place).exists());
        let lacks = if mounted { "kernel.perf_event_paranoid" } else { "mount -t tracefs" };
        assert!(!tracepoints.ok && tracepoints.text.contains(lacks), "{tracepoints:?}");
        assert!(
            capability(&found, "sampling_kernel").text.contains("none of where threads wait"),
            "{found:?}"
        );
    }
    // A switch happens in the kernel: where it is cannot be sampled without the kernel.
    assert!(!capability(&found, "sampling").text.contains("wait"), "{found:?}");
}
