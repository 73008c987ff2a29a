//! Colour, where the reader's terminal has it.

use crate::direction::Direction;

/// How text is dressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Without colour: for pipes, for files, and on request.
    #[default]
    Plain,
    /// With the colours of a terminal.
    Colour,
}

/// Back to the terminal's own colour. Source: ECMA-48, 8.3.117 (SGR).
const RESET: &str = "\u{1b}[0m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";

impl Style {
    /// `words` in the colour of what they say.
    pub(crate) fn paint(self, direction: Direction, words: &str) -> String {
        let colour = match (self, direction) {
            (Self::Plain, _) | (_, Direction::Same | Direction::Open) => return words.to_owned(),
            (_, Direction::Cheaper | Direction::Faster) => GREEN,
            (_, Direction::Dearer | Direction::Slower) => RED,
            (_, Direction::Void) => YELLOW,
        };
        format!("{colour}{words}{RESET}")
    }
}
