//! Lines of the first screen: how wide they are, and how figures are written in them.

use std::borrow::Borrow;

use model::units::format_ns;

use crate::text::words_with_units;

/// Widest line of the first screen, in characters.
pub(crate) const SCREEN_COLUMNS: usize = 100;
/// Longest name that is written whole, in characters: two of them and their figures fit in a line.
const NAME: usize = 18;
/// The same of the name of a function.
const FUNCTION: usize = 34;
/// How far the second line of a sentence stands from the left, in characters.
const INDENT: usize = 3;
/// Room at the end of a line that a word leaves which moves to the next one, in characters.
const LONGEST_WORD: usize = NAME;
/// Room for the words that begin the last lines, in characters.
pub(crate) const LABEL: usize = 9;

/// A name that leaves room for figures: its beginning and its end, where names that are made alike differ. Of a target with a variant,
/// `GROUP-TARGET@VARIANT`, the group goes first: it is what all of them begin with.
pub(crate) fn short(name: &str) -> String {
    let target = name.split_once('@').and_then(|(base, _)| Some(&name[base.rfind('-')? + 1..]));
    match target {
        Some(target) if name.chars().count() > NAME => match printable(target) {
            fits if fits.chars().count() < NAME => format!("…{fits}"),
            long => shortened(&long, NAME),
        },
        _ => shortened(name, NAME),
    }
}

/// The same of a function's name, which is longer and stands once: without the type that it returns, and the end of its path.
pub(crate) fn short_function(name: &str) -> String {
    if name.chars().count() <= FUNCTION {
        return printable(name);
    }
    let plain = name.replace("<…>", "");
    let last = plain.rsplit(' ').next().unwrap_or(&plain);
    // C++ and Rust have paths with colons, packages of Go with slashes.
    let starts = last.match_indices(['/', ':']).map(|(at, mark)| at + mark.len());
    let mut ends = std::iter::once(0).chain(starts).map(|at| &last[at..]);
    let fits = ends.find(|end| !end.is_empty() && !end.starts_with(':') && end.chars().count() <= FUNCTION);
    shortened(fits.unwrap_or(last), FUNCTION)
}

fn shortened(name: &str, most: usize) -> String {
    let clean = printable(name);
    let chars: Vec<char> = clean.chars().collect();
    if chars.len() <= most {
        return clean;
    }
    let half = most / 2;
    let (head, tail) = (&chars[..half], &chars[chars.len() + 1 + half - most..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

/// `text` without what a terminal would act on.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `text` in `width` characters at most, cut between words where it is too long.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.chars().count() <= width {
        return text;
    }
    let indent: String = text.chars().take_while(|c| *c == ' ').collect();
    let mut line = indent.clone();
    for word in words_with_units(&text) {
        // The sign that something is left out needs room too.
        if line.chars().count() + word.chars().count() + 1 > width {
            break;
        }
        line.push_str(&word);
        line.push(' ');
    }
    if line == indent {
        line = text.chars().take(width - 1).collect();
    }
    // Half of what stands in brackets says nothing.
    if let Some((whole, half)) = line.rsplit_once(" (")
        && !half.contains(')')
        && !whole.trim().is_empty()
    {
        return whole.trim_end().to_owned() + "…";
    }
    line.trim_end().trim_end_matches([',', ';', ':']).to_owned() + "…"
}

/// A line that begins with `first`, broken at `rest` characters from the left where it is too long. Runs of spaces
/// within `first` stay.
pub(crate) fn wrapped(first: &str, words: &str, rest: usize) -> Vec<String> {
    let mut lines = vec![printable(first)];
    let mut begun = true;
    for word in words_with_units(&printable(words)) {
        let last = lines.last_mut().expect("it begins with one");
        let gap = usize::from(!begun);
        if last.chars().count() + gap + word.chars().count() > SCREEN_COLUMNS && !begun {
            lines.push(" ".repeat(rest) + &word);
            continue;
        }
        if !begun {
            last.push(' ');
        }
        last.push_str(&word);
        begun = false;
    }
    lines.into_iter().map(|line| cut_hard(&line)).collect()
}

/// A word that is longer than a line ends with it.
fn cut_hard(line: &str) -> String {
    let line = line.trim_end();
    if line.chars().count() <= SCREEN_COLUMNS {
        return line.to_owned();
    }
    line.chars().take(SCREEN_COLUMNS - 1).collect::<String>() + "…"
}

/// `words` on `most` lines, cut where they need more.
pub(crate) fn within(most: usize, words: &str) -> Vec<String> {
    let lines = wrapped("", words, INDENT);
    if lines.len() <= most {
        return lines;
    }
    // What does not fit at the end of a line moves to the next one.
    let room = most * (SCREEN_COLUMNS - INDENT - LONGEST_WORD);
    wrapped("", &cut(words, room.max(SCREEN_COLUMNS - LONGEST_WORD)), INDENT).into_iter().take(most).collect()
}

/// A labelled line such as `Limits   …`.
pub(crate) fn labelled(label: &str, words: &str) -> String {
    format!("{label:LABEL$}{}", cut(words, below_width()))
}

/// One line below a label.
pub(crate) fn below(words: &str) -> String {
    " ".repeat(LABEL) + &cut(words, below_width())
}

/// Characters in a line below a label.
pub(crate) fn below_width() -> usize {
    SCREEN_COLUMNS - LABEL
}

/// `10.4 → 6.88 µs`: the unit once where both have it.
pub(crate) fn from_to(from: f64, to: f64) -> String {
    let (from, to) = (format_ns(from), format_ns(to));
    match (from.split_once(' '), to.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} → {to}"),
        _ => format!("{from} → {to}"),
    }
}

/// Nanoseconds in the unit of `gap`, so that parts can be added up by eye: `0.3 µs` of `3.5 µs`.
pub(crate) fn part_of(ns: f64, gap: f64) -> String {
    let (divisor, unit) = match gap.abs() {
        gap if gap >= 999_500_000.0 => (1e9, "s"),
        gap if gap >= 999_500.0 => (1e6, "ms"),
        gap if gap >= 999.5 => (1e3, "µs"),
        _ => (1.0, "ns"),
    };
    let in_unit = gap.abs() / divisor;
    let decimals = usize::from(in_unit < if divisor > 1.0 { 99.95 } else { 9.95 });
    let sign = if ns < 0.0 { "−" } else { "" };
    format!("{sign}{:.decimals$} {unit}", ns.abs() / divisor)
}

/// A rate in few digits: `950`, `8.20 k`, `95.1 k`, `1.52 M`.
pub(crate) fn rate(per_s: f64) -> String {
    let (value, unit) = match per_s.abs() {
        v if v >= 999_500.0 => (per_s / 1e6, " M"),
        v if v >= 9_995.0 => (per_s / 1e3, " k"),
        _ => (per_s, ""),
    };
    let decimals = match value.abs() {
        _ if unit.is_empty() => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{unit}")
}

/// A count for each request in three digits.
pub(crate) fn count(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.095 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Names as they are said in a row: `a`, `a and b`, `a, b and c`. Beside one that is itself a list, a comma tells where the last begins.
pub(crate) fn and<S: Borrow<str>>(names: &[S]) -> String {
    let is_list = |name: &S| name.borrow().contains(" and ") || name.borrow().contains(", ");
    match names {
        [] => String::new(),
        [one] => one.borrow().to_owned(),
        [first @ .., last] => {
            let comma = if names.iter().any(is_list) { "," } else { "" };
            format!("{}{comma} and {}", first.join(", "), last.borrow())
        }
    }
}

/// `1 block`, `6 blocks`.
pub(crate) fn blocks(number: u64) -> String {
    if number == 1 { "1 block".to_owned() } else { format!("{number} blocks") }
}

#[cfg(test)]
mod tests {
    use super::{NAME, and, short, short_function};

    #[test]
    fn a_name_that_is_a_list_is_set_apart() {
        let said = |names: &[&str]| and(names);
        assert_eq!(said(&["a", "b"]), "a and b");
        assert_eq!(said(&["a", "b", "c"]), "a, b and c");
        assert_eq!(said(&["clocks and dates"]), "clocks and dates");
        assert_eq!(said(&["clocks and dates", "b"]), "clocks and dates, and b");
        assert_eq!(said(&["a", "b, unsure", "c"]), "a, b, unsure, and c");
    }

    #[test]
    fn long_names_of_arms_of_one_group_differ() {
        for (name, wanted) in [
            ("main", "main"),
            ("techempower-straightline@json", "…straightline@json"),
            ("techempower-straightline@plaintext", "straightl…laintext"),
            ("techempower-actix@plaintext", "…actix@plaintext"),
            ("techempower-ntex@plaintext", "…ntex@plaintext"),
            ("warp@lto-jemalloc-pipeline", "warp@lto-…pipeline"),
            ("a-branch-with-a-long-name", "a-branch-…ong-name"),
        ] {
            let found = short(name);
            assert!(found.chars().count() <= NAME, "{found}");
            assert_eq!(found, wanted, "{name}");
        }
    }

    #[test]
    fn a_long_name_of_a_function_keeps_what_names_it() {
        for (name, short) in [
            ("http.(*Server).Serve.gowrap3", "http.(*Server).Serve.gowrap3"),
            ("v8::internal::LookupIterator::LookupIterator", "LookupIterator::LookupIterator"),
            ("void OopOopIterateDispatch<…>::Table::oop_oop_iterate<…>", "Table::oop_oop_iterate"),
            (
                "akka.io.SelectionHandler$ChannelRegistryImpl$$anon$2.tryRun",
                "akka.io.Selection…l$$anon$2.tryRun",
            ),
            ("github.com/valyala/fasthttp.(*Server).serveConn", "fasthttp.(*Server).serveConn"),
        ] {
            let found = short_function(name);
            assert!(found.chars().count() <= super::FUNCTION, "{found}");
            assert_eq!(found, short, "{name}");
        }
    }
}
