//! The search for the commit that made a server slower. Pure: the caller records what came of a step and asks for the next.

use std::collections::BTreeMap;

/// Steps that may end undecided before the search gives up: a machine that cannot tell three commits from each other will
/// not tell a fourth.
const MOST_OPEN: usize = 3;
/// Commits between the last good one and the first bad one for which one comparison is enough: with the two of them it has three arms,
/// and takes half as long again as a step.
const MOST_BETWEEN: usize = 1;

/// What a step says of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is as fast as the good end.
    Good,
    /// It is as slow as the bad end.
    Bad,
    /// It could not be built or started: nothing was measured.
    Broken,
    /// It was measured, and is neither surely the one nor the other.
    Open,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextStep {
    /// Ask about the commit at this place.
    Ask(usize),
    /// Compare the commits at these places side by side, each with the one before it. They begin with the last one that is good and
    /// end with the first one that is bad; those between that are left out could not be judged.
    Last(Vec<usize>),
}

/// A history from its good end, at place 0, to its bad end, at the last place, and what is known of what lies between.
#[derive(Debug, Clone)]
pub struct HistorySearch {
    last: usize,
    answers: BTreeMap<usize, Answer>,
}

impl HistorySearch {
    /// A history of `commits` after the good end, one at least.
    #[must_use]
    pub fn new(commits: usize) -> Self {
        let last = commits.max(1);
        Self { last, answers: BTreeMap::from([(0, Answer::Good), (last, Answer::Bad)]) }
    }

    /// Records the answer about the commit at `place`.
    pub fn record(&mut self, place: usize, answer: Answer) {
        self.answers.insert(place, answer);
    }

    /// What is to be done next. While one comparison cannot hold all commits that are left, that is the commit nearest to their middle of
    /// which nothing is known.
    #[must_use]
    pub fn next(&self) -> NextStep {
        let [good, bad] = self.ends();
        let answer = |place: &usize| self.answers.get(place);
        let between: Vec<usize> =
            (good + 1..bad).filter(|place| answer(place) != Some(&Answer::Broken)).collect();
        if between.len() <= MOST_BETWEEN {
            return NextStep::Last([&[good], &between[..], &[bad]].concat());
        }
        let open = self.answers.values().filter(|answer| **answer == Answer::Open).count();
        let middle = good + (bad - good) / 2;
        let unknown = between.into_iter().filter(|place| answer(place).is_none());
        match unknown.min_by_key(|place| place.abs_diff(middle)) {
            Some(place) if open < MOST_OPEN => NextStep::Ask(place),
            _ => NextStep::Last(vec![good, bad]),
        }
    }

    /// Commits that it can be.
    #[must_use]
    pub fn left(&self) -> usize {
        let [good, bad] = self.ends();
        bad - good
    }

    /// The last commit that is good, and the first behind it that is bad.
    fn ends(&self) -> [usize; 2] {
        let of = |wanted: Answer| {
            let places = self.answers.iter().filter(move |(_, answer)| **answer == wanted);
            places.map(|(place, _)| *place)
        };
        let bad = of(Answer::Bad).min().unwrap_or(self.last);
        let good = of(Answer::Good).filter(|place| *place < bad).max().unwrap_or(0);
        [good, bad]
    }

    /// Comparisons of a search through `commits` in which each commit builds and each answer decides: the first compares the
    /// ends and asks about the middle, each one behind it halves what is left, and the last holds two commits that it can be. A
    /// history that the last could hold from the beginning takes these two, too.
    #[must_use]
    pub fn most_steps(commits: usize) -> u32 {
        commits.max(1).next_power_of_two().ilog2().max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SplitMix64;

    /// Commits of each history.
    const COMMITS: usize = 200;

    /// Searches with an oracle; gives what is left for the last comparison, and how many commits were measured and how many were broken.
    fn search(commits: usize, mut oracle: impl FnMut(usize) -> Answer) -> (Vec<usize>, u32, u32) {
        let mut search = HistorySearch::new(commits);
        let (mut measured, mut broken) = (0, 0);
        loop {
            match search.next() {
                NextStep::Ask(place) => {
                    assert!(place > 0 && place < commits, "the ends are known");
                    let answer = oracle(place);
                    if answer == Answer::Broken {
                        broken += 1
                    } else {
                        measured += 1
                    }
                    search.record(place, answer);
                }
                NextStep::Last(places) => return (places, measured, broken),
            }
        }
    }

    fn truth(place: usize, culprit: usize) -> Answer {
        if place >= culprit { Answer::Bad } else { Answer::Good }
    }

    /// Comparisons of a search that asked about so many commits: that of the ends, which asks about the first one, too, and the last.
    fn comparisons(measured: u32) -> u32 {
        1 + measured.saturating_sub(1) + 1
    }

    #[test]
    fn every_culprit_of_every_history_is_found_in_as_many_comparisons_as_are_said() {
        for commits in 1..=300 {
            let mut most = 0;
            for culprit in 1..=commits {
                let (last, measured, _) = search(commits, |place| truth(place, culprit));
                assert!(last.len() <= 3 && last.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{last:?}");
                assert!(last[1..].contains(&culprit), "{commits} commits: {culprit} is not in {last:?}");
                most = most.max(comparisons(measured));
            }
            assert_eq!(most, HistorySearch::most_steps(commits), "{commits} commits");
            assert!(f64::from(most) <= (commits as f64).log2() + 2.0, "{commits} commits: {most}");
        }
        assert_eq!([1, 2, 3, 200].map(HistorySearch::most_steps), [2, 2, 2, 8]);
    }

    #[test]
    fn commits_that_do_not_build_are_passed_by_and_never_hide_the_culprit() {
        for seed in 0..500 {
            let mut random = SplitMix64::fork(seed, "history", 0);
            let culprit = 1 + (random.unit() * COMMITS as f64) as usize;
            let share = random.unit();
            let is_broken: Vec<bool> = (0..=COMMITS).map(|_| random.unit() < share).collect();
            let oracle = |place: usize| if is_broken[place] { Answer::Broken } else { truth(place, culprit) };
            let (last, measured, broken) = search(COMMITS, oracle);
            let [good, bad] = [last[0], last[last.len() - 1]];
            assert!(good < culprit && culprit <= bad, "seed {seed}: {culprit} is not in {last:?}");
            // What is left out between them does not build.
            let left_out = (good + 1..bad).filter(|place| !last.contains(place));
            assert!({ left_out }.all(|place| is_broken[place]), "seed {seed}");
            // Of what is passed by, each commit can cost a comparison more.
            let most = HistorySearch::most_steps(COMMITS) + broken;
            assert!(comparisons(measured) <= most, "seed {seed}: {measured} measured");
        }
    }

    #[test]
    fn a_noisy_oracle_ends_the_search_and_what_is_undecided_gives_up() {
        let (mut right, mut wrong) = (0, 0);
        for seed in 0..500 {
            let mut random = SplitMix64::fork(seed, "noise", 0);
            let culprit = 1 + (random.unit() * COMMITS as f64) as usize;
            let noisy = |place: usize| match (random.unit(), truth(place, culprit)) {
                (chance, Answer::Good) if chance < 0.03 => Answer::Bad,
                (chance, _) if chance < 0.03 => Answer::Good,
                (chance, _) if chance < 0.05 => Answer::Open,
                (_, truth) => truth,
            };
            let (last, measured, _) = search(COMMITS, noisy);
            let most = HistorySearch::most_steps(COMMITS) as usize + MOST_OPEN;
            assert!(comparisons(measured) as usize <= most, "seed {seed}");
            // What shows a wrong one is the last comparison, in which its commits do not differ.
            if last[0] < culprit && culprit <= last[last.len() - 1] {
                right += 1;
            } else {
                wrong += 1;
                let alike = last.windows(2).all(|pair| truth(pair[0], culprit) == truth(pair[1], culprit));
                assert!(alike, "seed {seed}");
            }
        }
        assert!(right > 350 && wrong > 20, "{right} right and {wrong} wrong of 500");
        let (last, measured, _) = search(COMMITS, |_| Answer::Open);
        assert_eq!((last, measured as usize), (vec![0, COMMITS], MOST_OPEN));
    }

    #[test]
    fn one_commit_that_was_undecided_is_compared_again_in_the_last_comparison() {
        // With its parent, from which it differs by the whole: what was open was on which side of half of it.
        let (last, measured, broken) =
            search(3, |place| if place == 1 { Answer::Open } else { Answer::Broken });
        assert_eq!((last, measured, broken), (vec![0, 1, 3], 1, 1));
    }
}
