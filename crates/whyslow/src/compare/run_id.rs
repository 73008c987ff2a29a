//! Names of runs: when, and which seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// A name that sorts by time and differs between runs of one second, and the time in unix seconds.
pub(super) fn now(seed: u64) -> (String, u64) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or(0);
    let (year, month, day) = model::units::civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let id = format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{:04x}", seed & 0xffff);
    (id, seconds)
}
