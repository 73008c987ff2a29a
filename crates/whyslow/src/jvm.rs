//! Java virtual machines tell the names of what they compiled, and who called it, only when asked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use launch::{Launcher, Spec};
use observe::Group;

/// Longest wait for a JVM to write its map: a second or two for large programs.
const MAP_LIMIT: Duration = Duration::from_secs(10);

/// Where a JVM looks for options beside those of its command line; other programs do not look.
const OPTIONS: &str = "JAVA_TOOL_OPTIONS";
/// Without it a compiled method's caller cannot be found, and the profile is flat.
const FRAME_POINTERS: &str = "-XX:+PreserveFramePointer";

/// Has a JVM that is started with `env`, be it by a script, keep frame pointers.
pub(crate) fn keep_frame_pointers(env: &mut BTreeMap<String, String>) {
    let given = env.get(OPTIONS).cloned().or_else(|| std::env::var(OPTIONS).ok());
    let all = given.map_or_else(|| FRAME_POINTERS.to_owned(), |given| format!("{given} {FRAME_POINTERS}"));
    env.insert(OPTIONS.to_owned(), all);
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_given_stay() {
        let mut env = BTreeMap::from([(OPTIONS.to_owned(), "-Xmx1g".to_owned())]);
        keep_frame_pointers(&mut env);
        assert_eq!(env[OPTIONS], "-Xmx1g -XX:+PreserveFramePointer");
    }
}
