//! A document for a terminal.

use crate::TEXT_COLUMNS;
use crate::document::Block;

/// Space between columns.
const GAP: &str = "  ";
/// What stands at the end of a line of a command that goes on.
const CONTINUED: &str = " \\";
/// The same within a word.
const JOINED: &str = "\\";

pub(crate) fn render(document: &[Block]) -> String {
    let mut out = String::new();
    for (index, block) in document.iter().enumerate() {
        // A heading belongs to what follows it.
        let follows_heading = index > 0 && matches!(document[index - 1], Block::Heading(_));
        if index > 0 && !follows_heading {
            out.push('\n');
        }
        match block {
            Block::Heading(title) => push_line(&mut out, title),
            Block::Arm { title, .. } => wrap(&mut out, &format!("{title}:"), "", ""),
            Block::Paragraph(words) => wrap(&mut out, words, "", ""),
            Block::Command(words) => command(&mut out, words),
            Block::Screen(lines) => lines.iter().for_each(|line| out.extend([line, "\n"])),
            Block::List(points) => points.iter().for_each(|point| wrap(&mut out, point, "  ", "    ")),
            Block::Table { header, rows } => table(&mut out, header, rows),
        }
    }
    out
}

fn push_line(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Breaks `words` into lines that fit; a word longer than a line is broken too.
fn wrap(out: &mut String, words: &str, first: &str, rest: &str) {
    let mut line = first.to_owned();
    let mut empty = true;
    let words = words_with_units(words);
    for word in words.iter().flat_map(|word| pieces(word, TEXT_COLUMNS - rest.len())) {
        let width = line.chars().count() + usize::from(!empty) + word.chars().count();
        if !empty && width > TEXT_COLUMNS {
            push_line(out, &line);
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    push_line(out, &line);
}

/// Units that stay on the line of their number.
const UNITS: [&str; 19] = [
    "%",
    "ns",
    "µs",
    "ms",
    "s",
    "min",
    "h",
    "B",
    "KiB",
    "MiB",
    "GiB",
    "GB/s",
    "k",
    "M",
    "k/s",
    "M/s",
    "/s",
    "requests/s",
    "blocks",
];

/// Words at which a line may be broken: a number and its unit are one.
pub(crate) fn words_with_units(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')', ']']));
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// `word` in pieces that fit. Logs of targets may hold escape sequences, which a terminal must not act on.
fn pieces(word: &str, most: usize) -> Vec<String> {
    let chars: Vec<char> = word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    chars.chunks(most).map(|piece| piece.iter().collect()).collect()
}

/// Breaks a command into lines that a shell joins again: behind a word by a backslash, within one by a backslash outside
/// its quotes, behind which the next line begins with what follows.
fn command(out: &mut String, words: &str) {
    let mut line = String::from(" ");
    for (index, word) in shell_words(words).iter().enumerate() {
        let width: usize = word.iter().map(|atom| atom.text.chars().count()).sum();
        if index > 0 && line.chars().count() + 1 + width + CONTINUED.len() > TEXT_COLUMNS {
            push_line(out, &format!("{line}{CONTINUED}"));
            line = String::from("   ");
        }
        line.push(' ');
        for atom in word {
            let quote = if atom.quoted { "'" } else { "" };
            let end = atom.text.chars().count() + quote.len() + JOINED.len();
            if line.chars().count() + end > TEXT_COLUMNS {
                push_line(out, &format!("{line}{quote}{JOINED}"));
                quote.clone_into(&mut line);
            }
            line.push_str(&atom.text);
        }
    }
    push_line(out, &line);
}

/// What of a command's word cannot be broken, and whether it stands in single quotes.
struct Atom {
    text: String,
    quoted: bool,
}

/// A command word by word, in single quotes and backslashes as they are. A terminal must not act on what is in it.
fn shell_words(command: &str) -> Vec<Vec<Atom>> {
    let (mut words, mut quoted) = (vec![Vec::new()], false);
    let mut chars = command.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    while let Some(c) = chars.next() {
        let mut atom = Atom { text: c.to_string(), quoted };
        match c {
            ' ' if !quoted => {
                words.push(Vec::new());
                continue;
            }
            '\'' => quoted = !quoted,
            '\\' if !quoted => atom.text.extend(chars.next()),
            _ => {}
        }
        words.last_mut().expect("it begins with one").push(atom);
    }
    words
}

fn table(out: &mut String, header: &[String], rows: &[Vec<String>]) {
    let all = || std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
    let mut widths: Vec<usize> = (0..header.len())
        .map(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    // Names give way first: they are the only cells of any length.
    let fixed: usize = widths[1..].iter().map(|width| width + GAP.len()).sum();
    widths[0] = widths[0].min(TEXT_COLUMNS.saturating_sub(fixed + GAP.len()).max(8));
    for row in all() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            line.push_str(GAP);
            line.push_str(&fit(cell, widths[column], column == 0));
        }
        push_line(out, &line);
    }
}

fn fit(cell: &str, width: usize, left: bool) -> String {
    let length = cell.chars().count();
    if length > width {
        let kept: String = cell.chars().take(width.saturating_sub(1)).collect();
        return format!("{kept}…");
    }
    let space = " ".repeat(width - length);
    if left { format!("{cell}{space}") } else { format!("{space}{cell}") }
}
