//! What an ordinary user is told of system calls, who may count none but by tracing.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::support::{NOBODY, Printed, WHYSLOW, arm, fresh_folder};

#[test]
fn an_ordinary_user_is_told_calls_and_writes_as_they_are() {
    let (plain, calls) = (arm("plain", "none"), arm("calls", "calls"));
    let folder = fresh_folder();
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", &plain, &calls, "--equal-rates", "none", "--format", "json"]);
    command.args(["--blocks", "6", "--cycles", "2", "--slice", "50ms", "--connections", "4"]);
    command.args(["--warmup", "200ms", "--warmup-cap", "400ms"]).current_dir(&folder);
    if rustix::process::geteuid().is_root() {
        chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let Ok(output) = command.output() else {
        return testkit::skipped(&format!("other users cannot start {WHYSLOW}"));
    };
    let printed = Printed::from_output(output);
    let json = printed.json();
    let arm = |name: &str| json["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == name).unwrap();
    let of = |name: &str| arm(name)["syscalls_per_request"]["getppid"].as_f64();
    let Some(of_calls) = of("calls") else {
        return testkit::skipped("nobody may trace here, so no call is counted");
    };
    assert!((of_calls - of("plain").unwrap_or(0.0) - 20.0).abs() <= 1.0, "{printed:?}");
    let causes = json["causes"].as_array().unwrap();
    let writes = causes.iter().find(|cause| cause["id"] == "small_writes").unwrap()["text"].as_str().unwrap();
    assert!(writes.starts_with("writes to the network: 1.00 a request"), "{writes}");
    assert!(writes.contains(" against 1.00"), "{writes}");
}
