//! CPUs that do not go idle.
//!
//! A virtual CPU that goes idle is given back, and the hypervisor may let it go on elsewhere: next to the other one or far
//! from it. What two CPUs pass to each other through the kernel's network costs up to twice as much where they are far
//! apart, so that a round's figures depend on a draw that nobody made. A thread that only runs when nothing else wants the
//! CPU keeps it where it is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use model::record::Host;
use model::units::CpuSet;
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};

use crate::sys;

/// Turns between two looks at whether to stop: some microseconds.
const TURNS: u32 = 1000;
/// The least of all shares, and the one whose time the kernel counts apart (`nice` in `/proc/stat`).
const NICE: i32 = 19;

/// Keeps CPUs from going idle for as long as it lives.
#[derive(Debug)]
pub struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Starts a thread on each of `cpus` that yields to whatever else wants to run there (`SCHED_IDLE`, nice 19).
    ///
    /// # Errors
    /// Where the kernel refuses the CPU or the class; nothing is left running then.
    pub fn keep(cpus: &CpuSet) -> io::Result<Self> {
        let mut awake = Self { stop: Arc::default(), threads: Vec::new() };
        for cpu in cpus.iter() {
            let (begun, prepared) = channel();
            let stop = Arc::clone(&awake.stop);
            awake.threads.push(
                std::thread::Builder::new()
                    .name(format!("awake-{cpu}"))
                    .spawn(move || turn(cpu, &stop, &begun))?,
            );
            prepared.recv().map_err(io::Error::other)??;
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

fn turn(cpu: u32, stop: &AtomicBool, begun: &Sender<io::Result<()>>) {
    let prepared = prepare(cpu);
    let ok = prepared.is_ok();
    // Whoever asked waits for this word.
    let _ = begun.send(prepared);
    while ok && !stop.load(Ordering::Relaxed) {
        for _ in 0..TURNS {
            std::hint::spin_loop();
        }
    }
}

/// Moves this thread to `cpu` and below everything else.
fn prepare(cpu: u32) -> io::Result<()> {
    let mut set = KernelCpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set)?;
    rustix::process::setpriority_process(None, NICE)?;
    sys::become_idle_class()
}

/// Whether keeping awake is likely to help and cannot harm: on a virtual machine whose cgroup has no quota that it would use
/// up.
#[must_use]
pub fn should_keep_awake(host: &Host) -> bool {
    let limited = |(file, value): (&String, &String)| {
        (file.ends_with("cpu.max") && !value.starts_with("max"))
            || (file.ends_with("cpu.cfs_quota_us") && !value.starts_with('-'))
    };
    host.hypervisor.is_some() && !host.cgroup.iter().any(limited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_virtual_machines_without_a_quota_are_kept_awake() {
        for (hypervisor, file, value, expected) in [
            (Some("kvm"), "cpu.max", "max 100000", true),
            (Some("kvm"), "cpu.cfs_quota_us", "-1", true),
            (Some("kvm"), "memory.max", "1000000", true),
            (Some("kvm"), "cpu.max", "200000 100000", false),
            (Some("kvm"), "cpu.cfs_quota_us", "150000", false),
            (None, "cpu.max", "max 100000", false),
        ] {
            let host = Host {
                hypervisor: hypervisor.map(str::to_owned),
                cgroup: [(file.to_owned(), value.to_owned())].into(),
                ..Host::default()
            };
            assert_eq!(should_keep_awake(&host), expected, "{hypervisor:?} {file} {value}");
        }
    }

    #[test]
    fn a_cpu_that_is_kept_awake_is_not_idle_and_is_given_back() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed: CpuSet = crate::parse::status(&status).allowed_cpus.parse().unwrap();
        let one: CpuSet = allowed.iter().take(1).collect();
        let names = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
            tasks.filter_map(|task| name(task.unwrap()).ok()).collect::<String>()
        };
        let awake = Awake::keep(&one).unwrap();
        assert!(names().contains("awake-"), "{}", names());
        drop(awake);
        // A thread that was joined stays on the list until the kernel has put it away, which it does at the thread's own
        // priority: the least of all.
        let gone = |_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !names().contains("awake-")
        };
        assert!((0..1000).any(gone), "{}", names());
        assert!(Awake::keep(&"1000".parse().unwrap()).is_err(), "there is no such CPU");
    }
}
