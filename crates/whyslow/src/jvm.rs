//! Java virtual machines tell the names of what they compiled only when asked.

use std::path::PathBuf;
use std::time::Duration;

use launch::{Launcher, Spec};
use observe::Group;

/// Longest wait for a JVM to write its map: a second or two for large programs.
const MAP_LIMIT: Duration = Duration::from_secs(10);

/// Has every JVM of `group` write `/tmp/perf-PID.map`; without a JDK (17 or later) its methods stay without names, which
/// the profile says.
pub(crate) fn write_maps(group: &Group, launcher: &Launcher) {
    for pid in group.java_pids().unwrap_or_default() {
        let argv = ["jcmd", &pid.to_string(), "Compiler.perfmap"].map(str::to_owned).to_vec();
        let spec = Spec { argv, log: PathBuf::from("/dev/null"), ..Spec::default() };
        if let Ok(mut process) = launcher.start(&spec) {
            let _ = process.wait(MAP_LIMIT);
            let _ = process.stop();
        }
    }
}
