//! The time in the one format that is sent.

/// Length of a date in bytes.
pub const DATE_BYTES: usize = 29;

/// The last second that the format has four digits for a year for: the end of 9999.
const LAST_SECOND: u64 = 253_402_300_799;

const SECONDS_PER_DAY: u64 = 86_400;

/// The value of a `Date` field, `Sun, 06 Nov 1994 08:49:37 GMT`, of a time in seconds since 1970 in UTC.
///
/// Times after the year 9999 are written as its last second.
///
/// Source: IMF-fixdate, RFC 9110, section 5.6.7.
pub fn date(unix_s: u64) -> [u8; DATE_BYTES] {
    let unix_s = unix_s.min(LAST_SECOND);
    let (days, second) = (unix_s / SECONDS_PER_DAY, unix_s % SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
    // 1970 began on a Thursday.
    name(&mut text[0..3], b"ThuFriSatSunMonTueWed", days % 7);
    number(&mut text[5..7], day);
    name(&mut text[8..11], b"JanFebMarAprMayJunJulAugSepOctNovDec", month - 1);
    number(&mut text[12..16], year);
    number(&mut text[17..19], second / 3600);
    number(&mut text[20..22], second / 60 % 60);
    number(&mut text[23..25], second % 60);
    text
}

/// Year, month and day of a day counted from 1970.
///
/// Years are counted from March, so that the leap day is their last.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn name(place: &mut [u8], names: &[u8], index: u64) {
    let start = 3 * index as usize;
    place.copy_from_slice(&names[start..start + 3]);
}

fn number(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
