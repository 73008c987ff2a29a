use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one of each costs on this host, in nanoseconds of CPU time of the side that does it: medians of a calibration
/// that takes less than three seconds. A change in a count times its unit cost is what the change can carry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnitCosts {
    /// Entering and leaving the kernel: the cheapest system call.
    pub syscall_ns: f64,
    /// One small write to a loopback TCP socket whose reader is awake: call, segment, soft interrupt.
    pub loopback_write_ns: f64,
    /// One small read from a loopback TCP socket that has data.
    pub loopback_read_ns: f64,
    /// Handing over to a thread that waits on a futex on the same CPU: wake, wait and switch.
    pub futex_wake_ns: f64,
    /// One switch to another thread on the same CPU, its wake-up included and the calls that led to it not.
    pub context_switch_ns: f64,
    /// First touch of a page.
    pub minor_fault_ns: f64,
    /// Allocating and freeing one small block.
    pub malloc_free_ns: f64,
    /// Copying 1 KiB that is in a cache.
    pub memcpy_kib_ns: f64,
}
