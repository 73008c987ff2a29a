//! Histograms as text that other tools read.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use crate::{Latencies, latencies};

/// Nanoseconds of a millisecond, the unit of HdrHistogram's own plots.
const MILLISECOND_NS: f64 = 1e6;
/// Steps per halving of the distance to 100 %, as HdrHistogram's tools print it.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Parts of an octave that a shape tells apart: 4 to 6 %, fine enough for a peak, coarse enough for a record.
const PARTS_PER_OCTAVE: u64 = 16;

/// The shape of a histogram: `[lower edge in ns, count]` of every bucket that is not empty, 16 an octave, rising.
#[must_use]
pub fn octave_buckets(latencies: &Latencies) -> Vec<[u64; 2]> {
    let mut buckets: Vec<[u64; 2]> = Vec::new();
    for step in latencies.iter_recorded() {
        let edge = octave_edge(step.value_iterated_to());
        match buckets.last_mut() {
            Some([last, count]) if *last == edge => *count += step.count_at_value(),
            _ => buckets.push([edge, step.count_at_value()]),
        }
    }
    buckets
}

/// The largest edge that is not above `value`: a power of two, or one of the 15 even steps to the next.
fn octave_edge(value: u64) -> u64 {
    let octave = 1_u64 << value.max(1).ilog2();
    let part = (octave / PARTS_PER_OCTAVE).max(1);
    octave + (value.max(1) - octave) / part * part
}

/// One interval of a log.
#[derive(Debug, Clone, Copy)]
pub struct Interval<'a> {
    /// What was recorded in it, in nanoseconds.
    pub latencies: &'a Latencies,
    /// A name without blanks or commas; `None` for the main series.
    pub tag: Option<&'a str>,
    /// Its begin, since the log's begin.
    pub begin: Duration,
    /// Its length.
    pub length: Duration,
}

/// What a log of intervals begins with in the format of HdrHistogram (`.hlog`, V2 compressed), its values nanoseconds.
///
/// Source: HdrHistogram, `HistogramLogWriter`, log format version 1.3.
#[must_use]
pub fn hlog_header(started: SystemTime) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder
        .add_comment("[Histogram log format version 1.3]")
        .add_comment("[Values are nanoseconds, Interval_Max is in milliseconds]")
        .with_start_time(started)
        .with_base_time(started);
    log_text(&builder, None)
        + "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n"
}

/// The line of one interval, so that a long log can be written as it grows.
#[must_use]
pub fn hlog_line(interval: &Interval<'_>) -> String {
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(MILLISECOND_NS);
    let text = log_text(&builder, Some(interval));
    // The writer repeats its divisor in a comment before the line.
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

fn log_text(builder: &IntervalLogWriterBuilder, interval: Option<&Interval<'_>>) -> String {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut log = builder.begin_log_with(&mut bytes, &mut serializer).expect("writing to memory cannot fail");
    if let Some(Interval { latencies, tag, begin, length }) = interval {
        log.write_histogram(latencies, *begin, *length, tag.and_then(Tag::new))
            .expect("writing to memory cannot fail, and a histogram of counted requests fits the format");
    }
    String::from_utf8(bytes).expect("the log is base64 and digits")
}

/// Why a log does not read; each display ends a sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A line is not of an interval log.
    #[error("it is not an HdrHistogram log")]
    Format,
    /// A histogram is not what it should be.
    #[error("a histogram in it does not read")]
    Histogram,
    /// The responses are not there.
    #[error("it has no histogram of the responses")]
    NoResponses,
}

/// One interval of a log that was read; [`decode`] gives its histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logged<'a> {
    /// Its name; `None` for the main series.
    pub tag: Option<&'a str>,
    /// Its begin, since the log's begin.
    pub begin: Duration,
    encoded: &'a str,
}

/// The intervals of a log that was made of [`hlog_header`] and [`hlog_line`].
///
/// # Errors
/// [`LogError::Format`]
pub fn parse_hlog(text: &str) -> Result<Vec<Logged<'_>>, LogError> {
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        if let LogEntry::Interval(interval) = entry.map_err(|_| LogError::Format)? {
            intervals.push(Logged {
                tag: interval.tag().map(|tag| tag.as_str()),
                begin: interval.start_timestamp(),
                encoded: interval.encoded_histogram(),
            });
        }
    }
    Ok(intervals)
}

/// The histogram of an interval, in the one shape that all here have.
///
/// # Errors
/// [`LogError::Histogram`]
pub fn decode(interval: &Logged<'_>) -> Result<Latencies, LogError> {
    let bytes = STANDARD.decode(interval.encoded).map_err(|_| LogError::Histogram)?;
    let read: Latencies =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|_| LogError::Histogram)?;
    let mut shaped = latencies();
    shaped.add(&read).map_err(|_| LogError::Histogram)?;
    Ok(shaped)
}

/// The percentile distribution as HdrHistogram prints it (`.hgrm`), in milliseconds.
///
/// Source: HdrHistogram, `AbstractHistogram.outputPercentileDistribution`.
#[must_use]
pub fn hgrm(latencies: &Latencies) -> String {
    let head =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    distribution(latencies, head, |value, quantile, below| match quantile < 1.0 {
        true => format!("{value:12.3} {quantile:2.12} {below:10} {:14.2}\n", 1.0 / (1.0 - quantile)),
        false => format!("{value:12.3} {quantile:2.12} {below:10}\n"),
    })
}

/// The same as the C library prints it, and with it wrk2.
///
/// Source: HdrHistogram_c, `hdr_percentiles_print`, classic format.
#[must_use]
pub fn spectrum(latencies: &Latencies) -> String {
    let head =
        format!("{:>12} {:>12} {:>12} {:>12}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    distribution(latencies, head, |value, quantile, below| {
        format!("{value:12.3} {quantile:12.6} {below:12} {:12.2}\n", 1.0 / (1.0 - quantile))
    })
}

/// A heading, a line for each step, and the footer; a line is made of a value in milliseconds, its quantile and how
/// many values are not above it.
fn distribution(latencies: &Latencies, head: String, line: impl Fn(f64, f64, u64) -> String) -> String {
    let mut text = head;
    let mut below = 0;
    for step in latencies.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        below += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / MILLISECOND_NS;
        text += &line(value, step.quantile_iterated_to(), below);
    }
    text + &footer(latencies)
}

fn footer(latencies: &Latencies) -> String {
    let in_ms = |ns: f64| ns / MILLISECOND_NS;
    format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n#[Max     = {:12.3}, Total count    = {:12}]\n#[Buckets = {:12}, SubBuckets     = {:12}]\n",
        in_ms(latencies.mean()),
        in_ms(latencies.stdev()),
        in_ms(latencies.max() as f64),
        latencies.len(),
        latencies.buckets(),
        // At 3 digits, the next power of two above 2 · 10^3. Source: HdrHistogram, `subBucketCount`.
        2048
    )
}
