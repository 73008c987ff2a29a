//! Several machines that load one server together: each drives a part of the connections and of the arrivals, and what they measured
//! is put together without loss.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load::{Merged, WindowJob};
use model::plan::Machine;
use model::record::{LoadReport, ShardRecord, Warning};
use model::units::{CpuSet, format_ns};

use super::clock::{Clock, now_ns};
use super::{Command, Event, Remote};
use crate::compare::{Early, several};

/// How long before a window begins its generators get the order, beside the time that this takes.
const LEAD: Duration = Duration::from_millis(50);
/// Part of a window by which a generator may begin it too late, or by which clocks may not be known.
const SKEW: f64 = 0.01;
/// Of what `merge` says of several shards: it has no names for them.
const SKEWED: &str = "shards_skewed";
/// Warnings that a generator itself causes: each is given under its machine's name, none for all together.
const OF_ONE: [&str; 3] = ["generator_busy", "send_lag", "connections"];

/// The machines of a load.
pub(crate) struct Fleet {
    members: Vec<Remote>,
}

/// What one of them measured.
struct Part {
    record: ShardRecord,
    log: String,
    /// How much later than it was to begin, in nanoseconds.
    late_ns: u64,
    clock: Clock,
}

impl Fleet {
    /// Reaches all of `machines`, each of which is named once.
    pub(crate) fn connect(machines: &[Machine]) -> anyhow::Result<Self> {
        Ok(Self { members: Remote::connect_all(machines)? })
    }

    /// How many there are.
    pub(crate) fn size(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }

    /// Loads one window with all of them.
    pub(crate) fn window(&self, job: &WindowJob, cpus: Option<&CpuSet>) -> anyhow::Result<Merged> {
        let jobs = job.split(self.size())?;
        let clocks = self.each(|index, remote| {
            let job = Box::new(jobs[index].clone());
            match remote.ask(&Command::Window { job, cpus: cpus.cloned() })? {
                Event::Connected => Clock::ask(remote),
                other => Err(remote.unexpected(&other)),
            }
        })?;
        let farthest_ns = clocks.iter().map(|clock| clock.round_trip_ns()).max().unwrap_or(0);
        let begin_ns = now_ns() + farthest_ns + u64::try_from(LEAD.as_nanos()).unwrap_or(u64::MAX);
        // The warm-up comes first; who has none begins at once.
        let begin_ns = begin_ns + u64::try_from(job.warmup().as_nanos()).unwrap_or(u64::MAX);
        let parts = self.each(|index, remote| {
            let clock = clocks[index];
            match remote.ask_until_stopped(&Command::Begin { at_ns: clock.there(begin_ns) })? {
                Event::Window { began_ns, mut record, log } => {
                    let began_ns = clock.here(began_ns);
                    record.first_start_ns = since_1970(began_ns);
                    record.last_start_ns = record.first_start_ns;
                    let late_ns = began_ns.saturating_sub(begin_ns);
                    Ok(Part { record: *record, log, late_ns, clock })
                }
                other => Err(remote.unexpected(&other)),
            }
        })?;
        let warnings = self.warnings(&parts);
        let mut merged = load::merge(parts.into_iter().map(|part| (part.record, part.log)).collect())?;
        add(warnings, &mut merged.outcome.report);
        merged.outcome.shard.report = merged.outcome.report.clone();
        Ok(merged)
    }

    /// Has all of them do something at the same time. Where one fails, the others are to stop, too.
    fn each<T: Send>(
        &self,
        what: impl Fn(usize, &Remote) -> Result<T, Early> + Sync,
    ) -> anyhow::Result<Vec<T>> {
        let failed = AtomicBool::new(false);
        let done = several::each(self.members.iter().enumerate(), |(index, remote)| {
            let done = what(index, remote);
            if done.is_err() && !failed.swap(true, Ordering::Relaxed) {
                self.members.iter().for_each(Remote::enough);
            }
            done
        });
        done.map_err(Early::into_error)
    }

    /// Warnings about single machines.
    fn warnings(&self, parts: &[Part]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for (remote, part) in self.members.iter().zip(parts) {
            let machine = &remote.machine;
            let limit_ns = SKEW * part.record.report.window_ns as f64;
            if part.late_ns as f64 > limit_ns {
                warnings.push(late(machine, part.late_ns));
            }
            if part.clock.unsure_ns() as f64 > limit_ns {
                warnings.push(unsure(machine, part.clock));
            }
            let own = part.record.report.warnings.iter().filter(|warning| is_of_one(warning));
            warnings.extend(own.map(|warning| Warning {
                id: warning.id.clone(),
                text: format!("{machine}: {}", warning.text),
            }));
        }
        warnings
    }
}

fn is_of_one(warning: &Warning) -> bool {
    OF_ONE.contains(&warning.id.as_str())
}

/// Puts warnings about single machines in the place of those about all together.
fn add(warnings: Vec<Warning>, report: &mut LoadReport) {
    report.warnings.retain(|warning| warning.id != SKEWED && !is_of_one(warning));
    report.warnings.splice(0..0, warnings);
}

fn late(machine: &Machine, late_ns: u64) -> Warning {
    Warning {
        id: "generator_late".to_owned(),
        text: format!(
            "{machine} began {} late, so that the load was not what was asked for at either end: look for what else it does, or \
             use a longer window.",
            format_ns(late_ns as f64)
        ),
    }
}

fn unsure(machine: &Machine, clock: Clock) -> Warning {
    Warning {
        id: "generator_far".to_owned(),
        text: format!(
            "The clock of {machine} is known to {} only, for answers from there take {}: the generators may have begun so far \
             apart. Use a longer window.",
            format_ns(clock.unsure_ns() as f64),
            format_ns(clock.round_trip_ns() as f64)
        ),
    }
}

/// An instant of the monotonic clock as nanoseconds since 1970.
fn since_1970(at_ns: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ago_ns = now_ns().saturating_sub(at_ns);
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_sub(ago_ns)
}
