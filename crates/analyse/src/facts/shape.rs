//! The shape of the responses: where in time requests, and the time of requests, lie.

use std::collections::BTreeMap;

use model::plan::CauseId;
use model::record::Window;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::peaks::{self, BUCKETS_PER_OCTAVE, MIN_SHARE, Peak};

/// Responses that waited for a delayed acknowledgement: the kernel delays by 40 ms, and by up to a timer tick more.
/// Source: Linux, include/net/tcp.h, TCP_DELACK_MIN (HZ/25).
pub(crate) const DELAYED_ACK_NS: [u64; 2] = [38_000_000, 53_000_000];
/// Delayed acknowledgements for each response of a peak from which on they make it: one may be sent for two responses.
pub(crate) const ACKNOWLEDGED: f64 = 0.5;
/// A wait is as long as the responses of a peak where neither is longer than the other by this factor: the work beside the
/// wait is in them too.
pub(crate) const AS_LONG: f64 = 1.25;

/// How the responses of an arm at one condition are spread over time, with all valid windows taken together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseShape {
    /// The condition.
    pub condition: String,
    /// Windows behind it.
    pub windows: u32,
    /// Responses in them.
    pub responses: u64,
    /// The peaks in which responses gather, quickest first, with valleys between them.
    pub peaks: Vec<ResponsePeak>,
    /// One sentence.
    pub text: String,
}

/// A time around which responses gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponsePeak {
    /// Where they are densest, in nanoseconds.
    pub at_ns: f64,
    /// Where the peak begins and ends, in nanoseconds: the valleys on either side, or the ends of the histogram.
    pub range_ns: [u64; 2],
    /// Share of the responses, 0 to 1; the shares of all peaks sum to 1.
    pub share: f64,
    /// Windows in which it holds at least 0.5 % of the responses.
    pub windows: u32,
    /// The cause that takes as long, if one was seen: `delayed_ack`, `sleep`, `sync_writes` or `gc`.
    pub coincides_with: Option<CauseId>,
    /// What else there is to say of it.
    #[serde(skip)]
    pub remarks: Vec<PeakRemark>,
}

/// What there is to say of a peak beside its place and share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PeakRemark {
    /// It lies where delayed acknowledgements do, and this many were sent for each of its responses.
    DelayedAcks(f64),
    /// Something takes as long.
    AsLong {
        /// The cause that it would be.
        cause: CauseId,
        /// How long each takes on average, in nanoseconds.
        each_ns: f64,
    },
    /// It is in no more than half of the windows. A peak that comes and goes is not the shape of a single window.
    InFewWindows,
}

/// What a server was seen to do again and again, each time for about as long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clue {
    /// Id of the cause that it would be.
    pub(crate) id: CauseId,
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
    let peaks: Vec<ResponsePeak> =
        found.iter().map(|peak| weighed(peak, windows, responses, clues)).collect();
    let windows = windows.len() as u32;
    (!peaks.is_empty()).then(|| ResponseShape { condition, windows, responses, peaks, text: String::new() })
}

/// A peak with what there is to say of it.
fn weighed(peak: &Peak, windows: &[&Window], responses: u64, clues: &[Clue]) -> ResponsePeak {
    let [from, to] = peak.range_ns;
    let has = |window: &&&Window| Shape::from_windows(&[window]).share_of_requests(from, to) >= MIN_SHARE;
    let holding = windows.iter().filter(has).count();
    let acks = acknowledged(peak, windows, responses);
    let alike = acks.map(PeakRemark::DelayedAcks).or_else(|| as_long(peak, clues));
    let coincides_with = alike.map(|remark| match remark {
        PeakRemark::AsLong { cause, .. } => cause,
        _ => CauseId::DelayedAck,
    });
    let rare = (2 * holding <= windows.len()).then_some(PeakRemark::InFewWindows);
    ResponsePeak {
        at_ns: peak.at_ns,
        range_ns: peak.range_ns,
        share: peak.share,
        windows: holding as u32,
        coincides_with,
        remarks: alike.into_iter().chain(rare).collect(),
    }
}

/// Delayed acknowledgements for each response of a peak, where it lies where they do and enough of them were sent.
fn acknowledged(peak: &Peak, windows: &[&Window], responses: u64) -> Option<f64> {
    let [from, to] = DELAYED_ACK_NS.map(|ns| ns as f64);
    let sent: u64 = windows.iter().map(|window| window.server_cpus.tcp.delayed_acks).sum();
    let each = sent as f64 / (responses as f64 * peak.share);
    ((from..to).contains(&peak.at_ns) && each >= ACKNOWLEDGED).then_some(each)
}

/// What takes as long as the responses of a peak.
fn as_long(peak: &Peak, clues: &[Clue]) -> Option<PeakRemark> {
    let fits = |clue: &&Clue| (1.0 / AS_LONG..AS_LONG).contains(&(peak.at_ns / clue.each_ns));
    let clue = clues.iter().find(fits)?;
    Some(PeakRemark::AsLong { cause: clue.id, each_ns: clue.each_ns })
}
