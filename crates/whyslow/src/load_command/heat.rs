//! Responses second by second as a picture of characters: time from left to right, response upwards, darker where more of a
//! second's answers are.

use std::collections::VecDeque;

use load::Latencies;
use model::units::format_ns;

/// Seconds that are kept: more than any terminal has columns for.
const KEPT: usize = 512;
/// Lower edge of the first bucket; shorter responses are in it.
const FIRST_NS: f64 = 1e3;
/// Buckets of each doubling.
const PER_OCTAVE: f64 = 2.0;
/// Buckets, the last of which begins at 190 s.
const BUCKETS: usize = 56;
/// Columns of the labels at the left.
pub(super) const LABEL: usize = 9;
/// Shades by the share of a second's answers that they begin at.
const SHADES: [(f64, char); 5] = [(0.5, '█'), (0.2, '▓'), (0.05, '▒'), (0.01, '░'), (0.0, '·')];

/// The last seconds.
#[derive(Debug, Default)]
pub(super) struct Heat(VecDeque<[u64; BUCKETS]>);

impl Heat {
    /// Another second is over.
    pub(super) fn note(&mut self, response: &Latencies) {
        let mut counts = [0; BUCKETS];
        for step in response.iter_recorded() {
            counts[bucket(step.value_iterated_to() as f64)] += step.count_at_value();
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(counts);
    }

    /// So many lines of `width` columns, the longest responses at the top; none where nothing was answered.
    pub(super) fn lines(&self, rows: usize, width: usize) -> Vec<String> {
        let columns = width.saturating_sub(LABEL);
        let shown = || self.0.iter().skip(self.0.len().saturating_sub(columns));
        let some = |bucket: &usize| shown().any(|counts| counts[*bucket] > 0);
        let Some((low, high)) = (0..BUCKETS).find(some).zip((0..BUCKETS).rev().find(some)) else {
            return Vec::new();
        };
        let each = (high - low + 1).div_ceil(rows.max(1));
        let row = |row: usize| {
            let begin = low + row * each;
            let end = (begin + each).min(BUCKETS);
            let edge_ns = FIRST_NS * (begin as f64 / PER_OCTAVE).exp2();
            let shades = shown().map(|counts| shade(counts[begin..end].iter().sum(), counts.iter().sum()));
            format!("{:>width$} ", format_ns(edge_ns), width = LABEL - 1) + &shades.collect::<String>()
        };
        (0..(high - low + 1).div_ceil(each)).rev().map(row).collect()
    }
}

fn bucket(ns: f64) -> usize {
    ((ns / FIRST_NS).log2() * PER_OCTAVE).clamp(0.0, (BUCKETS - 1) as f64) as usize
}

fn shade(part: u64, whole: u64) -> char {
    let share = part as f64 / whole.max(1) as f64;
    let found = SHADES.iter().find(|(from, _)| part > 0 && share >= *from);
    found.map_or(' ', |(_, shade)| *shade)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(answers: &[(u64, u64)]) -> Latencies {
        let mut response = load::latencies();
        answers.iter().for_each(|(ns, count)| response.record_n(*ns, *count).expect("it fits"));
        response
    }

    #[test]
    fn a_second_is_a_column_that_is_dark_where_its_answers_are() {
        let mut heat = Heat::default();
        assert!(heat.lines(4, 40).is_empty(), "nothing was answered");
        heat.note(&second(&[(1_000_000, 95), (90_000_000, 5)]));
        heat.note(&second(&[]));
        heat.note(&second(&[(90_000_000, 7)]));
        let lines = heat.lines(4, 40);
        assert_eq!(lines.len(), 4, "{lines:?}");
        let columns: Vec<String> = lines.iter().map(|line| line.chars().skip(LABEL).collect()).collect();
        assert_eq!(columns, ["▒ █", "   ", "   ", "█  "]);
        assert!(lines[3].trim_start().starts_with("724 µs"), "the lower edge of what holds 1 ms: {lines:?}");
        let narrow = heat.lines(4, LABEL + 1);
        assert!(narrow.last().is_some_and(|line| line.ends_with('█')), "the newest is kept: {narrow:?}");
    }

    #[test]
    fn what_is_kept_has_an_end() {
        let mut heat = Heat::default();
        (0..2 * KEPT).for_each(|_| heat.note(&second(&[(1, 1), (u64::MAX / 1_000_000, 1)])));
        assert_eq!(heat.0.len(), KEPT);
        assert!(heat.lines(6, 10_000).iter().all(|line| line.chars().count() == LABEL + KEPT));
    }
}
