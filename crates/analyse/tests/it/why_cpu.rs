//! Causes of CPU time: what was sampled, what was counted beside it, and what came and went.

use analyse::Grade;
use model::record::{Counts, ENDED, Frame, Pass, PassKind, Profile, Run, Stack, Window};

use crate::support::{analyse, asks_others, change, kernel_frame};
use crate::why::{Plant, named, planted};

/// Beginnings of the names of the kernel's functions.
const KERNEL: [&str; 15] = [
    "exc_page_fault",
    "clear_page",
    "tcp_",
    "do_syscall",
    "__x64_",
    "ksys_",
    "ext4_",
    "pipe_",
    "futex_",
    "hrtimer_",
    "sock_",
    "unix_",
    "locks_",
    "exit_to_user_mode",
    "[waiting for a CPU]",
];

/// A profile of stacks, outermost function first, with samples; behind [`ENDED`] stands what a process that ended called itself.
pub(crate) fn profile(stacks: &[(&str, u64)]) -> Profile {
    let is_kernel = |name: &str| KERNEL.iter().any(|begin| name.starts_with(begin));
    let mut profile = Profile {
        period_ns: 1_000_000,
        callers: true,
        kernel: true,
        kernel_symbols: true,
        ..Profile::default()
    };
    for (folded, samples) in stacks {
        let first = profile.frames.len() as u32;
        profile.frames.extend(folded.split(';').map(|name| {
            let ended = name.strip_prefix(ENDED);
            let module = match ended {
                Some(_) => ENDED,
                None if is_kernel(name) => "[kernel]",
                None => "server",
            };
            Frame {
                name: ended.unwrap_or(name).to_owned(),
                module: module.to_owned(),
                kernel: is_kernel(name),
                resolved: ended.is_none(),
                ..Frame::default()
            }
        }));
        profile.samples += samples;
        profile
            .stacks
            .push(Stack { frames: (first..profile.frames.len() as u32).collect(), samples: *samples });
    }
    profile
}

/// A run whose second arm spends 9 µs more a request in `function`.
pub(crate) fn sampled(function: &str) -> Run {
    sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &[function])
}

/// The same with a plant of its own, nine samples of its stacks, each as many, beside ten of what both do.
pub(crate) fn sampled_beside(plant: Plant, functions: &[&str]) -> Run {
    let mut run = planted(plant);
    let each = 900 / functions.len() as u64;
    // As both arms' CPU time divides.
    let plain = [("main;serve;send;tcp_sendmsg", 700), ("main;serve", 300)];
    for record in &mut run.diagnostics {
        let mut pass = record.passes[0].clone();
        pass.kind = PassKind::Sampling;
        let more = functions.iter().map(|function| (*function, each)).filter(|_| record.arm == "pr");
        let stacks: Vec<(&str, u64)> = plain.into_iter().chain(more).collect();
        pass.profile = Some(profile(&stacks));
        record.passes.push(pass);
    }
    run
}

#[test]
fn time_of_its_own_is_named_by_what_the_functions_do() {
    for (function, expected) in [
        ("main;serve;store;__memmove_avx_unaligned_erms", "copying"),
        ("main;serve;lookup;__strncasecmp_l_avx2", "comparing"),
        ("main;serve;parse;malloc", "allocation"),
        ("runtime.gcBgMarkWorker;runtime.scanobject", "gc"),
        ("main;serve;price_of_everything", "own_code"),
        ("main;serve;wait_for;__vdso_clock_gettime", "busy_wait"),
        ("[ended]0x0", "child_processes"),
        ("[ended]grep", "child_processes"),
        ("main;serve;parse_extended", "own_code"),
    ] {
        let findings = analyse(&sampled(function));
        let causes = named(&findings);
        let ids: Vec<&str> = causes.iter().map(|cause| cause.id.name()).collect();
        assert_eq!(ids, [expected], "{function}: {:?}", findings.causes);
        assert!((causes[0].share.unwrap() - 1.0).abs() < 0.05, "{:?}", causes[0]);
        assert_eq!(causes[0].grade, Grade::ConsistentWith);
        let leaf = function.rsplit(';').next().unwrap();
        // One whose name is not known is told as what it is.
        let leaf = leaf.strip_prefix(ENDED).map_or(leaf, |name| if name == "0x0" { ENDED } else { name });
        assert!(causes[0].text.contains(leaf), "{}", causes[0].text);
    }
}

#[test]
fn what_is_to_be_mended_is_named_by_its_function() {
    let next = |function: &str| analyse(&sampled(function)).next.unwrap();
    let only = "mend price_of_everything, which only pr runs, and measure again";
    assert_eq!(next("main;serve;price_of_everything"), only);
    // What both run has no such function.
    assert_eq!(next("main;serve"), "mend 'its own code' in pr, most of it in serve, and measure again");
}

#[test]
fn causes_come_before_what_only_accounts_for_the_gap_and_that_before_what_was_ruled_out() {
    let findings = analyse(&planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE }));
    let grades: Vec<Grade> = findings.causes.iter().map(|cause| cause.grade).collect();
    let place = |grade| grades.iter().position(|other| *other == grade).unwrap();
    assert_eq!(findings.causes[0].id.name(), "extra_syscalls");
    assert!(place(Grade::AccountsFor) < place(Grade::RuledOut), "{grades:?}");
    let arm = findings.arms.iter().find(|arm| arm.name == "pr").unwrap();
    assert!((arm.syscalls_per_request["getppid"] - 10.0).abs() < 0.01, "{:?}", arm.syscalls_per_request);
}

#[test]
fn collectors_and_compilers_are_told_by_their_threads() {
    let threads = |names: &[(&str, f64)]| {
        let mut run = planted(Plant { user_ns: 9000.0, ..Plant::NONE });
        for (arm, names) in [("main", &[("VM Thread", 0.0), ("C2 CompilerThre", 10.0)][..]), ("pr", names)] {
            change(&mut run, arm, 0, |window| {
                let ns = |ns: f64| (window.load.requests as f64 * ns) as u64;
                window.target.threads_ns =
                    names.iter().map(|(name, each)| ((*name).to_owned(), ns(*each))).collect();
            });
        }
        analyse(&run)
    };
    let collecting = threads(&[("VM Thread", 8000.0), ("C2 CompilerThre", 10.0)]);
    assert_eq!(named(&collecting)[0].id.name(), "gc", "{:?}", collecting.causes);
    let interpreted = threads(&[("VM Thread", 0.0), ("main", 19_000.0)]);
    assert_eq!(named(&interpreted)[0].id.name(), "interpreter", "{:?}", interpreted.causes);
}

/// A run whose slower arm was seen for 600 of 1600 ms inside this system call, below its entry; the rest serves and sends.
fn inside(plant: Plant, entry: &str) -> Run {
    within(plant, entry, "what_it_does")
}

/// The same, in a function of the kernel.
fn within(plant: Plant, entry: &str, within: &str) -> Run {
    let mut run = planted(plant);
    for record in &mut run.diagnostics {
        let mut profile = Profile { period_ns: 1_000_000, callers: true, kernel: true, ..Profile::default() };
        profile.frames = ["do_syscall_64", entry, within, "__x64_sys_sendto"].map(kernel_frame).to_vec();
        profile.frames.push(Frame { kernel: false, module: "server".to_owned(), ..kernel_frame("serve") });
        profile.stacks =
            vec![Stack { frames: vec![0, 3], samples: 700 }, Stack { frames: vec![4], samples: 300 }];
        if record.arm == "pr" {
            profile.stacks.push(Stack { frames: vec![0, 1, 2], samples: 600 });
        }
        profile.samples = profile.stacks.iter().map(|stack| stack.samples).sum();
        let mut pass = record.passes[0].clone();
        (pass.kind, pass.profile) = (PassKind::Sampling, Some(profile));
        record.passes.push(pass);
    }
    run
}

#[test]
fn a_system_call_carries_what_the_kernel_did_inside_it() {
    let plant = Plant { system_ns: 6000.0, calls: &[("openat", 3.0)], ..Plant::NONE };
    let findings = analyse(&inside(plant, "__x64_sys_openat"));
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "extra_syscalls");
    assert!(
        cause.share.unwrap() > 0.9,
        "3 calls of 100 ns are 5 %, their insides are all of it: {}",
        cause.text
    );
    assert!(cause.text.contains("openat +3.00"), "{}", cause.text);
}

#[test]
fn a_loop_that_reads_the_clock_is_no_lock() {
    let plant = Plant { user_ns: 9000.0, ..Plant::NONE };
    let spinning = "main;serve;settle;[spinning]";
    for (beside, expected) in [
        ("main;serve;settle;__vdso_clock_gettime", &["busy_wait"][..]),
        ("main;serve;price_of_everything", &["profile_locks", "own_code"]),
    ] {
        let findings = analyse(&sampled_beside(plant, &[spinning, beside]));
        let mut ids: Vec<&str> = named(&findings).iter().map(|cause| cause.id.name()).collect();
        ids.sort_unstable_by_key(|id| !id.starts_with("profile"));
        assert_eq!(ids, expected, "{:?}", findings.causes);
    }
}

#[test]
fn memory_that_is_had_for_copies_is_of_the_copying() {
    let plant = Plant { user_ns: 3000.0, system_ns: 6000.0, faults: 6.0, ..Plant::NONE };
    for (function, first) in [("__memcpy_avx_unaligned", "copying"), ("use_what_was_mapped", "kernel_memory")]
    {
        let own = format!("main;serve;{function}");
        let faults = format!("{own};exc_page_fault;clear_page_erms");
        let findings = analyse(&sampled_beside(plant, &[&own, &faults, &faults]));
        let causes = named(&findings);
        assert_eq!(causes[0].id.name(), first, "{:?}", findings.causes);
        let shares: Vec<f64> = causes.iter().filter_map(|cause| cause.share).collect();
        let expected = if first == "copying" { 1.0 } else { 0.66 };
        assert!((shares[0] - expected).abs() < 0.05, "{:?}", findings.causes);
    }
}

#[test]
fn the_way_into_the_kernel_and_out_belongs_to_the_calls_that_are_more() {
    let plant = Plant { system_ns: 9000.0, calls: &[("getsockname", 6.0)], ..Plant::NONE };
    let findings = analyse(&sampled_beside(plant, &["main;serve;getsockname;do_syscall_64"]));
    let [cause] = named(&findings)[..] else { panic!("{:?}", findings.causes) };
    assert_eq!(cause.id.name(), "extra_syscalls");
    assert!(cause.share.unwrap() > 0.9, "6 calls of 100 ns are a fifteenth of it: {}", cause.text);
}

/// Both arms make one more call of this name for each request.
fn with_a_call(mut run: Run, name: &str) -> Run {
    for record in &mut run.diagnostics {
        for pass in &mut record.passes {
            let requests = pass.window.load.requests;
            if let Some(counts) = &mut pass.counts {
                *counts.syscalls.entry(name.to_owned()).or_default() += requests;
            }
        }
    }
    run
}

#[test]
fn a_call_that_takes_longer_and_is_not_made_more_often_is_named() {
    let plant = Plant { system_ns: 6000.0, ..Plant::NONE };
    let findings = analyse(&with_a_call(inside(plant, "__x64_sys_pread64"), "pread64"));
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "costlier_calls", "{:?}", findings.causes);
    assert!(cause.share.unwrap() > 0.9, "{}", cause.text);
    assert!(cause.text.contains("pread64 > file > other (1.00 a request against 1.00)"), "{}", cause.text);
    let more = Plant { calls: &[("pread64", 1.0)], ..plant };
    let findings = analyse(&with_a_call(inside(more, "__x64_sys_pread64"), "pread64"));
    assert_eq!(
        named(&findings)[0].id.name(),
        "extra_syscalls",
        "two calls against one are more: {:?}",
        findings.causes
    );
}

#[test]
fn what_nothing_else_carries_is_told_by_the_kind_of_the_kernels_work() {
    let findings = analyse(&inside(Plant { system_ns: 6000.0, ..Plant::NONE }, "__x64_sys_recvfrom"));
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "kernel_network_receive", "{:?}", findings.causes);
    assert!(cause.text.contains("mostly what_it_does"), "{}", cause.text);
}

#[test]
fn a_file_that_is_read_and_sent_piece_by_piece_is_no_other_service() {
    let plant =
        Plant { system_ns: 6000.0, calls: &[("sendto", 5.0), ("read", 5.0)], segments: 5.0, ..Plant::NONE };
    for (in_pieces, expected) in [(0, "backend_calls"), (1, "small_writes")] {
        let mut run = planted(plant);
        for (arm, share) in [("main", 0), ("pr", in_pieces)] {
            change(&mut run, arm, 0, |window| {
                let answers = share * window.load.requests;
                window.load.pieces =
                    Some(model::record::Pieces { answers, apart_ns: 1000 * answers, longest_ns: 1000 });
            });
        }
        let findings = analyse(&run);
        assert_eq!(named(&findings)[0].id.name(), expected, "{:?}", findings.causes);
        assert_eq!(named(&findings).iter().any(|cause| cause.id.name() == "backend_calls"), in_pieces == 0);
    }
}

#[test]
fn connections_that_do_not_last_are_told_by_who_opens_them() {
    let plant = Plant { system_ns: 6000.0, calls: &[("accept4", 1.0), ("close", 1.0)], ..Plant::NONE };
    let mut run = inside(plant, "__x64_sys_close");
    let opens = |window: &mut Window| window.server_cpus.tcp.passive_opens = window.load.requests;
    change(&mut run, "pr", 0, opens);
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "new_connections", "{:?}", findings.causes);
    assert!(cause.text.contains("1.00 more accepted a request, and 2.00 more calls"), "{}", cause.text);
    assert!(
        named(&findings).iter().all(|cause| cause.id.name() != "extra_syscalls"),
        "{:?}",
        findings.causes
    );
    let plant = Plant { calls: &[("connect", 1.0), ("close", 1.0)], ..plant };
    let mut run = inside(plant, "__x64_sys_connect");
    change(&mut run, "pr", 0, opens);
    let findings = analyse(&run);
    let cause = named(&findings)[0];
    assert!(cause.text.contains("1.00 more opened to another service a request"), "{}", cause.text);
}

#[test]
fn a_wait_that_looks_through_many_sockets_is_named_and_one_that_sleeps_is_not() {
    let plant = Plant { system_ns: 6000.0, ..Plant::NONE };
    let findings = analyse(&inside(plant, "__x64_sys_poll"));
    let cause = named(&findings)[0];
    assert_eq!(cause.id.name(), "readiness");
    assert!(cause.share.unwrap() > 0.9, "{}", cause.text);
    let sleeps = within(Plant { switches: 2.0, ..plant }, "__x64_sys_poll", "schedule");
    let findings = analyse(&sleeps);
    assert_eq!(named(&findings)[0].id.name(), "context_switches", "{:?}", findings.causes);
    assert!(findings.causes.iter().all(|cause| cause.id.name() != "readiness"), "{:?}", findings.causes);
}

#[test]
fn calls_that_were_not_counted_by_name_have_no_name_but_that_of_where_their_time_is() {
    let mut run = inside(Plant { system_ns: 6000.0, ..Plant::NONE }, "__x64_sys_execve");
    for record in run.diagnostics.iter_mut().filter(|record| record.arm == "pr") {
        let requests = record.passes[1].window.load.requests;
        let counts = record.passes[1].counts.as_mut().unwrap();
        *counts.events.get_mut("syscalls").unwrap() += 3 * requests;
    }
    let findings = analyse(&run);
    let cause = findings.causes.iter().find(|cause| cause.id.name() == "extra_syscalls").unwrap();
    assert!(cause.text.contains("others +3.00, most of their time in execve"), "{}", cause.text);
}

#[test]
fn where_nothing_could_be_counted_what_was_traced_is_used() {
    let mut run = planted(Plant { system_ns: 1300.0, calls: &[("getppid", 10.0)], ..Plant::NONE });
    for record in &mut run.diagnostics {
        let counting = record.passes.iter().position(|pass| pass.kind == PassKind::Counting).unwrap();
        let traced = Pass { kind: PassKind::Tracing, ..record.passes[counting].clone() };
        record.passes[counting].counts = Some(Counts::default());
        record.passes.push(traced);
    }
    let findings = analyse(&run);
    assert_eq!(named(&findings)[0].id.name(), "extra_syscalls", "{:?}", findings.causes);
}

/// Stacks of functions of the program's own, beside others.
fn spread<'a>(own: &[&'a str], others: &[&'a str]) -> Vec<&'a str> {
    [own, others].concat()
}

#[test]
fn calls_that_one_arm_alone_makes_are_said_before_code_that_is_spread() {
    const LOOKS: &str = "main;serve;look;__x64_sys_newfstatat";
    let own = ["main;serve;a", "main;serve;b", "main;serve;c", "main;serve;d", "main;serve;e"];
    let plant = Plant { user_ns: 5000.0, system_ns: 4000.0, calls: &[("newfstatat", 20.0)], ..Plant::NONE };
    let ids = |plant, functions: &[&str]| -> Vec<&'static str> {
        let findings = analyse(&sampled_beside(plant, functions));
        named(&findings).iter().map(|cause| cause.id.name()).collect()
    };
    let functions = spread(&own, &[LOOKS; 4]);
    assert_eq!(ids(plant, &functions), ["extra_syscalls", "own_code"]);
    // Of calls that are not more, the code is what differs.
    assert_eq!(ids(Plant { calls: &[], ..plant }, &functions)[0], "own_code");
    // All of it is under one function that is new: that is what differs, and the calls are a part of it.
    let render = own.map(|function| function.replace("serve", "serve;render"));
    let render: Vec<&str> = render.iter().map(String::as_str).collect();
    let looks = ["main;serve;render;look;__x64_sys_newfstatat"; 4];
    assert_eq!(ids(plant, &spread(&render, &looks))[0], "own_code");
}

/// What it costs to ask is for the most part code around the calls: that of the client, of threads that are woken.
#[test]
fn who_asks_others_twice_as_often_is_told_so_before_code_that_is_spread() {
    const ASKS: &str = "main;serve;ask;__x64_sys_sendto";
    let own = ["main;serve;a", "main;serve;b", "main;serve;c", "main;serve;d", "main;serve;e"];
    const CALLS: [(&str, f64); 2] = [("sendto", 1.0), ("recvfrom", 1.0)];
    let plant = Plant { user_ns: 5000.0, system_ns: 2000.0, calls: &CALLS, ..Plant::NONE };
    let first = |times: Option<u64>| {
        let mut run = sampled_beside(plant, &spread(&own, &[ASKS; 2]));
        for (arm, times) in [("main", Some(1)), ("pr", times)] {
            change(&mut run, arm, 0, |window| {
                let came = window.load.requests;
                asks_others(window, came, times.map(|times| times * came));
            });
        }
        named(&analyse(&run))[0].id.name()
    };
    assert_eq!(first(Some(2)), "backend_calls");
    for as_before in [Some(1), None] {
        assert_eq!(first(as_before), "own_code", "{as_before:?}");
    }
}

#[test]
fn who_yields_the_cpu_in_a_loop_polls() {
    let plant = Plant { system_ns: 6000.0, calls: &[("sched_yield", 20.0)], switches: 20.0, ..Plant::NONE };
    let switching = "main;find_work;do_syscall_64;__x64_sys_sched_yield;schedule";
    let findings = analyse(&sampled_beside(plant, &[switching]));
    assert_eq!(named(&findings)[0].id.name(), "busy_wait", "{:?}", findings.causes);
}

#[test]
fn new_connections_to_a_service_are_said_before_the_code_around_them() {
    const OWN: [&str; 3] = ["main;serve;a", "main;serve;b", "main;serve;c"];
    const CONNECTS: &str = "main;dial;do_syscall_64;__x64_sys_connect;tcp_v4_connect";
    let first = |calls: &'static [(&'static str, f64)]| {
        let plant = Plant { user_ns: 6000.0, system_ns: 3000.0, calls, ..Plant::NONE };
        named(&analyse(&sampled_beside(plant, &spread(&OWN, &[CONNECTS]))))[0].id.name()
    };
    assert_eq!(first(&[("connect", 1.0)]), "new_connections");
    assert_eq!(first(&[("connect", 0.2)]), "own_code", "one request in five connects");
}

#[test]
fn own_code_that_is_said_first_says_which_calls_it_makes() {
    let own = ["main;serve;a", "main;serve;b", "main;serve;c"];
    let plant = Plant { user_ns: 9000.0, calls: &[("newfstatat", 20.0)], ..Plant::NONE };
    let findings = analyse(&sampled_beside(plant, &own));
    let first = &named(&findings)[0];
    assert_eq!(first.id.name(), "own_code");
    assert!(first.text.contains("it makes newfstatat 20.00 times a request against 0.00"), "{}", first.text);
}

#[test]
fn code_that_allocates_is_said_before_what_collects_for_it() {
    const COLLECTS: &str = "runtime.gcBgMarkWorker;runtime.scanobject";
    let own = ["main;serve;a", "main;serve;b", "main;serve;c", "main;serve;d"];
    let first = |functions: &[&str]| {
        let plant = Plant { user_ns: 9000.0, ..Plant::NONE };
        named(&analyse(&sampled_beside(plant, functions)))[0].id.name()
    };
    // The program does more than twice as much.
    assert_eq!(first(&spread(&own, &[COLLECTS; 5])), "own_code");
    // It does hardly more, and the collector runs more often.
    assert_eq!(first(&spread(&own[..2], &[COLLECTS; 7])), "gc");
}
