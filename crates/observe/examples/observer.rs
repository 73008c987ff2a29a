//! One way of watching, held for a while, so that what it costs the one watched can be measured: `observer
//! tier0|tier1|tier1-software|tier2|tier3 PID SECONDS`; or `observer clock PID SECONDS`, which prints user, system and task clock time of
//! that while in nanoseconds, and the switches in it.

use std::io::Write;
use std::time::{Duration, Instant};

use observe::{Counting, Group, HostWatch, OwnCpus, Profiler, Sampler};

/// Samples per second of CPU time in a comparison's sampling pass.
const HZ: u32 = 997;
const USAGE: &str = "observer tier0|tier1|tier1-software|tier2|tier3|clock PID SECONDS";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, pid, seconds] = &args[..] else { return Err(USAGE.into()) };
    let group = Group::from_pid(pid.parse()?)?;
    let length = Duration::from_secs_f64(seconds.parse()?);
    match mode.as_str() {
        "tier0" => tier0(group, length),
        "tier1" => {
            let own = own_cpus(&group)?;
            let counting = Counting::attach(&group, &own)?.sparingly(&own);
            std::thread::sleep(length);
            drop(counting);
            Ok(())
        }
        "tier1-software" => {
            let counting = Counting::attach_software(&group)?;
            std::thread::sleep(length);
            drop(counting);
            Ok(())
        }
        "tier3" => {
            let mut profiler = Profiler::attach_off_cpu(&group)?;
            profiler.begin();
            std::thread::sleep(length);
            drop(profiler.stop());
            Ok(())
        }
        "tier2" => {
            let mut profiler = Profiler::attach(&group, HZ, &own_cpus(&group)?)?;
            profiler.begin();
            std::thread::sleep(length);
            drop(profiler.stop());
            Ok(())
        }
        "clock" => clock(&group, length),
        _ => Err(USAGE.into()),
    }
}

/// The one that is watched has its CPUs to itself, as in a comparison, and does not switch for each request.
fn own_cpus(group: &Group) -> Result<OwnCpus, Box<dyn std::error::Error>> {
    Ok(OwnCpus { cpus: group.fairness()?.allowed_cpus.parse()?, switched_often: false })
}

/// Both readings of CPU time come in the same order at both ends, so that their intervals are equally long.
fn clock(group: &Group, length: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let own = own_cpus(group)?;
    let counting = Counting::attach(group, &own)?.sparingly(&own);
    let read = || Ok::<_, observe::ObserveError>((counting.read(), group.snapshot()?));
    let (counts, before) = read()?;
    std::thread::sleep(length);
    let (now, after) = read()?;
    let counted = now.since(&counts);
    let task_clock = counted.event("task_clock_ns").ok_or_else(|| counted.missing.join("; "))?;
    let usage = after.since(&before);
    let switches = usage.voluntary_switches + usage.involuntary_switches;
    writeln!(std::io::stdout(), "{} {} {task_clock} {switches}", usage.cpu.user_ns, usage.cpu.system_ns)?;
    Ok(())
}

/// All readings of a comparison, once a second; a comparison takes them at the two ends of a window only.
fn tier0(group: Group, length: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let cpus: model::units::CpuSet = group.fairness()?.allowed_cpus.parse()?;
    HostWatch::new(cpus.clone()).snapshot()?;
    let own = Group::from_pid(std::process::id())?;
    let sampler = Sampler::new(vec![group], own, cpus.clone(), cpus);
    let begin = Instant::now();
    loop {
        sampler.read(0)?;
        let left = length.saturating_sub(begin.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_secs(1)));
    }
}
