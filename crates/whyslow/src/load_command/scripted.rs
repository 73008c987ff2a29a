//! A Lua script between the command line and the generator.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use load::session::{Batch, Feed, FeedError, Heard};
use load::{Address, Latencies, Outcome as Measured, Request, Requests, Supply, Target};
use script::{Errors, Kind, Options, Script, ScriptError, Stats, Summary, Thread};

use super::deadline::{ALONE, Calls, Deadline, Why};

/// A script, loaded and set up.
pub(crate) struct Scripted {
    script: Script,
    deadline: Arc<Deadline>,
    /// Those of this thread.
    calls: Calls,
}

/// What a script is run with.
pub(crate) struct Given<'a> {
    pub(crate) file: &'a Path,
    pub(crate) target: &'a Target,
    pub(crate) request: &'a Request,
    pub(crate) args: &'a [String],
    pub(crate) threads: u32,
}

impl Scripted {
    /// Loads the script and runs it up to the first request.
    pub(crate) fn load(given: &Given<'_>) -> anyhow::Result<Self> {
        let options = options(given)?;
        let deadline = Deadline::watched(given.file);
        let calls = deadline.calls();
        deadline.set(Why::Begin, ALONE);
        let script = calls.mark(|| Script::load(&options, given.threads, &deadline.limit()))?;
        deadline.lift();
        Ok(Self { script, deadline, calls })
    }

    pub(crate) fn deadline(&self) -> Arc<Deadline> {
        Arc::clone(&self.deadline)
    }

    /// What each thread sends and where; `batches`: only the last answer of a batch is timed.
    pub(crate) fn supplies(&mut self, batches: bool) -> anyhow::Result<Vec<Supply>> {
        let kind = self.script.kind().clone();
        let threads = self.script.take_threads();
        let asking = |thread| Asking { thread, calls: self.deadline.calls(), kind: kind.clone(), batches };
        threads.into_iter().map(|thread| supply(asking(thread))).collect()
    }

    /// Lets the script sum up.
    pub(crate) fn done(&self, measured: &Measured) -> anyhow::Result<()> {
        self.deadline.set(Why::Sum, ALONE);
        let report = &measured.report;
        let errors = Errors {
            connect: report.errors.connect,
            read: report.errors.read + report.errors.parse + report.errors.surplus,
            write: report.errors.write,
            status: report.errors.status,
            timeout: report.errors.timeout,
        };
        let summary = Summary {
            duration_us: report.window_ns / 1000,
            requests: report.requests,
            bytes: report.bytes_read,
            errors,
        };
        let (latency, requests) = (latencies(&measured.response), rates(&measured.thread_rates_per_s));
        Ok(self.calls.mark(|| self.script.done(&summary, latency, requests))?)
    }
}

fn options(given: &Given<'_>) -> anyhow::Result<Options> {
    let source =
        std::fs::read(given.file).with_context(|| format!("cannot read -s {}", given.file.display()))?;
    let target = given.target;
    let (scheme, _) = target.url.split_once("://").unwrap_or(("http", ""));
    let (host, port) = host_and_port(&target.authority);
    let mut headers = given.request.headers.clone();
    // The one made of the URL is made again by wrk.init, unless it was replaced.
    headers.retain(|(name, value)| name != "Host" || *value != target.authority);
    Ok(Options {
        file: given.file.display().to_string(),
        source,
        scheme: scheme.to_owned(),
        host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: port.map(str::to_owned),
        path: given.request.path.clone(),
        method: given.request.method.clone(),
        headers,
        body: given.request.body.clone(),
        args: std::iter::once(&target.url).chain(given.args).cloned().collect(),
        resolve: target.addresses.iter().all(|address| matches!(address, Address::Tcp(_))),
    })
}

fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    let after_bracket = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_bracket..].rfind(':') {
        Some(colon) => {
            let (host, port) = authority.split_at(after_bracket + colon);
            (host, Some(&port[1..]))
        }
        None => (authority, None),
    }
}

/// One thread's requests. Those of a script that has no say in them are rendered once.
fn supply(asking: Asking) -> anyhow::Result<Supply> {
    let Asking { thread, kind, .. } = &asking;
    let address = thread.address().map(Address::Tcp);
    let alike = !kind.requests && !kind.delays && !kind.listens && kind.at_once == 1;
    let requests = if alike {
        let mut bytes = Vec::new();
        thread.request(|request| bytes.extend_from_slice(request))?;
        Requests::Same(bytes)
    } else {
        Requests::Each(Box::new(asking))
    };
    Ok(Supply { requests, address })
}

/// A thread of the script as the generator asks it.
#[derive(Debug)]
struct Asking {
    thread: Thread,
    calls: Calls,
    kind: Kind,
    batches: bool,
}

impl Feed for Asking {
    fn most(&self) -> u32 {
        self.kind.at_once
    }

    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        self.calls.mark(|| self.thread.request(|request| batch.push(request))).map_err(failed)
    }

    fn rests(&self) -> bool {
        self.kind.delays
    }

    fn rest_ns(&mut self) -> Result<u64, FeedError> {
        let rest = self.calls.mark(|| self.thread.delay()).map_err(failed)?;
        Ok(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX))
    }

    fn listens(&self) -> bool {
        self.kind.listens
    }

    fn heard(&mut self, answer: &Heard) -> Result<(), FeedError> {
        let call = || self.thread.response(answer.status, &answer.head, &answer.body);
        self.calls.mark(call).map_err(failed)
    }

    fn stopped(&self) -> bool {
        self.thread.is_stopped()
    }

    fn times_batches(&self) -> bool {
        self.batches
    }
}

fn failed(error: ScriptError) -> FeedError {
    FeedError(error.to_string())
}

/// Latencies in microseconds.
fn latencies(latencies: &Latencies) -> Stats {
    let us = |ns: f64| ns / 1e3;
    if latencies.is_empty() {
        return Stats::default();
    }
    let values = latencies.iter_recorded();
    Stats {
        min: us(latencies.min() as f64),
        max: us(latencies.max() as f64),
        mean: us(latencies.mean()),
        stdev: us(latencies.stdev()),
        values: values.map(|step| (us(step.value_iterated_to() as f64), step.count_at_value())).collect(),
    }
}

/// Rates per second of each thread in each tenth of a second.
fn rates(rates: &[f64]) -> Stats {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len().max(1) as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let mut values: Vec<(f64, u64)> = Vec::new();
    for rate in &sorted {
        match values.last_mut().filter(|(value, _)| value == rate) {
            Some((_, count)) => *count += 1,
            None => values.push((*rate, 1)),
        }
    }
    Stats {
        min: sorted.first().copied().unwrap_or(0.0),
        max: sorted.last().copied().unwrap_or(0.0),
        mean,
        stdev: (sorted.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count).sqrt(),
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the requests of `source` are rendered once.
    fn rendered_once(source: &str) -> bool {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("whyslow-{}-{:p}.lua", std::process::id(), source));
        std::fs::write(&file, source).unwrap();
        let target = Target::resolve("http://127.0.0.1:9/").unwrap();
        let request = Request::get(&target);
        let given = Given { file: &file, target: &target, request: &request, args: &[], threads: 2 };
        let mut scripted = Scripted::load(&given).unwrap();
        std::fs::remove_file(&file).unwrap();
        let supplies = scripted.supplies(false).unwrap();
        assert_eq!(supplies.len(), 2);
        supplies.iter().all(|supply| matches!(supply.requests, Requests::Same(_)))
    }

    #[test]
    fn a_script_without_a_say_in_each_request_is_not_asked_for_each() {
        assert!(rendered_once(""));
        assert!(rendered_once("wrk.method = 'POST' wrk.body = 'x' function init() end function done() end"));
        for name in ["request", "delay", "response"] {
            assert!(!rendered_once(&format!("function {name}() return wrk.format() end")), "{name}");
        }
    }
}
