//! Causes of slowness by name: what findings say, what interventions and targets say that they take away.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::nearest;

/// Each cause once: its name in every file, and what it is.
macro_rules! causes {
    ($($(#[doc = $what:literal])+ $cause:ident = $name:literal,)+) => {
        /// Why one server is slower than another.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        pub enum CauseId {
            $($(#[doc = $what])+ #[serde(rename = $name)] $cause,)+
        }

        impl CauseId {
            /// Every cause that is known.
            pub const ALL: &[Self] = &[$(Self::$cause),+];

            /// Its name in every file and output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)+
                }
            }
        }
    };
}

causes! {
    /// Time in its own code: an identity, which explains nothing yet.
    UserTime = "user_time",
    /// Time in the kernel: an identity, which explains nothing yet.
    SystemTime = "system_time",
    /// Writes to the network, more and smaller.
    SmallWrites = "small_writes",
    /// Writes to files, as of a log.
    FileWrites = "file_writes",
    /// System calls that the other arm does not make.
    ExtraSyscalls = "extra_syscalls",
    /// The same system calls, each dearer.
    CostlierCalls = "costlier_calls",
    /// Connections opened and closed.
    NewConnections = "new_connections",
    /// Calls to another service.
    BackendCalls = "backend_calls",
    /// Asking which connections are ready.
    Readiness = "readiness",
    /// Context switches.
    ContextSwitches = "context_switches",
    /// Requests handed from thread to thread.
    ThreadHandoff = "thread_handoff",
    /// Memory asked of the kernel and given back.
    KernelMemory = "kernel_memory",
    /// Writes forced to the disk.
    SyncWrites = "sync_writes",
    /// Sleeps of a fixed time.
    Sleep = "sleep",
    /// Threads that wait for each other.
    LockContention = "lock_contention",
    /// Connections that wait to be accepted.
    AcceptQueue = "accept_queue",
    /// Connections refused because the listen queue was full.
    ListenBacklog = "listen_backlog",
    /// Answers that wait for a delayed acknowledgement.
    DelayedAck = "delayed_ack",
    /// Work of a service that was started beside, such as a database.
    ServiceBeside = "service_beside",
    /// Waiting for the answer of another service.
    BackendWait = "backend_wait",
    /// One thread is full while other CPUs are idle.
    OneThread = "one_thread",
    /// Times in which nobody is answered.
    Stalls = "stalls",
    /// Few requests are taken at a time.
    FewAtATime = "few_at_a_time",
    /// Waiting for a time to pass, without a call that says so.
    TimerWait = "timer_wait",
    /// Garbage collection.
    Gc = "gc",
    /// Compiling the program while it runs, and running what is not yet compiled.
    Compiling = "compiling",
    /// Code that is interpreted and not compiled.
    Interpreter = "interpreter",
    /// Copying bytes.
    Copying = "copying",
    /// Comparing and searching bytes.
    Comparing = "comparing",
    /// Allocating and freeing memory in the program.
    Allocation = "allocation",
    /// Polling the clock until a time has passed.
    BusyWait = "busy_wait",
    /// Processes that begin and end.
    ChildProcesses = "child_processes",
    /// Threads that begin and end.
    ShortThreads = "short_threads",
    /// The program's own functions.
    OwnCode = "own_code",
    /// Reading the heads of requests.
    HeadParsing = "profile_head_parsing",
    /// Writing the heads of answers.
    HeaderWriting = "profile_header_writing",
    /// Reading clocks and writing dates.
    Dates = "profile_clocks_and_dates",
    /// Encryption.
    Tls = "profile_tls",
    /// Turning values into bytes and back, and bytes into fewer.
    Serialisation = "profile_serialisation_and_compression",
    /// The runtime and the server library.
    Runtime = "profile_runtime_and_server_library",
    /// Taking and giving locks.
    Locks = "profile_locks",
    /// The kernel's work of sending.
    KernelSending = "kernel_network_transmit",
    /// The kernel's work of receiving.
    KernelReceiving = "kernel_network_receive",
    /// The kernel's work of finding ready connections.
    KernelPolling = "kernel_polling",
    /// Getting into the kernel and out.
    KernelEntry = "kernel_system_call_entry",
    /// The kernel's work on files.
    KernelFiles = "kernel_files",
    /// The kernel's work on memory.
    KernelPages = "kernel_memory_of_the_kernel",
    /// All other work of the kernel.
    KernelOther = "kernel_kernel,_other",
    /// The kernel's network as a whole, where its parts are unsure and their sum is not.
    KernelNetwork = "kernel_network",
    /// The kernel as a whole, likewise.
    KernelWhole = "kernel_as_a_whole",
    /// The program's own time as a whole, likewise.
    ProgramWhole = "program_as_a_whole",
}

impl CauseId {
    /// Whether it can be taken away without changing the server: by its environment, or by a preloaded library.
    #[must_use]
    pub const fn can_be_taken_away(self) -> bool {
        matches!(
            self,
            Self::DelayedAck
                | Self::SyncWrites
                | Self::Sleep
                | Self::AcceptQueue
                | Self::ListenBacklog
                | Self::SmallWrites
                | Self::Copying
                | Self::LockContention
                | Self::ThreadHandoff
                | Self::ContextSwitches
                | Self::Interpreter
                | Self::Gc
                | Self::Allocation
        )
    }
}

/// A name that no cause has, and the nearest that one has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no cause is called '{name}': did you mean '{nearest}'?")]
pub struct UnknownCause {
    /// As it was written.
    pub name: String,
    /// The nearest known one.
    pub nearest: CauseId,
}

impl FromStr for CauseId {
    type Err = UnknownCause;

    fn from_str(name: &str) -> Result<Self, UnknownCause> {
        let known = Self::ALL.iter().copied();
        known.clone().find(|cause| cause.name() == name).ok_or_else(|| UnknownCause {
            name: name.to_owned(),
            nearest: nearest(name, known.map(|cause| (cause.name(), cause))).unwrap_or(Self::OwnCode),
        })
    }
}

impl fmt::Display for CauseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl<'de> Deserialize<'de> for CauseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_read_by_the_name_that_it_is_written_by() {
        for cause in CauseId::ALL {
            let written = serde_json::to_string(cause).unwrap();
            assert_eq!(written, format!("\"{}\"", cause.name()));
            assert_eq!(serde_json::from_str::<CauseId>(&written).unwrap(), *cause);
        }
    }

    #[test]
    fn a_name_that_no_cause_has_is_refused_with_the_nearest() {
        for (wrong, nearest) in
            [("allocations", "allocation"), ("Sleep", "sleep"), ("delayd_ack", "delayed_ack")]
        {
            assert_eq!(wrong.parse::<CauseId>().unwrap_err().nearest.name(), nearest, "{wrong}");
        }
    }
}
