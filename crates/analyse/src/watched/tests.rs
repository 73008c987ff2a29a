use model::record::{SocketCounters, Sockets};

use super::*;

/// A second of a server that used `ticks` clock ticks, and whose sockets are seen.
fn input(ticks: u64) -> WatchInput {
    let mut plain = WatchedWindow { ticks, ..WatchedWindow::default() };
    plain.usage.wall_ns = 1_000_000_000;
    plain.resources.sockets = Some(Sockets::default());
    WatchInput { plain, ..WatchInput::default() }
}

fn names(found: &Watched) -> Vec<&str> {
    found.ledger.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn few_ticks_do_not_tell_user_from_kernel_and_many_do() {
    let found = watched(&input(49));
    assert!(names(&found).contains(&"CPU") && !names(&found).iter().any(|name| name.starts_with("CPU,")));
    assert!(found.noted.contains(&WatchNote::FewTicks { ticks: 49, enough: 50 }), "{:?}", found.noted);
    let found = watched(&input(50));
    assert!(
        names(&found).contains(&"CPU, its own code") && names(&found).contains(&"CPU, the kernel for it")
    );
    let is_of_ticks = |note: &WatchNote| matches!(note, WatchNote::FewTicks { .. });
    assert!(!found.noted.iter().any(is_of_ticks), "{:?}", found.noted);
}

#[test]
fn a_counter_that_does_not_rise_is_told_as_what_it_is() {
    for (counted, why, requests) in [
        ([12, 7], Some(WhyUncounted::CounterFell([12, 7])), None),
        ([12, 12], Some(WhyUncounted::CounterStood(12)), None),
        ([7, 12], None, Some(5)),
    ] {
        let mut input = input(50);
        input.plain.counted = Some(counted);
        let found = watched(&input);
        assert_eq!((found.requests, found.requests_from.as_deref()), (requests, Some("counter")));
        assert_eq!(found.noted, why.map(WatchNote::Uncounted).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn no_segment_came_in_only_where_segments_are_seen() {
    let uncounted = |why| vec![WatchNote::Uncounted(why)];
    let mut input = input(50);
    assert_eq!(watched(&input).noted, uncounted(WhyUncounted::NoSegment));
    input.plain.resources.sockets = None;
    assert_eq!(watched(&input).noted, uncounted(WhyUncounted::SocketsHidden));
    let server = SocketCounters { data_segments_in: 9, ..SocketCounters::default() };
    input.plain.resources.sockets = Some(Sockets { server, ..Sockets::default() });
    assert_eq!(watched(&input).requests, Some(9));
}

#[test]
fn a_limit_that_is_not_seen_is_no_row() {
    let has_limit =
        |input: &WatchInput| watched(input).resources.iter().any(|row| row.resource == "CPU limit");
    assert!(has_limit(&input(50)));
    assert!(!has_limit(&WatchInput { limits_hidden: true, ..input(50) }));
}
