//! What a shared runner can show of a pull request: comparisons made up from the turns that were recorded on one.

use std::fmt::Write as _;

use analyse::{Comparison, Metric, Verdict};
use stats::{Rng, looks};

use super::replay::{OF_YOUR_OWN, Planted, Recording};

/// Comparisons of each kind where `--runs` names no number.
const RUNS: u32 = 200;
/// What is planted, as times the CPU time of a request.
const PLANTED: [f64; 3] = [1.02, 1.03, 1.05];
/// What a pull request may take.
const BUDGET_S: f64 = 300.0;

/// Verdicts of comparisons with one truth.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    runs: u32,
    pub(super) slower: u32,
    pub(super) faster: u32,
    equal: u32,
    covers: u32,
    blocks: Vec<u32>,
}

/// Compares `runs` times, with the server made `ratio` times as expensive.
pub(super) fn compare_often(recording: &Recording, runs: u32, ratio: f64) -> Tally {
    let mut tally = Tally { runs, ..Tally::default() };
    for number in 0..runs {
        let mut random = Rng::stream(u64::from(number), ratio.to_bits());
        let run =
            recording.compare(&mut random, Planted { ratios: &[ratio], noise: 1.0 }, analyse::extend_to);
        let rows = analyse::comparisons(&run);
        tally.add(&rows, ratio);
    }
    tally
}

impl Tally {
    /// Takes one comparison: the verdict on a pull request is that of any of its primary metrics.
    fn add(&mut self, rows: &[Comparison], ratio: f64) {
        let any = |verdict: Verdict| rows.iter().any(|row| row.primary && row.verdict == verdict);
        self.slower += u32::from(any(Verdict::Slower));
        self.faster += u32::from(any(Verdict::Faster));
        let Some(row) = rows.iter().find(|row| row.metric == Metric::CpuPerRequest) else { return };
        self.equal += u32::from(row.verdict == Verdict::Equal);
        let ends = row.ci_low.zip(row.ci_high);
        self.covers += u32::from(ends.is_some_and(|(low, high)| low <= ratio && ratio <= high));
        self.blocks.push(row.blocks);
    }

    fn row(&self, ratio: f64, block_s: f64) -> String {
        let mut blocks = self.blocks.clone();
        blocks.sort_unstable();
        let middle = blocks.get(blocks.len() / 2).copied().unwrap_or(0);
        format!(
            "| {:.0} % | {} | {} | {} | {} | {} | {:.0} s |\n",
            (ratio - 1.0) * 100.0,
            self.slower,
            self.faster,
            self.equal,
            self.covers,
            middle,
            f64::from(middle) * block_s
        )
    }
}

/// All comparisons, as Markdown.
pub(super) fn page(recording: &Recording, runs: Option<u32>) -> String {
    let runs = runs.unwrap_or(RUNS);
    let null = compare_often(recording, runs, 1.0);
    let planted: Vec<(f64, Tally)> =
        PLANTED.into_iter().map(|ratio| (ratio, compare_often(recording, runs, ratio))).collect();
    let most = *looks::LOOKS.last().unwrap_or(&0) as f64;
    let found = planted.last().map_or(0, |(_, tally)| tally.slower);
    let mut text = format!(
        "# A pull request on a shared runner: {} of {} comparisons raise a false alarm, 5 % found in {found} of {runs}\n\n\
         Each comparison is simulated from {} recorded blocks of one server against itself, with the looks, gates and intervals of \
         `whyslow compare` (usual design, `--equal-rates none`). While they were recorded, builds and tests of other programs used \
         {:.2} of the two CPUs. Successive blocks are taken from a random place in the recording, a coin decides which arm of a block \
         is the baseline, and a planted slowdown lowers the number of answers of the second arm. From block to block the ratio of CPU \
         per request varies by {:.2} % (standard deviation). A block took {:.1} s, all {most:.0} blocks {:.0} s of {BUDGET_S:.0} s.\n\n",
        null.slower + null.faster,
        null.runs,
        recording.len(),
        recording.others(),
        recording.spread() * 100.0,
        recording.block_s(),
        recording.block_s() * most,
    );
    text.push_str(
        "| planted | slower | faster | CPU equal | CPU interval covers it | blocks (median) | time (median) |\n\
         |--:|--:|--:|--:|--:|--:|--:|\n",
    );
    text.push_str(&null.row(1.0, recording.block_s()));
    for (ratio, tally) in &planted {
        text.push_str(&tally.row(*ratio, recording.block_s()));
    }
    let _ = write!(
        text,
        "\nSlower and faster: in CPU per request or rate. Each row is of {runs} comparisons. Repeat with `cargo xtask calibrate ci`, \
         {OF_YOUR_OWN}.\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::replay::Kept;

    #[test]
    fn no_difference_raises_no_alarm_and_a_large_one_is_found() {
        let recording = Recording::open(None, Kept::Crowded).unwrap();
        let null = compare_often(&recording, 20, 1.0);
        assert!(null.slower + null.faster <= 2, "{null:?}");
        let planted = compare_often(&recording, 10, 1.1);
        assert!(planted.slower >= 9 && planted.faster == 0, "{planted:?}");
    }
}
