use model::plan::SplitMix64;
use model::record::{Frame, Profile, Stack};

use super::place::{Leaf, leaf};
use super::{AttributionRow, Done, LeafCount, Samples, gap_nodes, parts, rows, tree};

/// Functions below `|` are the kernel's.
pub(super) fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut profile = Profile { kernel: true, kernel_symbols: true, callers: true, ..Profile::default() };
    for (folded, samples) in stacks {
        let (program, kernel) = folded.split_once('|').unwrap_or((folded, ""));
        let first = profile.frames.len() as u32;
        let frames = |names: &str, kernel: bool| -> Vec<Frame> {
            let names = names.split(';').filter(|name| !name.is_empty());
            let module = if kernel { "[kernel]" } else { "server" };
            names
                .map(|name| Frame {
                    name: name.to_owned(),
                    module: module.to_owned(),
                    kernel,
                    resolved: true,
                    ..Frame::default()
                })
                .collect()
        };
        profile.frames.extend(frames(program, false));
        profile.frames.extend(frames(kernel, true));
        let frames = (first..profile.frames.len() as u32).collect();
        profile.stacks.push(Stack { frames, samples: *samples });
        profile.samples += samples;
    }
    profile
}

fn path(stack: &str) -> String {
    let profile = profile(&[(stack, 1)]);
    let samples =
        Samples { profiles: vec![&profile], cpu_ns: [500.0, 500.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
    let tree = tree(&samples);
    let told = tree.keys().find(|leaf| !matches!(leaf, Leaf::NotSampled { .. }));
    told.unwrap().path().join(" > ")
}

#[test]
fn each_rule_puts_its_stack_into_its_leaf() {
    const SEND: &str = "main;serve;reply|do_syscall_64;__x64_sys_sendto;__sys_sendto";
    for (stack, expected) in [
        ("SEND;tcp_sendmsg;_copy_from_iter", "kernel > sendto > TCP > copy"),
        ("SEND;tcp_sendmsg;tcp_push", "kernel > sendto > TCP > protocol send"),
        // What loopback receives inside a send belongs to that send.
        (
            "SEND;tcp_sendmsg;ip_output;__do_softirq;tcp_v4_rcv;sk_filter",
            "kernel > sendto > TCP > protocol receive",
        ),
        (
            "SEND;tcp_sendmsg;__do_softirq;tcp_v4_rcv;sock_def_readable;__wake_up;try_to_wake_up",
            "kernel > sendto > TCP > wake-up",
        ),
        ("SEND;unix_stream_sendmsg", "kernel > sendto > unix socket > protocol send"),
        // Where the stack does not tell, the name of the call does.
        ("SEND", "kernel > sendto > TCP > other"),
        (
            "main|do_syscall_64;ksys_write;vfs_write;ext4_file_write_iter;generic_perform_write",
            "kernel > write > file > page cache",
        ),
        (
            "main|do_syscall_64;ksys_write;vfs_write;pipe_write;copy_page_from_iter",
            "kernel > write > pipe > copy",
        ),
        (
            "main|do_syscall_64;__x64_sys_futex;do_futex;futex_wait;schedule;update_curr",
            "kernel > futex > futex > switch",
        ),
        ("main|do_syscall_64;__x64_sys_epoll_wait;ep_poll;schedule", "kernel > epoll_wait > epoll > switch"),
        ("main|do_syscall_64;__x64_sys_mmap;do_mmap", "kernel > mmap > memory > other"),
        ("main|do_syscall_64;__x64_sys_clone3;kernel_clone", "kernel > clone3 > process > other"),
        // A fault within a call belongs to the call.
        (
            "main|do_syscall_64;ksys_read;filemap_read;copy_user_generic;exc_page_fault",
            "kernel > read > file > copy",
        ),
        (
            "main;serve;memcpy|asm_exc_page_fault;exc_page_fault;clear_page_erms",
            "kernel > page faults > copying > memcpy",
        ),
        (
            "main|asm_sysvec_apic_timer_interrupt;sysvec_apic_timer_interrupt;__do_softirq",
            "kernel > interrupts > protocol receive",
        ),
        ("main|do_syscall_64", "kernel > entry and exit > other"),
        (
            "main|entry_SYSCALL_64;do_syscall_64;exit_to_user_mode_loop;schedule",
            "kernel > entry and exit > switch",
        ),
        ("main;serve;render", "user > own code > server > render"),
        ("main;serve;malloc", "user > allocation > server > malloc"),
        (
            "main;PyEval_EvalCode;_PyEval_EvalFrameDefault",
            "user > own code > server > Python frames that were not read (3.9 to 3.13 are)",
        ),
    ] {
        assert_eq!(path(&stack.replace("SEND", SEND)), expected, "{stack}");
    }
}

#[test]
fn a_call_is_known_without_its_entry_and_has_none_of_the_packets_that_come_meanwhile() {
    for (stack, expected) in [
        (
            "do_writev;vfs_writev;sock_write_iter;tcp_sendmsg;tcp_push",
            "kernel > writev > TCP > protocol send",
        ),
        (
            "__x64_sys_epoll_wait;ep_poll;irq_exit_rcu;__do_softirq;tcp_v4_rcv",
            "kernel > interrupts > protocol receive",
        ),
        (
            "syscall_exit_to_user_mode;irq_exit_rcu;__do_softirq;tcp_v4_rcv",
            "kernel > interrupts > protocol receive",
        ),
    ] {
        assert_eq!(path(&format!("main|do_syscall_64;{stack}")), expected, "{stack}");
    }
}

/// A stack of functions drawn from all tables and none.
fn drawn(random: &mut SplitMix64) -> String {
    const PROGRAM: [&str; 7] = ["main", "serve", "render", "malloc", "memcpy", "deflate", "runtime.gcDrain"];
    const KERNEL: [&str; 12] = [
        "do_syscall_64",
        "__x64_sys_sendto",
        "ksys_write",
        "tcp_sendmsg",
        "ext4_file_write_iter",
        "exc_page_fault",
        "asm_sysvec_apic_timer_interrupt",
        "schedule",
        "__do_softirq",
        "futex_wait",
        "nobody_knows",
        "copy_user_generic",
    ];
    let mut some = |names: &[&str], most: f64| -> String {
        let many = (random.unit() * most) as usize;
        let drawn: Vec<&str> =
            (0..many).map(|_| names[(random.unit() * names.len() as f64) as usize]).collect();
        drawn.join(";")
    };
    format!("{}|{}", some(&PROGRAM, 6.0), some(&KERNEL, 7.0))
}

#[test]
fn leaves_of_random_stacks_sum_to_the_whole_and_each_sample_is_in_one() {
    for seed in 0..200 {
        let mut random = SplitMix64::fork(seed, "stacks", 0);
        let profiles: Vec<Profile> = (0..1 + seed % 4)
            .map(|_| {
                let stacks: Vec<(String, u64)> =
                    (0..40).map(|_| (drawn(&mut random), 1 + (random.unit() * 99.0) as u64)).collect();
                let stacks: Vec<(&str, u64)> =
                    stacks.iter().map(|(stack, samples)| (&**stack, *samples)).collect();
                profile(&stacks)
            })
            .collect();
        let divides = 0.5 + random.unit() / 2.0;
        let cpu_ns = [random.unit() * 1e4, random.unit() * 1e4];
        let samples =
            || Samples { profiles: profiles.iter().collect(), cpu_ns, cpu_se_ns: [0.0; 2], divides };
        let gathered: u64 = super::settled(super::gather(&samples().profiles))
            .values()
            .map(|(counts, _)| counts.iter().sum::<u64>())
            .sum();
        assert_eq!(gathered, profiles.iter().map(|profile| profile.samples).sum::<u64>(), "seed {seed}");
        let whole: f64 = cpu_ns.iter().sum();
        let one = tree(&samples());
        let sum: f64 = one.values().map(|time| time.ns).sum();
        assert!((sum - whole).abs() < 1e-6 * whole, "seed {seed}: {sum} of {whole}");
        let done = Done::default();
        let none =
            Samples { profiles: Vec::new(), cpu_ns: [700.0, 300.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
        let both = rows("pr", [tree(&none), one], [&done, &done]);
        let sums =
            both.iter().fold([0.0; 2], |sum, (_, row)| [sum[0] + row.baseline_ns, sum[1] + row.arm_ns]);
        assert!(
            (sums[0] - 1000.0).abs() < 1e-6 && (sums[1] - whole).abs() < 1e-6 * whole,
            "seed {seed}: {sums:?}"
        );
        let mut paths: Vec<_> = both.iter().map(|(_, row)| &row.path).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), both.len(), "seed {seed}: two leaves have one path");
    }
}

#[test]
fn a_kernel_that_hides_its_names_is_one_leaf_that_says_so() {
    let mut profile = profile(&[
        ("main;work", 100),
        ("main;write|0xffffffff81e00130;0xffffffff81003c20", 60),
        ("main|0xffffffff81e01290;0xffffffff8100aaaa", 40),
    ]);
    profile.kernel_symbols = false;
    profile.frames.iter_mut().filter(|frame| frame.kernel).for_each(|frame| frame.resolved = false);
    let rows = super::of_one("a", &profile, [900.0, 100.0], 1.0);
    let told: Vec<(String, f64)> = rows.iter().map(|row| (row.path.join(" > "), row.arm_ns)).collect();
    assert_eq!(
        told,
        [
            ("user > own code > server > work".to_owned(), 500.0),
            ("kernel > other > names hidden by kernel.kptr_restrict".to_owned(), 500.0),
        ],
        "by samples, which are even"
    );
}

#[test]
fn a_change_is_more_of_it_and_dearer_each_and_both_sum_to_it() {
    for (counts, ns, expected) in [
        ([1.0, 0.07], [4300.0, 301.0], Some([-3999.0, 0.0])),
        ([1.0, 1.0], [1000.0, 1500.0], Some([0.0, 500.0])),
        ([0.0, 2.0], [0.0, 800.0], Some([800.0, 0.0])),
        // No sample shows what one costs where there are hardly any.
        ([1.0, 0.001], [1000.0, 0.0], Some([-999.0, -1.0])),
        ([1.0, 1.0], [0.0, 500.0], Some([0.0, 500.0])),
        ([0.0, 0.0], [10.0, 20.0], None),
    ] {
        let found = parts(counts, ns);
        let near = |(a, b): ([f64; 2], [f64; 2])| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(found.zip(expected).is_none_or(near) && found.is_some() == expected.is_some(), "{found:?}");
        assert!(found.is_none_or(|[more, dearer]| (more + dearer - (ns[1] - ns[0])).abs() < 1e-6));
    }
    let both = parts([2.0, 3.0], [200.0, 600.0]).unwrap();
    assert!((both[0] - 150.0).abs() < 1e-9 && (both[1] - 250.0).abs() < 1e-9, "{both:?}");
}

#[test]
fn a_sample_tells_from_which_own_function_it_came() {
    let profile = profile(&[("main;serve;render;malloc", 3)]);
    let one = Samples { profiles: vec![&profile], cpu_ns: [900.0, 0.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
    let none = Samples { profiles: Vec::new(), cpu_ns: [0.0, 0.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
    let done = Done::default();
    let found = rows("pr", [tree(&none), tree(&one)], [&done, &done]);
    assert_eq!(found[0].1.via.as_deref(), Some("render"));
    assert!(matches!(leaf(&profile, &profile.stacks[0]), Leaf::Program { .. }));
}

#[test]
fn an_interpreters_samples_are_those_of_the_functions_that_it_runs() {
    let mut profile =
        profile(&[("main;_PyEval_EvalFrameDefault", 90), ("main;_PyEval_EvalFrameDefault;malloc", 10)]);
    profile.frames.iter_mut().for_each(|frame| frame.module = "libpython3.12.so.1.0".to_owned());
    let python = |name: &str, line: u32| Frame {
        name: name.to_owned(),
        module: model::record::PYTHON.to_owned(),
        resolved: true,
        file: Some("app.py".to_owned()),
        line: Some(line),
        ..Frame::default()
    };
    let first = profile.frames.len() as u32;
    profile.frames.extend([python("render", 7), python("respond", 20)]);
    let stack =
        |frames: &[u32], samples| Stack { frames: frames.iter().map(|at| first + at).collect(), samples };
    let stacks = vec![stack(&[1, 0], 2), stack(&[1], 1)];
    profile.interpreted = Some(model::record::Interpreted { period_ns: 1, samples: 3, stacks });
    let samples =
        Samples { profiles: vec![&profile], cpu_ns: [1000.0, 0.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
    let found: Vec<(String, f64)> =
        tree(&samples).iter().map(|(leaf, time)| (leaf.path().join(" > "), time.ns.round())).collect();
    let own = |function: &str| format!("user > own code > app.py > {function}");
    for (path, ns) in [
        ("user > allocation > libpython3.12.so.1.0 > malloc".to_owned(), 100.0),
        (own("render > app.py:7"), 600.0),
        (own("respond > app.py:20"), 300.0),
    ] {
        assert!(found.contains(&(path.clone(), ns)), "{path}: {found:?}");
    }
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn few_stacks_of_what_an_interpreter_ran_are_no_more_exact_for_its_many_samples() {
    let error_ns = |stacks: u64, native: u64| {
        let mut profile = profile(&[("main;_PyEval_EvalFrameDefault", native)]);
        profile.frames.iter_mut().for_each(|frame| frame.module = "libpython3.12.so.1.0".to_owned());
        let first = profile.frames.len() as u32;
        for name in ["render", "respond"] {
            let module = model::record::PYTHON.to_owned();
            let name = name.to_owned();
            profile.frames.push(Frame { name, module, resolved: true, ..Frame::default() });
        }
        let stack = |frame| Stack { frames: vec![first + frame], samples: stacks / 2 };
        let of =
            model::record::Interpreted { period_ns: 1, samples: stacks, stacks: vec![stack(0), stack(1)] };
        profile.interpreted = Some(of);
        // As alike as four slices can be: their spread says nothing.
        let profiles = vec![&profile; 4];
        let samples = Samples { profiles, cpu_ns: [1000.0, 0.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
        let tree = tree(&samples);
        let (_, time) = tree.iter().find(|(leaf, _)| leaf.path().join(" ").contains("render")).unwrap();
        time.draws.variance().sqrt()
    };
    // Of n stacks a half: 1000 ns times the root of 1/4n, of 4 times 10 and of 4 times 1000.
    assert!((error_ns(10, 1000) - 1000.0 * (0.25 / 40.0_f64).sqrt()).abs() < 1.0, "{}", error_ns(10, 1000));
    for stacks in [1000, 4000] {
        let error_ns = error_ns(stacks, 1000);
        assert!((error_ns - 1000.0 * (0.25 / 4000.0_f64).sqrt()).abs() < 1.0, "{error_ns}");
    }
}

#[test]
fn what_two_interpreters_ran_is_told_of_each() {
    let mut profile =
        profile(&[("_PyEval_EvalFrameDefault", 30), ("rb_vm_exec", 60), ("rb_vm_exec;gc_mark", 10)]);
    let of =
        |name: &str| if name.starts_with("_Py") { "libpython3.12.so.1.0" } else { "libruby-3.1.so.3.1.2" };
    profile.frames.iter_mut().for_each(|frame| frame.module = of(&frame.name).to_owned());
    // A stripped library has no names.
    let hidden = Frame { name: "2a".to_owned(), module: of("").to_owned(), ..Frame::default() };
    let compiled = Frame { module: "[jit]".to_owned(), ..hidden.clone() };
    let first = profile.frames.len() as u32;
    let read = |name: &str, module: &str, file: &str| Frame {
        name: name.to_owned(),
        module: module.to_owned(),
        resolved: true,
        file: Some(file.to_owned()),
        ..Frame::default()
    };
    let gem = "/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/builder.rb";
    profile.frames.extend([
        hidden,
        read("render", model::record::PYTHON, "app.py"),
        read("call", model::record::RUBY, gem),
        read("tr", model::record::RUBY, "/usr/lib/libruby-3.1.so.3.1.2"),
        compiled,
    ]);
    profile.stacks.push(Stack { frames: vec![first], samples: 40 });
    profile.stacks.push(Stack { frames: vec![first + 4], samples: 60 });
    let stack =
        |frames: &[u32], samples| Stack { frames: frames.iter().map(|at| first + at).collect(), samples };
    let stacks = vec![stack(&[1], 5), stack(&[2], 3), stack(&[2, 3], 1)];
    profile.interpreted = Some(model::record::Interpreted { period_ns: 1, samples: 9, stacks });
    let samples =
        Samples { profiles: vec![&profile], cpu_ns: [200.0, 0.0], cpu_se_ns: [0.0; 2], divides: 1.0 };
    let found: Vec<(String, f64)> =
        tree(&samples).iter().map(|(leaf, time)| (leaf.path().join(" > "), time.ns.round())).collect();
    for (path, ns) in [
        ("user > own code > app.py > render", 30.0),
        ("user > own code > rack > call", 120.0),
        ("user > own code > ruby > tr", 40.0),
        ("user > garbage collection > libruby-3.1.so.3.1.2 > gc_mark", 10.0),
    ] {
        assert!(found.contains(&(path.to_owned(), ns)), "{path}: {found:?}");
    }
    assert_eq!(found.len(), 4, "{found:?}");
}

fn row(path: &str, from: f64, to: f64) -> AttributionRow {
    AttributionRow {
        path: path.split('/').map(str::to_owned).collect(),
        baseline_ns: from,
        arm_ns: to,
        delta_ns: to - from,
        delta_se_ns: 1.0,
        ..AttributionRow::default()
    }
}

fn changes(rows: &[AttributionRow]) -> Vec<String> {
    let said = gap_nodes::gap_nodes("pr", &rows.iter().collect::<Vec<_>>());
    said.rows.iter().map(|one| format!("{} {:+.0}", one.path.join("/"), one.delta_ns)).collect()
}

#[test]
fn the_node_that_holds_most_is_said_then_the_next_beside_it_until_enough_is() {
    let most_in_one = [
        row("kernel/sendto/TCP/copy", 100.0, 900.0),
        row("kernel/sendto/TCP/wake-up", 100.0, 150.0),
        row("user/own code/a/f", 50.0, 60.0),
    ];
    assert_eq!(changes(&most_in_one), ["kernel/sendto/TCP/copy +800"]);
    let saved_and_paid = [
        row("kernel/write/TCP/copy", 2000.0, 0.0),
        row("kernel/write/TCP/wake-up", 2000.0, 0.0),
        row("user/own code/a/f", 0.0, 700.0),
        row("user/compiler/c/g", 0.0, 600.0),
        row("user/allocation/c/g", 0.0, 10.0),
    ];
    assert_eq!(
        changes(&saved_and_paid),
        ["kernel/write/TCP -4000", "user/own code/a/f +700", "user/compiler/c/g +600"]
    );
    // Where the two largest are more than the gap, a third of what is saved says less than what is paid.
    let paid_in_one = [
        row("user/own code/a/f", 3000.0, 0.0),
        row("user/compiler/c/g", 2500.0, 0.0),
        row("user/allocation/c/g", 2000.0, 0.0),
        row("kernel/write/TCP/copy", 0.0, 1900.0),
        row("kernel/read/TCP/copy", 0.0, 1500.0),
    ];
    assert_eq!(
        changes(&paid_in_one),
        ["user/own code/a/f -3000", "user/compiler/c/g -2500", "kernel/write/TCP/copy +1900"]
    );
    // Within three standard errors nothing is said.
    assert!(changes(&[row("user/own code/a/f", 10.0, 12.0)]).is_empty());
}

/// Ten profiles in which two functions have now more and now less of the same time.
#[test]
fn the_error_of_a_sum_is_that_of_the_sum_and_not_the_sum_of_errors() {
    let profiles = |stacks: [u64; 2]| -> Vec<Profile> {
        let swing = |n: u64| if n.is_multiple_of(2) { [40, 0] } else { [0, 40] };
        let one = |n: u64| {
            let [first, second] = swing(n);
            profile(&[("main;f", stacks[0] + first), ("main;g", stacks[1] + second), ("main;malloc", 10)])
        };
        (0..10).map(one).collect()
    };
    let (from, to) = (profiles([30, 30]), profiles([60, 60]));
    let samples = |profiles: &'static [Profile], ns| Samples {
        profiles: profiles.iter().collect(),
        cpu_ns: [ns, 0.0],
        cpu_se_ns: [50.0, 0.0],
        divides: 1.0,
    };
    let (from, to): (&'static [Profile], &'static [Profile]) = (from.leak(), to.leak());
    let done = Done::default();
    let found = rows("pr", [tree(&samples(from, 11_000.0)), tree(&samples(to, 13_000.0))], [&done, &done]);
    let rows: Vec<AttributionRow> = found.into_iter().map(|(_, row)| row).collect();
    let all: Vec<&AttributionRow> = rows.iter().collect();
    // All of a side is as sure as the clocks, which nobody drew.
    assert!((super::drawn::error_ns(&all) - 50.0_f64.hypot(50.0)).abs() < 1e-6);
    let own: Vec<&AttributionRow> = all.iter().copied().filter(|row| row.path[1] == "own code").collect();
    let apart = own.iter().map(|row| row.delta_se_ns.powi(2)).sum::<f64>().sqrt();
    assert!(super::drawn::error_ns(&own) < apart / 3.0, "{} {apart}", super::drawn::error_ns(&own));
    assert!(own.iter().all(|row| row.delta_ns.abs() < 3.0 * row.delta_se_ns), "{own:?}");
    assert_eq!(changes(&rows), ["user/own code/server +2235"]);
}

#[test]
fn an_arm_need_not_be_sampled_where_the_other_uses_ten_times_as_much() {
    let profile = profile(&[("main;turns", 100)]);
    let arm = |cpu_ns: f64, profiles: Vec<&'static Profile>| Samples {
        profiles,
        cpu_ns: [cpu_ns, 0.0],
        cpu_se_ns: [0.0; 2],
        divides: 1.0,
    };
    let sampled: &'static Profile = Box::leak(Box::new(profile));
    for (little, told) in [(10.0, 1), (20.0, 0)] {
        let (few, many) = (arm(little, Vec::new()), arm(100.0, vec![sampled]));
        let [first, second] = super::alike([&few, &many]);
        assert_eq!((first.profiles.len(), second.profiles.len()), (0, told), "{little}");
    }
}

#[test]
fn calls_that_do_the_same_by_other_names_are_one() {
    let counted = |path: &str, [from, to]: [f64; 2], [seldom, often]: [f64; 2]| AttributionRow {
        count: Some(LeafCount { baseline: seldom, arm: often }),
        ..row(path, from, to)
    };
    let rows = [
        counted("kernel/epoll_pwait2/epoll/other", [300.0, 0.0], [0.05, 0.0]),
        counted("kernel/epoll_wait/epoll/other", [0.0, 310.0], [0.0, 0.05]),
        counted("kernel/write/TCP/protocol send", [1000.0, 1500.0], [1.0, 1.5]),
        counted("kernel/sendto/TCP/protocol send", [0.0, 500.0], [0.0, 0.5]),
        counted("kernel/write/file/page cache", [100.0, 100.0], [1.0, 1.0]),
    ];
    assert_eq!(changes(&rows), ["kernel/sending +1000"]);
    let said = gap_nodes::gap_nodes("pr", &rows.iter().collect::<Vec<_>>());
    assert_eq!(said.rows[0].count, Some(LeafCount { baseline: 1.0, arm: 2.0 }));
    assert_eq!((said.rows[0].more_ns, said.rows[0].dearer_ns), (Some(1000.0), Some(0.0)));
}

#[test]
fn work_of_many_kinds_that_one_function_asks_for_is_told_under_it() {
    let base = [("main;serve;handle", 600), ("main;serve;handle;malloc", 300)];
    let log = [("main;serve;log;malloc", 80), ("main;serve;log;memcpy", 80), ("main;serve;log", 90)];
    let spread = [&base[..], &log].concat();
    let one_kind = [&base[..], &[("main;serve;log;malloc", 250)]].concat();
    let finds = [("main;serve;log;sort.insert", 150), ("main;serve;log;memcpy", 30), ("main;serve;log", 70)];
    let of_another = [&base[..], &finds].concat();
    for (stacks, expected) in [
        (&spread, "user/server and what it calls/log"),
        (&one_kind, "user/allocation/"),
        (&of_another, "user/server and what it calls/log/mostly sort"),
    ] {
        let [from, to] = [profile(&base), profile(stacks)];
        let samples = |profile, ns| Samples {
            profiles: vec![profile],
            cpu_ns: [ns, 0.0],
            cpu_se_ns: [0.0; 2],
            divides: 1.0,
        };
        let (from, to) = (samples(&from, 9000.0), samples(&to, 11_500.0));
        let done = Done::default();
        let found = rows("pr", [tree(&from), tree(&to)], [&done, &done]);
        let rows: Vec<AttributionRow> = found.into_iter().map(|(_, row)| row).collect();
        let sum: f64 = rows.iter().map(|row| row.delta_ns).sum();
        assert!((sum - 2500.0).abs() < 1e-6, "{sum}");
        let said = gap_nodes::gap_nodes("pr", &rows.iter().collect::<Vec<_>>());
        assert!(said.rows[0].path.join("/").starts_with(expected), "{expected}: {:#?}", said.rows);
    }
}

#[test]
fn what_is_left_is_named_and_what_has_no_name_is_not_said_in_place_of_its_call() {
    let rows = [
        row("kernel/epoll_ctl/epoll/other", 0.0, 900.0),
        row("kernel/epoll_ctl/epoll/copy", 0.0, 100.0),
        row("user/own code/a/f", 0.0, 800.0),
        row("user/own code/b/g", 0.0, 600.0),
        row("user/own code/c/h", 0.0, 40.0),
        row("user/compiler/c/g", 0.0, 400.0),
        row("user/allocation/c/g", 0.0, 300.0),
        row("kernel/read/TCP/copy", 0.0, 200.0),
        row("kernel/page faults/f", 0.0, 10.0),
    ];
    let said = gap_nodes::gap_nodes("pr", &rows.iter().collect::<Vec<_>>());
    let names = |nodes: &[gap_nodes::GapNode]| nodes.iter().map(|one| one.path.join("/")).collect::<Vec<_>>();
    assert_eq!(names(&said.rows), ["kernel/epoll_ctl/epoll", "user/own code/a/f", "user/own code/b/g"]);
    assert_eq!(names(&said.smaller), ["user/compiler", "user/allocation", "kernel/read"]);
}

#[test]
fn code_that_is_spread_over_many_packages_is_told_as_a_whole() {
    let of = |packages: &[(&str, f64)]| -> Vec<AttributionRow> {
        let path = |package: &str| format!("user/own code/{package}/f");
        packages.iter().map(|(package, more)| row(&path(package), 1000.0, 1000.0 + more)).collect()
    };
    let many = of(&[("a", 200.0), ("b", 200.0), ("c", 200.0), ("d", 200.0), ("e", 200.0)]);
    assert_eq!(changes(&many), ["user/own code +1000"]);
    let said = gap_nodes::gap_nodes("pr", &many.iter().collect::<Vec<_>>());
    assert_eq!(said.rows[0].below.len(), 3, "{:?}", said.rows[0].below);
    let few = of(&[("a", 500.0), ("b", 400.0), ("c", 100.0)]);
    assert_eq!(changes(&few), ["user/own code/a/f +500", "user/own code/b/f +400"]);
}
