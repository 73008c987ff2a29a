//! The search for the commit that made a server slower. Pure: the caller records what came of a step and asks for the next.

use std::collections::BTreeMap;

/// Steps that may end undecided before the search gives up: a machine that cannot tell three commits from each other will
/// not tell a fourth.
const MOST_OPEN: usize = 3;

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
    /// The commit at this place is bad and its parent is good.
    Found(usize),
    /// It is one of these: those between could not be judged.
    Among(Vec<usize>),
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

    /// What is to be done next: the commit nearest to the middle of those that it can be, of which nothing is known.
    #[must_use]
    pub fn next(&self) -> NextStep {
        let [good, bad] = self.ends();
        if bad - good == 1 {
            return NextStep::Found(bad);
        }
        let open = self.answers.values().filter(|answer| **answer == Answer::Open).count();
        let middle = good + (bad - good) / 2;
        let unknown = (good + 1..bad).filter(|place| !self.answers.contains_key(place));
        match unknown.min_by_key(|place| place.abs_diff(middle)) {
            Some(place) if open < MOST_OPEN => NextStep::Ask(place),
            _ => NextStep::Among((good + 1..=bad).collect()),
        }
    }

    /// Commits that it can be.
    #[must_use]
    pub fn left(&self) -> usize {
        let [good, bad] = self.ends();
        bad - good
    }

    /// Place of the last commit that is known to be good, before those that it can be.
    #[must_use]
    pub fn good(&self) -> usize {
        self.ends()[0]
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

    /// Steps of a search through `commits` in which each step decides: one shows that the ends differ, one that the commit
    /// which was found differs from its parent.
    #[must_use]
    pub fn most_steps(commits: usize) -> u32 {
        commits.max(1).next_power_of_two().ilog2() + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SplitMix64;

    /// Commits of each history.
    const COMMITS: usize = 200;

    /// Searches with an oracle; gives how it ended and how many commits were measured and how many were broken.
    fn search(commits: usize, mut oracle: impl FnMut(usize) -> Answer) -> (NextStep, u32, u32) {
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
                end => return (end, measured, broken),
            }
        }
    }

    fn truth(place: usize, culprit: usize) -> Answer {
        if place >= culprit { Answer::Bad } else { Answer::Good }
    }

    #[test]
    fn every_culprit_of_every_history_is_found_in_few_steps() {
        for commits in (1..=20).chain([64, 65, COMMITS]) {
            for culprit in 1..=commits {
                let (end, measured, _) = search(commits, |place| truth(place, culprit));
                assert_eq!(end, NextStep::Found(culprit), "{commits} commits");
                // The first step and the last are not the search's.
                assert!(measured + 2 <= HistorySearch::most_steps(commits), "{measured} of {commits}");
            }
        }
        assert_eq!([1, 2, 3, 200].map(HistorySearch::most_steps), [2, 3, 4, 10]);
    }

    #[test]
    fn commits_that_do_not_build_are_passed_by_and_never_hide_the_culprit() {
        for seed in 0..500 {
            let mut random = SplitMix64::fork(seed, "history", 0);
            let culprit = 1 + (random.unit() * COMMITS as f64) as usize;
            let share = random.unit();
            let is_broken: Vec<bool> = (0..=COMMITS).map(|_| random.unit() < share).collect();
            let oracle = |place: usize| if is_broken[place] { Answer::Broken } else { truth(place, culprit) };
            let (end, measured, broken) = search(COMMITS, oracle);
            match end {
                NextStep::Found(place) => assert_eq!(place, culprit, "seed {seed}"),
                NextStep::Among(places) => {
                    assert!(places.contains(&culprit), "seed {seed}: {culprit} is not among {places:?}");
                    // Only the last can have been judged: what is left are the broken ones before it.
                    let unknown = &places[..places.len() - 1];
                    assert!(unknown.iter().all(|place| is_broken[*place]), "seed {seed}");
                }
                NextStep::Ask(_) => unreachable!("a search ends"),
            }
            // Of what is passed by, each commit can cost a step more.
            assert!(
                measured + 2 <= HistorySearch::most_steps(COMMITS) + broken,
                "seed {seed}: {measured} steps"
            );
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
            let (end, measured, _) = search(COMMITS, noisy);
            assert!(
                measured as usize <= HistorySearch::most_steps(COMMITS) as usize + MOST_OPEN,
                "seed {seed}"
            );
            match end {
                NextStep::Found(place) if place == culprit => right += 1,
                // What shows it is the step between the commit and its parent.
                NextStep::Found(place) => {
                    assert_eq!(truth(place - 1, culprit), truth(place, culprit), "seed {seed}");
                    wrong += 1;
                }
                _ => {}
            }
        }
        assert!(right > 350 && wrong > 20, "{right} right and {wrong} wrong of 500");
        let (end, measured, _) = search(COMMITS, |_| Answer::Open);
        assert_eq!((end, measured as usize), (NextStep::Among((1..=COMMITS).collect()), MOST_OPEN));
    }
}
