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

fn has_note(found: &Watched, words: &str) -> bool {
    found.notes.iter().any(|note| note.contains(words))
}

#[test]
fn few_ticks_do_not_tell_user_from_kernel_and_many_do() {
    let found = watched(&input(49));
    assert!(names(&found).contains(&"CPU") && !names(&found).iter().any(|name| name.starts_with("CPU,")));
    assert!(has_note(&found, "of 49 (below 50)"), "{:?}", found.notes);
    let found = watched(&input(50));
    assert!(
        names(&found).contains(&"CPU, its own code") && names(&found).contains(&"CPU, the kernel for it")
    );
    assert!(!has_note(&found, "clock ticks"), "{:?}", found.notes);
}

#[test]
fn a_counter_that_does_not_rise_is_told_as_what_it_is() {
    for (counted, words, requests) in [
        ([12, 7], "the counter ran backwards, from 12 to 7", None),
        ([12, 12], "the counter stood at 12", None),
        ([7, 12], "", Some(5)),
    ] {
        let mut input = input(50);
        input.plain.counted = Some(counted);
        let found = watched(&input);
        assert_eq!((found.requests, found.requests_from.as_deref()), (requests, Some("counter")));
        assert!(!has_note(&found, "segment"), "{:?}", found.notes);
        assert!(has_note(&found, words) || (words.is_empty() && found.notes.is_empty()), "{:?}", found.notes);
    }
}

#[test]
fn no_segment_came_in_only_where_segments_are_seen() {
    let silent = "no segment with data came in";
    let mut input = input(50);
    assert!(has_note(&watched(&input), silent));
    input.plain.resources.sockets = None;
    let hidden = watched(&input);
    assert!(
        !has_note(&hidden, silent) && has_note(&hidden, "sockets of the server are not seen"),
        "{:?}",
        hidden.notes
    );
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
