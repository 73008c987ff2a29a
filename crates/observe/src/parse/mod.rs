//! Text of the kernel into numbers. Pure: each function has fixtures in `tests.rs`.

mod callgrind;
mod cgroup;
mod cpu;
mod diag;
mod goroutines;
mod hotspot;
mod machine;
mod net;
mod pclntab;
mod perf;
mod php;
mod process;
mod python;
mod resources;
mod ruby;
#[cfg(test)]
mod tests;
mod wakes;

pub use callgrind::callgrind_self_costs;
pub(crate) use cgroup::{Hierarchy, cpu_cgroup, hierarchies, keyed};
pub(crate) use cpu::{CpuTicks, cpu_lines, running};
pub(crate) use diag::{DiagSocket, diag_replies, diag_request};
pub(crate) use goroutines::{BELOW, GOROUTINE_BYTES, GoLayout, go_layout, go_version};
pub(crate) use hotspot::{SCOPE_BYTES, java_method, line_of_bytecode, scope};
pub use machine::machine_log;
pub(crate) use net::{datagram_takers, tcp_counters};
pub(crate) use pclntab::{GoPlace, INLINED_BYTES, LineTable, first_words_read};
pub(crate) use perf::{
    JitSymbol, Mapping, PerfRecord, USER_REGISTERS, UserStack, chain_of, jit_symbol, mappings, perf_map,
    perf_records, split_chain,
};
pub(crate) use php::{is_php, php_function};
pub(crate) use process::{Schedstat, Stat, Status, schedstat, stat, status, waiting_stack};
pub(crate) use python::{line_at, line_by_ranges, line_by_steps, string_kind, string_of, version_of};
pub(crate) use resources::{disks, interfaces, limit, meminfo_bytes, pressure_us, softnet};
pub(crate) use ruby::{entry_at, function_of, index_bytes, is_of_c, is_ruby, ruby_version};
pub(crate) use wakes::{Context, Leaving, Site, Tracepoints, Wake, WakeKind, wakes};
