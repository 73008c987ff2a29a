use std::collections::HashMap;

use crate::{LoadError, Request};

/// Requests that were rendered once.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_line: HashMap<(String, String), u32>,
    pub(super) rendered: Vec<Vec<u8>>,
}

impl Known {
    /// Where `request` is among the rendered ones.
    pub(super) fn index(&mut self, request: &Request) -> Result<u32, LoadError> {
        let key = (request.method.clone(), request.path.clone());
        if let Some(index) = self.by_line.get(&key) {
            return Ok(*index);
        }
        let index = self.rendered.len() as u32;
        self.rendered.push(request.render()?);
        self.by_line.insert(key, index);
        Ok(index)
    }
}

/// The second of a line, since 1970, and its request; `None` where the client said nothing that was HTTP.
///
/// Source: Apache HTTP Server 2.4, "Log Files", combined log format:
/// `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"`.
pub(super) fn entry(line: &str, template: &Request) -> Result<Option<(i64, Request)>, String> {
    let wrong = |what: &str| format!("it is not of an access log in combined format: {what}");
    let time = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    let (time, rest) = time.ok_or_else(|| wrong("there is no [time]"))?;
    let second = second(time).ok_or_else(|| wrong("its time is not as 10/Oct/2000:13:55:36 -0700"))?;
    let request = quoted(rest).ok_or_else(|| wrong("there is no \"request\""))?;
    let Some(request) = unescaped(request) else { return Ok(None) };
    let words: Vec<&str> = request.split(' ').collect();
    let request = match words[..] {
        [method, path, version] if version.starts_with("HTTP/") => from_template(template, method, path),
        _ => None,
    };
    // What cannot be sent was refused by the server that wrote the log, too.
    Ok(request.filter(|request| request.render().is_ok()).map(|request| (second, request)))
}

/// The template with another method and path.
fn from_template(template: &Request, method: &str, path: &str) -> Option<Request> {
    let carries = method == template.method || matches!(method, "POST" | "PUT" | "PATCH");
    // A method such as CONNECT asks a proxy, and what is no path asked another server.
    let to_server = path.starts_with('/') || (path == "*" && method == "OPTIONS");
    to_server.then(|| Request {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: template.headers.clone(),
        body: if carries { template.body.clone() } else { Vec::new() },
    })
}

/// What a server wrote as `\"`, `\\` or `\x22`, as it was sent.
///
/// Source: Apache HTTP Server 2.4, mod_log_config; nginx, log_format, `escape=default`.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let (byte, length) = match (first, after) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                (u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?, 4)
            }
            (b'\\', [escaped @ (b'"' | b'\\'), ..]) => (*escaped, 2),
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    String::from_utf8(bytes).ok()
}

/// What stands between the first two quotes that are not escaped.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(&rest[..end])
}

/// Seconds since 1970 of a time such as `10/Oct/2000:13:55:36 -0700`.
fn second(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (time, zone) = text.split_once(' ')?;
    let parts: Vec<&str> = time.split(['/', ':']).collect();
    let [day, month, year, hour, minute, second] = parts[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let number =
        |text: &str, most: i64| text.parse::<i64>().ok().filter(|number| (0..=most).contains(number));
    let days = days(number(year, 9999)?, month, number(day, 31)?);
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, number(zone, 2400)?),
        ("-", zone) => (-1, number(zone, 2400)?),
        _ => return None,
    };
    let offset = sign * (zone / 100 * 3600 + zone % 100 * 60);
    let of_day = number(hour, 23)? * 3600 + number(minute, 59)? * 60 + number(second, 60)?;
    Some(days * 86_400 + of_day - offset)
}

/// Days since 1970. Source: H. Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// When each request is due, in seconds after the first; those of one second are spread over it.
pub(super) fn spread(sorted: &[(i64, u32)], speed: f64) -> Vec<f64> {
    let first = sorted.first().map_or(0, |(second, _)| *second);
    let mut instants = Vec::with_capacity(sorted.len());
    for together in sorted.chunk_by(|a, b| a.0 == b.0) {
        let begin = (together[0].0 - first) as f64;
        let each = 1.0 / together.len() as f64;
        instants.extend((0..together.len()).map(|nth| (begin + nth as f64 * each) / speed));
    }
    instants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970_in_every_zone() {
        for (text, wanted) in [
            ("01/Jan/1970:00:00:00 +0000", Some(0)),
            ("10/Oct/2000:13:55:36 -0700", Some(971_211_336)),
            ("29/Feb/2024:23:59:59 +0530", Some(1_709_231_399)),
            ("10/Okt/2000:13:55:36 -0700", None),
            ("10/Oct/2000:13:55 -0700", None),
            ("10/Oct/2000:13:55:36", None),
        ] {
            assert_eq!(second(text), wanted, "{text}");
        }
    }

    #[test]
    fn those_of_one_second_are_spread_over_it() {
        let log = [(100, 0), (100, 1), (102, 2), (103, 0), (103, 1), (103, 2), (103, 0)];
        assert_eq!(spread(&log, 1.0), [0.0, 0.5, 2.0, 3.0, 3.25, 3.5, 3.75]);
        assert_eq!(spread(&log, 2.0)[3], 1.5);
    }
}
