//! Times in which no answer came at all: a server that stops for everybody shows there, whatever it does meanwhile.

use super::tally::Span;

/// Shortest silence that is kept, in nanoseconds: what a server does for one request is seldom as long.
const SHORTEST_NS: u64 = 1_000_000;
/// Silences kept of a window, the first ones: of two seconds all there can be.
const MOST: usize = 2048;

/// The silences of one session's window.
#[derive(Debug, Default)]
pub struct Silences {
    last_ns: u64,
    /// In the order of time.
    pub kept: Vec<Span>,
}

impl Silences {
    /// The window begins.
    pub(super) fn begin(&mut self, now: u64) {
        self.last_ns = now;
        self.kept.clear();
    }

    /// An answer came, or the window ended.
    #[inline]
    pub(super) fn end(&mut self, now: u64) {
        if now.saturating_sub(self.last_ns) >= SHORTEST_NS {
            self.keep(now);
        }
        self.last_ns = now;
    }

    #[cold]
    fn keep(&mut self, now: u64) {
        if self.kept.len() < MOST {
            self.kept.push(Span { start_ns: self.last_ns, end_ns: now });
        }
    }
}

/// When two sessions were silent at once; both lists, and what comes of them, in the order of time.
pub(crate) fn of_both(one: &[Span], other: &[Span]) -> Vec<Span> {
    let mut both = Vec::new();
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        let span = Span { start_ns: a.start_ns.max(b.start_ns), end_ns: a.end_ns.min(b.end_ns) };
        if span.end_ns.saturating_sub(span.start_ns) >= SHORTEST_NS {
            both.push(span);
        }
        if a.end_ns < b.end_ns {
            one.next()
        } else {
            other.next()
        };
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans<const N: usize>(ms: [[u64; 2]; N]) -> Vec<Span> {
        ms.map(|[from, to]| Span { start_ns: from * SHORTEST_NS, end_ns: to * SHORTEST_NS }).to_vec()
    }

    #[test]
    fn what_is_silent_for_a_millisecond_is_kept_to_the_windows_end() {
        let mut silences = Silences::default();
        silences.begin(SHORTEST_NS);
        let quick = (1..100).map(|step| SHORTEST_NS + step * 1000);
        quick.chain([5 * SHORTEST_NS]).for_each(|now| silences.end(now));
        silences.end(7 * SHORTEST_NS);
        let first = Span { start_ns: SHORTEST_NS + 99_000, end_ns: 5 * SHORTEST_NS };
        assert_eq!(silences.kept, [vec![first], spans([[5, 7]])].concat());
    }

    #[test]
    fn both_are_silent_where_each_is() {
        let one = spans([[0, 10], [20, 30], [50, 51]]);
        let other = spans([[2, 4], [5, 22], [29, 60]]);
        assert_eq!(of_both(&one, &other), spans([[2, 4], [5, 10], [20, 22], [29, 30], [50, 51]]));
        assert_eq!(of_both(&one, &[]), []);
    }
}
