//! Dates without a calendar library.

/// A point in time for people, in UTC: `2026-01-02 03:04`.
#[must_use]
pub fn format_utc(unix_s: u64) -> String {
    let (year, month, day) = civil(unix_s / 86_400);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", unix_s / 3600 % 24, unix_s / 60 % 60)
}

/// Year, month and day of the day `days` after 1970-01-01.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
#[must_use]
pub fn civil(days: u64) -> (u64, u64, u64) {
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
