use std::collections::{BTreeMap, BTreeSet};

use model::record::{Errors, Pieces, Second, UserFigures, status_name};

use crate::Scenario;
use crate::driver::{Phases, Report};
use crate::histogram::{Latencies, Pool, add_latencies, latencies};
use crate::session::{
    Events, InPieces, LabelTally, Malformed, SLICES, SecondTally, Slice, Span, Split, Users, of_both,
};

/// Seconds as they come from the workers, added up as soon as every worker has ended the same one.
#[derive(Debug)]
pub(crate) struct Gathered {
    workers: usize,
    /// Seconds that some workers have ended.
    pending: BTreeMap<u32, Pending>,
    /// A histogram for the next of them.
    spare: Option<Latencies>,
    seconds: Vec<Second>,
    response: Latencies,
}

/// A second that some workers have ended.
#[derive(Debug)]
struct Pending {
    workers: usize,
    requests: u64,
    errors: u64,
    response: Latencies,
}

impl Default for Gathered {
    fn default() -> Self {
        Self::new(0)
    }
}

/// What a window brought, added up over the workers.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) span: Span,
    pub(crate) partial: bool,
    pub(crate) steady: bool,
    pub(crate) seconds: Vec<Second>,
    pub(crate) response: Latencies,
    pub(crate) service: Option<Latencies>,
    pub(crate) send_lag: Option<Latencies>,
    /// What was counted by label, until the labels have their names.
    pub(crate) labels: Vec<LabelTally>,
    /// What was counted by name.
    pub(crate) by_name: BTreeMap<String, LabelTally>,
    pub(crate) requests: u64,
    /// Of these, answered before sending ended; nothing where answers were not waited for afterwards.
    pub(crate) in_time: Option<u64>,
    /// When each of the others was answered: nanoseconds from the end of sending, in no order.
    pub(crate) late_ns: Vec<u64>,
    pub(crate) answers: u64,
    pub(crate) bytes_read: u64,
    pub(crate) pieces: Pieces,
    /// First and last bytes that did not come together, until they are among the phases.
    pub(crate) in_pieces: InPieces,
    pub(crate) phases: Phases,
    /// What became of the users of a scenario.
    pub(crate) users: Option<Users>,
    /// Values that answers did not have, in words.
    pub(crate) missing: BTreeMap<String, u64>,
    pub(crate) errors: Errors,
    pub(crate) by_status: BTreeMap<String, u64>,
    pub(crate) events: Option<Events>,
    /// Of those that are unfinished, how many waited for a stream of their connection; not known of several processes.
    pub(crate) without_stream: u64,
    pub(crate) unfinished: u64,
    pub(crate) unsent: u64,
    pub(crate) resent: u64,
    /// Of them those whose connection the server ended in good order; not known of several processes.
    pub(crate) dismissed: u64,
    pub(crate) established: u64,
    pub(crate) answers_per_lane: Vec<u64>,
    pub(crate) in_flight_ns: u128,
    pub(crate) cpu_ns: Vec<u64>,
    /// CPUs that all workers together may use; not known of several processes.
    pub(crate) cpus: Option<f64>,
    pub(crate) polled_ns: u64,
    /// Answers per second of each worker in each tick.
    pub(crate) thread_rates_per_s: Vec<f64>,
    pub(crate) user_share: f64,
    /// What was wrong with the first answer that was not HTTP.
    pub(crate) malformed: Option<String>,
    /// Why the server failed requests or ended connections, in its own words.
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) slices: [Slice; SLICES],
    /// Pairs of one response and the next, of all workers.
    pub(crate) pairs: Vec<(u64, u64)>,
    /// When no worker was answered; not known of several processes.
    pub(crate) silences: Option<Vec<Span>>,
    /// Why the first connection that failed did.
    pub(crate) connect_error: Option<String>,
}

impl Measured {
    /// Nothing yet.
    pub(crate) fn empty(span: Span) -> Self {
        Self {
            span,
            partial: false,
            steady: true,
            seconds: Vec::new(),
            response: latencies(),
            service: None,
            send_lag: None,
            labels: Vec::new(),
            by_name: BTreeMap::new(),
            requests: 0,
            in_time: None,
            late_ns: Vec::new(),
            answers: 0,
            bytes_read: 0,
            pieces: Pieces::default(),
            in_pieces: InPieces::default(),
            users: None,
            missing: BTreeMap::new(),
            phases: Phases { connect: latencies(), tls: latencies(), first_byte: None },
            errors: Errors::default(),
            by_status: BTreeMap::new(),
            events: None,
            without_stream: 0,
            unfinished: 0,
            unsent: 0,
            resent: 0,
            dismissed: 0,
            established: 0,
            answers_per_lane: Vec::new(),
            in_flight_ns: 0,
            cpu_ns: Vec::new(),
            cpus: None,
            polled_ns: 0,
            thread_rates_per_s: Vec::new(),
            user_share: 0.0,
            malformed: None,
            reasons: BTreeSet::new(),
            slices: Default::default(),
            pairs: Vec::new(),
            silences: None,
            connect_error: None,
        }
    }
}

impl Measured {
    /// Adds errors by status.
    pub(crate) fn add_statuses(&mut self, counts: impl Iterator<Item = (String, u64)>) {
        counts.for_each(|(status, count)| *self.by_status.entry(status).or_default() += count);
    }

    /// Gives labels their names; what has no label stays without.
    pub(crate) fn name(&mut self, names: &[String]) {
        let labels = std::mem::take(&mut self.labels);
        self.by_name = names.iter().cloned().zip(labels).collect();
    }

    /// Gives the steps of a scenario, and the values that they take, their names.
    pub(crate) fn name_steps(&mut self, scenario: &Scenario) {
        self.name(scenario.names());
        let missing = self.users.iter().flat_map(|users| &users.missing);
        self.missing = missing.map(|(missing, count)| (scenario.value(*missing), *count)).collect();
    }

    /// Adds what is reported of users.
    pub(crate) fn add_users(&mut self, figures: Option<&UserFigures>, took: Option<&Latencies>) {
        let Some(figures) = figures else { return };
        self.users.get_or_insert_default().add(&Users {
            begun: figures.begun,
            finished: figures.finished,
            failed: figures.failed,
            under_way: figures.under_way,
            not_begun: figures.not_begun,
            took: took.cloned().unwrap_or_else(latencies),
            missing: BTreeMap::new(),
        });
        for (value, count) in &figures.missing {
            *self.missing.entry(value.clone()).or_default() += count;
        }
    }

    /// Adds phases.
    pub(crate) fn add_phases(&mut self, phases: &Phases) {
        add_latencies(&mut self.phases.connect, &phases.connect);
        add_latencies(&mut self.phases.tls, &phases.tls);
        if let Some(more) = &phases.first_byte {
            add_latencies(self.phases.first_byte.get_or_insert_with(latencies), more);
        }
    }

    /// Adds what was counted of one name.
    pub(crate) fn add_name(&mut self, name: &str, requests: u64, errors: u64, response: &Latencies) {
        let empty = || LabelTally { requests: 0, errors: 0, response: latencies() };
        let sum = self.by_name.entry(name.to_owned()).or_insert_with(empty);
        sum.requests += requests;
        sum.errors += errors;
        add_latencies(&mut sum.response, response);
    }
}

impl Gathered {
    pub(crate) fn new(workers: usize) -> Self {
        Self { workers, pending: BTreeMap::new(), spare: None, seconds: Vec::new(), response: latencies() }
    }

    /// Takes one worker's second; returns that second once it is complete. Its histogram goes to `pool`.
    pub(crate) fn second(&mut self, second: SecondTally, pool: &Pool) -> Option<(u32, Second, Latencies)> {
        let index = second.index;
        let sum = self.pending.entry(index).or_insert_with(|| {
            let response = self.spare.take().unwrap_or_else(latencies);
            Pending { workers: 0, requests: 0, errors: 0, response }
        });
        sum.workers += 1;
        sum.requests += second.requests;
        sum.errors += second.errors;
        add_latencies(&mut sum.response, &second.response);
        pool.give(second.response);
        (sum.workers == self.workers).then(|| self.complete(index)).flatten()
    }

    /// Takes back the histogram of a second, for another.
    pub(crate) fn give_back(&mut self, mut response: Latencies) {
        response.reset();
        self.spare = Some(response);
    }

    fn complete(&mut self, index: u32) -> Option<(u32, Second, Latencies)> {
        let sum = self.pending.remove(&index)?;
        add_latencies(&mut self.response, &sum.response);
        let second = second(sum.requests, sum.errors, &sum.response);
        self.seconds.push(second);
        Some((index, second, sum.response))
    }

    /// The next second that not every worker had: one that ended early has said nothing of later seconds.
    pub(crate) fn next_rest(&mut self) -> Option<(u32, Second, Latencies)> {
        let index = self.pending.keys().next().copied()?;
        self.complete(index)
    }

    pub(crate) fn finish(
        self,
        span: Span,
        reports: Vec<Report>,
        user_share: f64,
        partial: bool,
        steady: bool,
    ) -> Measured {
        let mut measured = Measured { partial, steady, user_share, ..Measured::empty(span) };
        for report in reports {
            add_report(&mut measured, report);
        }
        add_latencies(&mut measured.response, &self.response);
        measured.seconds = self.seconds;
        let last_byte = measured.service.as_ref().unwrap_or(&measured.response);
        measured.phases.first_byte = measured.in_pieces.first_of_all(last_byte);
        measured
    }
}

/// What one second brought.
pub(crate) fn second(requests: u64, errors: u64, response: &Latencies) -> Second {
    let at = |quantile| (!response.is_empty()).then(|| response.value_at_quantile(quantile));
    Second { requests, errors, p50_ns: at(0.5), p99_ns: at(0.99) }
}

fn add_report(sum: &mut Measured, report: Report) {
    let finished = report.finished;
    let tally = finished.tally;
    add_latencies(&mut sum.response, &tally.censored);
    *sum.in_time.get_or_insert_default() += tally.in_time();
    sum.late_ns.extend(&tally.late_ns);
    sum.thread_rates_per_s.extend(tally.rates_per_s());
    if let Some(Split { service, send_lag }) = tally.split {
        add_latencies(sum.service.get_or_insert_with(latencies), &service);
        add_latencies(sum.send_lag.get_or_insert_with(latencies), &send_lag);
    }
    add_labels(&mut sum.labels, tally.labels);
    if let Some(events) = tally.events {
        sum.events.get_or_insert_default().add(&events);
    }
    sum.requests += tally.requests;
    sum.answers += tally.answers;
    sum.bytes_read += tally.bytes_read;
    tally.users.iter().for_each(|users| sum.users.get_or_insert_default().add(users));
    sum.pieces += tally.pieces;
    tally.in_pieces.iter().for_each(|pieces| sum.in_pieces.add(pieces));
    if let Some(opening) = report.opening {
        add_latencies(&mut sum.phases.connect, &opening.connect);
        add_latencies(&mut sum.phases.tls, &opening.tls);
    }
    sum.errors += tally.errors;
    sum.add_statuses(tally.by_status.iter().map(|(status, count)| (status_name(*status), *count)));
    sum.without_stream += tally.without_stream;
    sum.unfinished += tally.unfinished;
    sum.unsent += tally.unsent;
    sum.resent += tally.resent;
    sum.dismissed += tally.dismissed;
    sum.established += report.established;
    sum.answers_per_lane.extend(finished.answers_per_lane);
    sum.in_flight_ns += finished.in_flight_ns;
    for (sum, slice) in sum.slices.iter_mut().zip(tally.drift.slices) {
        sum.requests += slice.requests;
        sum.log_sum += slice.log_sum;
    }
    sum.pairs.extend(tally.pairs.kept);
    let silences = tally.silences.kept;
    sum.silences =
        Some(sum.silences.as_ref().map_or_else(|| silences.clone(), |all| of_both(all, &silences)));
    sum.connect_error = sum.connect_error.take().or(report.connect_error.map(|refusal| refusal.to_string()));
    sum.cpu_ns.push(report.cpu_ns);
    sum.polled_ns += report.polled_ns;
    sum.reasons.extend(finished.reasons.words());
    sum.malformed = sum
        .malformed
        .take()
        .or_else(|| finished.first_malformed.map(|malformed| malformed_words(malformed, tally.answers)));
}

/// What was wrong with an answer, and where that may come from.
fn malformed_words(malformed: Malformed, answers: u64) -> String {
    // Who has answered as it should is whom it should be.
    let hint = if malformed.is_foreign() && answers == 0 { " (is this the right port?)" } else { "" };
    format!("{malformed}{hint}")
}

fn add_labels(sums: &mut Vec<LabelTally>, labels: Vec<LabelTally>) {
    for (index, label) in labels.into_iter().enumerate() {
        match sums.get_mut(index) {
            None => sums.push(label),
            Some(sum) => {
                sum.requests += label.requests;
                sum.errors += label.errors;
                add_latencies(&mut sum.response, &label.response);
            }
        }
    }
}
