//! Watches any process and its host, from outside, without knowing what loads them.
//!
//! Tier 0 reads `/proc` and cgroup files at the two ends of a window: [`Group`] for a process with all that belongs to
//! it, [`HostWatch`] for a set of CPUs, and [`Sampler`] for both at once. A reading is a snapshot; what happened between
//! two of them is [`Snapshot::since`], pure arithmetic into the types of `record`.
//!
//! Tier 1 ([`Counting`]) counts perf events and system calls of a group, on the CPUs that it has to itself or on each of
//! its threads. [`unit_costs`] measures what one
//! system call, write or switch costs here.
//!
//! Tier 2 samples stacks by perf events: [`Profiler`]. It costs the target something, so no figure comes from a window in
//! which it ran.
//!
//! Tier 3 tells what ended each wait, by the stacks of both sides: [`WakerWatch`].
//!
//! [`Tracer`] counts system calls exactly where perf events may not be had: it stops the target at each, so that it is for a
//! low rate of requests only.
//!
//! What a kernel does not offer is left out and named by [`capabilities`]; it is never a panic and never a wrong number.
#![deny(unsafe_code)]

mod awake;
mod capability;
mod counting;
mod error;
mod file;
mod fingerprint;
mod group;
mod host;
mod link;
mod parse;
mod profile;
mod readiness;
mod resources;
mod sampler;
mod series;
mod snapshot;
mod sockets;
mod sys;
mod tracefs;
mod tracer;
mod unit_costs;
mod waits;

pub use awake::{Awake, should_keep_awake};
pub use capability::{Capability, capabilities};
pub use counting::{Counting, OwnCpus, Tally};
pub use error::{ObserveError, Untraceable};
pub use fingerprint::fingerprint;
pub use group::Group;
pub use host::{HostSnapshot, HostWatch, busy_share};
pub use link::{listen_for_link, loopback_bytes_per_s, measure_link};
pub use parse::{callgrind_self_costs, machine_log};
pub use profile::{Profiler, Samples, names_java};
pub use readiness::{Readiness, ReadinessAt, ReadinessWatch};
pub use resources::{ResourceSnapshot, available_bytes, listening_process};
pub use sampler::{Observed, Reading, Sampler};
pub use series::{Point, Series};
pub use snapshot::Snapshot;
pub use sys::code::give_back_code;
pub use tracer::Tracer;
pub use unit_costs::unit_costs;
pub use waits::WakerWatch;
