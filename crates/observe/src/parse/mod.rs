//! Text of the kernel into numbers. Pure: each function has fixtures in `tests.rs`.

mod callgrind;
mod cgroup;
mod cpu;
mod net;
mod process;
#[cfg(test)]
mod tests;

pub use callgrind::callgrind_self_costs;
pub(crate) use cgroup::{Hierarchy, hierarchies, keyed};
pub(crate) use cpu::{CpuTicks, cpu_lines, running};
pub(crate) use net::tcp_counters;
pub(crate) use process::{Schedstat, Stat, Status, schedstat, stat, status};
