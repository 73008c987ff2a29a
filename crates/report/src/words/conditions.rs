//! What is said of a condition of `--fail-if`.

use analyse::{Against, AskedFigure, Basis, Comparison, FailIfSays, Foreseen, Unit, WhyAbsent};

use super::joined;
use crate::direction::figures_of;

/// Decimals of a count of a request.
const COUNT_DECIMALS: usize = 3;
/// One of a hundred million requests: fewer are not counted in a run.
const MOST_DECIMALS: usize = 9;

/// What came of a condition on `arm`.
pub(super) fn sentence(arm: &str, says: &FailIfSays) -> String {
    match says {
        FailIfSays::Rows(rows) => joined(rows, compared, "; "),
        FailIfSays::Void { figure, gate } => {
            format!("{} of '{arm}' is void: gate {gate} failed", label(figure))
        }
        FailIfSays::OtherMachine { figure, run, machines: [here, there] } => format!(
            "{} of '{arm}' is not compared: {run} is of another machine ({there}; this is {here})",
            label(figure)
        ),
        FailIfSays::NoRatio { metric, why } => {
            format!("{} of '{arm}' has no ratio: {}", metric.label(), reason(why))
        }
        FailIfSays::Measured { figure, own, against, within, basis: on } => {
            let held = held_against(figure, *own, against) + &error(figure, against, *within);
            format!("{} of '{arm}': {held} ({})", label(figure), basis(on))
        }
        FailIfSays::NotMeasured { figure, arm, why } => {
            format!("{} of '{arm}' was not measured: {}", label(figure), reason(why))
        }
    }
}

/// That a condition will have too few answers, and what to ask for in its place.
pub(super) fn too_few(found: &Foreseen) -> String {
    let Foreseen { metric, needed, of_block, per_s, blocks, groups, .. } = found;
    let advice = [
        found.quick.then(|| "leave out --quick".to_owned()),
        found.window_s.map(|seconds| format!("pass --window {seconds}s")),
        found.instead.map(|metric| format!("ask for {}, for which there are enough", metric.label())),
    ];
    let advice: Vec<String> = advice.into_iter().flatten().collect();
    let advice = match &advice[..] {
        [] => "ask for more requests a second (--equal-rates, --rate)".to_owned(),
        all => all.join(", or "),
    };
    format!(
        "--fail-if '{}' cannot be judged by this run: at {per_s:.0} requests/s a block has about {of_block:.0} answers, and {} needs \
         {needed}, in a block or in each of {groups} groups of the {blocks} blocks: {advice}",
        found.condition,
        metric.label(),
    )
}

fn label(figure: &AskedFigure) -> String {
    figure.metric.map_or_else(|| figure.name.replace('_', " "), |metric| metric.label().to_owned())
}

fn print(figure: &AskedFigure, value: f64) -> String {
    match figure.unit {
        Unit::Number => format!("{value:.*} a request", decimals(value)),
        unit => unit.print(value),
    }
}

/// Decimals of a count: three, or as many as show two digits of what is not nothing.
fn decimals(value: f64) -> usize {
    let needed = if value == 0.0 { 0.0 } else { 1.0 - value.abs().log10().floor() };
    (needed as usize).clamp(COUNT_DECIMALS, MOST_DECIMALS)
}

fn held_against(figure: &AskedFigure, own: f64, against: &Against) -> String {
    let (baseline, base, how) = match against {
        Against::Itself => return print(figure, own),
        Against::Times { baseline, base, times } if times.is_finite() => {
            (baseline, base, format!("{times:.3} times as much"))
        }
        Against::Times { baseline, base, .. } => (baseline, base, "where there was none".to_owned()),
        Against::More { baseline, base, more } => {
            let sign = if *more < 0.0 { '−' } else { '+' };
            (baseline, base, format!("{sign}{}", print(figure, more.abs())))
        }
    };
    format!("{} against {} of '{baseline}', {how}", print(figure, own), print(figure, *base))
}

/// How far at most what was held against the limit lies from the truth.
fn error(figure: &AskedFigure, against: &Against, within: f64) -> String {
    match against {
        _ if within == 0.0 => String::new(),
        Against::Times { times, .. } if !times.is_finite() => String::new(),
        Against::Times { .. } => format!(" ±{within:.3} (95 %)"),
        Against::Itself | Against::More { .. } => format!(" ±{} (95 %)", print(figure, within)),
    }
}

fn basis(basis: &Basis) -> String {
    match basis {
        Basis::Watched(requests) => {
            format!("counted in watched turns behind the blocks, {requests} requests")
        }
        Basis::Blocks { blocks, at } => format!("median of {blocks} blocks at {at}"),
        Basis::Resident(blocks) => format!("largest resident set, median of {blocks} blocks"),
        Basis::Requests { requests, blocks, at } => format!("{requests} requests of {blocks} blocks at {at}"),
    }
}

fn reason(why: &WhyAbsent) -> String {
    match why {
        WhyAbsent::Failed(error) => format!("it failed: {error}"),
        WhyAbsent::NotCounted(missing) if missing.is_empty() => {
            "there are no watched turns in which system calls were counted".to_owned()
        }
        WhyAbsent::NotCounted(missing) => missing.join("; "),
        WhyAbsent::FewAnswers => "too few answers in each block for this percentile".to_owned(),
        WhyAbsent::NoPair => "no block has both arms".to_owned(),
        WhyAbsent::NoBlock => "no block has it; see whyslow doctor".to_owned(),
    }
}

/// A row in one sentence: verdict, ratio, interval, blocks and method.
fn compared(row: &Comparison) -> String {
    let (metric, verdict) = (row.metric.label(), row.verdict.word());
    let blocks = if row.blocks == 1 { "1 block".to_owned() } else { format!("{} blocks", row.blocks) };
    let void = row.void_by.first().map_or_else(String::new, |gate| format!(", gate {gate} failed"));
    match (figures_of(row), row.level) {
        ([Some(ratio), Some(interval)], Some(level)) => format!(
            "{metric} of '{}' is {ratio} {interval} times that of '{}' at {}: {verdict}{void} ({blocks}, \
             Hodges–Lehmann, exact Wilcoxon interval at {:.1} %)",
            row.arm,
            row.baseline,
            row.condition,
            level * 100.0
        ),
        _ => format!("{metric} of '{}': {verdict}{void}, no ratio ({blocks})", row.arm),
    }
}
