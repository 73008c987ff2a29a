//! Figures and conditions in words.

use model::plan::Condition;

/// A condition in words.
#[must_use]
pub fn describe_condition(condition: Condition) -> String {
    match condition {
        Condition::Capacity => "capacity".to_owned(),
        Condition::EqualRate { rate } => format!("{:.0} requests/s", rate.get()),
        Condition::ShareOfSlowest { percent } => format!("{percent} % of the slowest arm's capacity"),
    }
}

/// A share as a percentage for people: one decimal below 10 %.
pub(crate) fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value.abs() < 9.95 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

/// The command without the values of fields and of bodies, which may be secret; the manifest has all of it.
pub(crate) fn shown(command: &[String]) -> Vec<String> {
    const HIDDEN: &str = "...";
    let mut words = Vec::new();
    let mut before = "";
    for word in command {
        let (flag, value) = match word.split_once('=') {
            Some((flag @ ("--header" | "--body"), value)) => (flag, Some(value)),
            _ => (word.strip_prefix("-H").filter(|rest| !rest.is_empty()).map_or(before, |_| "-H"), None),
        };
        let joined = if value.is_some() { format!("{flag}=") } else { String::new() };
        let text = value.unwrap_or(word);
        words.push(match (flag, text.split_once(':')) {
            ("-H" | "--header", Some((name, _))) => format!("{joined}{name}: {HIDDEN}"),
            ("--body", _) if !text.starts_with('@') => format!("{joined}{HIDDEN}"),
            _ => word.clone(),
        });
        before = word;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_command_is_shown_without_values_that_may_be_secret() {
        let hidden = [
            ("-H|Authorization: Bearer s3", "-H|Authorization: ..."),
            ("-HX-Key: s3", "-HX-Key: ..."),
            ("--header=Cookie: s3", "--header=Cookie: ..."),
            ("--body|s3", "--body|..."),
            ("--body=s3", "--body=..."),
            ("--body|@file", "--body|@file"),
            ("a=./x --H: {port}|--path|/a:b", "a=./x --H: {port}|--path|/a:b"),
        ];
        for (given, wanted) in hidden {
            let words: Vec<String> = given.split('|').map(str::to_owned).collect();
            assert_eq!(shown(&words).join("|"), wanted);
        }
    }
}
