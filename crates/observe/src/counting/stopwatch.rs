//! The CPU time of a group by a clock of its own: read wherever a CPU goes from one thread to another.
//!
//! The task clock of perf events is stopped before a switch and started after it, so that it tells a few hundred
//! nanoseconds less for each switch than the scheduler charges: a third of the CPU time of a server that switches for each
//! request. This one has the switches in it, and costs less.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

use model::units::CpuSet;

use crate::sys::bpf::{BUSY_NS, Members, Moment, SWITCHES, Table};

/// Where a CPU goes from one thread to another.
const SWITCH: &CStr = c"sched_switch";
/// Where a thread is made ready. An interrupt that does so has still to end, to set its timer anew and to switch, which the
/// scheduler charges to the thread: whose CPU is taken for it, until then, had no use of that.
const WAKING: &CStr = c"sched_wakeup";
/// What comes with every tick of the scheduler, so that the time of a thread that nobody stops is at most that old (1 to
/// 10 ms) when it is read.
const TICK: &CStr = c"hrtimer_expire_entry";

/// Times who runs on CPUs that a group has to itself.
#[derive(Debug)]
pub(super) struct Stopwatch {
    table: Table,
    /// Keep the programs where they are.
    _links: [OwnedFd; 3],
    /// Follows those of the group that begin.
    _members: Members,
}

impl Stopwatch {
    /// Begins to time the processes `of_group`, and those that they begin.
    ///
    /// # Errors
    /// Those of bpf(2), nearly always that it is not allowed; `Unsupported` in a container that numbers processes anew.
    pub(super) fn start(cpus: &CpuSet, of_group: &[u32]) -> io::Result<Self> {
        let members = Members::of_group(of_group, cpus.iter().next().unwrap_or(0))?;
        let table = Table::new(cpus)?;
        let at = |tracepoint, moment| table.stopwatch(&members, moment)?.attach(tracepoint);
        let links = [at(SWITCH, Moment::Switch)?, at(WAKING, Moment::Waking)?, at(TICK, Moment::Tick)?];
        Ok(Self { _links: links, _members: members, table })
    }

    /// CPU time in nanoseconds so far.
    pub(super) fn busy_ns(&self) -> u64 {
        self.table.count(BUSY_NS)
    }

    /// How often a thread of the group left a CPU so far.
    pub(super) fn switches(&self) -> u64 {
        self.table.count(SWITCHES)
    }
}
