//! Runtimes tell profilers who called whom, and what their compiled functions are called, only when they are started so, and by files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use observe::Group;

/// Where a JVM looks for options beside those of its command line, and what it is to do: without it a compiled method's
/// caller cannot be found, and the profile is flat; and it keeps the lines of its code only where it may stop.
const JAVA: (&str, &str) =
    ("JAVA_TOOL_OPTIONS", "-XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints");
/// Likewise Node, which then writes `/tmp/perf-PID.map` as it compiles, and gives each function that it interprets code of
/// its own.
const NODE: (&str, &str) = ("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack");

/// Has what is started with `env`, be it by a script, say what a profile needs; other programs do not look.
pub(crate) fn let_be_profiled(env: &mut BTreeMap<String, String>) {
    for (variable, options) in [JAVA, NODE] {
        let given = env.get(variable).cloned().or_else(|| std::env::var(variable).ok());
        let all = given.map_or_else(|| options.to_owned(), |given| format!("{given} {options}"));
        env.insert(variable.to_owned(), all);
    }
}

/// Files that runtimes write because we ask for names. They are removed when this is dropped: by then whoever writes them must have
/// ended, and whoever reads them must have read them.
#[derive(Default)]
pub(crate) struct Leavings {
    /// Processes that we started, with their working directories.
    ours: BTreeMap<u32, PathBuf>,
    /// Maps that were not there before.
    maps: Vec<PathBuf>,
}

impl Leavings {
    /// Notes the processes of a server of ours that there are now.
    pub(crate) fn note(&mut self, group: &Group) {
        for pid in group.pids().unwrap_or_default() {
            // What a container writes goes with it.
            if let Ok(folder) =
                fs::read_link(format!("/proc/{pid}/cwd")).and_then(|folder| beside_us(pid, folder))
            {
                self.ours.insert(pid, folder);
            }
        }
    }

    /// Notes those that came since, if any were noted.
    pub(crate) fn note_more(&mut self, group: &Group) {
        if !self.ours.is_empty() {
            self.note(group);
        }
    }

    /// Notes the map of a process, unless it has one already, which is somebody else's then.
    pub(crate) fn expect_map(&mut self, pid: u32) {
        self.maps.extend(Some(map(pid)).filter(|map| !map.exists()));
    }
}

impl Drop for Leavings {
    fn drop(&mut self) {
        let ours =
            self.ours.iter().flat_map(|(pid, folder)| [vec![map(*pid)], node_logs(*pid, folder)].concat());
        for file in ours.chain(std::mem::take(&mut self.maps)) {
            // Most were never written.
            let _ = fs::remove_file(file);
        }
    }
}

/// `folder`, if the process sees the same files as we do.
fn beside_us(pid: u32, folder: PathBuf) -> std::io::Result<PathBuf> {
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    if mounts("self")? == mounts(&pid.to_string())? {
        Ok(folder)
    } else {
        Err(std::io::ErrorKind::NotFound.into())
    }
}

/// Where a runtime says where its compiled functions are. Source: `tools/perf/Documentation/jit-interface.txt` of Linux.
fn map(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// Logs that V8 opens together with a map, one for each isolate, in the process's working directory: `isolate-0xADDRESS-PID-v8.log`. The
/// option that sends them elsewhere is not allowed in `NODE_OPTIONS`.
fn node_logs(pid: u32, folder: &Path) -> Vec<PathBuf> {
    let end = format!("-{pid}-v8.log");
    let is_log = |name: &str| name.starts_with("isolate-0x") && name.ends_with(&end);
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter(|file| file.file_name().to_str().is_some_and(is_log)).map(|file| file.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runtime_of_ours_wrote_goes_and_what_others_wrote_stays() {
        let folder = std::env::temp_dir().join(format!("whyslow-leavings-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [ours, others, map_before] =
            ["isolate-0x1f-77-v8.log", "isolate-0x1f-177-v8.log", "app.js"].map(|name| folder.join(name));
        for file in [&ours, &others, &map_before] {
            fs::write(file, "x").unwrap();
        }
        let mut leavings = Leavings::default();
        leavings.ours.insert(77, folder.clone());
        drop(leavings);
        assert!(!ours.exists());
        assert!(others.exists() && map_before.exists());
        fs::remove_dir_all(&folder).unwrap();
        // A map that somebody else had written is theirs.
        let own = std::process::id();
        let mut leavings = Leavings::default();
        leavings.expect_map(own);
        fs::write(map(own), "x").unwrap();
        let mut late = Leavings::default();
        late.expect_map(own);
        drop(late);
        assert!(map(own).exists());
        drop(leavings);
        assert!(!map(own).exists());
    }

    #[test]
    fn options_that_were_given_stay() {
        let mut env = BTreeMap::from([(JAVA.0.to_owned(), "-Xmx1g".to_owned())]);
        let_be_profiled(&mut env);
        assert_eq!(env[JAVA.0], format!("-Xmx1g {}", JAVA.1));
        assert!(env[NODE.0].ends_with(NODE.1), "{env:?}");
    }
}
