//! The names of gates: conditions under which figures may be believed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition under which figures may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateId {
    /// All arms answer alike.
    Parity,
    /// Hardly any request fails.
    Errors,
    /// The generator is not the limit, and keeps to its schedule.
    Generator,
    /// Rate times mean response is what is in flight.
    Little,
    /// Every connection is served.
    Stall,
    /// No server uses more than its CPUs.
    Utilisation,
    /// The link carries more than is sent.
    Wire,
    /// Nothing else that runs favours an arm.
    Host,
    /// The arms run in the same place.
    Environment,
    /// Every arm is started anew in each block.
    Running,
    /// The arms keep as many CPUs busy.
    Fairness,
}

impl GateId {
    /// Its name in every file and output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parity => "parity",
            Self::Errors => "errors",
            Self::Generator => "generator",
            Self::Little => "little",
            Self::Stall => "stall",
            Self::Utilisation => "utilisation",
            Self::Wire => "wire",
            Self::Host => "host",
            Self::Environment => "environment",
            Self::Running => "running",
            Self::Fairness => "fairness",
        }
    }
}

impl fmt::Display for GateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gate_is_written_by_its_name() {
        use GateId::*;
        let all = [
            Parity,
            Errors,
            Generator,
            Little,
            Stall,
            Utilisation,
            Wire,
            Host,
            Environment,
            Running,
            Fairness,
        ];
        for gate in all {
            assert_eq!(serde_json::to_string(&gate).unwrap(), format!("\"{gate}\""));
        }
    }
}
