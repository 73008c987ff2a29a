//! Gates on the load itself: Little's law, stalls, and CPU that adds up.

use model::plan::{Condition, GateId};
use model::record::{MAX_LITTLE, MIN_JAIN, Slice, Window};

use super::disturbance::others_share;
use super::{Gate, GateSays, PerArm, Stalled};
use crate::facts::busy::refused;
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// Answers per connection that are "one small constant": a server that serves each connection a few times and stops.
const SMALL_ANSWERS: u64 = 16;
/// Share of the server's CPUs from which on it is others there that make some of its threads, and with them connections, wait.
const PRESSED: f64 = 0.1;
/// Bytes per second over what the link carries at most.
const MAX_WIRE: f64 = 0.8;
/// What was carried over what was measured to be the most: above it the measure was too low.
const MAX_MEASURED: f64 = 1.1;
/// CPU used over CPU there was: above it the counters are wrong.
const MAX_UTILISATION: f64 = 1.02;

const LATENCIES: [Metric; 4] = [Metric::P50, Metric::P90, Metric::P99, Metric::P999];

/// `little`: in a closed loop, rate × mean response is what was kept in flight; else the latency is not the requests'.
///
/// It voids no comparison, because latency is never compared in a closed loop; the latencies shown are then not to be used.
pub(super) fn little(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Little, MAX_LITTLE, true);
    for (index, condition) in sheet.plan().workload.conditions.iter().enumerate() {
        if *condition != Condition::Capacity {
            continue;
        }
        for arm in &sheet.plan().arms {
            let residual = sheet.median(&arm.name, index, little_residual);
            let Some(residual) = residual else { continue };
            gate.add(&arm.name, residual.abs(), &[], || GateSays::NotInFlight);
        }
    }
    gate.rows(GateSays::InFlight)
}

fn little_residual(window: &Window) -> Option<f64> {
    let in_flight = window.load.connections.established as f64 * f64::from(window.load.pipeline);
    if in_flight <= 0.0 || window.load.requests == 0 {
        return None;
    }
    let mean_s = window.load.response_ns.mean / 1e9;
    if window.slices.is_empty() {
        return Some(stats::little::residual(window.load.rate_per_s, mean_s, in_flight));
    }
    // While requests are sent all are in flight; when that ends, none to all of them until the last is answered.
    let sum_s = |of: fn(&Slice) -> u64| window.slices.iter().map(of).sum::<u64>() as f64 / 1e9;
    let (sending_s, until_quiet_s) = (sum_s(|slice| slice.length_ns), sum_s(|slice| slice.wall_ns));
    let residual = |s: f64| stats::little::residual(window.load.requests as f64 / s, mean_s, in_flight);
    Some(residual(sending_s).min(0.0) + residual(until_quiet_s.max(sending_s)).max(0.0))
}

/// `stall`: every connection is served, to the end of the window.
pub(super) fn stall(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Stall, MIN_JAIN, false);
    let voids = [&[Metric::Rate], LATENCIES.as_slice()].concat();
    for arm in &sheet.plan().arms {
        for record in sheet.rounds_of(&arm.name) {
            for window in &record.windows {
                let stalled = stalled(window);
                let few = window.load.requests < SMALL_ANSWERS * window.load.connections.established;
                let value = match stalled {
                    Some(_) => 0.0,
                    // Of few answers some connections have twice as many as others by chance.
                    None if few => 1.0,
                    None => window.load.per_connection.jain,
                };
                let others = Some(others_share(window)).filter(|share| *share >= PRESSED);
                // Who is served seldom is served all the same: so many answers there are, and so late. Who is never served, or was
                // refused by a full queue, is not, unless it is others on its CPUs that hold a server up.
                let all_served = window.load.per_connection.min > 0 && refused(window) == 0;
                let is_told = stalled.is_none() && (others.is_some() || all_served);
                gate.add(&arm.name, value, if is_told { &[] } else { &voids }, || GateSays::Stalled {
                    how: stalled.unwrap_or_else(|| starved(window, others)),
                    block: record.round.block + 1,
                });
            }
        }
    }
    // What voids a figure is said before what does not.
    let mut rows = gate.rows(GateSays::Served);
    rows.sort_by_key(|row| row.voids.is_empty());
    first_of_each_arm(rows)
}

fn starved(window: &Window, others: Option<f64>) -> Stalled {
    let per = &window.load.per_connection;
    match others {
        Some(share) => Stalled::Pressed { min: per.min, max: per.max, share },
        None => Stalled::Starved { min: per.min, max: per.max, refused: refused(window) },
    }
}

fn stalled(window: &Window) -> Option<Stalled> {
    let per = &window.load.per_connection;
    // Who waited for its answers most of the time was served as fast as this server serves.
    let waiting_ns = window.load.response_ns.mean * per.max as f64;
    let waited = waiting_ns < window.load.window_ns as f64 / 2.0;
    // Who answers in its last turn has not stopped.
    let silent = window.slices.len() < 2 || window.slices.last().is_some_and(|last| last.requests == 0);
    let ended = waited && silent;
    if per.min == per.max && per.max <= SMALL_ANSWERS && window.load.requests > 0 && ended {
        return Some(Stalled::FewAnswers);
    }
    let last = window.load.seconds.last()?;
    (last.requests == 0 && window.load.requests > 0).then_some(Stalled::SilentAtTheEnd)
}

/// A stall in many rounds is one finding, with the first round as its example.
fn first_of_each_arm(mut rows: Vec<Gate>) -> Vec<Gate> {
    let mut seen: Vec<Option<String>> = Vec::new();
    rows.retain(|row| {
        let new = !seen.contains(&row.arm);
        seen.push(row.arm.clone());
        new
    });
    rows
}

/// `utilisation`: no more CPU was counted than there was.
pub(super) fn utilisation(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Utilisation, MAX_UTILISATION, true);
    for arm in &sheet.plan().arms {
        let used = sheet.median(&arm.name, sheet.main, |window| {
            // A server that runs already keeps the CPUs it was given, which may be any of the machine's.
            let cpus = arm.source.running().map_or(window.server_cpus.cpus, |_| sheet.run.host.cpus);
            let capacity = window.target.wall_ns as f64 * f64::from(cpus);
            (capacity > 0.0).then(|| window.target.cpu.total_ns as f64 / capacity)
        });
        let Some(used) = used else { continue };
        gate.add(&arm.name, used, &[Metric::CpuPerRequest], || GateSays::Overcounted);
    }
    gate.rows(GateSays::Counted)
}

/// `wire`: the link has room, or the rate is the link's.
pub(super) fn wire(sheet: &Sheet) -> Vec<Gate> {
    let mut gate = PerArm::new(GateId::Wire, MAX_WIRE, true);
    let host = &sheet.run.host;
    if let Some(link) = host.link {
        return between_machines(sheet, gate, link.bytes_per_s);
    }
    let Some(most) = host.loopback_bytes_per_s.filter(|most| *most > 0.0) else {
        return gate.rows(GateSays::Nothing);
    };
    for arm in &sheet.plan().arms {
        // Loopback has no wire: what it carries is what a CPU copies, and each of the server's carries as much.
        let carried = sheet.median(&arm.name, sheet.main, |window| {
            let ns = window.load.window_ns as f64 * f64::from(window.server_cpus.cpus.max(1));
            (ns > 0.0).then(|| window.load.bytes_read as f64 * 1e9 / ns)
        });
        // Who carries more shows that the measure was taken while the machine was busy: it is no limit then.
        let Some(carried) = carried.filter(|carried| *carried <= most * MAX_MEASURED) else { continue };
        gate.add(&arm.name, carried / most, &[Metric::Rate], || GateSays::LoopbackFull(carried));
    }
    gate.rows(GateSays::LoopbackFree)
}

/// What a segment takes on the wire beside its bytes: the heads of Ethernet, IP and TCP with timestamps.
const HEADS_BYTES: f64 = 66.0;
/// Bytes of a full segment on Ethernet.
const SEGMENT_BYTES: f64 = 1448.0;

/// The same where the link is one between two machines, which carries so many bytes per second for all CPUs together, of one
/// connection's full segments. Small answers are for the most part heads.
fn between_machines(sheet: &Sheet, mut gate: PerArm, most: f64) -> Vec<Gate> {
    for arm in &sheet.plan().arms {
        let carried = sheet.median(&arm.name, sheet.main, |window| {
            let ns = window.load.window_ns as f64;
            let heads = window.server_cpus.tcp.segments_out as f64 * HEADS_BYTES;
            (ns > 0.0).then(|| (window.load.bytes_read as f64 + heads) * 1e9 / ns)
        });
        let most = most * (1.0 + HEADS_BYTES / SEGMENT_BYTES);
        let Some(share) = carried.map(|carried| carried / most.max(1.0)) else { continue };
        gate.add(&arm.name, share, &[Metric::Rate], || GateSays::LinkFull(share * most));
    }
    gate.rows(GateSays::LinkFree)
}
