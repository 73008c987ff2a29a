//! What is said of what to run next: a reason, and the command on the line below it.

use analyse::{Advice, Next, NextReason, Place};
use model::plan::CauseId;

use super::gates;
use super::names::cause_words;
use crate::compare::percent;
use crate::screen::short_function;
use crate::waits::at;

/// What to run next, and why.
pub(super) fn sentence(next: &Next) -> String {
    if let NextReason::Failed { arm, error } = &next.reason {
        return format!("mend {arm} first: {error}");
    }
    // What a gate saw may be somebody else's text; the first line is the reason's.
    let reason = reason(&next.reason).replace('\n', " ");
    match &next.command {
        Some(command) => format!("{reason}\n{command}"),
        None => reason,
    }
}

fn reason(reason: &NextReason) -> String {
    match reason {
        NextReason::Failed { arm, error } => format!("mend {arm} first: {error}"),
        NextReason::MoreBlocks { blocks, minutes, beside } => {
            let more = format!("--blocks {blocks} would decide at this spread, in about {}", time(*minutes));
            match beside {
                Some((who, share)) => format!(
                    "a quieter machine first: {who} took {} of the server's CPUs; {more}",
                    percent(*share)
                ),
                None => more,
            }
        }
        NextReason::Quieter { arm, who, moved } => format!(
            "a quieter machine, not more blocks: {who} can have moved {arm} by {:.1} %, whatever number of blocks there is",
            moved * 100.0
        ),
        NextReason::FewerConnections { arm, served, of } => {
            format!("fewer connections: {arm} serves about {served} of {of} and starves the others")
        }
        NextReason::ToItsEnd => "run it to its end: there is no interval yet".to_owned(),
        NextReason::TooFewBlocks { blocks } => format!("an interval takes at least {blocks} blocks"),
        NextReason::More { slices, blocks } => {
            let what =
                if *slices { "more slices in a block (--cycles)" } else { "longer windows (--window)" };
            format!("a quieter machine or {what}: at this spread it would take {blocks} blocks")
        }
        NextReason::Gate(gate) => {
            format!("mend what check '{}' found, and measure again: {}", gate.id, gates::text(gate))
        }
        NextReason::TooFewSamples { arm, samples: [baseline, other], longer } => format!(
            "{baseline} and {other} samples are too few to say where {arm} differs{}",
            if *longer { "; without --quick more are taken" } else { "" }
        ),
        NextReason::Services(slower) => format!(
            "look at what {slower} asks the services beside for, as with a data base's log of slow statements, and measure again"
        ),
        NextReason::Cause {
            place: Some(place),
            alone: true,
            called_from,
            slower,
            advice: Advice::Mend,
            ..
        } => {
            let (what, does) = match called_from {
                // It is the call that can be mended.
                Some(from) => {
                    (format!("the use of {} in {}", short_function(&place.function), short(from)), "has")
                }
                None => (short(place), "runs"),
            };
            format!("mend {what}, which only {slower} {does}, and measure again")
        }
        NextReason::Cause { id, place, slower, advice, .. } => {
            about_cause(*id, place.as_ref(), slower, *advice)
        }
    }
}

/// Minutes, in hours where there are many.
fn time(minutes: f64) -> String {
    if minutes < 120.0 { format!("{minutes:.0} min") } else { format!("{:.1} h", minutes / 60.0) }
}

/// A place with the end of its function's name, where that is long.
fn short(place: &Place) -> String {
    at(&Place { function: short_function(&place.function), ..place.clone() })
}

fn about_cause(id: CauseId, place: Option<&Place>, slower: &str, advice: Advice) -> String {
    let cause = cause_words(id);
    match advice {
        Advice::MendProved => {
            format!("mend '{cause}' in {slower}, without which the gap was seen to fall, and measure again")
        }
        Advice::Mend => match place {
            Some(place) => {
                format!("mend '{cause}' in {slower}, most of it in {}, and measure again", short(place))
            }
            None => format!("mend '{cause}' in {slower}, and measure again"),
        },
        Advice::TakeAway => format!(
            "take '{cause}' away from both, where that can be done from outside, and measure again (--confirm)"
        ),
        Advice::TakeOut => format!("take '{cause}' out of {slower} by hand and measure again"),
    }
}
