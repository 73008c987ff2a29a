//! What a row must reach, and whether it does.

use super::page;

/// A figure and where it must lie.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    what: String,
    limit: Limit,
    /// Nothing where it was not measured.
    found: Option<f64>,
    /// Why it is not asked for on this host.
    out_of_reach: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    pub(super) fn at_most(what: impl Into<String>, most: f64, found: Option<f64>) -> Self {
        Self { what: what.into(), limit: Limit::AtMost(most), found, out_of_reach: None }
    }

    pub(super) fn at_least(what: impl Into<String>, least: f64, found: Option<f64>) -> Self {
        Self { what: what.into(), limit: Limit::AtLeast(least), found, out_of_reach: None }
    }

    /// Asks for the bar only where `host`, a figure of the machine alone that is told as `what`, meets it.
    pub(super) fn where_reached_by(mut self, what: &str, host: Option<f64>) -> Self {
        let reached = host.is_none_or(|host| self.limit.holds(host));
        self.out_of_reach =
            (!reached).then(|| format!("not asked of this host: {what}, {}", page::figure(host, 0)));
        self
    }

    fn row(&self) -> Vec<String> {
        let limit = match self.limit {
            Limit::AtMost(most) => format!("≤ {most}"),
            Limit::AtLeast(least) => format!("≥ {least}"),
        };
        let verdict = match (self.found.map(|found| self.limit.holds(found)), &self.out_of_reach) {
            (Some(true), _) => "yes",
            (Some(false), Some(why)) => why,
            (Some(false), None) => "**no**",
            (None, _) => "not measured",
        };
        vec![self.what.clone(), limit, page::figure(self.found, 2), verdict.to_owned()]
    }
}

impl Limit {
    fn holds(self, found: f64) -> bool {
        match self {
            Self::AtMost(most) => found <= most,
            Self::AtLeast(least) => found >= least,
        }
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

    #[test]
    fn a_bar_that_the_host_alone_does_not_reach_is_not_asked_for() {
        let verdict = |found, host| {
            Bar::at_most("lag", 200.0, Some(found))
                .where_reached_by("a bare timer", host)
                .row()
                .pop()
                .unwrap()
        };
        assert_eq!(verdict(900.0, Some(756.0)), "not asked of this host: a bare timer, 756");
        assert_eq!(verdict(900.0, Some(200.0)), "**no**");
        assert_eq!(verdict(900.0, None), "**no**");
        assert_eq!(verdict(199.0, Some(756.0)), "yes");
    }
}
