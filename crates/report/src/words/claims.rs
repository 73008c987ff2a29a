//! What is said of a published claim beside ours.

use analyse::{Metric, Ours, Published, Why};
use model::plan::Bound;
use model::units::{format_ns, percent};

use super::{gates, warnings};

/// What was published.
pub(super) fn published(published: &Published) -> String {
    match published {
        Published::Nothing => String::new(),
        Published::Row { rate_per_s, mean_ns, latency } => {
            let rate = rate_per_s.map(|rate| format!("{rate:.0} requests/s"));
            let mean = mean_ns.map(|mean| format!("mean {}", format_ns(mean)));
            let parts: Vec<String> = rate.into_iter().chain(mean).chain(latency.clone()).collect();
            parts.join(", ")
        }
        Published::Ratio(ratio) => format!("x{ratio:.3}"),
        Published::Percent(percent) => format!("{percent:.1} %"),
    }
}

/// What was measured here.
pub(super) fn ours(ours: &Ours) -> String {
    match ours {
        Ours::Nothing => "-".to_owned(),
        Ours::Ratio { ratio, interval: [low, high], metric, blocks } => {
            let basis = if *metric == Metric::Rate { "rate" } else { "requests per CPU second" };
            format!("x{ratio:.3} [{low:.3}, {high:.3}] ({basis}, {blocks} blocks)")
        }
        Ours::Gate(gate) => gates::text(gate),
        Ours::GateHolds(gate) => format!("gate '{gate}' holds"),
        Ours::Overload(overload) => warnings::overloaded(overload),
        Ours::Served => "the rate asked for was served".to_owned(),
        Ours::Instructions(percent) => format!("{percent:.1} % of instructions"),
    }
}

/// By what reasoning they are the same or not.
pub(super) fn why(reasoning: &Why) -> String {
    match reasoning {
        Why::NotRun => "it was not run".to_owned(),
        Why::NoFigures(arm) => format!("'{arm}' gave no figures"),
        Why::Void => "gates void both rate and CPU per request".to_owned(),
        Why::OneBlock => "one block has no interval".to_owned(),
        Why::FewBlocks(blocks) => format!("{blocks} blocks are too few to decide"),
        Why::OtherWay => "the order is the other way round".to_owned(),
        Why::SameSize(size) => format!("the same side, and {size:.2} of the published size (log scale)"),
        Why::SameSide(size) => format!("the same side, but {size:.2} of the published size (log scale)"),
        Why::NoEffect(small) => format!("no effect here: inside ±{}", percent(*small)),
        Why::Smaller => "no effect of that size: the interval ends below it".to_owned(),
        Why::Open => "the interval has both 'no effect' and the published one".to_owned(),
        Why::NoDifference(small) => format!("no difference: the interval is inside ±{}", percent(*small)),
        Why::Differ => "here they differ".to_owned(),
        Why::Wide(small) => format!("the interval is wider than ±{}", percent(*small)),
        Why::Reason { size, part, share, needed } => {
            let needed = needed
                .map_or_else(String::new, |needed| format!(", where the reason needs {}", percent(needed)));
            let (size, part, share) = (why(size), part.label(), percent(*share));
            format!("{size}; {part} carries {share} of the gap in CPU per request{needed}")
        }
        Why::GateFails(gate) => format!("gate '{gate}' fails here too"),
        Why::GateHolds(gate) => format!("gate '{gate}' does not fail here"),
        Why::Overloaded => {
            "less was answered than was asked for, while the generator had time to spare".to_owned()
        }
        Why::NotOverloaded => "no backlog grew, or the generator was the limit".to_owned(),
        Why::NoLine => "there is no such line".to_owned(),
        Why::NoCallgrind => "it needs --callgrind".to_owned(),
        Why::Factor { factor, within, bound } => {
            let same = match bound {
                Bound::About => "a factor of",
                Bound::AtLeast => "no less than by a factor of",
                Bound::AtMost => "no more than by a factor of",
            };
            format!("{factor:.2} times the published share; {same} {within} counts as the same")
        }
    }
}
