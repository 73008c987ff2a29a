use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::plan::Expect;
use model::record::Answer;

use crate::ProbeError;
use crate::probe::{Connection, Reply, closes_after, request};
use crate::ready::{header, unexpected};

/// Requests sent at once by the pipelining check.
const PIPELINE_DEPTH: usize = 16;
/// Answers whose bodies are compared before they are said to be equal.
const ALIKE: usize = 3;
/// How long each check may take.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// How far a `Date` may be from our clock, in seconds: servers may renew it once a second, and reading takes time.
const DATE_TOLERANCE_S: i64 = 2;
/// A path that no server has.
const MISSING_PATH: &str = "/whyslow-asks-for-what-is-not-there";

/// One check of a target's behaviour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked, one word.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// What was seen.
    pub text: String,
}

/// What a check found: what was good, or what was not.
type Outcome = Result<String, String>;

/// Checks what a server must do so that a comparison means something: the answer itself, its headers, a fresh `Date`,
/// keep-alive, pipelining 16 deep, HEAD, 404 and close. Each check has connections of its own.
#[must_use]
pub fn verify(addr: SocketAddr, path: &str, expect: &Expect) -> Vec<Check> {
    let checks: [(&'static str, &dyn Fn() -> Outcome); 8] = [
        ("answer", &|| answer(addr, path, expect)),
        ("headers", &|| headers(addr, path)),
        ("date", &|| date(addr, path)),
        ("keep-alive", &|| keep_alive(addr, path)),
        ("pipelining", &|| pipelining(addr, path)),
        ("head", &|| head(addr, path)),
        ("404", &|| not_found(addr)),
        ("close", &|| close(addr, path)),
    ];
    checks
        .iter()
        .map(|(name, check)| match check() {
            Ok(text) => Check { name, ok: true, text },
            Err(text) => Check { name, ok: false, text },
        })
        .collect()
}

fn answer(addr: SocketAddr, path: &str, expect: &Expect) -> Outcome {
    let reply = answer_to(addr, &request("GET", path, addr, ""), false)?;
    match unexpected(&reply.answer, &reply.body_start, expect) {
        None => Ok(format!("status {}, {} bytes", reply.answer.status, reply.answer.body_bytes)),
        Some(what) => Err(what),
    }
}

/// The head says where the body ends, and no header stands twice (but for `Set-Cookie`, which may).
fn headers(addr: SocketAddr, path: &str) -> Outcome {
    let reply = answer_to(addr, &request("GET", path, addr, ""), false)?;
    let names: Vec<String> = reply.answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let twice = names
        .iter()
        .enumerate()
        .find(|(index, name)| names[..*index].contains(name) && *name != "set-cookie");
    if let Some((_, name)) = twice {
        return Err(format!("the header {name} stands twice"));
    }
    if header(&reply.answer, "content-length").or(header(&reply.answer, "transfer-encoding")).is_none() {
        return Err(
            "neither Content-Length nor Transfer-Encoding: only closing would end the body".to_owned()
        );
    }
    Ok(names.join(", "))
}

fn date(addr: SocketAddr, path: &str) -> Outcome {
    let reply = answer_to(addr, &request("GET", path, addr, ""), false)?;
    let value = header(&reply.answer, "date").ok_or("there is no Date header")?;
    let at = imf_fixdate(value).ok_or_else(|| format!("Date is '{value}', which is no IMF-fixdate"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let off = at - i64::try_from(now).unwrap_or(i64::MAX);
    if off.abs() <= DATE_TOLERANCE_S {
        Ok(format!("{off:+} s from our clock"))
    } else {
        Err(format!("Date is {off:+} s from our clock: it is not renewed"))
    }
}

fn keep_alive(addr: SocketAddr, path: &str) -> Outcome {
    let mut connection = open(addr)?;
    for turn in 1..=3 {
        let reply = ask(&mut connection, &request("GET", path, addr, ""), false)
            .map_err(|error| format!("request {turn} on one connection: {error}"))?;
        if !reply.keep_alive {
            return Err(format!("answer {turn} ends the connection"));
        }
    }
    Ok("three requests on one connection".to_owned())
}

fn pipelining(addr: SocketAddr, path: &str) -> Outcome {
    let mut connection = open(addr)?;
    let varies = varies(addr, path)?;
    let batch = request("GET", path, addr, "").repeat(PIPELINE_DEPTH);
    connection.send(batch.as_bytes()).map_err(|error| error.to_string())?;
    let mut first: Option<Answer> = None;
    for turn in 1..=PIPELINE_DEPTH {
        let reply = connection
            .read_answer(false)
            .map_err(|error| format!("answer {turn} of {PIPELINE_DEPTH}: {error}"))?;
        let expected = first.get_or_insert_with(|| reply.answer.clone());
        let other_body = !varies && reply.answer.body_sha256 != expected.body_sha256;
        if reply.answer.status != expected.status || other_body {
            return Err(format!("answer {turn} of {PIPELINE_DEPTH} differs from the first"));
        }
    }
    let answers = if varies { "answers whose bodies vary" } else { "equal answers" };
    Ok(format!("{PIPELINE_DEPTH} requests in one write, {PIPELINE_DEPTH} {answers}"))
}

/// Whether the body differs from one answer to the next by itself, as that of a row drawn at random does.
fn varies(addr: SocketAddr, path: &str) -> Result<bool, String> {
    let mut bodies = BTreeSet::new();
    for _ in 0..ALIKE {
        bodies.insert(answer_to(addr, &request("GET", path, addr, ""), false)?.answer.body_sha256);
    }
    Ok(bodies.len() > 1)
}

/// HEAD is answered like GET without the body. Source: RFC 9110, section 9.3.2.
fn head(addr: SocketAddr, path: &str) -> Outcome {
    let get = answer_to(addr, &request("GET", path, addr, ""), false)?;
    let mut connection = open(addr)?;
    let text = |error: ProbeError| error.to_string();
    let reply = ask(&mut connection, &request("HEAD", path, addr, ""), true).map_err(text)?;
    if reply.answer.status != get.answer.status {
        return Err(format!("HEAD has status {}, GET has {}", reply.answer.status, get.answer.status));
    }
    if !reply.keep_alive {
        return Ok("status as GET; it ends the connection".to_owned());
    }
    // A body after HEAD would be read as the next answer and not be HTTP.
    let after = ask(&mut connection, &request("GET", path, addr, ""), false)
        .map_err(|error| format!("the request after HEAD: {error}"))?;
    let alike = match varies(addr, path)? {
        true => after.answer.status == get.answer.status,
        false => after.answer.body_sha256 == get.answer.body_sha256,
    };
    if alike {
        Ok("status as GET, no body, connection usable".to_owned())
    } else {
        Err("the request after HEAD is answered differently: HEAD had a body".to_owned())
    }
}

fn not_found(addr: SocketAddr) -> Outcome {
    let reply = answer_to(addr, &request("GET", MISSING_PATH, addr, ""), false)?;
    match reply.answer.status {
        404 => Ok("status 404 for a path that is not there".to_owned()),
        other => Err(format!("status {other} for a path that is not there")),
    }
}

fn close(addr: SocketAddr, path: &str) -> Outcome {
    let asking = request("GET", path, addr, "Connection: close\r\n");
    if closes_after(addr, asking.as_bytes(), CHECK_LIMIT).map_err(|error| error.to_string())? {
        Ok("the server closes when asked to".to_owned())
    } else {
        Err("the server goes on after 'Connection: close'".to_owned())
    }
}

fn open(addr: SocketAddr) -> Result<Connection, String> {
    Connection::open(addr, CHECK_LIMIT).map_err(|error| error.to_string())
}

fn answer_to(addr: SocketAddr, bytes: &str, to_head: bool) -> Result<Reply, String> {
    ask(&mut open(addr)?, bytes, to_head).map_err(|error| error.to_string())
}

fn ask(connection: &mut Connection, bytes: &str, to_head: bool) -> Result<Reply, ProbeError> {
    connection.send(bytes.as_bytes())?;
    connection.read_answer(to_head)
}

/// Unix seconds of `Sun, 06 Nov 1994 08:49:37 GMT`. Source: RFC 9110, section 5.6.7.
fn imf_fixdate(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let mut next = || words.next();
    let (day, month, year, time, zone) = (next()?, next()?, next()?, next()?, next()?);
    (zone == "GMT" && text.len() == "Sun, 06 Nov 1994 08:49:37 GMT".len()).then_some(())?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let clock: Vec<i64> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [hours, minutes, seconds] = clock[..] else { return None };
    let days = days_from_civil(year.parse().ok()?, month, day.parse().ok()?);
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

/// Days from 1970-01-01. Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_as_date_gnu_prints_them() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
        ] {
            assert_eq!(imf_fixdate(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_refused() {
        for text in [
            "",
            "now",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(imf_fixdate(text), None, "{text}");
        }
    }
}
