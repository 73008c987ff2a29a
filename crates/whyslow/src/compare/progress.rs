//! What is printed while something long runs: a bar with the time left and a line for each block; nothing without a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Width and content of the bar.
const TEMPLATE: &str = "{bar:20} {percent}%  {msg}  {prefix}  {eta} left";

/// The bar, hidden where standard error is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    shown: bool,
}

impl Progress {
    /// A bar for work of about `seconds`.
    pub(crate) fn new(seconds: f64) -> Self {
        let shown = std::io::stderr().is_terminal();
        let bar = if shown { ProgressBar::new(millis(seconds)) } else { ProgressBar::hidden() };
        bar.set_style(
            ProgressStyle::with_template(TEMPLATE).expect("the template is a constant that parses"),
        );
        Self { bar, shown }
    }

    /// What is being done now.
    pub(crate) fn doing(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    /// How the arms stand so far.
    pub(crate) fn standing(&self, words: &str) {
        self.bar.set_prefix(words.to_owned());
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: &str) {
        if self.shown {
            self.bar.println(line);
        }
    }

    /// Follows the clock. It is called on events only: a ticking bar would take CPU from the generator.
    pub(crate) fn tick(&mut self) {
        let elapsed = u64::try_from(self.bar.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.bar.set_position(elapsed.min(self.bar.length().unwrap_or(elapsed)));
    }

    /// So many seconds are left, as is known by now.
    pub(crate) fn expect(&mut self, seconds: f64) {
        self.bar.set_length(millis(self.bar.elapsed().as_secs_f64() + seconds));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn millis(seconds: f64) -> u64 {
    u64::try_from(Duration::from_secs_f64(seconds.max(0.0)).as_millis()).unwrap_or(u64::MAX)
}
