//! Runs all tests, and those that fail once more.

use std::num::NonZero;

use anyhow::ensure;

use super::programs::Program;
use crate::shell;

/// At most so many tests may fail beside others and pass alone.
const MOST_UNSTEADY: usize = 5;
/// These tests leave a quarter of the CPU time unused even so: one more runs at a time than there are CPUs.
const WAITING: &str = "whyslow it";
/// These tests compare a generator's times with a server's, to some tens of microseconds: nothing runs beside them.
const TIMED: (&str, &str) = ("load it", "truth::");

/// Runs all tests, and those that fail once more with nothing beside them, because tests of timing share two cores with others.
/// What passes then is named at the end; what fails again fails the run.
pub(super) fn run(programs: &[Program], env: &[(&str, &str)]) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    for name in [WAITING, TIMED.0] {
        ensure!(programs.iter().any(|program| program.name() == name), "there is no test program '{name}'");
    }
    let (mut ended, mut failed) = (Vec::new(), Vec::new());
    for program in programs {
        for arguments in runs(&program.name(), cpus) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let (success, lines) = read(program, &arguments, env)?;
            let own = failures(&lines);
            // Without a list it was no test that failed: one ended its process.
            if !success && own.is_empty() {
                ended.push(program.name());
            }
            failed.extend(own.into_iter().map(|test| (program, test)));
        }
    }
    shell::run_with(&["cargo", "test", "--workspace", "--doc"], env)?;
    ensure!(ended.is_empty(), "test programs ended before their tests had: {}", ended.join(", "));
    let names: Vec<&str> = failed.iter().map(|(_, test)| test.as_str()).collect();
    let names = names.join(", ");
    ensure!(failed.len() <= MOST_UNSTEADY, "{} tests failed: {names}", failed.len());
    for (program, test) in &failed {
        let (success, lines) = read(program, &["--exact", "--test-threads=1", test], env)?;
        // A name that is not found would pass as well.
        let passed = lines.iter().any(|line| line.starts_with("test result: ok. 1 passed;"));
        ensure!(success && passed, "tests failed: {names}; and again alone: {test}");
    }
    if !failed.is_empty() {
        println!("{} tests failed beside others and passed alone: {names}", failed.len());
    }
    Ok(())
}

/// The arguments of each run of a program.
fn runs(name: &str, cpus: usize) -> Vec<Vec<String>> {
    let words = |threads: usize, more: &[&str]| {
        let more = more.iter().map(|word| (*word).to_owned());
        std::iter::once(format!("--test-threads={threads}")).chain(more).collect()
    };
    match name {
        WAITING => vec![words(cpus + 1, &[])],
        _ if name == TIMED.0 => vec![words(cpus, &["--skip", TIMED.1]), words(1, &[TIMED.1])],
        _ => vec![words(cpus, &[])],
    }
}

/// Runs a program: whether it succeeded, and what it printed.
fn read(program: &Program, arguments: &[&str], env: &[(&str, &str)]) -> anyhow::Result<(bool, Vec<String>)> {
    println!("== {} {}", program.name(), arguments.join(" "));
    let mut command = program.command(arguments);
    command.envs(env.iter().copied());
    let (status, lines) = shell::run_and_read(command)?;
    Ok((status.success(), lines))
}

/// The tests that failed, from the list before the result: what a test prints may break the line that names it.
fn failures(lines: &[String]) -> Vec<String> {
    let Some(begin) = lines.iter().rposition(|line| line == "failures:") else { return Vec::new() };
    lines[begin + 1..].iter().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_read_from_what_their_program_prints() {
        let printed = "\
test a::good ... ok
test a::bad ... FAILED
test b::bad - should panic ... what it printed itself
FAILED

failures:

---- a::bad stdout ----
failures:
    of its own

failures:
    a::bad
    b::bad

test result: FAILED. 1 passed; 2 failed; 0 ignored";
        let lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        assert_eq!(failures(&lines), ["a::bad", "b::bad"]);
        assert_eq!(failures(&[]), Vec::<String>::new());
    }
}
