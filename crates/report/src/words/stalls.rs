//! What is said of times in which a server answers nobody.

use analyse::{StallActivity, Stalls};
use model::units::{format_ns, percent};

use super::joined;

/// How a server stalls.
pub(super) fn sentence(stalls: &Stalls) -> String {
    let meanwhile = if stalls.unwatched {
        "what it does meanwhile was not watched".to_owned()
    } else if stalls.activities.is_empty() {
        "what it does meanwhile does not differ from what it does otherwise".to_owned()
    } else {
        format!("meanwhile it {}", joined(&stalls.activities, activity, " and "))
    };
    format!(
        "answers nobody {} times in {} watched, for {} on average ({} of the time); {meanwhile}",
        stalls.count,
        format_ns(stalls.watched_ns as f64),
        format_ns(stalls.mean_ns),
        percent(stalls.share)
    )
}

/// What a server does during stalls.
pub(super) fn activity(activity: &StallActivity) -> String {
    let StallActivity { does, functions, threads, threads_otherwise } = activity;
    format!(
        "{does} in {} ({threads:.2} threads at a time, {threads_otherwise:.2} at other times)",
        functions.join(" > ")
    )
}
