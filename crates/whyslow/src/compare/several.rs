//! Generators on several machines that load the same servers: each has a part of the connections and of the arrivals, and their turns
//! begin together, whatever their clocks show.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::job::{Command, Event, Job, Polled, Turn, TurnReport, first_late};
use model::plan::Machine;
use model::units::{CpuSet, format_ns};
use observe::Observed;

use super::Early;
use super::generator::{Far, Pooled, unexpected};
use super::remote::Remote;
use super::remote::clock::{Clock, now_ns};
use super::together::nanoseconds;
use crate::load_command::latency_log;

/// How long before a turn its generators get the order, beside the time that this takes.
const LEAD: Duration = Duration::from_millis(5);
/// Part of a turn by which a generator may begin it late without being named.
const LATE: f64 = 0.1;
/// Share of the turns that may be late without a warning.
const OFTEN: f64 = 0.1;

/// Generators that are one to whoever asks for turns.
pub(super) struct Several {
    members: Vec<Member>,
    turns: u32,
}

/// One of them.
struct Member {
    far: Far,
    machine: Machine,
    clock: Clock,
    /// Turns that it began late, and by how much at worst.
    late: u32,
    worst_ns: u64,
}

impl Several {
    /// Starts one on each of `machines`, with its CPUs, and waits until all have tried their connections.
    pub(super) fn start(job: &Job, machines: &[(Arc<Remote>, CpuSet)]) -> Result<Self, Early> {
        let parts = u32::try_from(machines.len()).ok().and_then(|count| job.split(count));
        let Some(parts) = parts else {
            return Err(anyhow::anyhow!(
                "{} connections are fewer than the {} machines of --load-on: raise --connections",
                job.connections,
                machines.len()
            )
            .into());
        };
        let members = each(machines.iter().zip(&parts), |((remote, cpus), job)| {
            let far = Far::start(job, cpus, remote)?;
            let (machine, clock) = (remote.machine().clone(), Clock::ask(remote)?);
            Ok(Member { far, machine, clock, late: 0, worst_ns: 0 })
        })?;
        Ok(Self { members, turns: 0 })
    }

    /// One turn of all of them.
    pub(super) fn turn(&mut self, turn: Turn) -> Result<TurnReport, Early> {
        let farthest_ns = self.members.iter().map(|member| member.clock.round_trip_ns()).max().unwrap_or(0);
        let begin_ns = now_ns() + farthest_ns + nanoseconds(LEAD);
        let reports = each(self.members.iter(), |member| {
            let begin_ns = Some(member.clock.there(begin_ns));
            match member.far.exchange(&Command::Turn(Turn { begin_ns, ..turn }))? {
                Event::Turn(report) => Ok(member.by_our_clock(report)),
                other => Err(unexpected(&other)),
            }
        })?;
        self.turns += 1;
        for (member, report) in self.members.iter_mut().zip(&reports) {
            member.note_begin(report.start_ns.saturating_sub(begin_ns), turn.length_ns);
        }
        Ok(together(&reports))
    }

    /// The turns of `pool` so far; their latencies go to `hlog` where one is given.
    pub(super) fn report(&self, pool: u32, hlog: Option<&Path>) -> Result<Pooled, Early> {
        let parts =
            each(self.members.iter(), |member| match member.far.exchange(&Command::Part { pool })? {
                Event::Part { record, log } => Ok((*record, log)),
                other => Err(unexpected(&other)),
            })?;
        let merged = load::merge(parts).map_err(anyhow::Error::from)?.outcome;
        if let Some(file) = hlog {
            model::record::write_atomically(file, latency_log(&merged).as_bytes())?;
        }
        let mut load = merged.report;
        // When they began is judged turn by turn.
        load.warnings.retain(|warning| !warning.id.starts_with("shards_"));
        // Of several processes it is not known when none had an answer.
        Ok(Pooled { load, buckets: load::export::octave_buckets(&merged.response), silences_ns: Vec::new() })
    }

    pub(super) fn mark(&self) -> Result<(), Early> {
        each(self.members.iter(), |member| member.far.mark()).map(drop)
    }

    /// What all of them used since the reading kept there.
    pub(super) fn since(&self) -> Result<Observed, Early> {
        let used = each(self.members.iter(), |member| member.far.since())?;
        Ok(used.into_iter().reduce(Observed::and_load).unwrap_or_default())
    }

    /// Lets them end, and tells who was late.
    pub(super) fn finish(self) {
        for member in self.members {
            member.tell_lateness(self.turns);
            member.far.finish();
        }
    }
}

impl Member {
    fn by_our_clock(&self, report: TurnReport) -> TurnReport {
        TurnReport {
            start_ns: self.clock.here(report.start_ns),
            end_ns: self.clock.here(report.end_ns),
            quiet_ns: self.clock.here(report.quiet_ns),
            ..report
        }
    }

    fn note_begin(&mut self, late_ns: u64, length_ns: u64) {
        self.late += u32::from(late_ns as f64 > LATE * length_ns as f64);
        self.worst_ns = self.worst_ns.max(late_ns);
    }

    fn tell_lateness(&self, turns: u32) {
        if f64::from(self.late) > OFTEN * f64::from(turns) {
            crate::say(&format!(
                "{} began {} of {turns} turns late, by up to {}: give a longer --slice, or look for what else that machine does",
                self.machine,
                self.late,
                format_ns(self.worst_ns as f64)
            ));
        }
    }
}

/// Does something with all at the same time; the first that fails is the error.
pub(super) fn each<I: Send, T: Send>(
    items: impl Iterator<Item = I>,
    what: impl Fn(I) -> Result<T, Early> + Sync,
) -> Result<Vec<T>, Early> {
    let what = &what;
    std::thread::scope(|scope| {
        let running: Vec<_> = items.map(|item| scope.spawn(move || what(item))).collect();
        running.into_iter().map(|one| one.join().expect("no such thread panics")).collect()
    })
}

/// One turn of several generators as one: counts are added, and it is over when it is for the last of them.
fn together(reports: &[TurnReport]) -> TurnReport {
    let mut reports = reports.iter();
    let mut all = reports.next().expect("there are several").clone();
    let mut response_ns = all.mean_response_ns * all.requests as f64;
    for one in reports {
        all.start_ns = all.start_ns.min(one.start_ns);
        all.end_ns = all.end_ns.max(one.end_ns);
        all.quiet_ns = all.quiet_ns.max(one.quiet_ns);
        all.requests += one.requests;
        all.in_time += one.in_time;
        all.due = all.due.zip(one.due).map(|(all, one)| all + one);
        all.errors += one.errors;
        all.given_up += one.given_up;
        all.late_ns.extend(&one.late_ns);
        all.unsent += one.unsent;
        all.bytes_read += one.bytes_read;
        response_ns += one.mean_response_ns * one.requests as f64;
        // That of the busiest decides whether the generators are the limit.
        let busy_ns = all.cpu.busy_ns.max(one.cpu.busy_ns);
        all.cpu = Polled { busy_ns, polled_ns: all.cpu.polled_ns + one.cpu.polled_ns };
    }
    all.late_ns = first_late(all.late_ns);
    all.silences_ns.clear();
    all.mean_response_ns = if all.requests == 0 { 0.0 } else { response_ns / all.requests as f64 };
    all
}

#[cfg(test)]
mod tests {
    use model::record::Errors;

    use super::*;

    #[test]
    fn a_turn_of_several_has_all_of_their_requests_and_lasts_as_long_as_the_last() {
        let one = TurnReport {
            endpoint: 0,
            start_ns: 100,
            end_ns: 200,
            quiet_ns: 210,
            requests: 30,
            in_time: 29,
            due: Some(31),
            errors: Errors { timeout: 1, ..Errors::default() },
            given_up: 1,
            late_ns: vec![4],
            silences_ns: vec![[120, 140]],
            unsent: 0,
            bytes_read: 300,
            mean_response_ns: 10.0,
            cpu: Polled { busy_ns: 80, polled_ns: 5 },
        };
        let other = TurnReport {
            start_ns: 90,
            end_ns: 201,
            quiet_ns: 205,
            requests: 10,
            in_time: 10,
            due: Some(10),
            errors: Errors::default(),
            given_up: 0,
            late_ns: vec![2, 5],
            bytes_read: 100,
            mean_response_ns: 50.0,
            cpu: Polled { busy_ns: 20, polled_ns: 60 },
            ..one.clone()
        };
        let all = together(&[one, other]);
        assert_eq!(
            all.silences_ns,
            Vec::<[u64; 2]>::new(),
            "another generator may have had answers meanwhile"
        );
        assert_eq!((all.start_ns, all.end_ns, all.quiet_ns), (90, 201, 210));
        assert_eq!((all.requests, all.in_time, all.due, all.errors.total()), (40, 39, Some(41), 1));
        assert_eq!((all.late_ns, all.bytes_read, all.mean_response_ns), (vec![2, 4, 5], 400, 20.0));
        assert_eq!(all.cpu, Polled { busy_ns: 80, polled_ns: 65 });
    }
}
