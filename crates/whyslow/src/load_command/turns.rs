//! `whyslow load --job`: a job and its turns on standard input, what came of them on standard output.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use load::schedule::{Arrival, Pace};
use load::{Config, Idle, Outcome as Measured, Target, export};
use model::job::{Command, Event, Job, Polled, Protocol, Requests, Turn, TurnPace, TurnReport};

use crate::exit::{Exit, Outcome};

pub(super) fn run() -> Outcome {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().context("there is no job")?.context("cannot read the job")?;
    let job: Job = serde_json::from_str(&first).context("the first line is no job")?;
    print(&Event::Connected { established: vec![u64::from(job.connections); job.endpoints.len()] })?;
    let mut pools: BTreeMap<u32, Vec<Measured>> = BTreeMap::new();
    for line in lines {
        let line = line.context("cannot read a command")?;
        match serde_json::from_str(&line).context("a line is no command")? {
            Command::Turn(turn) => {
                let measured = load::run(&config(&job, &turn)?, &AtomicBool::new(false), &mut |_| {});
                let measured = measured.context("turn")?;
                print(&Event::Turn(report(&turn, &measured)))?;
                if let Some(pool) = turn.pool {
                    pools.entry(pool).or_default().push(measured);
                }
            }
            Command::Report { pool, .. } => {
                let all = load::in_turn(pools.remove(&pool).unwrap_or_default()).context("an empty pool")?;
                let silences_ns = all.silences.iter().map(|span| [span.start_ns, span.end_ns]).collect();
                print(&Event::Report {
                    response_buckets: export::octave_buckets(&all.response),
                    report: Box::new(all.report),
                    silences_ns,
                })?;
            }
        }
    }
    Ok(Exit::Done)
}

fn config(job: &Job, turn: &Turn) -> anyhow::Result<Config> {
    let endpoint = &job.endpoints[turn.endpoint];
    let mut config = Config::new(Target::resolve(&endpoint.url)?);
    if let Requests::Same(request) = &job.requests {
        config.request.method.clone_from(&request.method);
    }
    config.threads = job.threads;
    config.connections = job.connections;
    if let Protocol::Http1 { pipeline } = job.protocol {
        config.pipeline = pipeline;
    }
    config.window = std::time::Duration::from_nanos(turn.length_ns);
    config.expected_status = endpoint.expected_status;
    config.seed = turn.seed;
    config.requests = turn.requests;
    config.timeout = Some(job.timeout.0);
    config.pace = match turn.pace {
        TurnPace::Closed { poll } => {
            if poll {
                config.idle = Idle::Poll;
            }
            Pace::Closed
        }
        TurnPace::Open { rate, poisson } => {
            Pace::open(rate.get(), if poisson { Arrival::Poisson } else { Arrival::Constant })
        }
    };
    Ok(config)
}

fn report(turn: &Turn, measured: &Measured) -> TurnReport {
    let report = &measured.report;
    let start_ns = 0;
    TurnReport {
        endpoint: turn.endpoint,
        start_ns,
        end_ns: report.window_ns,
        quiet_ns: report.window_ns,
        requests: report.requests,
        in_time: report.requests,
        due: None,
        errors: report.errors,
        given_up: 0,
        unsent: report.unsent,
        bytes_read: report.bytes_read,
        mean_response_ns: report.response_ns.mean,
        cpu: Polled { busy_ns: 0, polled_ns: measured.shard.polled_ns },
    }
}

fn print(event: &Event) -> anyhow::Result<()> {
    let line = serde_json::to_string(event).context("an event is JSON")?;
    crate::print(&format!("{line}\n"))
}
