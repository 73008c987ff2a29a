//! Where responses gather: the local maxima of their histogram on a logarithmic scale.

use std::collections::BTreeMap;

/// Bins an octave: each is 9 % wide, so that two places an eighth apart are not told apart and noise within one is not seen.
const BINS_PER_OCTAVE: f64 = 8.0;
/// Buckets an octave in which responses are kept, all of one width. Source: `model::record::Window::response_buckets`.
pub(super) const BUCKETS_PER_OCTAVE: u64 = 16;
/// Share of the responses that a peak holds at least: fewer are a tail, which percentiles tell.
pub(super) const MIN_SHARE: f64 = 0.005;
/// A peak is so many times as high as the valleys beside it: what scheduling does to one peak stays below that.
const STANDS_OUT: f64 = 3.0;
/// Standard errors by which a peak is higher than the valleys beside it: counts scatter like Poisson's.
const SURE: f64 = 4.0;

/// Responses that gather around one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Peak {
    /// Where they are densest, in nanoseconds.
    pub(super) at_ns: f64,
    /// The valleys on both sides, in nanoseconds: from this on, and below that.
    pub(super) range_ns: [u64; 2],
    /// Share of all responses, 0 to 1; the shares of all peaks sum to 1.
    pub(super) share: f64,
}

/// Responses in bins of even width on a logarithmic scale.
struct Bins {
    /// Number of the first bin, counted from 1 ns.
    first: i64,
    /// Responses in each.
    counts: Vec<f64>,
}

/// All peaks of responses in buckets (lower edge in nanoseconds → count), quickest first; none where there are none.
pub(super) fn peaks(buckets: &BTreeMap<u64, u64>) -> Vec<Peak> {
    let Some(bins) = Bins::from_buckets(buckets) else { return Vec::new() };
    let mut tops = bins.maxima();
    while let Some(index) = bins.hidden(&tops).or_else(|| bins.small(&tops)) {
        tops.remove(index);
    }
    let all: f64 = bins.counts.iter().sum();
    let parts = bins.parts(&tops);
    let found = tops.iter().zip(parts).map(|(top, [from, to])| Peak {
        at_ns: middle_ns(buckets, bins.summit(*top, [from, to])),
        range_ns: [bins.edge_ns(from), bins.edge_ns(to)],
        share: bins.counts[from..to].iter().sum::<f64>() / all,
    });
    found.collect()
}

impl Bins {
    /// A bucket's responses are spread evenly over the bins that it covers, as buckets and bins have other edges.
    fn from_buckets(buckets: &BTreeMap<u64, u64>) -> Option<Self> {
        let place = |ns: u64| (ns as f64).log2() * BINS_PER_OCTAVE;
        let ends = |edge: u64| [place(edge), place(end_ns(edge))];
        let filled = || buckets.iter().filter(|(edge, count)| **edge > 0 && **count > 0);
        let first = ends(*filled().next()?.0)[0].floor() as i64;
        let last = ends(*filled().next_back()?.0)[1].ceil() as i64;
        let mut counts = vec![0.0; (last - first) as usize];
        for (edge, count) in filled() {
            let [from, to] = ends(*edge).map(|end| end - first as f64);
            for (bin, sum) in counts.iter_mut().enumerate().skip(from as usize).take(2 + (to - from) as usize)
            {
                let covered = to.min(bin as f64 + 1.0) - from.max(bin as f64);
                *sum += *count as f64 * covered.max(0.0) / (to - from);
            }
        }
        Some(Self { first, counts })
    }

    /// The time at which a bin begins, in nanoseconds.
    fn edge_ns(&self, bin: usize) -> u64 {
        ((self.first as f64 + bin as f64) / BINS_PER_OCTAVE).exp2() as u64
    }

    /// Every bin that is higher than the one before it and not lower than the next.
    fn maxima(&self) -> Vec<usize> {
        let height = |bin: Option<usize>| bin.and_then(|bin| self.counts.get(bin)).copied().unwrap_or(0.0);
        let is_top = |bin: &usize| {
            let here = self.counts[*bin];
            here > height(bin.checked_sub(1)) && here >= height(Some(bin + 1))
        };
        (0..self.counts.len()).filter(is_top).collect()
    }

    /// The lowest bin between two.
    fn valley(&self, left: usize, right: usize) -> usize {
        let lowest = (left..=right).min_by(|a, b| self.counts[*a].total_cmp(&self.counts[*b]));
        lowest.unwrap_or(left)
    }

    /// Which of these tops stands out least, where one does not stand out: the lower one of its two neighbours.
    fn hidden(&self, tops: &[usize]) -> Option<usize> {
        let pairs = tops.windows(2).enumerate().filter_map(|(index, pair)| {
            let valley = self.counts[self.valley(pair[0], pair[1])];
            let [left, right] = [self.counts[pair[0]], self.counts[pair[1]]];
            let low = left.min(right);
            let stands = low >= STANDS_OUT * valley && low - valley >= SURE * (low + valley).sqrt();
            (!stands).then(|| (low / valley.max(1.0), if left < right { index } else { index + 1 }))
        });
        pairs.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
    }

    /// Which of these tops holds least, where one holds too little.
    fn small(&self, tops: &[usize]) -> Option<usize> {
        let all: f64 = self.counts.iter().sum();
        let held = self.parts(tops).into_iter().map(|[from, to]| self.counts[from..to].iter().sum::<f64>());
        let least = held.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        least.filter(|(_, held)| *held < MIN_SHARE * all).map(|(index, _)| index)
    }

    /// The bins of each top: from one valley to the next.
    fn parts(&self, tops: &[usize]) -> Vec<[usize; 2]> {
        let between = tops.windows(2).map(|pair| self.valley(pair[0], pair[1]));
        let cuts: Vec<usize> = [0].into_iter().chain(between).chain([self.counts.len()]).collect();
        cuts.windows(2).map(|pair| [pair[0], pair[1]]).collect()
    }

    /// A top and the bins beside it that are its own, in nanoseconds: from this on, and below that.
    fn summit(&self, top: usize, [from, to]: [usize; 2]) -> [u64; 2] {
        [self.edge_ns(top.saturating_sub(1).max(from)), self.edge_ns((top + 2).min(to))]
    }
}

/// Where a bucket ends that begins here, in nanoseconds.
fn end_ns(edge: u64) -> u64 {
    edge + ((1 << edge.ilog2()) / BUCKETS_PER_OCTAVE).max(1)
}

/// The middle of the responses in this range on the logarithmic scale, in nanoseconds: finer than a bin.
fn middle_ns(buckets: &BTreeMap<u64, u64>, [from, to]: [u64; 2]) -> f64 {
    let middle = |edge: u64| (edge as f64 * end_ns(edge) as f64).sqrt();
    let within = |edge: u64| (from as f64..to as f64).contains(&middle(edge));
    let [sum, all] = buckets
        .iter()
        .filter(|(edge, _)| **edge > 0 && within(**edge))
        .fold([0.0, 0.0], |[sum, all], (edge, count)| {
            [sum + middle(*edge).ln() * *count as f64, all + *count as f64]
        });
    (sum / all).exp()
}
