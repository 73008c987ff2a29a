//! Several generators of one schedule, and what they measured together.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use model::record::{LoadReport, Second, ShardRecord, Warning};

use crate::driver::Phases;
use crate::export::{Interval, LogError, Logged, decode, hlog_header, hlog_line, parse_hlog};
use crate::session::{Events, SLICES, Slice, Span};
use crate::summary::{Facts, Measured, outcome, second};
use crate::{Latencies, Outcome, add_latencies, latencies};

/// Tag of the responses of one second.
const SECOND: &str = "second";
/// Tag of done − sent over the window.
const SERVICE: &str = "service";
/// Tag of sent − intended over the window.
const SEND_LAG: &str = "send_lag";
/// Tag of the responses of one name, before its place among the sorted names: names may have any letters, tags not.
const NAME: &str = "name_";
/// Tags of the first events of streams and of the gaps between events.
const EVENTS: [&str; 2] = ["first_event", "event_gap"];
/// Tags of what connections and answers consist of, in the order of [`Log::phases`].
const PHASES: [&str; 3] = ["connect", "tls", "first_byte"];
/// Tag of the times of users who had every step.
const USERS: &str = "users";
/// Part of the window by which its begins may lie apart: more, and the shards measured different times.
const SKEW: f64 = 0.01;

/// Why shards cannot be merged; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// None were given.
    #[error("there is no shard to merge: name the directories that --save wrote")]
    Nothing,
    /// They are not of one run.
    #[error("the shards are not of one run: they differ in {0}")]
    Different(&'static str),
    /// One of them is there twice.
    #[error("shard {shard} of {of} is there twice: name each directory once")]
    Twice {
        /// Which.
        shard: u32,
        /// Of how many.
        of: u32,
    },
    /// Its log does not read.
    #[error("the log of shard {shard} is damaged: {source}")]
    Log {
        /// Which.
        shard: u32,
        /// What is wrong.
        source: LogError,
    },
}

/// What shards measured together.
#[derive(Debug)]
pub struct Merged {
    /// Every figure, as of one generator.
    pub outcome: Outcome,
    /// The log of all of them, from which it can be merged again.
    pub log: String,
}

/// The log of a window from which shards are merged without loss: its histograms, and those of its `seconds`, which are
/// lines that [`second_line`] made.
#[must_use]
pub fn shard_log(outcome: &Outcome, seconds: &[String]) -> String {
    let mut more: Vec<String> = outcome
        .response_by_name
        .values()
        .enumerate()
        .map(|(index, latencies)| whole_line(outcome, latencies, Some(&format!("{NAME}{index}"))))
        .collect();
    if let Some(events) = &outcome.events {
        let [first, gap] = EVENTS;
        more.push(whole_line(outcome, &events.first, Some(first)));
        more.push(whole_line(outcome, &events.gap, Some(gap)));
    }
    let Phases { connect, tls, first_byte } = &outcome.phases;
    for (latencies, tag) in [Some(connect), Some(tls), first_byte.as_ref()].into_iter().zip(PHASES) {
        let some = latencies.filter(|latencies| !latencies.is_empty());
        more.extend(some.map(|latencies| whole_line(outcome, latencies, Some(tag))));
    }
    more.extend(outcome.users_took.iter().map(|took| whole_line(outcome, took, Some(USERS))));
    more.extend_from_slice(seconds);
    window_log(outcome, &whole_line(outcome, &outcome.response, None), &more)
}

/// The log of a window second by second: `responses` are lines of the main series.
#[must_use]
pub fn hlog(outcome: &Outcome, responses: &[String]) -> String {
    window_log(outcome, &responses.concat(), &[])
}

/// The responses, whatever their lines are; service times and send lags where there are any; and more lines.
fn window_log(outcome: &Outcome, responses: &str, more: &[String]) -> String {
    let started = UNIX_EPOCH + Duration::from_nanos(outcome.shard.first_start_ns);
    let mut log = hlog_header(started) + responses;
    for (latencies, tag) in [(&outcome.service, SERVICE), (&outcome.send_lag, SEND_LAG)] {
        log.extend(latencies.iter().map(|latencies| whole_line(outcome, latencies, Some(tag))));
    }
    log.extend(more.iter().map(String::as_str));
    log
}

/// The line of an interval that is the whole window.
fn whole_line(outcome: &Outcome, latencies: &Latencies, tag: Option<&str>) -> String {
    let length = Duration::from_nanos(outcome.report.window_ns);
    hlog_line(&Interval { latencies, tag, begin: Duration::ZERO, length })
}

/// The line of second `index` of a window.
#[must_use]
pub fn second_line(index: u32, response: &Latencies) -> String {
    let (begin, length) = (Duration::from_secs(index.into()), Duration::from_secs(1));
    hlog_line(&Interval { latencies: response, tag: Some(SECOND), begin, length })
}

/// Puts shards together: counts and histograms are added, and every figure is made again from the sums.
///
/// # Errors
/// [`MergeError`]
pub fn merge(mut shards: Vec<(ShardRecord, String)>) -> Result<Merged, MergeError> {
    shards.sort_by(|(a, _), (b, _)| a.shards.cmp(&b.shards));
    check(&shards)?;
    let logs: Vec<Log<'_>> = shards.iter().map(Log::from_shard).collect::<Result<_, _>>()?;
    let records: Vec<&ShardRecord> = shards.iter().map(|(record, _)| record).collect();
    let (seconds, lines) = merge_seconds(&records, &logs)?;
    let measured = measured(&records, &logs, seconds)?;
    let mut outcome = outcome(&facts(&records), measured, together(&records));
    outcome.report.warnings.splice(0..0, warnings(&records, &outcome.shard, &outcome.report));
    outcome.shard.report = outcome.report.clone();
    let log = shard_log(&outcome, &lines);
    Ok(Merged { outcome, log })
}

fn check(shards: &[(ShardRecord, String)]) -> Result<(), MergeError> {
    let (first, _) = shards.first().ok_or(MergeError::Nothing)?;
    let mut seen = Vec::new();
    for (shard, _) in shards {
        let (a, b) = (&first.report, &shard.report);
        let alike = [
            (first.of == shard.of, "how many shards there are"),
            (a.url == b.url, "the URL"),
            (a.schedule == b.schedule, "the schedule or its seed"),
            (a.pipeline == b.pipeline, "the pipeline"),
        ];
        if let Some((_, what)) = alike.into_iter().find(|(alike, _)| !alike) {
            return Err(MergeError::Different(what));
        }
        seen.extend(&shard.shards);
    }
    seen.sort_unstable();
    let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map_or(Ok(()), |pair| Err(MergeError::Twice { shard: pair[0], of: first.of }))
}

/// The intervals of one shard's log by what they are.
struct Log<'a> {
    shard: u32,
    response: Latencies,
    service: Option<Latencies>,
    send_lag: Option<Latencies>,
    /// First events and gaps, where there are any.
    events: [Option<Latencies>; 2],
    /// As [`PHASES`] names them.
    phases: [Option<Latencies>; 3],
    /// Times of users.
    users: Option<Latencies>,
    /// By the place of their names among the sorted ones.
    names: BTreeMap<usize, Latencies>,
    /// Read one at a time: an hour of them side by side would take a gigabyte.
    seconds: Vec<Logged<'a>>,
}

impl<'a> Log<'a> {
    fn from_shard((record, text): &'a (ShardRecord, String)) -> Result<Self, MergeError> {
        let shard = record.shards.first().copied().unwrap_or_default();
        let wrong = |source| MergeError::Log { shard, source };
        let (mut log, mut main) = (
            Self {
                shard,
                response: latencies(),
                service: None,
                send_lag: None,
                events: [None, None],
                phases: [None, None, None],
                users: None,
                names: BTreeMap::new(),
                seconds: Vec::new(),
            },
            None,
        );
        for entry in parse_hlog(text).map_err(wrong)? {
            match entry.tag {
                Some(SECOND) => log.seconds.push(entry),
                Some(SERVICE) => log.service = Some(decode(&entry).map_err(wrong)?),
                Some(USERS) => log.users = Some(decode(&entry).map_err(wrong)?),
                Some(SEND_LAG) => log.send_lag = Some(decode(&entry).map_err(wrong)?),
                Some(tag) if EVENTS.contains(&tag) => {
                    log.events[usize::from(tag == EVENTS[1])] = Some(decode(&entry).map_err(wrong)?);
                }
                Some(tag) => {
                    if let Some(place) = PHASES.iter().position(|phase| *phase == tag) {
                        log.phases[place] = Some(decode(&entry).map_err(wrong)?);
                    } else if let Some(index) = tag.strip_prefix(NAME).and_then(|index| index.parse().ok()) {
                        log.names.insert(index, decode(&entry).map_err(wrong)?);
                    }
                }
                None => main = Some(decode(&entry).map_err(wrong)?),
            }
        }
        log.response = main.ok_or(LogError::NoResponses).map_err(wrong)?;
        Ok(log)
    }

    /// Which second of the window an interval is.
    fn index(second: &Logged<'_>) -> usize {
        second.begin.as_secs_f64().round() as usize
    }
}

/// Each second over all shards, and its line.
fn merge_seconds(
    records: &[&ShardRecord],
    logs: &[Log<'_>],
) -> Result<(Vec<Second>, Vec<String>), MergeError> {
    let count = records.iter().map(|record| record.report.seconds.len()).max().unwrap_or(0);
    let (mut seconds, mut lines) = (Vec::new(), Vec::new());
    for index in 0..count {
        let mut response = latencies();
        for log in logs {
            for entry in log.seconds.iter().filter(|entry| Log::index(entry) == index) {
                let part = decode(entry).map_err(|source| MergeError::Log { shard: log.shard, source })?;
                add_latencies(&mut response, &part);
            }
        }
        let parts = || records.iter().filter_map(|record| record.report.seconds.get(index));
        let requests = parts().map(|second| second.requests).sum();
        let errors = parts().map(|second| second.errors).sum();
        seconds.push(second(requests, errors, &response));
        lines.push(second_line(index as u32, &response));
    }
    Ok((seconds, lines))
}

/// The sums over all shards.
fn measured(
    records: &[&ShardRecord],
    logs: &[Log<'_>],
    seconds: Vec<Second>,
) -> Result<Measured, MergeError> {
    let window_ns = records.iter().map(|record| record.report.window_ns).max().unwrap_or(0);
    let mut sum = Measured::empty(Span { start_ns: 0, end_ns: window_ns });
    sum.seconds = seconds;
    for log in logs {
        add_times(&mut sum, &log.response, [log.service.as_ref(), log.send_lag.as_ref()]);
        let [connect, tls, first_byte] = log.phases.clone();
        let (connect, tls) = (connect.unwrap_or_else(latencies), tls.unwrap_or_else(latencies));
        sum.add_phases(&Phases { connect, tls, first_byte });
    }
    records.iter().for_each(|record| add_record(&mut sum, record));
    for (record, log) in records.iter().zip(logs) {
        sum.add_users(record.report.users.as_ref(), log.users.as_ref());
        if let (Some(events), [Some(first), Some(gap)]) = (&record.report.events, &log.events) {
            let events = Events { count: events.count, first: first.clone(), gap: gap.clone() };
            sum.events.get_or_insert_default().add(&events);
        }
        for (index, (name, row)) in record.report.requests_by_name.iter().enumerate() {
            let none = latencies();
            sum.add_name(name, row.requests, row.errors, log.names.get(&index).unwrap_or(&none));
        }
    }
    sum.user_share = user_share(records);
    Ok(sum)
}

/// Adds responses, and service times and send lags where there are any.
pub(crate) fn add_times(
    sum: &mut Measured,
    response: &Latencies,
    [service, send_lag]: [Option<&Latencies>; 2],
) {
    add_latencies(&mut sum.response, response);
    for (part, whole) in [(service, &mut sum.service), (send_lag, &mut sum.send_lag)] {
        if let Some(part) = part {
            add_latencies(whole.get_or_insert_with(latencies), part);
        }
    }
}

/// The share of user mode in the CPU time of all.
pub(crate) fn user_share(records: &[&ShardRecord]) -> f64 {
    let cpu_ns = |record: &ShardRecord| record.thread_cpu_ns.iter().sum::<u64>() as f64;
    let all_ns: f64 = records.iter().map(|record| cpu_ns(record)).sum();
    let user_ns: f64 = records.iter().map(|record| record.user_share * cpu_ns(record)).sum();
    if all_ns > 0.0 { user_ns / all_ns } else { 0.0 }
}

pub(crate) fn add_record(sum: &mut Measured, record: &ShardRecord) {
    let report = &record.report;
    sum.partial |= report.partial;
    sum.steady &= record.steady;
    sum.requests += report.requests;
    *sum.in_time.get_or_insert_default() += record.in_time.unwrap_or(report.requests);
    sum.answers += record.answers;
    sum.bytes_read += report.bytes_read;
    sum.pieces += report.pieces.unwrap_or_default();
    sum.errors += report.errors;
    sum.add_statuses(report.errors_by_status.clone().into_iter());
    sum.unfinished += report.unfinished;
    sum.unsent += report.unsent;
    sum.resent += report.resent;
    sum.established += report.connections.established;
    sum.answers_per_lane.extend(&record.answers_per_connection);
    sum.in_flight_ns += (report.in_flight * report.window_ns as f64) as u128;
    sum.cpu_ns.extend(&record.thread_cpu_ns);
    sum.polled_ns += record.polled_ns;
    sum.thread_rates_per_s.extend(&record.thread_rates_per_s);
    sum.malformed = sum.malformed.take().or_else(|| record.malformed.clone());
    sum.reasons.extend(record.reasons.iter().cloned());
    sum.connect_error = sum.connect_error.take().or_else(|| record.connect_error.clone());
    for (slice, (requests, log_sum)) in sum.slices.iter_mut().zip(&record.tenths) {
        *slice = Slice { requests: slice.requests + requests, log_sum: slice.log_sum + log_sum };
    }
    sum.pairs.extend(&record.pairs);
}

pub(crate) fn facts(records: &[&ShardRecord]) -> Facts {
    let report = &records[0].report;
    Facts {
        url: report.url.clone(),
        threads: records.iter().map(|record| record.report.threads).sum(),
        connections: records.iter().map(|record| record.report.connections.requested).sum(),
        pipeline: report.pipeline,
        lookup_ns: report.phases.as_ref().and_then(|phases| phases.lookup_ns),
        whole_connections: records.iter().all(|record| record.report.pieces.is_some()),
        schedule: report.schedule.clone(),
    }
}

/// Which shards are together, and when they began.
fn together(records: &[&ShardRecord]) -> Together {
    let starts = || records.iter().flat_map(|record| [record.first_start_ns, record.last_start_ns]);
    Together {
        shards: records.iter().flat_map(|record| record.shards.clone()).collect(),
        of: records[0].of,
        first_start_ns: starts().min().unwrap_or(0),
        last_start_ns: starts().max().unwrap_or(0),
    }
}

/// Which shards a record is of, and when they began.
#[derive(Debug, Clone)]
pub(crate) struct Together {
    pub(crate) shards: Vec<u32>,
    pub(crate) of: u32,
    pub(crate) first_start_ns: u64,
    pub(crate) last_start_ns: u64,
}

/// What is to be known of the shards, beside what is said of any run.
fn warnings(records: &[&ShardRecord], shard: &ShardRecord, report: &LoadReport) -> Vec<Warning> {
    [missing(shard), skewed(shard, report), unlike(records)].into_iter().flatten().collect()
}

fn unlike(records: &[&ShardRecord]) -> Option<Warning> {
    let windows = || records.iter().map(|record| record.report.window_ns);
    let (shortest, longest) = (windows().min()?, windows().max()?);
    ((longest - shortest) as f64 > SKEW * longest as f64).then(|| Warning {
        id: "shards_unlike".to_owned(),
        text: format!(
            "The shards' windows are from {} to {} long, so that the load was not the same throughout and the rate is too low: give all of them one -d.",
            model::units::format_ns(shortest as f64),
            model::units::format_ns(longest as f64)
        ),
    })
}

fn missing(shard: &ShardRecord) -> Option<Warning> {
    let absent: Vec<String> =
        (0..shard.of).filter(|index| !shard.shards.contains(index)).map(|index| index.to_string()).collect();
    (!absent.is_empty()).then(|| Warning {
        id: "shards_missing".to_owned(),
        text: format!(
            "Of {} shards, number {} is not here: its part of the arrivals is in no figure. Merge it too.",
            shard.of,
            absent.join(", ")
        ),
    })
}

fn skewed(shard: &ShardRecord, report: &LoadReport) -> Option<Warning> {
    let apart_ns = shard.last_start_ns - shard.first_start_ns;
    (apart_ns as f64 > SKEW * report.window_ns as f64).then(|| Warning {
        id: "shards_skewed".to_owned(),
        text: format!(
            "The shards began up to {} apart, so that the load was not what was asked for at either end: give all of them one --start-at, and let their clocks agree.",
            model::units::format_ns(apart_ns as f64)
        ),
    })
}

/// The tenths of a window as a record holds them.
pub(crate) fn tenths(slices: &[Slice; SLICES]) -> Vec<(u64, u64)> {
    slices.iter().map(|slice| (slice.requests, slice.log_sum)).collect()
}
