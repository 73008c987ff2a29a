//! Tests of straightline that every run makes small, at full size.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::restarts;
use crate::shell::command;

/// Each test, and the variable that makes it large.
const FULL_SIZE: [(&str, &str, &str); 7] = [
    ("soak::random_faults_leave_nothing_behind", "STRAIGHTLINE_SOAK", "1000000"),
    ("soak::http2::random_faults_leave_nothing_behind", "STRAIGHTLINE_SOAK", "1000000"),
    ("soak::websocket::random_faults_leave_nothing_behind", "STRAIGHTLINE_SOAK", "1000000"),
    ("shortage::slow_heads_delay_nobody", "STRAIGHTLINE_SLOW", "10000"),
    ("memory::an_upload_takes_no_memory", "STRAIGHTLINE_UPLOAD_MIB", "1024"),
    ("memory::panics_leave_no_memory_behind", "STRAIGHTLINE_PANICS", "1000000"),
    ("fuzz::fuzz_requests_are_answered_well_or_not_at_all", "FUZZ_SECONDS", "600"),
];

/// What is no test, but two programs: the service restarted while `whyslow load` asks it.
const SERVICE: &str = "service::restarts";

/// Runs those whose name has `part` in it; all of them where nothing is said.
pub(crate) fn run(part: &str, program: Option<&Path>) -> anyhow::Result<()> {
    let chosen: Vec<_> = FULL_SIZE.iter().filter(|(test, ..)| test.contains(part)).collect();
    let restarted = SERVICE.contains(part);
    ensure!(restarted || !chosen.is_empty(), "no test has '{part}' in its name");
    for (test, variable, size) in chosen {
        soak(test, variable, size)?;
    }
    if restarted {
        println!("== {SERVICE}");
        restarts::full_size(program)?;
    }
    Ok(())
}

fn soak(test: &str, variable: &str, size: &str) -> anyhow::Result<()> {
    println!("== {test}, {variable}={size}");
    let words = ["cargo", "test", "--quiet", "--release", "--package", "straightline", "--test", "it", "--"];
    let begin = Instant::now();
    let output = command(&words)
        .args(["--exact", "--nocapture", test])
        .env(variable, size)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    // A name that no test has any more would pass as well.
    ensure!(output.status.success() && text.contains("1 passed; 0 failed"), "{test} failed");
    println!("   {:.1} s", begin.elapsed().as_secs_f64());
    Ok(())
}
