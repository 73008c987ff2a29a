//! What a row must reach, and whether it does.

use super::page;

/// A figure and where it must lie.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    what: String,
    limit: Limit,
    /// Nothing where it was not measured.
    found: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    pub(super) fn at_most(what: impl Into<String>, most: f64, found: Option<f64>) -> Self {
        Self { what: what.into(), limit: Limit::AtMost(most), found }
    }

    pub(super) fn at_least(what: impl Into<String>, least: f64, found: Option<f64>) -> Self {
        Self { what: what.into(), limit: Limit::AtLeast(least), found }
    }

    fn row(&self) -> Vec<String> {
        let (limit, met) = match self.limit {
            Limit::AtMost(most) => (format!("≤ {most}"), self.found.map(|found| found <= most)),
            Limit::AtLeast(least) => (format!("≥ {least}"), self.found.map(|found| found >= least)),
        };
        let verdict = match met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        vec![self.what.clone(), limit, page::figure(self.found, 2), verdict.to_owned()]
    }
}

/// The bars of a section as a table.
pub(super) fn table(bars: &[Bar]) -> String {
    let rows: Vec<Vec<String>> = bars.iter().map(Bar::row).collect();
    page::table(&["bar", "limit", "found", "met"], &rows)
}

/// The number that a cell begins with, such as that of `0.77 [0.74, 0.78]`: what is judged is what is read.
pub(super) fn leading_number(cell: &str) -> Option<f64> {
    cell.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_up_to_its_limit_and_never_by_what_was_not_measured() {
        let verdict = |bar: Bar| bar.row().pop().unwrap();
        for (found, most, least) in [
            (leading_number("0.77 [0.74, 0.78]"), "yes", "**no**"),
            (leading_number("0.95"), "yes", "yes"),
            (leading_number("1"), "**no**", "yes"),
            (leading_number("–"), "not measured", "not measured"),
        ] {
            assert_eq!(verdict(Bar::at_most("it", 0.95, found)), most, "{found:?}");
            assert_eq!(verdict(Bar::at_least("it", 0.95, found)), least, "{found:?}");
        }
    }
}
