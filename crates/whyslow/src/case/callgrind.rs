//! Instructions per request and function: the target under valgrind's callgrind, at a rate it can serve.
//!
//! Two runs of different length are subtracted, so that what starting and stopping cost is in neither.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use analyse::{FunctionCost, InstructionProfile};
use anyhow::{Context, bail};
use launch::{Launcher, Spec, free_port, log_tail};
use load::Config;
use load::schedule::{Arrival, Pace};
use model::job::Job;
use model::plan::{Arm, CaseFile, Placement, Workload};
use model::units::Span;

use crate::catalogue::Catalogue;
use crate::compare::placeholders;
use crate::compare::reach::{Place, Starting, on_loopback};

/// Requests of the short run and of the long one; their difference is what is counted.
const REQUESTS: [u64; 2] = [400, 2400];
/// Requests per second: callgrind slows a server down by about fifty times, and this is far below what is left.
const RATE_PER_S: f64 = 400.0;
/// Connections: those of the published profiles.
const CONNECTIONS: u32 = 20;
/// Longest wait for a server below callgrind to answer first.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Longest run of the load: six seconds at the rate, and as much again and more for a slow machine.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// Counts the instructions of `name` per request; the counts are kept in `out`.
pub(super) fn count(
    case: &CaseFile,
    name: &str,
    (workload, placement): (&Workload, &Placement),
    out: &Path,
) -> anyhow::Result<InstructionProfile> {
    let (mut arm, _) = Catalogue::find().arm(name)?;
    if arm.warmup == model::plan::WarmupClass::Jit {
        bail!("callgrind cannot see into code that is compiled while it runs");
    }
    if workload.job.is_plain_get() {
        arm.expect = case.workload.expect.clone().unwrap_or(arm.expect);
    }
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut counts = Vec::new();
    for requests in REQUESTS {
        crate::say(&format!("{name}: {requests} requests below callgrind"));
        let bench = Bench { arm: &arm, workload, placement, out, requests };
        counts.push(bench.count()?);
    }
    let [short, long] = &counts[..] else { unreachable!("two runs were made") };
    Ok(difference(name, short, long))
}

/// One run of one length.
struct Bench<'a> {
    arm: &'a Arm,
    workload: &'a Workload,
    placement: &'a Placement,
    out: &'a Path,
    requests: u64,
}

impl Bench<'_> {
    fn file(&self, what: &str) -> PathBuf {
        self.out.join(format!("callgrind-{}-{}.{what}", self.arm.name, self.requests))
    }

    fn count(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let (file, log) = (self.file("out"), self.file("log"));
        let launcher = Launcher::this_program();
        let port = free_port(self.requests)?;
        let plain = Spec::of_arm(self.arm, &placeholders(self.arm, self.placement, port.number()), &log);
        let mut argv = vec!["valgrind".to_owned(), "--tool=callgrind".to_owned()];
        argv.push(format!("--callgrind-out-file={}", std::path::absolute(&file)?.display()));
        argv.extend(plain.argv.iter().cloned());
        let spec = Spec { argv, cpus: Some(self.placement.server.clone()), ..plain };
        let mut process = launcher.start(&spec)?;
        let Self { workload, arm, placement, .. } = *self;
        let mut place =
            Place { workload, arm, placement, address: on_loopback(port.number()), services: Vec::new() };
        let starting = Starting { launcher: &launcher, log: &log, limit: READY_LIMIT };
        place.wait_ready(&mut process, &starting)?;
        let loaded = self.load(&place);
        // Callgrind writes its counts as the target ends.
        let _ = process.stop();
        loaded?;
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("callgrind left no counts: {}", log_tail(&log, 3).join(" ")))?;
        Ok(observe::callgrind_self_costs(&text))
    }

    /// Exactly as many requests as are to be counted.
    fn load(&self, place: &Place<'_>) -> anyhow::Result<()> {
        let job = Job {
            connections: CONNECTIONS,
            threads: 1,
            timeout: Span(LOAD_LIMIT),
            ..self.workload.job.clone()
        };
        let mut config = Config::of_job(&job, &place.endpoint())?;
        config.pace = Pace::open(RATE_PER_S, Arrival::Constant);
        config.requests = Some(self.requests);
        config.window = LOAD_LIMIT;
        let report = load::run(&config, &AtomicBool::new(false), &mut |_| {})?.report;
        if report.requests != self.requests || report.errors.total() > 0 {
            bail!(
                "the load did not end well: {} of {} requests were answered, with {} errors",
                report.requests,
                self.requests,
                report.errors.total()
            );
        }
        Ok(())
    }
}

/// What the longer run counted beyond the shorter, per request; the dearest function first.
fn difference(arm: &str, short: &BTreeMap<String, u64>, long: &BTreeMap<String, u64>) -> InstructionProfile {
    let requests = REQUESTS[1] - REQUESTS[0];
    let mut functions: Vec<FunctionCost> = long
        .iter()
        .map(|(name, count)| {
            let before = short.get(name).copied().unwrap_or(0);
            FunctionCost {
                name: name.clone(),
                instructions: count.saturating_sub(before) as f64 / requests as f64,
            }
        })
        .filter(|function| function.instructions > 0.0)
        .collect();
    functions.sort_by(|a, b| b.instructions.total_cmp(&a.instructions));
    InstructionProfile { arm: arm.to_owned(), requests, functions }
}
