//! The gate that asks how quiet the machine was.

use super::{Gate, holds};
use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;

/// Void rounds above this share void the run: what disturbed them disturbs the others, only less.
pub const MAX_VOID_SHARE: f64 = 0.2;
/// Rounds of before or after a CPU was moved above this share void the run. They say nothing against the others, but half
/// a run is not the run that was planned.
pub const MAX_MOVED_SHARE: f64 = 0.5;

/// `host`: too many void rounds mean that this machine was not quiet, and the rest cannot be trusted either.
pub(super) fn host(sheet: &Sheet) -> Vec<Gate> {
    let all = sheet.void.len() + sheet.rounds().len();
    let share = |count: usize| if all == 0 { 0.0 } else { count as f64 / all as f64 };
    let moved = sheet.void.iter().filter(|round| round.reason.moved).count();
    let (disturbed, moved) = (share(sheet.void.len() - moved), share(moved));
    let ok = disturbed <= MAX_VOID_SHARE && moved <= MAX_MOVED_SHARE;
    let repeated = if ok { " and repeated" } else { "" };
    let text = match sheet.void.last() {
        None => "no steal, throttling, moved CPU or other load in any round".to_owned(),
        Some(last) => {
            format!("{} of {all} rounds void{repeated}; the last: {}", sheet.void.len(), last.reason.text)
        }
    };
    let voids = if ok { Vec::new() } else { Metric::ALL.to_vec() };
    let (value, limit) =
        if moved > MAX_MOVED_SHARE { (moved, MAX_MOVED_SHARE) } else { (disturbed, MAX_VOID_SHARE) };
    vec![Gate { ok, value: Some(value), limit: Some(limit), voids, ..holds("host", text) }]
}
