//! `whyslow load --job`: a job and its turns on standard input, what came of them on standard output.

use std::io::BufRead;
use std::path::Path;

use anyhow::Context;
use load::{LoadError, Outcome as Measured, Turns, export, serve};
use model::job::{Command, Event, Job};

use crate::exit::{Exit, Outcome};

/// Answers commands until there are no more; what stops it is reported as an event, too.
pub(super) fn run() -> Outcome {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().context("there is no job")?.context("cannot read the job")?;
    let job: Job = serde_json::from_str(&first).context("the first line is no job")?;
    let mut answered: anyhow::Result<()> = Ok(());
    let served = serve(&job, |turns| {
        answered = answer(turns, &mut lines);
        Ok(())
    });
    match served {
        Ok(()) => answered?,
        Err(error) => {
            say(&Event::Failed { endpoint: None, text: error.to_string() })?;
            return Err(super::refused(error));
        }
    }
    Ok(Exit::Done)
}

fn answer(
    turns: &mut Turns<'_, '_>,
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> anyhow::Result<()> {
    say(&Event::Connected { established: turns.established().to_vec() })?;
    for line in lines {
        let line = line.context("cannot read a command")?;
        let command = serde_json::from_str(&line);
        match command.with_context(|| format!("'{line}' is no command"))? {
            Command::Turn(turn) => match turns.turn(&turn) {
                Ok(report) => say(&Event::Turn(report))?,
                Err(error) => return failed(turn.endpoint, &error),
            },
            Command::Report { pool, hlog } => {
                let pooled = turns.pooled(pool).with_context(|| format!("pool {pool} has no turn"))?;
                report(pooled, hlog.as_deref())?;
            }
            Command::Part { pool } => {
                let pooled = turns.pooled(pool).with_context(|| format!("pool {pool} has no turn"))?;
                let log = load::shard_log(&pooled, &[]);
                say(&Event::Part { record: Box::new(pooled.shard), log })?;
            }
        }
    }
    Ok(())
}

fn failed(endpoint: usize, error: &LoadError) -> anyhow::Result<()> {
    say(&Event::Failed { endpoint: Some(endpoint), text: error.to_string() })?;
    anyhow::bail!("{error}")
}

fn report(pooled: Measured, hlog: Option<&Path>) -> anyhow::Result<()> {
    if let Some(file) = hlog {
        model::record::write_atomically(file, latency_log(&pooled).as_bytes())?;
    }
    say(&Event::Report {
        response_buckets: export::octave_buckets(&pooled.response),
        silences_ns: pooled.silences.iter().map(|span| [span.start_ns, span.end_ns]).collect(),
        report: Box::new(pooled.report),
    })
}

/// The latencies of a window as a log with one line for all of it.
pub(crate) fn latency_log(window: &Measured) -> String {
    let line = export::Interval {
        latencies: &window.response,
        tag: None,
        begin: std::time::Duration::ZERO,
        length: std::time::Duration::from_nanos(window.report.window_ns),
    };
    load::hlog(window, &[export::hlog_line(&line)])
}

fn say(event: &Event) -> anyhow::Result<()> {
    let line = serde_json::to_string(event).context("an event is JSON")?;
    crate::print(&format!("{line}\n"))
}
