//! A condition from its text, checked against the plan before anything is started.

use model::plan::{Plan, nearest};

use super::figure::{FIGURES, Figure};
use super::{Asks, FailIf, FailIfError, Value};
use crate::facts::metric::Metric;
use crate::facts::sheet::is_compared;
use crate::verdicts::Verdict;
use crate::verdicts::bound::{Order, Unit};

const VERDICTS: [Verdict; 5] =
    [Verdict::Slower, Verdict::Faster, Verdict::Equal, Verdict::Inconclusive, Verdict::Invalid];

impl FailIf {
    /// Reads a condition on a run of `plan`: `ARM VERDICT [in METRIC]`, or `ARM FIGURE > VALUE`. A value is `1.05x` for a
    /// ratio to the baseline, `+0.1` for a difference from it, and otherwise the figure itself in its own unit.
    ///
    /// # Errors
    /// [`FailIfError`], if a word is not known, or if the run could never decide the condition.
    pub fn parse(text: &str, plan: &Plan) -> Result<Self, FailIfError> {
        let wrong = |reason: String| FailIfError { text: text.to_owned(), reason };
        let (arm, asks) = match Order::split(text) {
            Some((left, order, value)) => {
                let [arm, figure] = left.split_whitespace().collect::<Vec<_>>()[..] else {
                    return Err(wrong("is not a condition: write such as 'ARM syscalls > 1.05x'".to_owned()));
                };
                known_arm(arm, plan).map_err(wrong)?;
                (arm, figure_asked(arm, figure, order, value, plan).map_err(wrong)?)
            }
            None => verdict_asked(text, plan).map_err(wrong)?,
        };
        Ok(Self { text: text.trim().to_owned(), arm: arm.to_owned(), asks })
    }
}

fn known_arm(arm: &str, plan: &Plan) -> Result<(), String> {
    let names = || plan.arms.iter().map(|arm| arm.name.as_str());
    if names().any(|name| name == arm) {
        return Ok(());
    }
    Err(format!("names no arm: there is no '{arm}'{}", meant(arm, names())))
}

/// `; did you mean 'WORD'?`
fn meant<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = nearest(wrong, known.map(|word| (word, word)));
    nearest.map_or_else(String::new, |word| format!("; did you mean '{word}'?"))
}

fn is_baseline(arm: &str, plan: &Plan) -> bool {
    plan.arms[plan.baseline].name == arm
}

fn verdict_asked<'a>(text: &'a str, plan: &Plan) -> Result<(&'a str, Asks), String> {
    let (arm, word, metric) = match text.split_whitespace().collect::<Vec<_>>()[..] {
        [arm, word] => (arm, word, None),
        [arm, word, "in", metric] => (arm, word, Some(metric)),
        _ => {
            return Err(
                "is not a condition: write 'ARM slower', 'ARM slower in p99' or 'ARM syscalls > 1.05x'"
                    .to_owned(),
            );
        }
    };
    known_arm(arm, plan)?;
    let words = || VERDICTS.iter().map(|verdict| verdict.word());
    let verdict = VERDICTS.into_iter().find(|verdict| verdict.word() == word).ok_or_else(|| {
        format!(
            "names no verdict: there is no '{word}', write slower, faster, equal, inconclusive or invalid{}",
            meant(word, words())
        )
    })?;
    let metric = metric.map(metric_named).transpose()?;
    if is_baseline(arm, plan) {
        return Err(never(&format!("'{arm}' is the baseline, with which the others are compared")));
    }
    if let Some(metric) = metric {
        compared(metric, plan)?;
    }
    Ok((arm, Asks::Verdict(verdict, metric)))
}

fn metric_named(name: &str) -> Result<Metric, String> {
    Metric::named(name).ok_or_else(|| {
        let known = FIGURES.iter().filter(|figure| figure.metric.is_some()).map(|figure| figure.name);
        format!("names no metric: there is no '{name}'{}", meant(name, known))
    })
}

fn never(why: &str) -> String {
    format!("can never hold: {why}")
}

fn compared(metric: Metric, plan: &Plan) -> Result<(), String> {
    if is_compared(plan, metric) {
        return Ok(());
    }
    Err(never(&format!("this run does not compare {}; see --equal-rates and --rate", metric.label())))
}

fn figure_asked(arm: &str, name: &str, order: Order, value: &str, plan: &Plan) -> Result<Asks, String> {
    let figure = Figure::named(name).ok_or_else(|| {
        let known = || FIGURES.iter().map(|figure| figure.name);
        let meant = meant(name, known());
        format!(
            "names no figure: there is no '{name}'{meant}; known are {}",
            known().map(as_written).collect::<Vec<_>>().join(", ")
        )
    })?;
    let value = value_of(figure, value).ok_or_else(|| no_value(figure, value))?;
    if !matches!(value, Value::Own(_)) && is_baseline(arm, plan) {
        return Err(never(&format!(
            "'{arm}' is the baseline; write a value such as {}",
            figure.unit.example()
        )));
    }
    if figure.is_watched() && !plan.design.why {
        return Err(
            "can never be judged: system calls are counted with the causes; leave out --no-why".to_owned()
        );
    }
    if let (Some(metric), Value::Times(_)) = (figure.metric, value) {
        compared(metric, plan)?;
    }
    Ok(Asks::Figure(figure, order, value))
}

/// A figure's name as docs/ci.md writes it.
fn as_written(name: &str) -> String {
    name.replace("context_switches_", "context_switches.")
}

/// Why `text` is no value of `figure`; a number that lacks its unit is shown with one.
fn no_value(figure: &Figure, text: &str) -> String {
    let (kind, unit) = match figure.unit {
        Unit::Time => ("time", "ms"),
        Unit::Size => ("size", "MiB"),
        Unit::Rate => ("rate", ""),
        _ => ("number", ""),
    };
    let bare = !unit.is_empty() && text.parse::<f64>().is_ok_and(|value| value.is_finite() && value >= 0.0);
    let own = if bare { format!("{text}{unit}") } else { figure.unit.example().to_owned() };
    format!(
        "has no value: '{text}' is no {kind}: write {own} for {} itself, 1.05x for a ratio to the baseline, or +{own} for a \
         difference from it",
        as_written(figure.name)
    )
}

fn value_of(figure: &Figure, text: &str) -> Option<Value> {
    if let Some(times) = text.strip_suffix('x') {
        return Unit::Number.parse(times).map(Value::Times);
    }
    if let Some(more) = text.strip_prefix('+') {
        return figure.unit.parse(more).map(Value::More);
    }
    if let Some(less) = text.strip_prefix(['-', '−']) {
        return figure.unit.parse(less).map(|less| Value::More(-less));
    }
    let text = if figure.unit == Unit::Rate { text.strip_suffix("/s").unwrap_or(text) } else { text };
    figure.unit.parse(text).map(Value::Own)
}
