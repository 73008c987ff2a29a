//! The words that a newcomer meets first, with what they mean.

/// The project's own vocabulary, so that a word means on a page what it means everywhere.
const GLOSSARY: &str = include_str!("../GLOSSARY.md");

/// Words of the glossary that the first screen uses, in the order in which they build on each other.
const WORDS: [&str; 7] = ["arm", "baseline", "round", "block", "window", "noise floor", "gate"];

/// Words of statistics that are no words of the project.
const OTHERS: [(&str, &str); 2] = [
    ("ratio", "a figure of the arm over that of the baseline, so that 1x is no difference"),
    (
        "interval",
        "the ratios that the blocks of this run are compatible with, at the level that stands beside it",
    ),
];

/// Each word with its meaning; one that the glossary no longer has is left out.
pub(crate) fn meanings() -> impl Iterator<Item = (&'static str, String)> {
    let own = WORDS.into_iter().filter_map(|word| Some((word, meaning(word)?)));
    own.chain(OTHERS.map(|(word, meaning)| (word, meaning.to_owned())))
}

/// What the glossary says of a word, without its Markdown.
fn meaning(word: &str) -> Option<String> {
    let row = GLOSSARY.lines().find_map(|line| line.strip_prefix(&format!("| {word} | ")))?;
    Some(row.strip_suffix(" |")?.replace(['*', '`'], ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_its_meaning() {
        let known: Vec<&str> = meanings().map(|(word, _)| word).collect();
        assert_eq!(known.len(), WORDS.len() + OTHERS.len(), "the glossary lacks one: {known:?}");
        assert!(meanings().all(|(_, meaning)| !meaning.is_empty() && !meaning.contains(['|', '`', '*'])));
    }
}
