//! The gate that asks who was measured: the server or the generator.

use model::plan::{Condition, GateId};
use model::record::{GENERATOR_BUSY, LagPercentile, MIN_RATE_RATIO, SendLagTail, Window, max_send_lag_ns};

use super::{Fault, Gate, GateSays, PerArm};
use crate::facts::busy::{FULL, backlog_per_s, generator_busy, server_busy};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// `generator`: at capacity the server is the limit; at an equal rate the schedule was kept.
pub(super) fn generator(sheet: &Sheet) -> Vec<Gate> {
    let conditions = &sheet.plan().workload.conditions;
    conditions
        .iter()
        .enumerate()
        .flat_map(|(index, condition)| match condition {
            Condition::Capacity => at_capacity(sheet, index),
            _ => at_equal_rate(sheet, index),
        })
        .collect()
}

/// At capacity: the server's CPUs or one of its threads are full, or the generator has room and so was waiting for it.
fn at_capacity(sheet: &Sheet, index: usize) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Generator, FULL, false);
    for arm in &sheet.plan().arms {
        let name = &arm.name;
        let Some(server) = sheet.median(name, index, |window| Some(server_busy(window))) else { continue };
        let generator = sheet.median(name, index, |window| Some(generator_busy(window))).unwrap_or(0.0);
        let waits = generator <= GENERATOR_BUSY;
        // A server that is not full, driven by a generator with time to spare, waits for something of its own; one that is full
        // whenever it answers anybody is the limit, too.
        let full = server / sheet.answering(name) >= FULL;
        let value = if waits || full { server.max(FULL) } else { server };
        gate.add(name, value, &[Metric::Rate], || GateSays::GeneratorLimits { server, generator });
    }
    gate.rows(GateSays::ServersLimit)
}

fn at_equal_rate(sheet: &Sheet, index: usize) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Generator, MIN_RATE_RATIO, false);
    let at = sheet.describe(index);
    for arm in &sheet.plan().arms {
        let name = &arm.name;
        let median = |figure: fn(&Window) -> Option<f64>| sheet.median(name, index, figure);
        // A turn that ends in a stop leaves requests behind, of a server that keeps up.
        let left = 1.0 - sheet.answering(name);
        let Some(ratio) = median(|window| window.load.rate_ratio) else { continue };
        let missed = ratio < MIN_RATE_RATIO - left;
        let generator = median(|window| Some(generator_busy(window))).unwrap_or(0.0);
        let lag = send_lag(sheet, name, index);
        let response = median(|window| window.load.response_ns.p50.map(|ns| ns as f64)).unwrap_or(0.0);
        let fault = fault(ratio, missed, generator, median(backlog_per_s), lag, max_send_lag_ns(response));
        // The limit is on the ratio; a late or full generator is shown as a ratio that was not reached.
        let value = match fault {
            Some(_) => ratio.min(MIN_RATE_RATIO - f64::EPSILON),
            None => ratio.max(MIN_RATE_RATIO),
        };
        let mut voids = vec![Metric::P50, Metric::P90, Metric::P99, Metric::P999];
        // What a request costs the server does not depend on when exactly it was sent, but on how many there were.
        if index == sheet.main && missed {
            voids.push(Metric::CpuPerRequest);
        }
        gate.add(name, value, &voids, || GateSays::NotKept { at: at.clone(), fault });
    }
    gate.rows(GateSays::Kept { at })
}

/// How late the latest requests of an arm left: the median over its windows of their p99, or of their p90 where one of them
/// has too few requests for a p99.
///
/// Where a server stops for everybody, what is due meanwhile finds no free connection and leaves after the stop, and what is due next
/// waits behind that: by the server's doing, and charged to it. There the median tells of the generator.
fn send_lag(sheet: &Sheet, arm: &str, index: usize) -> Option<SendLagTail> {
    let windows = sheet.windows(arm, index).into_iter();
    let percentile = match sheet.stops(arm) {
        Some(_) => LagPercentile::P50,
        None => windows.filter_map(|window| Some(window.load.send_lag_tail()?.percentile)).min()?,
    };
    let ns = sheet.median(arm, index, |window| Some(window.load.send_lag_at(percentile)?.ns))?;
    Some(SendLagTail { percentile, ns })
}

/// What is wrong with a schedule, if anything is.
///
/// A busy generator is no fault by itself: it explains a lag or a missed rate, and counts alone only where no lag is known.
fn fault(
    ratio: f64,
    missed: bool,
    generator: f64,
    backlog_per_s: Option<f64>,
    lag: Option<SendLagTail>,
    max_lag_ns: f64,
) -> Option<Fault> {
    let may_be_late = lag.is_none_or(|lag| lag.ns > max_lag_ns);
    if generator > GENERATOR_BUSY && (missed || may_be_late) {
        return Some(Fault::Busy(generator));
    }
    if missed {
        return Some(Fault::Overloaded { answered: ratio, backlog_per_s });
    }
    lag.filter(|lag| lag.ns > max_lag_ns).map(Fault::Late)
}
