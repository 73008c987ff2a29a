//! What is said of answers that differ.

use std::collections::BTreeSet;

use analyse::sameness::Difference;
use analyse::{AnswersDiffer, Unlike};
use model::record::status_name;

use super::joined;

/// That `arm` does not answer as `baseline` does.
pub(super) fn unlike(arm: &str, baseline: &str, found: &Unlike, allowed: bool) -> String {
    let advice = if allowed {
        "allowed by --allow-difference"
    } else {
        "make them alike, ask for less with --same, or pass --allow-difference to go on"
    };
    let found = match found {
        Unlike::Probed(found) => sentence(found),
        Unlike::Loaded([other, base]) => {
            format!("{other:.0} instead of {base:.0} bytes in each answer under load")
        }
    };
    format!("'{arm}' does not answer as '{baseline}': {found}; {advice}")
}

/// What differs, request by request.
pub(crate) fn sentence(found: &AnswersDiffer) -> String {
    let request = |(request, differences): &(Option<String>, Vec<Difference>)| {
        let of = request.as_ref().map_or_else(String::new, |request| format!("asked for '{request}', "));
        let words = differences.iter().map(|one| difference(one, &found.baseline, &found.other));
        format!("{of}{}", words.collect::<Vec<_>>().join(", "))
    };
    found.requests.iter().map(request).collect::<Vec<_>>().join("; ")
}

fn difference(one: &Difference, baseline: &str, other: &str) -> String {
    let owner = |first: &bool| if *first { (baseline, other) } else { (other, baseline) };
    match one {
        Difference::Status { baseline: a, other: b } => format!(
            "'{other}' answers with status {} and '{baseline}' with {}",
            status_name(*b),
            status_name(*a)
        ),
        Difference::Field { name, baseline: first } => {
            let (has, lacks) = owner(first);
            format!("'{has}' sends a field {name} and '{lacks}' does not")
        }
        Difference::ContentType { baseline: a, other: b } => {
            format!("'{other}' answers with content type {b} and '{baseline}' with {a}")
        }
        Difference::Json { path, baseline: a, other: b } => {
            format!("at {path} '{other}' has {} and '{baseline}' has {}", types(b), types(a))
        }
        Difference::Length { baseline: a, other: b } => {
            format!("'{other}' answers with a body of {b} bytes and '{baseline}' with one of {a}")
        }
        Difference::LeftOpen { baseline: first } => {
            let (ignores, _) = owner(first);
            format!("'{ignores}' ignores Connection: close and leaves it to the client to close")
        }
        Difference::Body { at } => {
            format!("the bodies of '{other}' and '{baseline}' differ from byte {at} on")
        }
    }
}

fn types(types: &BTreeSet<String>) -> String {
    if types.is_empty() { "nothing".to_owned() } else { joined(types, String::clone, " or ") }
}
