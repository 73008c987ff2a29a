//! What is not run, and the sentence that says how to mend it.

use model::plan::{Blocks, Condition, Plan, Timing, Turns, WarmupClass, split_command};
use model::units::{Rate, Span};

use crate::plan::support::plan;

type Spoil = fn(&mut Plan);

/// One way to spoil a plan, and what is said then.
const CASES: [(Spoil, &str); 24] = [
    (
        |p| p.arms.truncate(1),
        "a comparison needs two arms: name one more target, or pass none for the built-in servers",
    ),
    (|p| p.arms[1].name = "main".to_owned(), "two arms are called 'main': give one another name"),
    (|p| p.arms[1].run = Vec::new(), "the command of 'pr' cannot be split into words: check its quotes"),
    (
        |p| p.arms[1].run = vec!["./server".to_owned()],
        "the command of 'pr' has no {port}: put {port} where the port goes, or pass --port-env if it reads PORT or its port cannot be changed",
    ),
    (|p| rename(p, ""), "'' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64"),
    (
        |p| rename(p, "a/b"),
        "'a/b' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64",
    ),
    (
        |p| rename(p, ".."),
        "'..' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64",
    ),
    (
        |p| rename(p, "ärm"),
        "'ärm' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64",
    ),
    (|p| rename(p, LONG_NAME), LONG_NAME_REFUSED),
    (
        |p| p.workload.path = "users".to_owned(),
        "--path is users: it must be a path that begins with / and has only visible ASCII characters, without a fragment (#)",
    ),
    (
        |p| p.workload.path = "/a b".to_owned(),
        "--path is /a b: it must be a path that begins with / and has only visible ASCII characters, without a fragment (#)",
    ),
    (|p| p.workload.job.connections = 0, "--connections is 0: it must be between 1 and 1000000"),
    (
        |p| p.workload.job.connections = 1_000_001,
        "--connections is 1000001: it must be between 1 and 1000000",
    ),
    (
        |p| p.workload.job = p.workload.job.clone().with_depth(0),
        "--pipeline is 0: it must be between 1 and 1024",
    ),
    (
        |p| p.workload.job = p.workload.job.clone().with_depth(1025),
        "--pipeline is 1025: it must be between 1 and 1024",
    ),
    (|p| p.timing.window = Span::from_secs(0), "--window is 0s: it must be between 1s and 1h"),
    (|p| p.timing.window = Span::from_secs(3601), "--window is 3601s: it must be between 1s and 1h"),
    (|p| p.timing.warmup = Span::from_secs(121), "--warmup is 121s: it must be at most --warmup-cap"),
    (|p| p.timing.ready_limit = Span::from_secs(0), "--ready-limit is 0s: it must be above 0s"),
    (
        |p| p.design.turns = Turns::Slices { cycles: Some(0), slice: None },
        "--cycles is 0: it must be between 1 and 10000",
    ),
    (
        |p| p.design.turns = Turns::Slices { cycles: Some(6), slice: Some(Span::from_secs(0)) },
        "--slice is 0s: it must be between 20ms and 5s; longer ones are windows of --alone",
    ),
    (
        |p| p.design.turns = Turns::Slices { cycles: Some(6), slice: Some(Span::from_secs(6)) },
        "--slice is 6s: it must be between 20ms and 5s; longer ones are windows of --alone",
    ),
    (|p| p.design.blocks = Blocks::Fixed { blocks: 0 }, "--blocks is 0: it must be between 1 and 500"),
    (|p| p.design.blocks = Blocks::Fixed { blocks: 501 }, "--blocks is 501: it must be between 1 and 500"),
];

const LONG_NAME: &str = "a1234567890123456789012345678901234567890123456789012345678901234";
const LONG_NAME_REFUSED: &str = "'a1234567890123456789012345678901234567890123456789012345678901234' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64";

fn rename(plan: &mut Plan, name: &str) {
    plan.arms[1].name = name.to_owned();
}

#[test]
fn each_fault_has_its_sentence() {
    assert_eq!(plan(1, &["main", "pr"]).validate(), Ok(()), "the plan that is spoilt must be good");
    for (spoil, want) in CASES {
        let mut spoilt = plan(1, &["main", "pr"]);
        spoil(&mut spoilt);
        assert_eq!(spoilt.validate().map_err(|error| error.to_string()), Err(want.to_owned()));
    }
}

#[test]
fn the_edges_of_every_range_are_inside_it() {
    let good: [Spoil; 10] = [
        |p| p.workload.job.connections = 1,
        |p| p.workload.job.connections = 1_000_000,
        |p| p.workload.job = p.workload.job.clone().with_depth(1024),
        |p| p.timing.window = Span::from_secs(1),
        |p| p.timing.window = Span::from_secs(3600),
        |p| p.timing.warmup = Span::from_secs(120),
        |p| p.design.blocks = Blocks::Fixed { blocks: 500 },
        |p| p.design.turns = Turns::Slices { cycles: Some(10_000), slice: Some(Span::from_secs(5)) },
        |p| rename(p, &LONG_NAME[..64]),
        |p| rename(p, "hyper@0.11+lto_a-b"),
    ];
    for (index, change) in good.iter().enumerate() {
        let mut plan = plan(1, &["main", "pr"]);
        change(&mut plan);
        assert_eq!(plan.validate(), Ok(()), "number {index}");
    }
}

#[test]
fn the_port_may_come_by_argument_variable_or_port_env() {
    let ways: [Spoil; 3] = [
        |p| p.arms[1].run = vec!["./server".to_owned(), "--listen=127.0.0.1:{port}".to_owned()],
        |p| {
            p.arms[1].run = vec!["./server".to_owned()];
            p.arms[1].env.insert("LISTEN".to_owned(), ":{port}".to_owned());
        },
        |p| {
            p.arms[1].run = vec!["./server".to_owned()];
            p.arms[1].port_env = true;
        },
    ];
    for (index, way) in ways.iter().enumerate() {
        let mut plan = plan(1, &["main", "pr"]);
        way(&mut plan);
        assert_eq!(plan.validate(), Ok(()), "way {index}");
    }
}

#[test]
fn commands_are_split_as_a_shell_would() {
    let cases: [(&str, &[&str]); 5] = [
        ("./a --port {port}", &["./a", "--port", "{port}"]),
        ("  a\t b ", &["a", "b"]),
        ("a 'b c' \"d 'e\"", &["a", "b c", "d 'e"]),
        (r"a b\ c", &["a", "b c"]),
        ("a '' b", &["a", "", "b"]),
    ];
    for (command, words) in cases {
        assert_eq!(split_command("x", command).unwrap(), words, "{command}");
    }
    for command in ["", "   ", "./a 'b", "./a \"b", "# only a comment"] {
        let refused = split_command("x", command).unwrap_err().to_string();
        assert_eq!(refused, "the command of 'x' cannot be split into words: check its quotes", "{command}");
    }
}

#[test]
fn a_share_becomes_a_rate_and_other_conditions_stay() {
    let share = Condition::ShareOfSlowest { percent: 50 };
    let rate = Rate::per_s(6172.0).unwrap();
    assert_eq!(share.resolve(12_345.6), Condition::EqualRate { rate });
    assert_eq!(share.resolve(0.0), share, "no pilot, no rate");
    assert_eq!(Condition::Capacity.resolve(12_345.6), Condition::Capacity);
}

#[test]
fn a_compiler_at_run_time_gets_its_own_warm_up() {
    let timing: Timing = plan(1, &["main", "pr"]).timing;
    assert_eq!(timing.warmup_of(WarmupClass::Native), [3, 120].map(Span::from_secs));
    assert_eq!(timing.warmup_of(WarmupClass::Jit), [20, 120].map(Span::from_secs));
}
