//! A cgroup with limits for a watched process; it takes root.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A cgroup; gone with the test, which ends the processes in it before.
pub(crate) struct Cgroup {
    folders: Vec<PathBuf>,
}

impl Cgroup {
    /// One that may run for `quota_us` of each tenth of a second and hold so much memory; nothing where none can be made.
    pub(crate) fn with_limits(quota_us: u64, memory_bytes: u64) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("whyslow-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let memory = memory_bytes.to_string();
        let root = Path::new("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.controllers").exists();
        let limits = if is_v2 {
            let folder = root.join(&name);
            vec![(folder.join("cpu.max"), format!("{quota_us} 100000")), (folder.join("memory.max"), memory)]
        } else {
            let (cpu, limit) = (root.join("cpu").join(&name), root.join("memory").join(&name));
            vec![
                (cpu.join("cpu.cfs_quota_us"), quota_us.to_string()),
                (limit.join("memory.limit_in_bytes"), memory),
            ]
        };
        let mut made = Self { folders: Vec::new() };
        for (file, limit) in limits {
            let folder = file.parent()?.to_owned();
            if !made.folders.contains(&folder) {
                std::fs::create_dir(&folder).ok()?;
                made.folders.push(folder);
            }
            std::fs::write(file, limit).ok()?;
        }
        Some(made)
    }

    pub(crate) fn take(&self, pid: u32) {
        self.folders
            .iter()
            .for_each(|folder| std::fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap());
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.folders.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    }
}
