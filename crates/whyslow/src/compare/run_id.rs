//! Names of runs: when, and which seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// A name that sorts by time and differs between runs of one second, and the time in unix seconds.
pub(super) fn now(seed: u64) -> (String, u64) {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or(0);
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let id = format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}-{:04x}", seed & 0xffff);
    (id, seconds)
}

/// Year, month and day of the day `days` after 1970-01-01.
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_are_dates() {
        for (days, date) in
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_777, (2026, 11, 20)), (24_836, (2037, 12, 31))]
        {
            assert_eq!(civil(days), date);
        }
    }
}
