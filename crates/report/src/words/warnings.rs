//! What the reader of a comparison must know beside its verdicts.

use analyse::{Overload, Warned};
use model::units::{format_ns, percent};

/// A warning.
pub(super) fn sentence(warned: &Warned) -> String {
    match warned {
        Warned::Damaged(text) => text.clone(),
        Warned::Overloaded { arm, overload } => format!("'{arm}' is {}", overloaded(overload)),
        Warned::NotSteady { arm, unsteady, blocks } => {
            format!("'{arm}' was not steady when {unsteady} of its {blocks} blocks began: raise --warmup-cap")
        }
        Warned::Resent { arm, requests, share } => format!(
            "'{arm}' closed connections as {requests} requests ({}) were on their way; they were sent again and are timed from \
             the first time: look at its keep-alive settings, or use fewer --connections",
            percent(*share)
        ),
        Warned::InService { arm, baseline, service, share, ns: [ns, from] } => format!(
            "{} of the gap in CPU time between '{arm}' and '{baseline}' is in service '{service}': {} a request against {}",
            percent(*share),
            format_ns(*ns),
            format_ns(*from)
        ),
    }
}

/// A server that is asked for more than it can answer.
pub(super) fn overloaded(overload: &Overload) -> String {
    format!(
        "overloaded at {:.0} requests/s: the backlog grows by {:.0} requests a second; the latency figures are a \
         queue's, not the server's",
        overload.asked_per_s, overload.backlog_per_s
    )
}
