//! Causes put to the test, from runs made up so that it is known how much of the gap goes.

use analyse::{Cause, Findings, Grade};
use model::plan::Intervention;
use model::record::Run;

use crate::support::{analyse, arm, change, run};
use crate::why::{Plant, apply, planted};

/// A server that sleeps in each request.
const SLEEPS: Plant = Plant { calls: &[("clock_nanosleep", 1.0)], idle_rate: Some(0.1), ..Plant::NONE };
/// The same after half of its sleeps were taken away.
const SLEEPS_LESS: Plant = Plant { idle_rate: Some(0.13), ..SLEEPS };
/// A server that makes needless system calls.
const CALLS: Plant = Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE };

/// The run that tries `id` against `causes`: `pr` as `before`, and as `after` with the change made.
fn tried(id: &str, causes: &[&str], rules_out: bool, [before, after]: [Plant; 2]) -> Run {
    let names = ["main", "pr", &format!("main+{id}"), &format!("pr+{id}")].map(str::to_owned);
    let arms: Vec<_> = names.iter().map(|name| arm(name.clone().leak(), 10_000.0)).collect();
    let mut run = run(7, 6, &arms);
    let plants = [Plant::NONE, before, Plant::NONE, after];
    for (name, plant) in names.iter().zip(plants) {
        change(&mut run, name, 0, |window| apply(window, &plant));
    }
    run.manifest.plan.intervention = Some(Intervention {
        id: id.to_owned(),
        with: format!("the change '{id}'"),
        causes: causes.iter().map(|cause| cause.parse().unwrap()).collect(),
        rules_out,
    });
    run
}

fn cause<'a>(findings: &'a Findings, id: &str) -> &'a Cause {
    findings.causes.iter().find(|cause| cause.id.name() == id).unwrap()
}

#[test]
fn a_cause_is_confirmed_when_the_gap_goes_with_it_and_ruled_out_when_it_stays() {
    for (id, plant, after, rules_out, grade, words) in [
        (
            "sleep",
            SLEEPS,
            Plant::NONE,
            true,
            Grade::ConfirmedBy,
            "confirmed: with the change 'it' the gap goes from",
        ),
        ("sleep", SLEEPS, SLEEPS, true, Grade::RuledOut, "ruled out: with the change"),
        ("sleep", SLEEPS, SLEEPS, false, Grade::ConsistentWith, "not confirmed: with the change"),
        ("sleep", SLEEPS, SLEEPS_LESS, true, Grade::ConsistentWith, "not confirmed: with the change"),
        ("extra_syscalls", CALLS, Plant::NONE, true, Grade::ConfirmedBy, "n = 6 blocks"),
        ("extra_syscalls", CALLS, CALLS, true, Grade::RuledOut, "n = 6 blocks"),
    ] {
        let mut run = planted(plant);
        run.interventions.push(tried("it", &[id], rules_out, [plant, after]));
        let findings = analyse(&run);
        let found = cause(&findings, id);
        assert_eq!(found.grade, grade, "{}", found.text);
        assert!(found.text.contains(words), "{}", found.text);
    }
}

#[test]
fn a_change_that_takes_two_suspects_away_confirms_neither() {
    // Both are named: its sleeps, and what its calls cost.
    let plant = Plant { calls: &[("clock_nanosleep", 1.0), ("futex", 1.4)], ..SLEEPS };
    let mut run = planted(plant);
    run.interventions.push(tried("both", &["sleep", "lock_contention"], true, [plant, Plant::NONE]));
    let findings = analyse(&run);
    for id in ["sleep", "lock_contention"] {
        let found = cause(&findings, id);
        assert_ne!(found.grade, Grade::ConfirmedBy, "{}", found.text);
        assert!(found.text.contains("takes other suspects away with it"), "{}", found.text);
    }
}

#[test]
fn a_test_of_another_pair_or_cause_says_nothing() {
    let mut run = planted(SLEEPS);
    let before = analyse(&run).causes;
    run.interventions.push(tried("it", &["gc"], true, [SLEEPS, Plant::NONE]));
    let mut other = tried("it", &["sleep"], true, [SLEEPS, Plant::NONE]);
    other.rounds.retain(|record| record.arm != "pr+it");
    run.interventions.push(other);
    assert_eq!(analyse(&run).causes, before);
}

#[test]
fn the_test_holds_whichever_arm_is_the_baseline() {
    let mut run = planted(SLEEPS);
    run.interventions.push(tried("it", &["sleep"], true, [SLEEPS, Plant::NONE]));
    run.manifest.plan.baseline = 1;
    let findings = analyse(&run);
    assert_eq!(cause(&findings, "sleep").grade, Grade::ConfirmedBy);
}

#[test]
fn the_next_command_puts_the_first_cause_to_the_test_once() {
    let mut run = planted(SLEEPS);
    run.manifest.command =
        ["whyslow", "compare", "main=./a {port}", "--", "pr=./b {port}"].map(str::to_owned).to_vec();
    let next = analyse(&run).next.unwrap();
    assert!(next.starts_with("take 'sleeps' away from both"), "{next}");
    // What follows a `--` is no flag.
    assert!(next.ends_with("\nwhyslow compare 'main=./a {port}' --confirm -- 'pr=./b {port}'"), "{next}");
    run.manifest.plan.design.confirm = true;
    run.manifest.command.insert(2, "--confirm".to_owned());
    let next = analyse(&run).next.unwrap();
    assert!(next.starts_with("take 'sleeps' out of pr by hand and measure again"), "{next}");
    assert!(!next.contains('\n'), "the same command once more shows nothing new: {next}");
    run.interventions.push(tried("it", &["sleep"], true, [SLEEPS, Plant::NONE]));
    let next = analyse(&run).next.unwrap();
    assert!(next.starts_with("mend 'sleeps' in pr, without which the gap was seen to fall"), "{next}");
    assert!(!next.contains('\n'), "{next}");
}
