//! The search for a commit: histories made up, searched by what `whyslow bisect` searches with.

use std::fmt::Write as _;

use analyse::{BisectNext, Bisection, Metric};
use model::plan::HistorySearch;
use model::record::Run;
use stats::Rng;

use super::replay::{OF_YOUR_OWN, Planted, Recording};

/// Histories where `--runs` names no number.
const RUNS: u32 = 200;
/// Commits of each.
const COMMITS: usize = 200;
/// What one of them costs, as times the CPU time of a request.
const COSTS: f64 = 1.02;
/// Standard deviations of the ratio from block to block for which histories are searched.
const SPREADS: [f64; 3] = [0.005, 0.0075, 0.01];

/// How searches ended.
#[derive(Debug, Default, Clone)]
pub(super) struct Searched {
    pub(super) right: u32,
    pub(super) wrong: u32,
    /// No commit was named: the ends did not differ, or what is left could not be judged.
    pub(super) none: u32,
    comparisons: Vec<u32>,
    /// Blocks of two arms that take as long: one of three counts one and a half.
    blocks: f64,
}

/// Searches `runs` histories, each with a culprit at a random place.
pub(super) fn searched(recording: &Recording, runs: u32, commits: usize, noise: f64) -> Searched {
    let mut all = Searched::default();
    for number in 0..runs {
        let mut random = Rng::stream(u64::from(number), noise.to_bits());
        let culprit = 1 + random.below(commits as u64) as usize;
        all.add(recording, &mut random, commits, culprit, noise);
    }
    all
}

impl Searched {
    fn add(&mut self, recording: &Recording, random: &mut Rng, commits: usize, culprit: usize, noise: f64) {
        let mut search = Bisection::new(commits, Metric::CpuPerRequest);
        let mut comparisons = 0;
        while let BisectNext::Compare(ask) = search.next() {
            let cost = |place: &usize| if *place >= culprit { COSTS } else { 1.0 };
            let ratios: Vec<f64> =
                ask.places[1..].iter().map(|place| cost(place) / cost(&ask.places[0])).collect();
            let planted = Planted { ratios: &ratios, noise };
            let run: Run = recording.compare(random, planted, |run| search.extend_to(&ask, run));
            self.blocks += run.rounds.len() as f64 / 2.0;
            search.record(&ask, &search.pairs(&ask, &run));
            comparisons += 1;
        }
        match search.next() {
            BisectNext::Named(place) if place == culprit => self.right += 1,
            BisectNext::Named(_) => self.wrong += 1,
            _ => self.none += 1,
        }
        self.comparisons.push(comparisons);
    }

    /// Comparisons of a search, on average.
    pub(super) fn mean(&self) -> f64 {
        f64::from(self.comparisons.iter().sum::<u32>()) / self.comparisons.len().max(1) as f64
    }

    /// Searches that took more than log2 `commits` + 2 comparisons.
    fn over(&self, commits: usize) -> usize {
        self.comparisons.iter().filter(|made| f64::from(**made) > aim(commits)).count()
    }

    fn row(&self, spread: f64, commits: usize) -> String {
        format!(
            "| {:.2} % | {} | {} | {} | {:.2} | {} | {} | {:.0} |\n",
            spread * 100.0,
            self.right,
            self.wrong,
            self.none,
            self.mean(),
            self.comparisons.iter().max().unwrap_or(&0),
            self.over(commits),
            self.blocks / self.comparisons.len().max(1) as f64
        )
    }
}

/// Comparisons that a search through so many commits may take.
fn aim(commits: usize) -> f64 {
    (commits as f64).log2() + 2.0
}

/// How many commits were found at each spread: `193, 143 and 50`.
fn by_spread(found: &[(f64, Searched)]) -> String {
    let right: Vec<String> = found.iter().map(|(_, all)| all.right.to_string()).collect();
    match &right[..] {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        right => right.concat(),
    }
}

/// All searches, as Markdown: at the spreads above, and at that of the recording.
pub(super) fn page(recording: &Recording, runs: Option<u32>) -> String {
    let (runs, recorded) = (runs.unwrap_or(RUNS), recording.spread());
    let found: Vec<(f64, Searched)> = SPREADS
        .into_iter()
        .chain([recorded])
        .map(|spread| (spread, searched(recording, runs, COMMITS, spread / recorded)))
        .collect();
    let mut text = format!(
        "# The commit is found in {} of {runs} histories of {COMMITS} commits, by how much blocks differ\n\n\
         In each history one commit costs {:.0} % CPU time a request. `analyse::Bisection`, which `whyslow bisect` uses, asks for \
         comparisons of two or three commits; each is simulated from the turns of {} recorded blocks, with the looks, gates and \
         intervals of a real one. The third commit of a comparison has the turns of one of the other two, at a cost made up from other \
         blocks, so that any two of the three differ by the same noise. While they were recorded, other programs used {:.2} of the two \
         CPUs, and the ratio varied by {:.2} % (standard deviation) from block to block: so it does in the last row. In the others this \
         noise is scaled. Of twenty sessions with other load for 30 % of the time half had 0.38 % or less \
         ([page](calibrate-planted-10-quick-bursts-30.md)). The larger the spread, the more searches end without an answer.\n\n",
        by_spread(&found),
        (COSTS - 1.0) * 100.0,
        recording.len(),
        recording.others(),
        recorded * 100.0,
    );
    let _ = write!(
        text,
        "| spread | right | wrong | none named | comparisons (mean) | most | more than {:.2} | blocks (mean) |\n\
         |--:|--:|--:|--:|--:|--:|--:|--:|\n",
        aim(COMMITS)
    );
    for (spread, all) in &found {
        text.push_str(&all.row(*spread, COMMITS));
    }
    let _ = write!(
        text,
        "\nA comparison is a whole session, of however many commits. {} of {} searches took more than log2 n + 2 = {:.2} of them; \
         where each decides, {} are the most. Blocks are counted as blocks of two commits: one of three counts one and a half. Repeat \
         with `cargo xtask calibrate bisect`, {OF_YOUR_OWN}.\n",
        found.iter().map(|(_, all)| all.over(COMMITS)).sum::<usize>(),
        found.iter().map(|(_, all)| all.comparisons.len()).sum::<usize>(),
        aim(COMMITS),
        HistorySearch::most_steps(COMMITS)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::replay::Kept;

    #[test]
    fn the_commit_is_found_in_almost_every_history() {
        let recording = Recording::open(None, Kept::Quiet).unwrap();
        let found = searched(&recording, 20, 50, 1.0);
        assert!(found.right >= 18 && found.wrong == 0, "{found:?}");
        assert!(found.mean() <= f64::from(HistorySearch::most_steps(50)) + 0.5, "{found:?}");
        assert!(found.over(50) <= 1, "{found:?}");
    }
}
