//! A running server that was watched.

use analyse::{WatchInput, WatchNote, WhyUncounted};
use model::record::ProfileKind;
use report::{watch_json, watch_text, worded};

#[test]
fn notes_say_what_is_missing_what_is_doubtful_and_what_watching_cost() {
    let (cpu, off_cpu) = (ProfileKind::Cpu, ProfileKind::OffCpu);
    let seconds = 2.0;
    let notes = [
        (
            WatchNote::Unseen("The profile is missing: it may not.".to_owned()),
            "The profile is missing: it may not.",
        ),
        (WatchNote::Uncounted(WhyUncounted::CounterFell([12, 7])), "the counter ran backwards, from 12 to 7"),
        (WatchNote::Uncounted(WhyUncounted::CounterStood(12)), "the counter stood at 12 throughout."),
        (
            WatchNote::Uncounted(WhyUncounted::SocketsHidden),
            "the sockets of the server are not seen from here",
        ),
        (WatchNote::Uncounted(WhyUncounted::NoSegment), "no segment with data came in"),
        (WatchNote::BySegments, "Requests are counted as TCP segments with data that came in"),
        (WatchNote::FewTicks { ticks: 49, enough: 50 }, "of 49 (below 50) how they divide is chance"),
        (WatchNote::ManyOpened(39_000), "39000 connections were opened meanwhile"),
        (WatchNote::NothingIn(cpu), "No stack was sampled"),
        (WatchNote::NothingIn(off_cpu), "No wait was seen"),
        (
            WatchNote::Cost { of: cpu, seconds, cpu_ns: [1e5, 2e5] },
            "Sampling its CPU time was done after the window of the ledger, for 2.0 s; CPU time a request went from 100 µs to 200 µs (x2.00).",
        ),
        (WatchNote::Cost { of: off_cpu, seconds, cpu_ns: [1e5, 2e5] }, "Recording its waits was done"),
        (WatchNote::Partial { share: 0.6, used: true }, "60 % of the CPU time, and that part is divided:"),
        (WatchNote::Partial { share: 0.4, used: false }, "40 % of the CPU time, and it is not used:"),
    ];
    let mut found = analyse::watched(&WatchInput::default());
    found.noted = notes.iter().map(|(note, _)| note.clone()).collect();
    let found = worded(found);
    assert_eq!(found.notes.len(), notes.len());
    for (sentence, (_, words)) in found.notes.iter().zip(&notes) {
        assert!(sentence.contains(words) && sentence.ends_with('.'), "'{words}' is not in '{sentence}'");
    }
    assert!(watch_text(&found).contains("the counter stood at 12"), "{}", watch_text(&found));
    assert!(!watch_json(&found).contains("noted"), "the JSON has the sentences alone");
}
