use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::UnitCosts;

/// The machine a run was made on: what must be alike for two runs to be compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Version of whyslow.
    pub tool_version: String,
    /// CPU model name.
    pub cpu_model: String,
    /// CPUs of the host.
    pub cpus: u32,
    /// CPUs that whyslow may use, in list notation.
    pub allowed_cpus: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Frequency governor; absent where the kernel has none (virtual machines).
    pub governor: Option<String>,
    /// Hypervisor, where one is seen.
    pub hypervisor: Option<String>,
    /// CPU vulnerability mitigations by name.
    pub mitigations: BTreeMap<String, String>,
    /// cgroup limits that bind us, by file.
    pub cgroup: BTreeMap<String, String>,
    /// Kernel settings that matter to servers, by sysctl name.
    pub sysctls: BTreeMap<String, String>,
    /// Descriptors this process may open, hard limit.
    pub descriptors: u64,
    /// What one system call, write, switch … costs here; absent where it was not calibrated.
    #[serde(default)]
    pub unit_costs: Option<UnitCosts>,
    /// Bytes per second that one loopback connection carries here; absent where it was not measured.
    #[serde(default)]
    pub loopback_bytes_per_s: Option<f64>,
    /// The link between the machines of server and generator, where these are two.
    #[serde(default)]
    pub link: Option<Link>,
}

/// The link between two machines, measured over one TCP connection in the direction of the answers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The shortest of some round trips, in nanoseconds.
    pub round_trip_ns: u64,
    /// Bytes per second that it carries.
    pub bytes_per_s: f64,
}

impl Host {
    /// Stands for a machine of which nothing is known: its file is lost or damaged.
    #[must_use]
    pub fn unknown() -> Self {
        Self { cpu_model: "unknown".to_owned(), kernel: "unknown".to_owned(), ..Self::default() }
    }

    /// The machine in a few words.
    #[must_use]
    pub fn machine(&self) -> String {
        if self.is_known() {
            format!("{}, {} CPUs", self.cpu_model, self.cpus)
        } else {
            self.cpu_model.clone()
        }
    }

    /// Whether anything is known of the machine.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::unknown()
    }
}
