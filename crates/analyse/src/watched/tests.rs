use model::record::{Frame, SocketCounters, Sockets, Stack};

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
fn the_leaves_of_its_tree_sum_to_its_cpu_time() {
    let mut input = input(50);
    input.plain.counted = Some([0, 1000]);
    let frame = |name: &str, kernel: bool| Frame {
        name: name.to_owned(),
        module: if kernel { "[kernel]" } else { "server" }.to_owned(),
        kernel,
        resolved: true,
        ..Frame::default()
    };
    let stack = |frames: &[u32], samples| Stack { frames: frames.to_vec(), samples };
    let profile = Profile {
        kind: ProfileKind::Cpu,
        period_ns: 1_000_000,
        wall_ns: 1_000_000_000,
        samples: 8,
        kernel: true,
        kernel_symbols: true,
        callers: true,
        frames: vec![
            frame("work", false),
            frame("do_syscall_64", true),
            frame("__x64_sys_write", true),
            frame("tcp_sendmsg", true),
        ],
        stacks: vec![stack(&[0], 6), stack(&[0, 1, 2, 3], 2)],
        ..Profile::default()
    };
    let mut seen = input.plain.clone();
    // What the clock ticks say of both sides is not what samples say, which are many more.
    (seen.usage.cpu.total_ns, seen.usage.cpu.user_ns) = (8_000_000, 1_000_000);
    input.profiles.push((profile, seen));
    let told = |found: &Watched| -> Vec<(String, f64)> {
        found.tree.iter().map(|leaf| (leaf.path.join(" > "), leaf.ns)).collect()
    };
    let found = watched(&input);
    let leaves =
        ["user > own code > server > work", "kernel > write > TCP > protocol send"].map(str::to_owned);
    let [work, write] = leaves.clone();
    assert_eq!(told(&found), [(work, 6000.0), (write, 2000.0)], "each of 1000 requests");
    let nodes = found.nodes(0.0);
    assert_eq!((nodes[0].name.as_str(), nodes[0].ns[1]), ("a request", 8000.0));
    // Without requests it is of a second, and without a profile there is none.
    (input.plain.counted, input.profiles[0].1.counted) = (None, None);
    let found = watched(&input);
    let [work, write] = leaves;
    assert_eq!(told(&found), [(work, 6_000_000.0), (write, 2_000_000.0)]);
    assert_eq!(found.nodes(0.0)[0].name, "a second");
    input.profiles.clear();
    assert!(watched(&input).tree.is_empty());
}

#[test]
fn a_limit_that_is_not_seen_is_no_row() {
    let has_limit =
        |input: &WatchInput| watched(input).resources.iter().any(|row| row.resource == "CPU limit");
    assert!(has_limit(&input(50)));
    assert!(!has_limit(&WatchInput { limits_hidden: true, ..input(50) }));
}
