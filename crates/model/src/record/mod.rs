//! The on-disk model of a run: a directory of plain files that can be read in ten years.
//!
//! ```text
//! RUN/manifest.json          what was to be done and how far it came
//! RUN/host.json              where it was done
//! RUN/answers.json           what the arms answered when each was asked a few times
//! RUN/rounds/b000-p0.json    one round: its windows, counters and answers
//! RUN/rounds/b000-p0.hlog    its latencies, HdrHistogram log V2
//! RUN/diagnostics/d000-NAME.json  one diagnostic round: watched more closely, never scored
//! RUN/logs/b000-p0-NAME.log  what the target printed
//! ```
//!
//! The model is plain data; [`RunDir`] alone touches files, and only it writes into a run. A file is whole or absent:
//! it is written under a temporary name, synchronised, then renamed.

mod answers;
mod command;
mod counts;
mod diagnostic;
mod dir;
mod host;
mod load;
mod machine;
mod manifest;
mod profile;
mod resources;
mod round;
mod shard;
mod sound;
mod unit_costs;
mod usage;
mod waits;

pub use answers::{AnswersRecord, ArmAnswers, Reply, RequestAnswers};
pub use command::{without_secrets, without_values};
pub use counts::{Counts, TurnCalls, Writes, Written, call_name};
pub use diagnostic::{DiagnosticRecord, Pass, PassKind};
pub use dir::{RecordError, Remains, Run, RunDir, ShardDir, can_write, write_atomically};
pub use host::{Host, Link};
pub use load::{
    Connections, Cpu, Errors, EventFigures, GRPC_STATUS, Growth, LoadReport, NamedRequests, PerConnection,
    Percentiles, PhaseFigures, Pieces, ScheduleFacts, Second, ServerGrowth, UserFigures, Warning,
    status_name,
};
pub use machine::{MachineLog, Pauses};
pub use manifest::{
    AloneReason, Build, Fitted, Manifest, RunStatus, ServiceImage, SourceChange, Stopping, Stops, Warming,
};
pub use profile::{
    ENDED, Frame, Interpreted, JAVA, PHP, PYTHON, Profile, ProfileKind, RUBY, RUN_QUEUE, SPINNING, Stack,
    evaluated_in, is_interpreted,
};
pub use resources::{Disk, Files, Listener, Memory, Network, Pressure, Resources, SocketCounters, Sockets};
pub use round::{Answer, Background, Failure, FailureKind, Fairness, RoundRecord, Slice, Warmup, Window};
pub use shard::ShardRecord;
pub use sound::{
    GENERATOR_BUSY, LagPercentile, MANY_RESENT, MAX_LITTLE, MIN_JAIN, MIN_RATE_RATIO, SMALL_SEND_LAG_NS,
    SendLagTail, max_send_lag_ns,
};
pub use unit_costs::UnitCosts;
pub use usage::{CpuTimes, HostUsage, TcpCounters, Usage, is_compiler};
pub use waits::{EndedBy, Goroutines, ParkedLeaf, WaitLeaf, Waits, WaitsFor};

/// Version of everything in a run directory; a reader refuses a newer one by name.
pub const SCHEMA_VERSION: u32 = 1;
