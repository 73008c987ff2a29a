//! Instructions per request and function: the target under valgrind's callgrind, at a rate it can serve.
//!
//! Two runs of different length are subtracted, so that what starting and stopping cost is in neither.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use analyse::{FunctionCost, InstructionProfile};
use anyhow::{Context, bail};
use launch::{Launcher, Spec, free_port, log_tail, wait_ready};
use model::plan::{Arm, CaseFile, Placement};

use crate::catalogue::Catalogue;
use crate::compare::placeholders;

/// Requests of the short run and of the long one; their difference is what is counted.
const REQUESTS: [u64; 2] = [400, 2400];
/// Requests per second: callgrind slows a server down by about fifty times, and this is far below what is left.
const RATE: &str = "400";
/// Connections: those of the published profiles.
const CONNECTIONS: &str = "20";
/// Longest wait for a server below callgrind to answer first.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Longest run of the load: six seconds at the rate, and as much again and more for a slow machine.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// Counts the instructions of `name` per request; the counts are kept in `out`.
pub(super) fn count(
    case: &CaseFile,
    name: &str,
    placement: &Placement,
    out: &Path,
) -> anyhow::Result<InstructionProfile> {
    let (mut arm, _) = Catalogue::find().arm(name)?;
    if arm.warmup == model::plan::WarmupClass::Jit {
        bail!("callgrind cannot see into code that is compiled while it runs");
    }
    arm.expect = case.workload.expect.clone().unwrap_or(arm.expect);
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut counts = Vec::new();
    for requests in REQUESTS {
        crate::say(&format!("{name}: {requests} requests below callgrind"));
        let bench = Bench { arm: &arm, path: &case.workload.path, placement, out, requests };
        counts.push(bench.count()?);
    }
    let [short, long] = &counts[..] else { unreachable!("two runs were made") };
    Ok(difference(name, short, long))
}

/// One run of one length.
struct Bench<'a> {
    arm: &'a Arm,
    path: &'a str,
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
        let plain = Spec::of_arm(self.arm, &placeholders(self.arm, self.placement, port), &log);
        let mut argv = vec!["valgrind".to_owned(), "--tool=callgrind".to_owned()];
        argv.push(format!("--callgrind-out-file={}", std::path::absolute(&file)?.display()));
        argv.extend(plain.argv.iter().cloned());
        let spec = Spec { argv, cpus: Some(self.placement.server.clone()), ..plain };
        let mut process = launcher.start(&spec)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        wait_ready(&mut process, address, self.path, &self.arm.expect, READY_LIMIT)?;
        let loaded = self.load(&launcher, port);
        // Callgrind writes its counts as the target ends.
        let _ = process.stop();
        loaded?;
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("callgrind left no counts: {}", log_tail(&log, 3).join(" ")))?;
        Ok(observe::callgrind_self_costs(&text))
    }

    /// Exactly as many requests as are to be counted.
    fn load(&self, launcher: &Launcher, port: u16) -> anyhow::Result<()> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let mut argv = vec![exe.to_string_lossy().into_owned(), "load".to_owned()];
        let requests = self.requests.to_string();
        let flags = [
            "-t",
            "1",
            "-c",
            CONNECTIONS,
            "-R",
            RATE,
            "--requests",
            &requests,
            "--timeout",
            "30s",
            "-d",
            "50s",
        ];
        argv.extend(flags.map(str::to_owned));
        argv.push(format!("http://127.0.0.1:{port}{}", self.path));
        let log = self.file("load");
        let spec =
            Spec { argv, cpus: Some(self.placement.load.clone()), log: log.clone(), ..Spec::default() };
        let mut process = launcher.start(&spec)?;
        let exit = process.wait(LOAD_LIMIT);
        let _ = process.stop();
        match exit {
            Some(exit) if exit.is_success() => Ok(()),
            _ => bail!("the load did not end well: {}", log_tail(&log, 3).join(" ")),
        }
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
