use std::cmp::Reverse;

use model::record::{
    GENERATOR_BUSY, LoadReport, MANY_RESENT, MAX_LITTLE, MIN_JAIN, MIN_RATE_RATIO, SMALL_SEND_LAG_NS,
    Warning, max_send_lag_ns,
};
use model::units::format_ns;

use super::gather::Measured;
use super::stationarity::trend;

/// Busy share of a generator thread above which it may be what was measured.
const BUSY: f64 = 0.95;
/// Longest response as a share of the window, from which on the window is too short for it.
const SHORT: f64 = 0.1;
/// Answers per second on average, from which on a second without any is no chance.
const MANY_A_SECOND: f64 = 30.0;
/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;
/// Answers on each connection on average, below which their evenness is chance.
const EVENNESS_ANSWERS: f64 = 10.0;

/// Finds a breach; its text says what happened, why, and what to do.
type Check = fn(&LoadReport, &Measured) -> Option<Warning>;

/// Most important first.
const CHECKS: [Check; 18] = [
    partial,
    connections,
    errors,
    unanswered,
    streams,
    values,
    parse,
    reasons,
    resent,
    rate,
    busy,
    send_lag,
    little,
    evenness,
    silence,
    unsteady,
    drift,
    few_requests,
];

/// What the reader of a report must know, most important first.
pub(crate) fn warnings(report: &LoadReport, measured: &Measured) -> Vec<Warning> {
    if report.is_before_its_window() {
        return partial(report, measured).into_iter().collect();
    }
    CHECKS.iter().filter_map(|check| check(report, measured)).collect()
}

fn warning(id: &str, text: String) -> Option<Warning> {
    Some(Warning { id: id.to_owned(), text })
}

fn partial(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let seconds = report.window_ns as f64 / 1e9;
    (report.partial).then_some(())?;
    if report.is_before_its_window() {
        let text =
            "The run was stopped before its window began, by Ctrl-C or another signal: nothing was measured.";
        return warning("partial", text.to_owned());
    }
    warning(
        "partial",
        format!(
            "The run was stopped after {seconds:.1} s, by Ctrl-C or another signal: every figure is of that time. Run it to its end, or with a shorter -d."
        ),
    )
}

fn connections(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    let (open, requested) = (report.connections.established, report.connections.requested);
    (open < requested).then_some(())?;
    let why = measured.connect_error.as_deref().unwrap_or("the others were still being opened");
    warning(
        "connections",
        format!(
            "Only {open} of {requested} connections were open when the window began ({why}): ask for fewer, or raise the server's backlog."
        ),
    )
}

fn errors(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let errors = report.errors;
    (errors.total() > 0).then_some(())?;
    warning(
        "errors",
        format!(
            "Requests failed: connect {}, read {}, write {}, timeout {}, status {}{}, parse {}, value {}, surplus {}. Latencies hold the answered ones and the timeouts; look at the server's log.",
            errors.connect,
            errors.read,
            errors.write,
            errors.timeout,
            errors.status,
            by_status(report),
            errors.parse,
            errors.value,
            errors.surplus
        ),
    )
}

/// Which statuses the answers had that are errors, the most frequent first: ` (503: 12, 404: 3)`.
fn by_status(report: &LoadReport) -> String {
    /// As many as the reader needs.
    const MOST: usize = 4;
    let mut all: Vec<(&String, &u64)> = report.errors_by_status.iter().collect();
    all.sort_by_key(|(_, count)| Reverse(**count));
    let mut words: Vec<String> =
        all.iter().take(MOST).map(|(status, count)| format!("{status}: {count}")).collect();
    if all.len() > MOST {
        words.push("others".to_owned());
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// Nothing was answered at all, and nothing failed either.
fn unanswered(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    let silent = measured.answers == 0 && report.errors.unanswered() == 0;
    (silent && report.window_ns > 0 && report.unfinished > 0).then_some(())?;
    let requests = counted(report.unfinished, "request");
    let verb = if report.unfinished == 1 { "is" } else { "are" };
    warning(
        "no_answers",
        format!(
            "No answer came in {}: {requests} {verb} unfinished. Look at what the server waits for, or give a longer window.",
            format_ns(report.window_ns as f64)
        ),
    )
}

/// The server has fewer streams to give than are asked for.
fn streams(_: &LoadReport, measured: &Measured) -> Option<Warning> {
    (measured.without_stream > 0).then_some(())?;
    let requests = counted(measured.without_stream, "request");
    warning(
        "streams",
        format!(
            "At the end {requests} waited for a stream: the server allows fewer on a connection than --streams asks for (SETTINGS_MAX_CONCURRENT_STREAMS). Response times hold the wait; use fewer streams, or more connections (-c)."
        ),
    )
}

/// `1 request`, `2 requests`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A scenario took what was not there.
fn values(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let missing = &report.users.as_ref()?.missing;
    let (value, _) = missing.iter().max_by_key(|(_, count)| **count)?;
    let (count, more) = (missing.values().sum::<u64>(), missing.len() - 1);
    let others = if more == 0 { String::new() } else { format!(", and so with {more} other values") };
    warning(
        "values",
        format!(
            "{count} users ended early, for an answer had not what the next steps need: {value}{others}. Look at what the server answers, or take it from elsewhere."
        ),
    )
}

fn parse(_: &LoadReport, measured: &Measured) -> Option<Warning> {
    let malformed = measured.malformed.as_ref()?;
    warning(
        "malformed",
        format!("An answer was not what was asked for: {malformed}. Look at what the server sends."),
    )
}

/// The server has said why it does not answer, or not well.
fn reasons(_: &LoadReport, measured: &Measured) -> Option<Warning> {
    /// As many as the reader needs.
    const MOST: usize = 4;
    let mut all: Vec<&str> = measured.reasons.iter().map(String::as_str).take(MOST).collect();
    (!all.is_empty()).then_some(())?;
    if measured.reasons.len() > all.len() {
        all.push("and others");
    }
    warning(
        "reasons",
        format!(
            "The server says why it fails requests or ends connections: {}. Look at its limits and at its log.",
            all.join(", ")
        ),
    )
}

fn resent(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    // What failed was sent, too; one that was sent again is among those that were answered, failed or are on their way.
    let sent = report.requests + report.errors.unanswered() + report.unfinished + report.resent;
    let share = report.resent as f64 / sent.max(1) as f64;
    (share > MANY_RESENT).then_some(())?;
    let requests = format!("{} requests ({:.2} % of those sent)", report.resent, share * 100.0);
    let text = if measured.dismissed == report.resent {
        format!(
            "The server ended the connection of {requests} in good order (GOAWAY) before it looked at them. They were sent again on another, and are timed from the first attempt. Raise the number of requests, or the time, that it allows a connection, unless its clients meet this too."
        )
    } else {
        let farewell = match measured.dismissed {
            0 => String::new(),
            dismissed => format!(", {dismissed} of them in good order (GOAWAY)"),
        };
        format!(
            "The server closed the connection of {requests} before it answered, or refused them unread{farewell}. They were sent again, and are timed from the first attempt. It may be short of workers or limit kept connections: look at its keep-alive settings, or use fewer connections (-c)."
        )
    };
    warning("resent", text)
}

fn rate(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let ratio = report.rate_ratio.filter(|ratio| *ratio < MIN_RATE_RATIO)?;
    let wanted_per_s = report.schedule.rate_per_s?;
    let answered = format!(
        "Only {:.1} % of the requests that were due were answered ({} unfinished, {} unsent)",
        ratio * 100.0,
        report.unfinished,
        report.unsent
    );
    // In a steady state as many come in after the window began late as are on their way when it ends.
    let longest_ns = report.response_ns.max as f64;
    let short = report.unsent == 0 && longest_ns > SHORT * report.window_ns as f64;
    let why = if short {
        format!(
            "answers take up to {} or more, and the window is no longer than {}: what is on its way at its end counts as at least so late, and percentiles are too low. Use a longer window, with a warm-up.",
            format_ns(longest_ns),
            format_ns(report.window_ns as f64)
        )
    } else if falls_behind(report) {
        let decimals = if wanted_per_s < 10.0 { 2 } else { 0 };
        format!(
            "the server does not keep up with {wanted_per_s:.decimals$}/s, or there are too few connections. Lower the rate or add connections."
        )
    } else {
        return None;
    };
    warning("rate", format!("{answered}: {why}"))
}

/// Whether requests pile up. A server that keeps up has as many on their way at the end as on average; one that falls behind, whose
/// queue grows all the time, twice as many. What failed is told as errors.
fn falls_behind(report: &LoadReport) -> bool {
    let steady = 1.5 * report.in_flight + 2.0 * report.in_flight.sqrt();
    let behind = report.unsent as f64 + (report.unfinished as f64 - steady).max(0.0);
    let due = (report.requests + report.errors.total() + report.unfinished + report.unsent) as f64;
    behind > (1.0 - MIN_RATE_RATIO) * due
}

fn busy(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    if report.schedule_kept() == Some(true) {
        return None;
    }
    let limit = if report.rate_ratio.is_some() { GENERATOR_BUSY } else { BUSY };
    if report.busiest_thread > limit {
        return warning(
            "generator_busy",
            format!(
                "A generator thread was {:.0} % busy, so that the figures may be the generator's own: add a thread (-t) and a CPU for it.",
                report.busiest_thread * 100.0
            ),
        );
    }
    // Threads that share a CPU are each half busy when it is full.
    let cpus = measured.cpus?;
    let used = measured.cpu_ns.iter().sum::<u64>() as f64 / report.window_ns.max(1) as f64;
    (used > limit * cpus).then_some(())?;
    warning(
        "generator_busy",
        format!(
            "The generator used {used:.2} of the {cpus} CPUs that it may use, so that the figures may be its own: more threads do not help; give it more CPUs (--cpus), or ask for less."
        ),
    )
}

fn send_lag(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let lag = report.send_lag_tail()?;
    let limit = max_send_lag_ns(report.response_ns.p50.map_or(0.0, |p50| p50 as f64));
    (lag.ns > limit).then_some(())?;
    let (why, remedy) = match report.schedule.slack_ns {
        Some(slack) if lag.ns <= slack as f64 + SMALL_SEND_LAG_NS => (
            format!("they may wait for {} (--slack)", format_ns(slack as f64)),
            "compare service times, or give less slack",
        ),
        _ => (
            "the generator was late, or every connection was taken".to_owned(),
            "compare service times, or add connections or a CPU",
        ),
    };
    warning(
        "send_lag",
        format!(
            "{} % of the requests were sent {} or more after they were due, and {} are the most that changes no figure: {why}. Response times are charged with it; {remedy}.",
            lag.percentile.later_percent(),
            format_ns(lag.ns),
            format_ns(limit)
        ),
    )
}

fn little(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    (report.rate_ratio.is_none() && measured.answers > 0).then_some(())?;
    // Of few answers on each connection, those that the window cuts off are too large a part.
    (report.unfinished as f64 <= MAX_LITTLE * report.requests as f64).then_some(())?;
    // Of what failed it is known that it was in flight, and not for how long; below one in flight the window's ends are too much.
    let told = report.requests + report.errors.timeout;
    let untold = report.errors.unanswered() - report.errors.timeout;
    (untold as f64 <= MAX_LITTLE * told as f64 && report.in_flight >= 1.0).then_some(())?;
    let expected = report.rate_per_s * report.response_ns.mean / 1e9;
    let off = (expected / report.in_flight - 1.0).abs();
    let differ = format!("{expected:.1}") != format!("{:.1}", report.in_flight);
    (differ && off > MAX_LITTLE).then_some(())?;
    warning(
        "little",
        format!(
            "Rate × mean latency is {expected:.1} and {:.1} requests were in flight on average: by Little's law these are equal in a steady state, so the latencies or the rate are not of one. Use a longer window.",
            report.in_flight
        ),
    )
}

fn evenness(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    let even = report.per_connection;
    let each = measured.answers as f64 / report.connections.requested as f64;
    (each >= EVENNESS_ANSWERS && even.jain < MIN_JAIN).then_some(())?;
    warning(
        "uneven",
        format!(
            "The server answered some connections more than others ({} to {} answers, Jain's index {:.2}), as one does whose threads share its connections unevenly or that goes on with whoever it is serving: percentiles hold mostly the favoured ones. Look at how it spreads its connections, or try more of them (-c).",
            even.min, even.max, even.jain
        ),
    )
}

/// A frozen server shows in no percentile of a closed loop, which waits with it.
fn silence(report: &LoadReport, _: &Measured) -> Option<Warning> {
    let whole = (report.window_ns / SECOND_NS) as usize;
    let silent = report.seconds.iter().take(whole).filter(|second| second.requests == 0).count();
    let busy = report.rate_per_s >= MANY_A_SECOND && silent > 0;
    busy.then_some(())?;
    let unseen = match report.rate_ratio {
        Some(_) => "or was not there. Look at the maximum, at the seconds, and at the server's log",
        None => {
            "and a closed loop, which then asks nothing, has it in no percentile. Look at the maximum and at the seconds, or use a rate (-R)"
        }
    };
    warning(
        "silent",
        format!("In {silent} of {whole} seconds no answer came: the server stood still, {unseen}."),
    )
}

fn unsteady(_: &LoadReport, measured: &Measured) -> Option<Warning> {
    (!measured.steady).then_some(())?;
    warning("not_steady", "The warm-up ended at its longest without a steady rate: the window may still be warming up. Allow a longer one.".to_owned())
}

fn drift(_: &LoadReport, measured: &Measured) -> Option<Warning> {
    let trend = trend(&measured.slices).filter(|_| !measured.partial)?;
    let (how, why) = match trend.rises() {
        true => {
            ("rose", "a queue grew, or the server got slower. Use a lower rate, or look at what it gathers")
        }
        false => ("fell", "it was still warming up, and the percentiles hold that. Use a longer warm-up"),
    };
    warning(
        "drift",
        format!(
            "The typical response {how} from {} to {} within the window: {why}.",
            format_ns(trend.from_ns),
            format_ns(trend.to_ns)
        ),
    )
}

fn few_requests(report: &LoadReport, measured: &Measured) -> Option<Warning> {
    // That there are none is told already.
    (report.response_ns.p99.is_none() && unanswered(report, measured).is_none()).then_some(())?;
    let answers = report.requests.min(report.response_ns.count);
    let (requests, verb) = (counted(answers, "request"), if answers == 1 { "is" } else { "are" });
    warning(
        "few_requests",
        format!("{requests} {verb} too few for a p99, which needs 10 000: use a longer window."),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::session::{SLICES, Slice, Span};

    /// Requests per second of the report that nothing is wrong with.
    const RATE_PER_S: f64 = 20_000.0;

    /// The warnings of a good report after `change`.
    fn found(change: fn(&mut LoadReport, &mut Measured)) -> Vec<Warning> {
        let mut report = testkit::load_report(RATE_PER_S);
        let mut measured = Measured::empty(Span { start_ns: 0, end_ns: report.window_ns });
        measured.answers = report.requests;
        change(&mut report, &mut measured);
        warnings(&report, &measured)
    }

    /// What is wrong, why, what is to be done, and how it comes about.
    type Case = (&'static str, &'static str, &'static str, fn(&mut LoadReport, &mut Measured));

    const CASES: [Case; 28] = [
        ("partial", "by Ctrl-C", "Run it to its end", |report, _| report.partial = true),
        ("connections", "refused", "ask for fewer", |report, measured| {
            report.connections.established = 1;
            measured.connect_error = Some("refused".to_owned());
        }),
        ("errors", "read 1, write 0", "look at the server's log", |report, _| report.errors.read = 1),
        (
            "no_answers",
            "No answer came in 10.0 s: 3 requests are",
            "Look at what the server waits",
            |report, measured| {
                (measured.answers, report.unfinished) = (0, 3);
            },
        ),
        ("streams", "At the end 1 request waited for a stream", "use fewer streams", |_, measured| {
            measured.without_stream = 1;
        }),
        ("values", "'login' had no token (JSON /token)", "Look at what the server answers", |report, _| {
            let missing = BTreeMap::from([("'login' had no token (JSON /token)".to_owned(), 3)]);
            report.users = Some(model::record::UserFigures { missing, ..Default::default() });
        }),
        ("malformed", "not what was asked for: it", "Look at what the server sends.", |_, measured| {
            measured.malformed = Some("it".to_owned());
        }),
        (
            "errors",
            "status 7 (UNIMPLEMENTED: 6, 503: 1), parse 0",
            "look at the server's log",
            |report, _| {
                report.errors.status = 7;
                report.errors_by_status = [("503".to_owned(), 1), ("UNIMPLEMENTED".to_owned(), 6)].into();
            },
        ),
        ("reasons", "connections: GOAWAY, RST, a, b, and others.", "Look at its limits", |_, measured| {
            measured.reasons = ["GOAWAY", "RST", "a", "b", "c"].map(str::to_owned).into();
        }),
        (
            "resent",
            "before it answered, or refused them unread",
            "look at its keep-alive settings",
            |report, _| {
                report.resent = report.requests / 500;
            },
        ),
        (
            "resent",
            "unread, 7 of them in good order (GOAWAY)",
            "look at its keep-alive settings",
            |report, measured| {
                (report.resent, measured.dismissed) = (report.requests / 500, 7);
            },
        ),
        (
            "resent",
            "ended the connection of 400 requests (0.20 % of those sent) in good order (GOAWAY)",
            "Raise the number of requests",
            |report, measured| {
                (report.resent, measured.dismissed) = (400, 400);
            },
        ),
        ("rate", "does not keep up with", "Lower the rate or add connections", |report, _| {
            (report.rate_ratio, report.schedule.rate_per_s) = (Some(0.98), Some(RATE_PER_S));
            report.unsent = report.requests / 50;
        }),
        ("rate", "percentiles are too low", "Use a longer window", |report, _| {
            (report.rate_ratio, report.schedule.rate_per_s) = (Some(0.9), Some(RATE_PER_S));
            report.response_ns.max = report.window_ns / 5;
        }),
        ("silent", "the server stood still", "use a rate (-R)", |report, _| report.seconds[4].requests = 0),
        ("silent", "or was not there", "at the server's log", |report, _| {
            (report.rate_ratio, report.seconds[4].requests) = (Some(1.0), 0);
        }),
        ("generator_busy", "0.97 of the 1 CPUs", "more CPUs (--cpus)", |report, measured| {
            let half = report.window_ns * 97 / 200;
            (measured.cpus, measured.cpu_ns) = (Some(1.0), vec![half, half]);
        }),
        ("generator_busy", "96 % busy", "add a thread (-t)", |report, _| report.busiest_thread = 0.96),
        ("generator_busy", "85 % busy", "add a thread (-t)", |report, _| {
            (report.rate_ratio, report.busiest_thread) = (Some(1.0), 0.85);
            (report.send_lag_ns.p99, report.send_lag_ns.p90) = (None, None);
        }),
        ("send_lag", "the generator was late, or", "add connections or a CPU", |report, _| {
            report.send_lag_ns.p99 = report.response_ns.p50;
        }),
        ("send_lag", "10 % of the requests were sent", "add connections or a CPU", |report, _| {
            (report.send_lag_ns.p99, report.send_lag_ns.p90) = (None, report.response_ns.p50);
        }),
        ("send_lag", "they may wait for 1.00 ms (--slack)", "give less slack", |report, _| {
            report.schedule.slack_ns = Some(1_000_000);
            report.send_lag_ns.p99 = Some(990_000);
            report.response_ns.p50 = Some(500_000);
        }),
        ("little", "by Little's law", "Use a longer window", |report, _| report.in_flight *= 1.1),
        ("uneven", "whose threads share its connections", "Look at how it spreads", |report, _| {
            report.per_connection.jain = 0.5;
        }),
        ("not_steady", "without a steady rate", "Allow a longer one", |_, measured| measured.steady = false),
        ("drift", "rose from", "Use a lower rate", |_, measured| measured.slices = rising()),
        ("drift", "was still warming up", "Use a longer warm-up", |_, measured| {
            measured.slices = rising();
            measured.slices.reverse();
        }),
        ("few_requests", "9999 requests are too few", "use a longer window", |report, _| {
            (report.response_ns.p99, report.response_ns.count) = (None, 9_999);
        }),
    ];

    #[test]
    fn a_generator_that_is_busy_and_sends_on_time_is_not_warned_of() {
        let warnings = found(|report, _| (report.rate_ratio, report.busiest_thread) = (Some(1.0), 0.94));
        assert_eq!(warnings, []);
    }

    #[test]
    fn little_is_not_told_where_it_does_not_apply() {
        let off = |change: fn(&mut LoadReport)| {
            let mut report = testkit::load_report(RATE_PER_S);
            let mut measured = Measured::empty(Span { start_ns: 0, end_ns: report.window_ns });
            (report.rate_ratio, measured.answers) = (None, report.requests);
            report.in_flight = 2.0 * report.rate_per_s * report.response_ns.mean / 1e9;
            change(&mut report);
            little(&report, &measured).is_some()
        };
        assert!(off(|_| {}));
        // Of what failed the time is not known; of less than one in flight the ends of the window are too large a part.
        assert!(!off(|report| report.errors.read = report.requests / 2));
        assert!(!off(|report| report.in_flight = 0.5));
    }

    #[test]
    fn what_failed_was_sent_too() {
        let found = found(|report, _| {
            (report.requests, report.errors.read, report.resent) = (0, 996, 4);
        });
        let resent = found.iter().find(|warning| warning.id == "resent").map(|warning| warning.text.as_str());
        assert!(resent.is_some_and(|text| text.contains("(0.40 % of those sent)")), "{resent:?}");
    }

    #[test]
    fn of_a_run_that_was_stopped_before_its_window_nothing_else_is_said() {
        let found = found(|report, measured| {
            (report.partial, report.window_ns, report.requests) = (true, 0, 0);
            (measured.answers, measured.steady, measured.cpus) = (0, false, Some(2.0));
            measured.cpu_ns = vec![7];
        });
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("before its window began"), "{found:?}");
    }

    #[test]
    fn a_rate_is_not_kept_up_with_where_requests_pile_up() {
        let found = |unfinished, in_flight, errors| {
            let mut report = testkit::load_report(RATE_PER_S);
            (report.rate_ratio, report.schedule.rate_per_s) = (Some(0.95), Some(RATE_PER_S));
            (report.unfinished, report.in_flight, report.errors.read) = (unfinished, in_flight, errors);
            let measured = Measured::empty(Span { start_ns: 0, end_ns: report.window_ns });
            rate(&report, &measured).is_some()
        };
        let many = testkit::load_report(RATE_PER_S).requests / 20;
        // As many on their way at the end as on average: slow answers. Twice as many: a queue. None: what is missing failed.
        assert!(!found(many, many as f64, 0) && found(many, many as f64 / 2.0, 0) && !found(0, 1.0, many));
    }

    /// Tenths of which each takes twice as long as the one before.
    fn rising() -> [Slice; SLICES] {
        std::array::from_fn(|tenth| Slice { requests: 100, log_sum: (1000 + 100 * tenth as u64) << 16 })
    }

    #[test]
    fn each_breach_is_said_with_why_and_what_to_do_and_nothing_else_is() {
        assert_eq!(found(|_, _| {}), []);
        let mut seen = BTreeSet::new();
        for (id, why, remedy, change) in CASES {
            let found = found(change);
            let ids: Vec<&str> = found.iter().map(|warning| warning.id.as_str()).collect();
            assert_eq!(ids, [id]);
            let text = &found[0].text;
            let (why, remedy) = (text.find(why), text.find(remedy));
            assert!(why.is_some() && why < remedy, "{id}: {text}");
            seen.insert(id);
        }
        assert_eq!(seen.len(), CHECKS.len(), "a warning is not tried: {seen:?}");
    }
}
