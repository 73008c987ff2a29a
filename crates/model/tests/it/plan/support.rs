//! A plan that is valid, for tests to spoil.

use model::plan::{
    Arm, ArmSource, Blocks, Condition, Design, Expect, Placement, Plan, Timing, Turns, WarmupClass, Workload,
};
use model::units::Span;

pub(crate) fn arm(name: &str) -> Arm {
    Arm {
        name: name.to_owned(),
        source: ArmSource::Command,
        build: Vec::new(),
        run: vec!["./server".to_owned(), "--port".to_owned(), "{port}".to_owned()],
        env: std::collections::BTreeMap::new(),
        dir: None,
        build_dir: None,
        port_env: false,
        circumstances: model::plan::Circumstances::default(),
        services: Vec::new(),
        warmup: WarmupClass::Native,
        expect: Expect::default(),
    }
}

pub(crate) fn plan(seed: u64, arms: &[&str]) -> Plan {
    let allowed = "0-1".parse().unwrap();
    Plan {
        case: "compare".to_owned(),
        seed,
        baseline: 0,
        arms: arms.iter().map(|name| arm(name)).collect(),
        workload: Workload {
            path: "/".to_owned(),
            job: model::job::Job::get(64),
            reach: model::plan::Reach::default(),
            ready: None,
            poisson: false,
            conditions: vec![Condition::Capacity],
            same: model::plan::Same::default(),
            allow_difference: false,
            files: Vec::new(),
        },
        timing: Timing {
            window: Span::from_secs(10),
            warmup: Span::from_secs(3),
            warmup_jit: Span::from_secs(20),
            warmup_cap: Span::from_secs(120),
            ready_limit: Span::from_secs(60),
        },
        design: Design {
            blocks: Blocks::Fixed { blocks: 10 },
            turns: Turns::Slices { cycles: Some(6), slice: None },
            second_baseline: false,
            why: true,
            confirm: false,
            brief: false,
            fewer_connections: false,
        },
        placement: Placement::choose(&allowed, None, None).unwrap(),
        intervention: None,
        services: Vec::new(),
        alone: Default::default(),
    }
}
