//! The shape of the responses: where in time requests, and the time of requests, lie.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::Window;
use model::units::format_ns;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::peaks::{self, BUCKETS_PER_OCTAVE, MIN_SHARE, Peak};
use model::units::percent;

/// Responses that waited for a delayed acknowledgement: the kernel delays by 40 ms, and by up to a timer tick more.
/// Source: Linux, include/net/tcp.h, TCP_DELACK_MIN (HZ/25).
pub(crate) const DELAYED_ACK_NS: [u64; 2] = [38_000_000, 53_000_000];
/// Delayed acknowledgements for each response of a peak from which on they make it: one may be sent for two responses.
pub(crate) const ACKNOWLEDGED: f64 = 0.5;
/// A wait is as long as the responses of a peak where neither is longer than the other by this factor: the work beside the
/// wait is in them too.
pub(crate) const AS_LONG: f64 = 1.25;

/// How the responses of an arm at one condition are spread over time, all valid windows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseShape {
    /// The condition.
    pub condition: String,
    /// Windows behind it.
    pub windows: u32,
    /// Responses in them.
    pub responses: u64,
    /// Where responses gather, quickest first: one, or several that valleys lie between.
    pub peaks: Vec<ResponsePeak>,
    /// One sentence.
    pub text: String,
}

/// A time around which responses gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponsePeak {
    /// Where they are densest, in nanoseconds.
    pub at_ns: f64,
    /// The valleys on both sides, in nanoseconds: from the first on, and below the second.
    pub range_ns: [u64; 2],
    /// Share of the responses, 0 to 1; the shares of all peaks sum to 1.
    pub share: f64,
    /// Windows in which it holds at least 0.5 % of the responses.
    pub windows: u32,
    /// What was seen to take as long, by the id of the cause that it would be: `delayed_ack`, `sleep` or `sync_writes`.
    pub coincides_with: Option<CauseId>,
}

/// What a server was seen to do again and again, each time for about as long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clue {
    /// Id of the cause that it would be.
    pub(crate) id: CauseId,
    /// What it does, in words.
    pub(crate) what: &'static str,
    /// How long each takes on average in nanoseconds.
    pub(crate) each_ns: f64,
}

/// Responses of all windows of an arm, by bucket.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    /// Lower edge in nanoseconds → responses.
    buckets: BTreeMap<u64, u64>,
}

impl Shape {
    pub(crate) fn from_windows(windows: &[&Window]) -> Self {
        let mut buckets = BTreeMap::new();
        for [edge, count] in windows.iter().flat_map(|window| &window.response_buckets) {
            *buckets.entry(*edge).or_default() += count;
        }
        Self { buckets }
    }

    /// Lower edge of the bucket below which this share of the responses lies; `None` without any.
    pub(crate) fn quantile_ns(&self, share: f64) -> Option<u64> {
        let all: u64 = self.buckets.values().sum();
        let mut seen = 0;
        let mut reached = |count: u64| {
            seen += count;
            seen as f64 >= share * all as f64
        };
        self.buckets.iter().find(|(_, count)| reached(**count)).map(|(edge, _)| *edge)
    }

    /// The response below which this share of all lies, as if those of a bucket lay evenly in it; `None` without any.
    pub(crate) fn percentile_ns(&self, share: f64) -> Option<f64> {
        let mut left = share * self.buckets.values().sum::<u64>() as f64;
        for (edge, count) in &self.buckets {
            if left <= *count as f64 {
                let width = (1_u64 << edge.max(&1).ilog2()) as f64 / BUCKETS_PER_OCTAVE as f64;
                return Some(*edge as f64 + width * left / *count as f64);
            }
            left -= *count as f64;
        }
        None
    }

    /// Share of all waiting that was spent in responses of `from_ns` to `to_ns`, 0 to 1.
    pub(crate) fn share_of_time(&self, from_ns: u64, to_ns: u64) -> f64 {
        let time = |range: &mut dyn Iterator<Item = (&u64, &u64)>| -> f64 {
            range.map(|(edge, count)| *edge as f64 * *count as f64).sum()
        };
        let all = time(&mut self.buckets.iter());
        if all == 0.0 { 0.0 } else { time(&mut self.buckets.range(from_ns..to_ns)) / all }
    }

    /// Share of the responses of `from_ns` to `to_ns`, 0 to 1.
    pub(crate) fn share_of_requests(&self, from_ns: u64, to_ns: u64) -> f64 {
        let all: u64 = self.buckets.values().sum();
        let these: u64 = self.buckets.range(from_ns..to_ns).map(|(_, count)| count).sum();
        these as f64 / all.max(1) as f64
    }
}

/// How the responses of these windows are spread; nothing where they were not kept.
pub(crate) fn response_shape(
    windows: &[&Window],
    condition: String,
    clues: &[Clue],
) -> Option<ResponseShape> {
    let shape = Shape::from_windows(windows);
    let responses = shape.buckets.values().sum();
    let found = peaks::peaks(&shape.buckets);
    let (peaks, remarks): (Vec<ResponsePeak>, Vec<Option<String>>) =
        found.iter().map(|peak| weighed(peak, windows, responses, clues)).unzip();
    let places = peaks.iter().map(|peak| format!("{} ({})", format_ns(peak.at_ns), percent(peak.share)));
    let places: Vec<String> = places.collect();
    let number = match &places[..] {
        [] => return None,
        [only] => format!("one peak: {only}"),
        [first, second] => format!("two peaks: {first} and {second}"),
        [rest @ .., last] => format!("{} peaks: {} and {last}", places.len(), rest.join(", ")),
    };
    let remarks: String = remarks.into_iter().flatten().map(|what| format!("; {what}")).collect();
    let text = format!("responses at {condition} have {number}{remarks}");
    Some(ResponseShape { condition, windows: windows.len() as u32, responses, peaks, text })
}

/// A peak with what is said of it beside its place and share, if anything.
fn weighed(
    peak: &Peak,
    windows: &[&Window],
    responses: u64,
    clues: &[Clue],
) -> (ResponsePeak, Option<String>) {
    let [from, to] = peak.range_ns;
    let has = |window: &&&Window| Shape::from_windows(&[window]).share_of_requests(from, to) >= MIN_SHARE;
    let holding = windows.iter().filter(has).count() as u32;
    let clue = acknowledged(peak, windows, responses).or_else(|| as_long(peak, clues));
    let at = format_ns(peak.at_ns);
    let what = clue.as_ref().map(|(_, what)| format!("that at {at} {what}"));
    // What comes and goes from round to round is no shape of a single one.
    let rare = (2 * holding as usize <= windows.len())
        .then(|| format!("that at {at} is in {holding} of {} windows", windows.len()));
    let remarks: Vec<String> = what.into_iter().chain(rare).collect();
    let peak = ResponsePeak {
        at_ns: peak.at_ns,
        range_ns: peak.range_ns,
        share: peak.share,
        windows: holding,
        coincides_with: clue.map(|(id, _)| id),
    };
    (peak, (!remarks.is_empty()).then(|| remarks.join("; ")))
}

/// Delayed acknowledgements, where a peak lies where they do and enough of them were sent.
fn acknowledged(peak: &Peak, windows: &[&Window], responses: u64) -> Option<(CauseId, String)> {
    let [from, to] = DELAYED_ACK_NS.map(|ns| ns as f64);
    let sent: u64 = windows.iter().map(|window| window.server_cpus.tcp.delayed_acks).sum();
    let each = sent as f64 / (responses as f64 * peak.share);
    let what = "lies where delayed acknowledgements do";
    ((from..to).contains(&peak.at_ns) && each >= ACKNOWLEDGED)
        .then(|| (CauseId::DelayedAck, format!("{what} ({each:.2} for each of its responses)")))
}

/// What takes as long as the responses of a peak.
fn as_long(peak: &Peak, clues: &[Clue]) -> Option<(CauseId, String)> {
    let fits = |clue: &&Clue| (1.0 / AS_LONG..AS_LONG).contains(&(peak.at_ns / clue.each_ns));
    let clue = clues.iter().find(fits)?;
    Some((
        clue.id,
        format!("takes as long as its {} ({} each on average)", clue.what, format_ns(clue.each_ns)),
    ))
}
