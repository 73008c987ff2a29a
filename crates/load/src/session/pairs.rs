/// Pairs kept at most: the standard error of a correlation of 2048 pairs is 0.02, and they take 32 KiB.
const CAPACITY: usize = 2048;

/// A sample of pairs of one response and the next, spread over the whole window whatever its length.
///
/// Each time it is full, every second pair is dropped and only half as many are taken from then on.
#[derive(Debug, Clone)]
pub struct Pairs {
    /// The pairs, in nanoseconds.
    pub kept: Vec<(u64, u64)>,
    /// Every so many responses begin a pair; a power of two.
    stride: u64,
    seen: u64,
    first: u64,
}

impl Default for Pairs {
    fn default() -> Self {
        // Written once, so that no page of it is new when a response is noted.
        let mut kept = vec![(u64::MAX, u64::MAX); CAPACITY];
        kept.clear();
        Self { kept, stride: 2, seen: 0, first: 0 }
    }
}

impl Pairs {
    #[inline]
    pub(crate) fn note(&mut self, response_ns: u64) {
        match self.seen & (self.stride - 1) {
            0 => self.first = response_ns,
            1 => self.keep(response_ns),
            _ => {}
        }
        self.seen += 1;
    }

    fn keep(&mut self, second: u64) {
        if self.kept.len() == CAPACITY {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
        self.kept.push((self.first, second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_neighbours_and_reach_from_the_first_to_the_last() {
        let mut pairs = Pairs::default();
        (0..1_000_000).for_each(|value| pairs.note(value));
        assert!((CAPACITY / 2..=CAPACITY).contains(&pairs.kept.len()));
        assert!(pairs.kept.iter().all(|(first, second)| second - first == 1));
        assert_eq!(pairs.kept[0].0, 0);
        assert!(pairs.kept.last().is_some_and(|(last, _)| *last > 990_000));
    }
}
