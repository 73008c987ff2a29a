//! A plan that is valid, for tests to spoil.

use model::plan::{Arm, Plan};

pub(crate) fn arm(name: &str) -> Arm {
    testkit::command_arm(name, &["./server", "--port", "{port}"])
}

pub(crate) fn plan(seed: u64, arms: &[&str]) -> Plan {
    Plan { seed, ..testkit::plan(arms.iter().map(|name| arm(name)).collect()) }
}
