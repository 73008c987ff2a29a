//! Histograms as text, read back by the crate that defined the formats.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use load::export::{Interval, hgrm, hlog_header, hlog_line, octave_buckets};
use load::latencies;

#[test]
fn a_log_gives_back_what_was_recorded() {
    let mut recorded = latencies();
    (1..=1000u64).for_each(|value| recorded.record(value * 1_000_003).unwrap());
    let interval = Interval {
        latencies: &recorded,
        tag: Some("service"),
        begin: Duration::ZERO,
        length: Duration::from_secs(2),
    };
    let text = hlog_header(SystemTime::UNIX_EPOCH + Duration::from_secs(7)) + &hlog_line(&interval);
    assert!(text.contains("#[StartTime: 7.000"), "{text}");
    let entries: Vec<_> = IntervalLogIterator::new(text.as_bytes()).map(Result::unwrap).collect();
    let found = entries.iter().find_map(|entry| match entry {
        LogEntry::Interval(interval) => Some(interval),
        _ => None,
    });
    let found = found.unwrap();
    assert_eq!((found.tag().unwrap().as_str(), found.duration()), ("service", Duration::from_secs(2)));
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::STANDARD.decode(found.encoded_histogram()).unwrap();
    let read: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    assert_eq!(read.len(), 1000);
    for quantile in [0.0, 0.5, 0.99, 1.0] {
        assert_eq!(read.value_at_quantile(quantile), recorded.value_at_quantile(quantile));
    }
}

#[test]
fn a_distribution_has_the_lines_of_hdrhistogram() {
    let mut recorded = latencies();
    for value in [1_000_000u64, 2_000_000, 3_000_000, 4_000_000] {
        recorded.record(value).unwrap();
    }
    let text = hgrm(&recorded);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
    assert!(
        lines.iter().any(|line| line.starts_with("       2.001 0.500000000000          2           2.00")),
        "{text}"
    );
    assert!(lines.iter().any(|line| line.ends_with("1.000000000000          4")), "{text}");
    assert!(
        text.contains("#[Max     =        4.00") && text.contains("Total count    =            4]"),
        "{text}"
    );
}

#[test]
fn buckets_keep_every_count_at_an_edge_not_above_it() {
    let mut latencies = latencies();
    let values = [1, 15, 16, 17, 1023, 1024, 1087, 1088, 40_000_000, 40_000_001, 80_000_000_000];
    values.iter().for_each(|value| latencies.record(*value).unwrap());
    let buckets = octave_buckets(&latencies);
    assert!(buckets.windows(2).all(|pair| pair[0][0] < pair[1][0]), "rising: {buckets:?}");
    assert_eq!(buckets.iter().map(|[_, count]| count).sum::<u64>(), values.len() as u64);
    for value in values {
        let below = buckets.iter().rev().find(|[edge, _]| *edge <= value + value / 1000).unwrap()[0];
        assert!(value - below.min(value) <= value / 15, "{value} is in the bucket at {below}");
    }
    assert!(buckets.contains(&[1024, 2]), "{buckets:?}");
}
