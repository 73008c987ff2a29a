use std::collections::BTreeMap;

use model::plan::{
    Arm, ArmSource, Blocks, Circumstances, Design, Expect, Placement, Plan, Timing, Turns, WarmupClass,
    Workload,
};
use model::units::Span;

/// A plan that is valid: ten blocks of slices at capacity, on the CPUs 0 and 1.
///
/// # Panics
/// Never: the CPUs are a set that can be divided.
#[must_use]
pub fn plan(arms: Vec<Arm>) -> Plan {
    let allowed = "0-1".parse().expect("a set of CPUs");
    Plan {
        case: "compare".to_owned(),
        seed: 1,
        baseline: 0,
        arms,
        workload: Workload::get("/", 64),
        timing: Timing {
            window: Span::from_secs(10),
            warmup: Span::from_secs(3),
            warmup_jit: Span::from_secs(20),
            warmup_cap: Span::from_secs(120),
            warmup_cap_jit: None,
            ready_limit: Span::from_secs(60),
        },
        design: Design {
            blocks: Blocks::Fixed { blocks: 10 },
            turns: Turns::Slices { cycles: Some(6), slice: None },
            second_baseline: false,
            why: true,
            confirm: false,
            fewer_connections: false,
        },
        placement: Placement::choose(&allowed, None, None).expect("two CPUs can be divided"),
        intervention: None,
        services: Vec::new(),
        alone: Default::default(),
    }
}

/// An arm that the words `run` start.
#[must_use]
pub fn command_arm(name: &str, run: &[&str]) -> Arm {
    Arm {
        name: name.to_owned(),
        source: ArmSource::Command,
        build: Vec::new(),
        run: run.iter().map(|word| (*word).to_owned()).collect(),
        env: BTreeMap::new(),
        dir: None,
        build_dir: None,
        port_env: false,
        circumstances: Circumstances::default(),
        services: Vec::new(),
        warmup: WarmupClass::Native,
        expect: Expect::default(),
    }
}
