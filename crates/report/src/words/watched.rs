//! What is said of a running server beside its figures.

use analyse::{WatchNote, WhyUncounted};
use model::record::ProfileKind;
use model::units::{format_ns, percent};

/// A note.
pub(super) fn sentence(note: &WatchNote) -> String {
    match note {
        WatchNote::Unseen(text) => text.clone(),
        WatchNote::Uncounted(why) => uncounted(*why),
        WatchNote::BySegments => "Requests are counted as TCP segments with data that came in: right where each request is one \
             segment, and too few where several share one (pipelining) or where connections end; --counter is exact."
            .to_owned(),
        WatchNote::FewTicks { ticks, enough } => format!(
            "Its own code and the kernel for it are not told apart: the clock ticks do that, and of {ticks} (below {enough}) \
             how they divide is chance; watch for longer (-d)."
        ),
        WatchNote::ManyOpened(opened) => {
            format!("{opened} connections were opened meanwhile: requests on those that ended are missing.")
        }
        WatchNote::NothingIn(ProfileKind::Cpu) => {
            "No stack was sampled: it used next to no CPU time.".to_owned()
        }
        WatchNote::NothingIn(ProfileKind::OffCpu) => {
            "No wait was seen: no thread of it came back to a CPU.".to_owned()
        }
        WatchNote::Cost { of, seconds, cpu_ns: [before, during] } => format!(
            "{} was done after the window of the ledger, for {seconds:.1} s; CPU time a request went from {} to {} (x{:.2}).",
            taking(*of),
            format_ns(*before),
            format_ns(*during),
            during / before
        ),
        WatchNote::Partial { share, used } => format!(
            "The samples of the profile stand for {} of the CPU time, and {}: threads that live for a millisecond or less are \
             not seen.",
            percent(*share),
            if *used { "that part is divided" } else { "it is not used" }
        ),
    }
}

const fn taking(kind: ProfileKind) -> &'static str {
    match kind {
        ProfileKind::Cpu => "Sampling its CPU time",
        ProfileKind::OffCpu => "Recording its waits",
    }
}

fn uncounted(why: WhyUncounted) -> String {
    match why {
        WhyUncounted::CounterFell([before, now]) => format!(
            "Requests could not be counted: the counter ran backwards, from {before} to {now}, as where a server begins anew or \
             the first number of the answer counts something else."
        ),
        WhyUncounted::CounterStood(at) => {
            format!("No request was counted: the counter stood at {at} throughout.")
        }
        WhyUncounted::SocketsHidden => {
            "Requests could not be counted: the sockets of the server are not seen from here; name a \
             counter of the server with --counter."
                .to_owned()
        }
        WhyUncounted::NoSegment => {
            "Requests could not be counted: no segment with data came in on connections that are still \
             open; name a counter of the server with --counter."
                .to_owned()
        }
    }
}
