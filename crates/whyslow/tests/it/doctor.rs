//! What the doctor says is what can be done: to whom it is forbidden, it says so.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::Value;

use crate::filtered::{CALLS, ENOSYS, EPERM, refusing};
use crate::support::{NOBODY, Printed, WHYSLOW, whyslow};

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a capability is there, and what is said of it.
fn row(printed: &Printed, id: &str) -> (bool, String) {
    let found = printed.json();
    let rows = found["capabilities"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == id).unwrap();
    (row["ok"] == true, row["text"].as_str().unwrap().to_owned())
}

fn doctor() -> Printed {
    whyslow(&["doctor", "--format", "json"])
}

/// `command` with the doctor behind it; nothing where it cannot be started.
fn through(command: &mut Command) -> Option<Printed> {
    let printed = Printed::from_output(command.args([WHYSLOW, "doctor", "--format", "json"]).output().ok()?);
    serde_json::from_str::<Value>(&printed.out).ok().map(|_| printed)
}

#[test]
fn what_a_filter_refuses_is_not_there() {
    for errno in [EPERM, ENOSYS] {
        let printed = refusing(CALLS[0], errno, doctor);
        assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""), "{printed:?}");
        for id in ["sampling", "sampling_kernel", "tracepoints", "hardware_counters"] {
            assert!(!row(&printed, id).0, "{id}: {printed:?}");
        }
        assert!(row(&printed, "sampling").1.contains("a seccomp filter is a likely reason"), "{printed:?}");
    }
}

#[test]
fn tracing_is_tried() {
    if !row(&doctor(), "call_tracing").0 {
        testkit::skipped("nobody may trace here");
        return;
    }
    for errno in [EPERM, ENOSYS] {
        let (ok, text) = row(&refusing(CALLS[1], errno, doctor), "call_tracing");
        assert!(!ok && text.contains("refuses ptrace"), "{text}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_the_settings_allow_him() {
    let mut command = Command::new("env");
    if root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let Some(printed) = through(command.current_dir("/")) else {
        testkit::skipped(&format!("other users cannot start {WHYSLOW}"));
        return;
    };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let paranoid: i32 = paranoid.trim().parse().unwrap();
    let filtered = row(&printed, "sampling").1.contains("seccomp filter");
    assert_eq!(row(&printed, "sampling").0, paranoid <= 2 && !filtered, "{printed:?}");
    assert_eq!(row(&printed, "sampling_kernel").0, paranoid <= 1 && !filtered, "{printed:?}");
    assert!(!row(&printed, "sampling").1.contains("wait"), "{printed:?}");
    assert!(row(&printed, "sampling_kernel").1.contains("where threads wait"), "{printed:?}");
    assert!(!row(&printed, "others").0 && !row(&printed, "bpftrace").0, "{printed:?}");
}

/// Root without the right to mount sees tracepoints where they are mounted only.
#[test]
fn hidden_tracepoints_are_not_there() {
    let below = |hide: &str| {
        let script = format!("{hide} exec setpriv --bounding-set -sys_admin \"$@\"");
        // In a mount namespace of its own, from which nothing comes out.
        through(Command::new("unshare").args(["-m", "--propagation", "private", "sh", "-c", &script, "sh"]))
    };
    let hide = "for place in /sys/kernel/tracing /sys/kernel/debug; do mount -t tmpfs none $place; done;";
    let (Some(seen), Some(hidden)) = (below(""), below(hide)) else {
        testkit::skipped("no mount namespace can be had here");
        return;
    };
    if !row(&seen, "tracepoints").0 {
        testkit::skipped("no tracepoints are mounted here");
        return;
    }
    let (ok, text) = row(&hidden, "tracepoints");
    assert!(!ok && text.contains("mount -t tracefs nodev /sys/kernel/tracing"), "{text}");
}
