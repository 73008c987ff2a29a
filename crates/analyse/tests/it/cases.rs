//! A case's rules against runs of which the answer is known.

use analyse::{CaseFindings, CaseRun, Findings, FunctionCost, InstructionProfile, Reproduced, case_findings};
use model::plan::CaseFile;
use model::record::Run;

use crate::support::{analyse, arm, change, pair, run};

/// A case whose published ratio of `pr` to `main` is the quotient of two rates, with one rule.
fn case(published: f64, rule: &str) -> CaseFile {
    let text = format!(
        r#"
name = "x"
question = "Which?"
source = "a document"
open = "why"
published = {{ machine = "m", server_cpus = 1, command = "wrk" }}
workload = {{ path = "/", connections = 64 }}
comparison = [{{ id = "c", question = "which?", arms = ["main", "pr", "third"] }}]
profile = [{{ id = "p", arm = "pr", lines = [
    {{ what = "copying", percent = 10.0, functions = ["memcpy", "memmove"] }},
    {{ what = "the rest of libc", percent = 10.0, functions = ["mem"] }},
] }}]

[[figure]]
id = "m"
system = "Main"
arm = "main"
rate_per_s = 100.0

[[figure]]
id = "p"
system = "PR"
arm = "pr"
rate_per_s = {}

[[figure]]
id = "t"
system = "Third"
arm = "third"
rate_per_s = 100.0

[[claim]]
text = "something"
rule = {{ {rule} }}
"#,
        100.0 * published
    );
    CaseFile::parse("x.toml", &text).unwrap()
}

fn found(case: &CaseFile, run: &Run, profiles: &[InstructionProfile]) -> CaseFindings {
    let run = CaseRun {
        id: "c".to_owned(),
        question: "which?".to_owned(),
        changes: Vec::new(),
        allow_difference: None,
        findings: analyse(run),
    };
    let found = case_findings(case, "full", &["whyslow".to_owned()], vec![run], profiles, Vec::new());
    report::worded(found).into_inner()
}

const RATIO: &str = r#"kind = "ratio", comparison = "c", figure = "p", against = "m", within = 2.0"#;

#[test]
fn a_ratio_is_repeated_by_its_side_and_its_size() {
    // Published rate ratio, ours (as a ratio of CPU per request), the word, and what the reasoning says.
    let table = [
        (0.8, 1.25, Reproduced::Yes, "1.00 of the published size"),
        (0.8, 1.15, Reproduced::Yes, "of the published size"),
        (0.8, 1.06, Reproduced::Partly, "the same side, but 0.26"),
        (0.8, 2.0, Reproduced::Partly, "the same side, but 3.1"),
        (0.8, 0.9, Reproduced::No, "the other way round"),
        (0.8, 1.0, Reproduced::No, "no effect here: inside ±2"),
        (1.25, 0.8, Reproduced::Yes, "1.00 of the published size"),
        (1.25, 1.1, Reproduced::No, "the other way round"),
        (1.01, 1.0, Reproduced::Yes, "no difference"),
        (1.01, 1.1, Reproduced::No, "here they differ"),
    ];
    for (published, ours, want, says) in table {
        let findings = found(&case(published, RATIO), &pair(ours), &[]);
        let claim = &findings.claims[0];
        assert_eq!(claim.reproduced, want, "{published} {ours}: {claim:?}");
        assert!(claim.why.contains(says), "{published} {ours}: {}", claim.why);
        assert!(claim.ours.contains("(rate, 10 blocks)"), "{}", claim.ours);
        let limits = findings.figures.iter().filter_map(|row| row.ours.as_ref()).map(|arm| &arm.limiter);
        assert!(limits.clone().count() > 0 && limits.clone().all(Option::is_some), "{:?}", findings.figures);
    }
}

#[test]
fn what_cannot_be_told_is_unknown() {
    let ratio = case(0.8, RATIO);
    let few = run(1, 3, &[arm("main", 10_000.0), arm("pr", 12_500.0)]);
    let claim = &found(&ratio, &few, &[]).claims[0];
    assert_eq!(
        (claim.reproduced, claim.why.as_str()),
        (Reproduced::Unknown, "3 blocks are too few to decide")
    );
    let missing = case(0.8, &RATIO.replace("\"m\"", "\"t\""));
    let claim = &found(&missing, &pair(1.25), &[]).claims[0];
    assert_eq!((claim.reproduced, claim.why.as_str()), (Reproduced::Unknown, "'third' gave no figures"));
    let unrun = report::worded(case_findings(&ratio, "full", &[], Vec::new(), &[], Vec::new()));
    assert_eq!(
        (unrun.claims[0].reproduced, unrun.claims[0].why.as_str()),
        (Reproduced::Unknown, "it was not run")
    );
}

#[test]
fn a_rate_that_is_the_generators_gives_way_to_requests_per_cpu_second() {
    let mut run = pair(1.25);
    for name in ["main", "pr"] {
        change(&mut run, name, 0, |window| {
            // The server is half idle and the generator full.
            window.target.wall_ns *= 2;
            window.target.busiest_thread_ns /= 2;
            window.server_cpus.idle_ns += window.server_cpus.wall_ns;
            window.server_cpus.wall_ns *= 2;
            window.load.busiest_thread = 1.0;
        });
    }
    let findings = found(&case(0.8, RATIO), &run, &[]);
    let claim = &findings.claims[0];
    assert_eq!(claim.reproduced, Reproduced::Yes, "{claim:?}");
    assert!(claim.ours.contains("(requests per CPU second, 10 blocks)"), "{}", claim.ours);
    assert!(findings.figures.iter().all(|row| !row.rate_valid), "{:?}", findings.figures);
}

#[test]
fn arms_beside_the_baseline_are_compared_block_by_block() {
    let arms = [arm("main", 10_000.0), arm("pr", 12_500.0), arm("third", 10_000.0)];
    let against_third = case(0.8, &RATIO.replace("\"m\"", "\"t\""));
    let claim = &found(&against_third, &run(1, 10, &arms), &[]).claims[0];
    assert_eq!(claim.reproduced, Reproduced::Yes, "{claim:?}");
    let upside_down =
        case(0.8, &RATIO.replace("\"p\"", "\"z\"").replace("\"m\"", "\"p\"").replace("\"z\"", "\"m\""));
    let claim = &found(&upside_down, &run(1, 10, &arms), &[]).claims[0];
    assert_eq!((claim.published.as_str(), claim.reproduced), ("x1.250", Reproduced::Yes), "{claim:?}");
}

#[test]
fn another_reason_is_only_part_of_it() {
    // In these runs 30 % of the time is user time.
    for (part, at_least, want) in
        [("user", 0.2, Reproduced::Yes), ("user", 0.8, Reproduced::Partly), ("system", 0.6, Reproduced::Yes)]
    {
        let rule = format!("{RATIO}, reason = {{ part = \"{part}\", at_least = {at_least} }}");
        let claim = &found(&case(0.8, &rule), &pair(1.25), &[]).claims[0];
        assert_eq!(claim.reproduced, want, "{claim:?}");
        assert!(claim.why.contains("of the gap in CPU per request"), "{}", claim.why);
    }
}

#[test]
fn an_overload_is_told_with_its_backlog() {
    let rule = r#"kind = "overload", comparison = "c", figure = "p""#;
    let mut run = pair(1.25);
    let claim = &found(&case(0.8, rule), &run, &[]).claims[0];
    assert_eq!(claim.reproduced, Reproduced::No, "{claim:?}");
    change(&mut run, "pr", 1, |window| {
        window.load.schedule.rate_per_s = Some(20_000.0);
        window.load.rate_ratio = Some(0.4);
        window.load.rate_per_s = 8_000.0;
    });
    let findings = found(&case(0.8, rule), &run, &[]);
    let claim = &findings.claims[0];
    assert_eq!(claim.reproduced, Reproduced::Yes, "{claim:?}");
    let says =
        "the backlog grows by 12000 requests a second; the latency figures are a queue's, not the server's";
    assert!(claim.ours.contains(says), "{}", claim.ours);
    let whole = &findings.runs[0].findings;
    assert!(whole.warnings.iter().any(|warning| warning.contains(says)), "{:?}", whole.warnings);
    assert_eq!(whole.arms[0].overload, None);
    // A generator without time to spare may be what was late.
    change(&mut run, "pr", 1, |window| window.load.busiest_thread = 0.95);
    assert_eq!(found(&case(0.8, rule), &run, &[]).claims[0].reproduced, Reproduced::No);
}

#[test]
fn an_arm_that_closes_connections_under_way_is_named_and_not_void() {
    let mut run = pair(1.25);
    change(&mut run, "pr", 0, |window| window.load.resent = window.load.requests / 2_000);
    let says = "'pr' closed connections as";
    let is_said = |findings: &Findings| findings.warnings.iter().any(|warning| warning.starts_with(says));
    assert!(!is_said(&analyse(&run)), "one of 2000 is within what is not seen");
    change(&mut run, "pr", 0, |window| window.load.resent = window.load.requests / 77);
    let findings = analyse(&run);
    assert!(is_said(&findings), "{:?}", findings.warnings);
    assert!(findings.comparisons.iter().all(|row| row.void_by.is_empty()), "{:?}", findings.comparisons);
}

#[test]
fn a_gate_that_fails_for_the_arm_repeats_what_the_published_figures_break() {
    let rule = r#"kind = "gate", comparison = "c", figure = "p", gate = "stall""#;
    let mut run = pair(1.25);
    assert_eq!(found(&case(0.8, rule), &run, &[]).claims[0].reproduced, Reproduced::No);
    change(&mut run, "main", 0, |window| window.load.per_connection.jain = 0.1);
    assert_eq!(found(&case(0.8, rule), &run, &[]).claims[0].reproduced, Reproduced::No, "of another arm");
    change(&mut run, "pr", 0, |window| window.load.per_connection.jain = 0.1);
    let claim = &found(&case(0.8, rule), &run, &[]).claims[0];
    assert_eq!(claim.reproduced, Reproduced::Yes);
    assert!(claim.ours.contains("some were starved"), "{}", claim.ours);
}

#[test]
fn instructions_are_gathered_into_the_published_lines() {
    let cost = |name: &str, instructions: f64| FunctionCost { name: name.to_owned(), instructions };
    let counted = InstructionProfile {
        arm: "pr".to_owned(),
        requests: 2000,
        functions: vec![
            cost("main", 85.0),
            cost("__memcpy_avx", 8.0),
            cost("memmove", 4.0),
            cost("memchr", 3.0),
        ],
    };
    let rule = |line: &str| format!(r#"kind = "share", profile = "p", line = "{line}", within = 1.5"#);
    let findings = found(&case(0.8, &rule("copying")), &pair(1.0), std::slice::from_ref(&counted));
    assert_eq!(findings.claims[0].reproduced, Reproduced::Yes, "{:?}", findings.claims);
    let profile = &findings.profiles[0];
    let shares: Vec<Option<f64>> = profile.rows.iter().map(|row| row.percent).collect();
    assert_eq!(shares, [Some(12.0), Some(3.0)], "the first line that takes a function has it");
    assert_eq!((profile.instructions_per_request, profile.others[0].name.as_str()), (Some(100.0), "main"));
    let other =
        &found(&case(0.8, &rule("the rest of libc")), &pair(1.0), std::slice::from_ref(&counted)).claims[0];
    assert_eq!(other.reproduced, Reproduced::No, "{other:?}");
    for (bound, want) in [("at_most", Reproduced::Yes), ("at_least", Reproduced::No)] {
        let rule = format!("{}, bound = \"{bound}\"", rule("the rest of libc"));
        let claim = &found(&case(0.8, &rule), &pair(1.0), std::slice::from_ref(&counted)).claims[0];
        assert_eq!(claim.reproduced, want, "{claim:?}");
    }
    let without = &found(&case(0.8, &rule("copying")), &pair(1.0), &[]).claims[0];
    assert_eq!((without.reproduced, without.why.as_str()), (Reproduced::Unknown, "it needs --callgrind"));
}
