//! The known word that a wrong one was meant to be.

/// What stands beside the known word that is nearest to `wrong`; nothing where no word is known.
#[must_use]
pub fn nearest<'a, T>(wrong: &str, known: impl Iterator<Item = (&'a str, T)>) -> Option<T> {
    known.min_by_key(|(word, _)| edits(wrong, word)).map(|(_, value)| value)
}

/// Letters to be put in, left out or changed to make one word of another. Source: Levenshtein, 1966.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (place, letter) in from.chars().enumerate() {
        let mut before = row[0];
        row[0] = place + 1;
        for (at, other) in to.iter().enumerate() {
            let changed = before + usize::from(letter != *other);
            before = row[at + 1];
            row[at + 1] = changed.min(row[at] + 1).min(before + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_and_the_word_with_fewest_is_the_nearest() {
        assert_eq!((edits("kitten", "sitting"), edits("", "abc"), edits("gc", "gc")), (3, 3, 0));
        let known = ["slower", "faster", "equal"];
        assert_eq!(nearest("slwoer", known.iter().map(|word| (*word, *word))), Some("slower"));
        assert_eq!(nearest("any", std::iter::empty::<(&str, ())>()), None);
    }
}
