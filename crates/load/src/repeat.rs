//! Windows of one load, one after another, and what they say together.

use model::record::{ShardRecord, Warning};
use model::units::format_ns;

use crate::merge::{Together, add_record, add_times, facts, user_share};
use crate::session::Span;
use crate::summary::{Measured, outcome};
use crate::{Latencies, Outcome, latencies};

/// Spread of the windows' medians from which on it must be reported: a difference of a tenth between two single windows
/// would mean nothing then.
const SPREAD: f64 = 0.1;

/// Puts windows together that were measured one after another: counts and histograms are added, and every figure is
/// made again from the sums. Nothing where there is no window.
#[must_use]
pub fn in_turn(mut windows: Vec<Outcome>) -> Option<Outcome> {
    if windows.len() < 2 {
        return windows.pop();
    }
    let records: Vec<&ShardRecord> = windows.iter().map(|window| &window.shard).collect();
    let together = Together {
        shards: records[0].shards.clone(),
        of: records[0].of,
        first_start_ns: records[0].first_start_ns,
        last_start_ns: records[0].last_start_ns,
    };
    let mut whole = outcome(&facts(&records[..1]), measured(&windows, &records), together);
    whole.report.warnings.extend(spread(&windows));
    whole.shard.report = whole.report.clone();
    Some(whole)
}

/// The sums over all windows.
fn measured(windows: &[Outcome], records: &[&ShardRecord]) -> Measured {
    let window_ns = records.iter().map(|record| record.report.window_ns).sum();
    let mut sum = Measured::empty(Span { start_ns: 0, end_ns: window_ns });
    for window in windows {
        let service_and_lag = [window.service.as_ref(), window.send_lag.as_ref()];
        add_times(&mut sum, &window.response, service_and_lag);
        sum.seconds.extend(&window.report.seconds);
        add_record(&mut sum, &window.shard);
        sum.add_phases(&window.phases);
        sum.add_users(window.report.users.as_ref(), window.users_took.as_ref());
        if let Some(events) = &window.events {
            sum.events.get_or_insert_default().add(events);
        }
        for (name, row) in &window.report.requests_by_name {
            let none = latencies();
            let response = window.response_by_name.get(name).unwrap_or(&none);
            sum.add_name(name, row.requests, row.errors, response);
        }
    }
    sum.user_share = user_share(records);
    // Connections and threads of one window are those of the next again.
    let established = records.iter().map(|record| record.report.connections.established);
    sum.established = established.min().unwrap_or(0);
    sum.answers_per_lane = side_by_side(records.iter().map(|record| &record.answers_per_connection));
    sum.cpu_ns = side_by_side(records.iter().map(|record| &record.thread_cpu_ns));
    sum
}

/// The sums of the first elements, of the second, and so on.
fn side_by_side<'a>(rows: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    let mut sums = Vec::new();
    for row in rows {
        sums.resize(row.len().max(sums.len()), 0);
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    sums
}

/// That the windows differ, where they do.
fn spread(windows: &[Outcome]) -> Option<Warning> {
    let median = |latencies: &Latencies| latencies.value_at_quantile(0.5);
    let answered = || windows.iter().map(|window| &window.response).filter(|response| !response.is_empty());
    let (low, high) = (answered().map(median).min()?, answered().map(median).max()?);
    (high as f64 > low as f64 * (1.0 + SPREAD)).then(|| Warning {
        id: "windows_differ".to_owned(),
        text: format!(
            "The median response of the {} windows was from {} to {}: one window is no measure of another. Use longer windows, or look for what else the machine does.",
            windows.len(),
            format_ns(low as f64),
            format_ns(high as f64)
        ),
    })
}
