//! What is said of a run as a whole: what was sent, and how far it got.

use analyse::{Sent, Unfinished};
use model::job::Reuse;

/// What was sent: requests, connections, depth, placement.
pub(super) fn workload(sent: &Sent) -> String {
    let Sent { requests, connections, depth, reuse, placement } = sent;
    let depth = if *depth > 1 { format!(", {depth} in flight on each") } else { String::new() };
    let each = match reuse {
        Reuse::All => String::new(),
        Reuse::Requests(1) => ", a new one for each request".to_owned(),
        Reuse::Requests(requests) => format!(", a new one after {requests} requests"),
    };
    format!("{requests} over {connections} connections{depth}{each}; {}", placement.describe())
}

/// How far a run got that is not complete.
pub(super) fn unfinished(run: &Unfinished) -> String {
    let place =
        run.block.map_or_else(|| "before the first block".to_owned(), |block| format!("after block {block}"));
    match (run.interrupted, run.block) {
        (true, Some(_)) => format!("interrupted {place}: figures are of what was measured"),
        (true, None) => format!("interrupted {place} was measured: there are no figures"),
        (false, _) => format!("not ended (killed, or still running) {place}"),
    }
}
