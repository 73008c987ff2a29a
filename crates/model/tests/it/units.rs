//! Parse and print: every row goes in as text and comes out as the canonical text, or is refused.

use std::fmt::Display;
use std::str::FromStr;

use model::units::{Bytes, CpuSet, Quantile, Rate, Span, civil, format_ns, format_utc};

fn check<T: FromStr + Display>(rows: &[(&str, Option<&str>)]) {
    for (text, want) in rows {
        let got = text.parse::<T>().ok().map(|value| value.to_string());
        assert_eq!(got.as_deref(), *want, "for '{text}'");
    }
}

#[test]
fn rates() {
    check::<Rate>(&[
        ("500", Some("500")),
        ("20k", Some("20k")),
        ("20000", Some("20k")),
        ("1.5M", Some("1.5M")),
        ("0.5", Some("0.5")),
        ("0", None),
        ("-1", None),
        ("inf", None),
        ("k", None),
        ("", None),
        ("12 k", None),
    ]);
}

#[test]
fn sizes() {
    check::<Bytes>(&[
        ("4096", Some("4KiB")),
        ("20MiB", Some("20MiB")),
        ("1000", Some("1000")),
        ("0", Some("0")),
        ("1.5KiB", None),
        ("99999999999999999999", None),
        ("18446744073709551615GiB", None),
        ("MiB", None),
    ]);
}

#[test]
fn spans() {
    check::<Span>(&[
        ("30s", Some("30s")),
        ("500us", Some("500us")),
        ("1.5ms", Some("1500us")),
        ("60S", Some("1m")),
        ("0s", Some("0s")),
        ("90s", Some("90s")),
        ("10", None),
        ("-1s", None),
        ("s", None),
        ("1e400s", None),
        ("5 s", None),
    ]);
}

#[test]
fn quantiles() {
    check::<Quantile>(&[
        ("p50", Some("p50")),
        ("p99.9", Some("p99.9")),
        ("p99_9", Some("p99.9")),
        ("p99.999", Some("p99.999")),
        ("p101", None),
        ("50", None),
        ("p", None),
    ]);
}

#[test]
fn cpu_sets() {
    check::<CpuSet>(&[
        ("0", Some("0")),
        ("2-3,0", Some("0,2-3")),
        ("0,1,2,5", Some("0-2,5")),
        ("", None),
        ("3-1", None),
        ("0,", None),
        ("99999", None),
        ("a", None),
    ]);
    let set: CpuSet = "0-4".parse().unwrap();
    let (server, load) = set.halves();
    assert_eq!((server.to_string(), load.to_string()), ("0-1".into(), "2-4".into()));
    let one: CpuSet = "7".parse().unwrap();
    assert_eq!(one.halves(), (one.clone(), one.clone()));
}

#[test]
fn nanoseconds_for_people() {
    let rows = [
        (0.0, "0 ns"),
        (842.4, "842 ns"),
        (3310.0, "3.31 µs"),
        (9_996.0, "10.0 µs"),
        (12_400_000.0, "12.4 ms"),
    ];
    for (ns, want) in rows {
        assert_eq!(format_ns(ns), want);
    }
    assert_eq!(format_ns(1.2e9), "1.20 s");
    assert_eq!(format_ns(999_600.0), "1.00 ms");
    assert_eq!(format_ns(-1_400.0), "-1.40 µs");
}

#[test]
fn days_are_dates() {
    for (days, date) in
        [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_777, (2026, 11, 20)), (24_836, (2037, 12, 31))]
    {
        assert_eq!(civil(days), date);
    }
    assert_eq!(format_utc(20_777 * 86_400 + 3 * 3600 + 4 * 60 + 59), "2026-11-20 03:04");
}
