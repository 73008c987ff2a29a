//! Why arms differ, on the first screen.

use model::record::EndedBy;

use super::*;

/// A node of the tree of `pr`, of a gap of −3.3 µs.
fn node(path: &[&str], delta_ns: f64, cause: &str, count: Option<[f64; 2]>) -> analyse::GapNode {
    analyse::GapNode {
        arm: "pr".to_owned(),
        path: path.iter().map(|name| (*name).to_owned()).collect(),
        delta_ns,
        delta_se_ns: 50.0,
        share: delta_ns / -3300.0,
        count: count.map(|[baseline, arm]| analyse::LeafCount { baseline, arm }),
        more_ns: count.map(|_| delta_ns),
        dearer_ns: count.map(|_| 0.0),
        via: Some("flush".to_owned()),
        below: Vec::new(),
        cause: cause.parse().ok(),
        changed: None,
        caller: None,
    }
}

#[test]
fn of_two_revisions_it_is_said_whether_the_code_changed() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![of_gap("pr", "own_code", Grade::ConsistentWith, -3300.0, -3300.0)];
    for (change, words) in [
        (analyse::Change::Line, "render (own code); changed in this range"),
        (analyse::Change::Function, "render (own code); in a function changed in this range"),
        (analyse::Change::None, "render (own code); same code"),
    ] {
        let one = node(&["user", "own code", "shop", "render"], -3300.0, "own_code", None);
        found.said = vec![analyse::GapNode { changed: Some(change), via: None, ..one }];
        let text = findings_text(&found, Style::Plain);
        assert!(text.contains(words), "{text}");
    }
    let caller = analyse::Place {
        function: "reply".to_owned(),
        file: Some("src/shop.c".to_owned()),
        line: Some(57),
        commit: None,
    };
    found.said[0].caller = Some(caller);
    let text = findings_text(&found, Style::Plain);
    assert!(
        text.contains("render (own code); called from reply, shop.c:57, changed in this range"),
        "{text}"
    );
}

#[test]
fn lines_of_one_function_are_one_row_that_names_them_before_who_calls() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![of_gap("pr", "own_code", Grade::ConsistentWith, -3300.0, -3300.0)];
    let caller = analyse::Place {
        function: "main.handle".to_owned(),
        file: Some("main.go".to_owned()),
        line: Some(20),
        commit: None,
    };
    let line = |line: &str, delta_ns| analyse::GapNode {
        via: Some("main.work".to_owned()),
        changed: Some(analyse::Change::None),
        caller: Some(caller.clone()),
        ..node(&["user", "own code", "main", "main.work", line], delta_ns, "own_code", None)
    };
    found.said = vec![line("main.go:13", -2200.0), line("main.go:14", -700.0), line("util.go:3", -200.0)];
    let text = findings_text(&found, Style::Plain);
    let row = "     3.1 µs   94 %  main.work, main.go:13, 14 and util.go:3 (own code); called from";
    assert!(text.contains(row) && text.matches("main.work").count() == 1, "{text}");
    // What goes the other way is another row.
    found.said[1].delta_ns = 700.0;
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("main.work, main.go:13 and util.go:3 (own code)"), "{text}");
    assert!(text.contains("main.work, main.go:14 (own code)"), "{text}");
}

#[test]
fn where_idle_time_is_part_of_a_gap_its_causes_have_the_places_of_their_nodes() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    // Of twice as much as the CPU time differs.
    found.causes = vec![
        of_gap("pr", "small_writes", Grade::ConsistentWith, -4000.0, -6600.0),
        of_gap("pr", "gc", Grade::ConsistentWith, -2600.0, -6600.0),
    ];
    found.said = vec![
        node(&["kernel", "writev", "TCP"], -1000.0, "small_writes", None),
        node(&["user", "garbage collection"], -2000.0, "gc", None),
    ];
    let text = findings_text(&found, Style::Plain);
    assert!(
        text.contains("answers sent in more writes for flush") && text.contains("idle time included"),
        "{text}"
    );
    assert!(!text.contains("memory to be collected for") && !text.contains("collection for"), "{text}");
}

#[test]
fn a_gap_is_said_by_the_nodes_of_its_tree_and_not_by_causes_beside_them() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![of_gap("pr", "small_writes", Grade::ConfirmedBy, -4000.0, -3300.0)];
    found.said = vec![
        node(&["kernel", "writev", "TCP"], -4000.0, "small_writes", Some([1.0, 0.07])),
        node(&["user", "own code"], 600.0, "own_code", None),
    ];
    let text = findings_text(&found, Style::Plain);
    let lines = [
        "Why pr saves 3.3 µs a request: saves 4.0 µs, pays 0.7 µs in its own code and smaller differences",
        "     4.0 µs  121 %  writev on TCP for flush, 1.00 → 0.070 a request                           proved",
        "    −0.6 µs  −18 %  own code in flush                                                         likely",
        "    −0.1 µs   −3 %  smaller differences (--details)",
    ];
    assert!(text.contains(&lines.join("\n")), "{text}");
    // A package is named, but for the one of the servers that are built in: its name is that of this program.
    for (package, words) in [("shop", "own code of shop in flush"), ("whyslow", "own code in flush")] {
        found.said[1] = node(&["user", "own code", package], 600.0, "own_code", None);
        let text = findings_text(&found, Style::Plain);
        assert!(text.contains(&format!(" {words} ")), "{text}");
    }
    // What is left is named as far as it has names: what goes the way of the gap, each name once.
    found.said[0].delta_ns = -2000.0;
    found.causes = vec![of_gap("pr", "small_writes", Grade::ConfirmedBy, -2000.0, -3300.0)];
    found.said.pop();
    found.smaller = vec![
        node(&["kernel", "entry and exit", "switch"], -400.0, "kernel_entry", None),
        node(&["user", "own code", "shop"], 300.0, "own_code", None),
        node(&["kernel", "futex", "futex", "wake-up"], -300.0, "context_switches", None),
        node(&["kernel", "futex", "futex", "switch"], -100.0, "context_switches", None),
    ];
    let text = findings_text(&found, Style::Plain);
    let row = "     1.3 µs   39 %  smaller: kernel entry 12 %, futex 12 %, …\n";
    assert!(text.contains(row), "{text}");
    // Of functions of one package with all that they call, the package, and what holds most comes first.
    let package = "github.com/jackc/pgx/v5 and what it calls";
    let paths = [["user", "header writing", ""], ["user", package, "pgx.a"], ["user", package, "pgx.b"]];
    found.smaller = paths.map(|path| node(&path, -250.0, "own_code", None)).into();
    let text = findings_text(&found, Style::Plain);
    let row = "     1.3 µs   39 %  smaller: github.com/jackc/pgx/v5 15 %, header writing 8 %, …\n";
    assert!(text.contains(row), "{text}");
    // Where no one function stands for a node, what is below it does.
    let below = vec!["cart".to_owned(), "tax".to_owned()];
    found.said = vec![analyse::GapNode { below, ..node(&["user", "own code"], -3300.0, "own_code", None) }];
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains(" own code in cart, tax "), "{text}");
    // What was not sampled has no parts: counts tell.
    found.said =
        vec![analyse::GapNode { cause: None, ..node(&["kernel", "not sampled"], -3300.0, "", None) }];
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("answers sent in more writes"), "{text}");
}

/// A connection is several calls, and each of them is little: together they are what is said, once.
#[test]
fn calls_of_one_counted_cause_have_one_row_where_none_has_most_of_it() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.causes = vec![
        of_gap("pr", "new_connections", Grade::ConsistentWith, 900.0, 1500.0),
        of_gap("pr", "own_code", Grade::ConsistentWith, 600.0, 1500.0),
    ];
    let call = |call: &str, ns| node(&["kernel", call, "TCP"], ns, "new_connections", Some([0.0, 0.5]));
    let entry = node(&["kernel", "entry and exit"], 100.0, "new_connections", None);
    found.said = vec![node(&["user", "own code", "shop"], 600.0, "own_code", None), call("close", 400.0)];
    found.smaller = vec![call("connect", 300.0), call("close", 50.0), call("socket", 50.0), entry];
    let text = findings_text(&found, Style::Plain);
    let rows = [
        "     0.9 µs   60 %  new connections: close, connect, socket                                   likely",
        "     0.6 µs   40 %  own code of shop in flush                                                 likely",
    ];
    assert!(text.contains(&rows.join("\n")) && !text.contains("smaller"), "{text}");
    // Of one call that has most of it there is more to say.
    found.said[1].delta_ns = 800.0;
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("close on TCP for flush, 0.00 → 0.50 a request"), "{text}");
}

/// What was measured in small parts and what nobody knows are two things.
#[test]
fn what_is_left_is_named_as_far_as_it_was_measured() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.causes = vec![of_gap("pr", "lock_contention", Grade::ConsistentWith, 1500.0, 6000.0)];
    found.said = vec![node(&["user", "own code", "shop"], 1200.0, "own_code", None)];
    for (unattributed_share, rows) in [
        (0.5, &["1.5 µs   25 %  smaller: shop 20 %, …", "3.0 µs   50 %  not explained"][..]),
        (0.73, &["4.5 µs   75 %  not explained"]),
        (0.02, &["4.5 µs   75 %  smaller: shop 20 %, …"]),
    ] {
        let arm = "pr".to_owned();
        found.rests = vec![analyse::RestOfGap {
            arm,
            unattributed_share,
            small_share: 0.75 - unattributed_share,
            small_between: [0.0, 1.0],
        }];
        let text = findings_text(&found, Style::Plain);
        let left: Vec<&str> =
            text.lines().filter(|line| line.contains("smaller") || line.contains("not explained")).collect();
        assert_eq!(left.len(), rows.len(), "{text}");
        assert!(left.iter().zip(rows).all(|(line, row)| line.trim() == *row), "{text}");
    }
}

/// The row of a call that is made more often has that call's counts, and not those of all calls.
#[test]
fn calls_that_are_made_more_often_have_their_own_counts() {
    let mut found = run(&[("pr", 11_900.0, [1.144, 1.13, 1.16], Verdict::Slower)]);
    found.causes = vec![of_gap("pr", "extra_syscalls", Grade::ConsistentWith, 1500.0, 1500.0)];
    found.ledger = [("syscall:readlink", 0.0, 7.99), ("syscall:statx", 3.0, 2.0), ("syscall:read", 6.0, 6.0)]
        .map(|(id, from, to)| counted("pr", id, from, to))
        .to_vec();
    let part = |call: &str, part: &str, ns, counts| {
        node(&["kernel", call, "files", part], ns, "extra_syscalls", Some(counts))
    };
    let readlink = [0.0, 7.99];
    found.said = vec![part("readlink", "walk", 800.0, readlink), part("readlink", "read", 700.0, readlink)];
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("more system calls: readlink, 0.00 → 7.99 a request "), "{text}");
    found.said[1] = part("openat", "open", 700.0, [0.0, 1.0]);
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("more system calls: readlink, openat, 9.00 → 16.0 a request in all "), "{text}");
}

/// Of several arms each has two rows of causes: what goes the other way has none, and is not taken off what goes with the gap.
#[test]
fn parts_that_go_both_ways_are_not_one_sum() {
    let arms = ["pr", "other"].map(|arm| (arm, 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster));
    let mut found = run(&arms);
    found.causes = vec![of_gap("pr", "context_switches", Grade::ConsistentWith, -3300.0, -3300.0)];
    found.said = vec![
        node(&["kernel", "futex", "switch"], -3500.0, "context_switches", None),
        node(&["kernel", "writev", "TCP"], -800.0, "small_writes", None),
        node(&["user", "own code"], 800.0, "own_code", None),
    ];
    let text = findings_text(&found, Style::Plain);
    let lines = [
        "Why pr saves 3.3 µs a request: saves 4.3 µs, pays 1.0 µs in its own code and smaller differences",
        "     3.5 µs  106 %  futex on switch for flush                                                 likely",
        "     0.8 µs   24 %  writev on TCP for flush                                                   likely",
        "    −1.0 µs  −30 %  its own code and smaller differences (--details)",
    ];
    assert!(text.contains(&lines.join("\n")), "{text}");
    // Those of one direction are.
    found.said[2].delta_ns = -200.0;
    let text = findings_text(&found, Style::Plain);
    assert!(text.contains("     1.0 µs   30 %  answers sent in more writes and its own code\n"), "{text}");
}

/// Shares are of the gap, as in JSON, as long as they tell something.
#[test]
fn where_as_much_goes_the_other_way_as_the_gap_is_rows_have_no_shares() {
    let row = |opposed_ns: f64| {
        let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
        found.causes = vec![
            of_gap("pr", "context_switches", Grade::BoundedBy, -3300.0 - opposed_ns, -3300.0),
            of_gap("pr", "copying", Grade::ConsistentWith, opposed_ns, -3300.0),
        ];
        let text = findings_text(&found, Style::Plain);
        text.lines().find(|line| line.contains("  copying bytes")).unwrap().to_owned()
    };
    assert!(row(1_650.0).contains("−50 %"), "{}", row(1_650.0));
    assert!(!row(3_400.0).contains('%'), "{}", row(3_400.0));
}

/// What was ruled out as a whole is not said beside a part of it that is named.
#[test]
fn not_it_has_no_words_of_a_row() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![
        of_gap("pr", "own_code", Grade::ConsistentWith, -3300.0, -3300.0),
        of_gap("pr", "context_switches", Grade::RuledOut, -1.0, -3300.0),
        of_gap("pr", "kernel_memory", Grade::RuledOut, -1.0, -3300.0),
    ];
    let not_it = |found: &Findings| {
        let text = findings_text(found, Style::Plain);
        text.lines().find(|line| line.contains("not it")).unwrap_or_default().trim().to_owned()
    };
    found.said = vec![node(&["user", "own code"], -3300.0, "own_code", None)];
    assert_eq!(not_it(&found), "not it: context switches, page faults");
    found.said.push(node(&["kernel", "futex", "futex", "switch"], -300.0, "thread_handoff", None));
    assert_eq!(not_it(&found), "not it: page faults");
}

#[test]
fn writes_are_those_that_are_known_to_go_to_the_network() {
    let text = row_of_writes(true);
    assert!(text.contains("answers sent in more writes, 2.00 → 1.00 a request"), "{text}");
    let text = row_of_writes(false);
    assert!(text.contains("answers sent in more writes ") && !text.contains("2.00"), "{text}");
}

/// The screen of a gap by writes, which all went to the `network`.
fn row_of_writes(network: bool) -> String {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    let says = analyse::CauseSays {
        tests: Vec::new(),
        of: Some("threads".to_owned()),
        seen: vec![analyse::Seen::Writes { writes: [2.0, 1.0], network, bytes_each: None }],
        carries: analyse::Carries::Against(1.0),
    };
    found.causes = vec![analyse::Cause {
        says: Some(says),
        ..of_gap("pr", "small_writes", Grade::BoundedBy, -3300.0, -3300.0)
    }];
    findings_text(&found, Style::Plain)
}

/// The row of a cause that all of a gap is of, and of which this was seen.
fn row_of(id: &str, seen: analyse::Seen) -> String {
    row_with(id, seen, Vec::new())
}

/// Waits of 3.3 µs a request by what ended them, which the other arm has not.
fn ended_waits(
    cause: CauseId,
    ended_by: EndedBy,
    by: Option<&str>,
    waited_in: &str,
    runs: Option<analyse::Place>,
) -> analyse::Seen {
    analyse::Seen::Waits(analyse::EndedWaits {
        cause,
        ended_by,
        by: by.map(str::to_owned),
        waited_in: Some(waited_in.to_owned()),
        woken_from: None,
        behind: None,
        runs,
        ns: 3300.0,
        other_ns: Some(0.0),
    })
}

/// The same beside lines of the ledger.
fn row_with(id: &str, seen: analyse::Seen, ledger: Vec<LedgerLine>) -> String {
    let says = analyse::CauseSays {
        tests: Vec::new(),
        of: Some("threads".to_owned()),
        seen: vec![seen],
        carries: analyse::Carries::Against(1.0),
    };
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![analyse::Cause {
        says: Some(says),
        ..of_gap("pr", id, Grade::ConsistentWith, -3300.0, -3300.0)
    }];
    found.ledger.extend(ledger);
    let text = findings_text(&found, Style::Plain);
    text.lines().find(|line| line.contains("100 %")).unwrap_or(&text).to_owned()
}

/// Of a time that passes nobody knows for whom, goroutines tell more.
#[test]
fn what_goroutines_wait_for_is_said_where_their_threads_only_sleep() {
    use model::record::WaitsFor;

    let row = |id: &str, waits_for: WaitsFor| {
        let parked = analyse::ParkedSeen {
            waits_for,
            function: "main.(*planner).plan".to_owned(),
            at_a_time: 31.1,
            ns: 13_800_000.0,
            other: None,
        };
        row_of(id, analyse::Seen::Parked(parked))
    };
    for (id, waits_for, words) in [
        ("timer_wait", WaitsFor::Channel, "  goroutines that wait for a channel in main.(*planner).plan "),
        ("timer_wait", WaitsFor::Sleep, "  waiting for a timer in main.(*planner).plan "),
        ("lock_contention", WaitsFor::Lock, "  threads that wait for a lock in main.(*planner).plan "),
    ] {
        let row = row(id, waits_for);
        assert!(row.contains(words), "{row}");
    }
}

#[test]
fn a_function_seen_in_one_arm_alone_is_said_with_what_is_under_it() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![of_gap("pr", "own_code", Grade::ConsistentWith, -3300.0, -3300.0)];
    found.said = vec![node(&["user", "own code"], -3300.0, "own_code", None)];
    let function = |name: &str, share: f64| analyse::GapFunction {
        arm: "pr".to_owned(),
        slower: "threads".to_owned(),
        function: name.to_owned(),
        package: "shop".to_owned(),
        file: None,
        called_from: None,
        grown_ns: None,
        delta_ns: -3300.0 * share,
        delta_se_ns: 50.0,
        share,
    };
    for (share, words) in [(0.85, "85 % of it"), (1.4, "4.6 µs")] {
        found.gap_functions = vec![function("log", share)];
        let text = findings_text(&found, Style::Plain);
        let line = format!("a request\n   {words} is under log (shop), seen only in threads\n");
        assert!(text.contains(&line), "{text}");
    }
    let caller = analyse::Place {
        function: "main.(*desk).quote".to_owned(),
        file: Some("src/main.go".to_owned()),
        line: Some(41),
        commit: None,
    };
    found.gap_functions[0].called_from = Some(caller);
    let line = "log (shop), seen only in threads, called by main.(*desk).quote (main.go:41)\n";
    assert!(findings_text(&found, Style::Plain).contains(line));
    // The row says it, unless it has but a small part of it.
    found.gap_functions = vec![function("flush", 0.85)];
    assert!(!findings_text(&found, Style::Plain).contains("seen only"));
    found.said = vec![node(&["user", "own code"], -330.0, "own_code", None)];
    assert!(findings_text(&found, Style::Plain).contains("85 % of it is under flush (shop), seen only in"));
}

#[test]
fn how_often_another_server_is_asked_stands_beside_the_wait_for_it() {
    let node = "node (port 8331)";
    let seen = || ended_waits(CauseId::BackendWait, EndedBy::Service, Some(node), "ask", None);
    for (id, from, to, words) in [
        ("backend_wait", 4.0, 4.0, "waiting for node (port 8331) in ask, 4.00 a request in both "),
        ("backend_wait", 1.0, 21.0, "waiting for node (port 8331) in ask, 1.00 → 21.0 a request "),
        ("backend_calls", 1.0, 2.0, "calls to node (port 8331) in ask, 1.00 → 2.00 a request "),
    ] {
        let row = row_with(id, seen(), vec![counted("pr", "asked", from, to)]);
        assert!(row.contains(words), "{row}");
    }
}

#[test]
fn what_timers_run_and_which_locks_are_waited_for_is_said() {
    let place = |file: Option<&str>| analyse::Place {
        function: "dispatch".to_owned(),
        file: file.map(str::to_owned),
        line: Some(281),
        commit: None,
    };
    let timer = |runs| ended_waits(CauseId::TimerWait, EndedBy::Timer, None, "uv__io_poll", runs);
    let other = |ended_by| ended_waits(CauseId::LockContention, ended_by, Some("python3"), "ask_depot", None);
    let lock = |what, functions: &[&str]| analyse::Seen::WaitsInCalls {
        what: Some(what),
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        calls: None,
    };
    for (id, seen, words) in [
        (
            "timer_wait",
            timer(Some(place(Some("/srv/node_modules/dataloader/index.js")))),
            "  waiting for a timer to run dispatch (dataloader/index.js:281) ",
        ),
        (
            "timer_wait",
            timer(Some(place(Some("/srv/app.js")))),
            "  waiting for a timer to run dispatch (app.js:281) ",
        ),
        ("timer_wait", timer(None), "  waiting for a timer in uv__io_poll "),
        (
            "lock_contention",
            lock(analyse::Blocked::FileLock, &["open_session"]),
            "  threads that wait for a file lock in open_session ",
        ),
        ("lock_contention", lock(analyse::Blocked::Lock, &[]), "  threads that wait for a lock "),
        ("lock_contention", other(EndedBy::Lock), "  threads that wait for a lock in ask_depot "),
        (
            "lock_contention",
            other(EndedBy::Thread),
            "  waiting for another of its threads or processes in ask_depot ",
        ),
    ] {
        let row = row_of(id, seen);
        assert!(row.contains(words), "{row}");
    }
}

#[test]
fn own_code_and_kernel_in_opposite_directions_are_said() {
    let mut found = run(&[("pr", 7_100.0, [0.683, 0.67, 0.69], Verdict::Faster)]);
    found.causes = vec![of_gap("pr", "context_switches", Grade::BoundedBy, -3000.0, -3300.0)];
    found.splits =
        vec![analyse::Split { user_ns: 700.0, system_ns: -4000.0, total_ns: -3300.0, ..split("pr") }];
    let text = findings_text(&found, Style::Plain);
    assert!(
        text.contains(
            "Why pr saves 3.3 µs a request: saves 4.0 µs in the kernel, pays 0.7 µs in its own code\n"
        ),
        "{text}"
    );
}
