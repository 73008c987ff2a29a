//! Where writes go: to the network, to files, to pipes.

use crate::support::{analyse, asks_others, change};
use crate::why::{Plant, named};
use crate::why_cpu::{profile, sampled_beside};

#[test]
fn where_writes_go_is_told_by_what_the_kernel_did_for_them() {
    let writes = Plant { system_ns: 6000.0, calls: &[("write", 3.0)], switches: 2.0, ..Plant::NONE };
    for (stack, expected) in [
        ("main;log;do_syscall_64;ksys_write;ext4_file_write_iter", "file_writes"),
        ("main;wake;do_syscall_64;ksys_write;pipe_write", "thread_handoff"),
        ("main;wake;do_syscall_64;ksys_write;sock_write_iter;unix_stream_sendmsg", "thread_handoff"),
        ("main;audit;do_syscall_64;__x64_sys_sendto;sock_sendmsg;unix_dgram_sendmsg", "thread_handoff"),
        ("main;send;do_syscall_64;ksys_write;tcp_sendmsg", "small_writes"),
    ] {
        let findings = analyse(&sampled_beside(writes, &[stack]));
        assert_eq!(named(&findings)[0].id.name(), expected, "{stack}: {:?}", findings.causes);
    }
}

#[test]
fn a_stream_in_small_pieces_on_a_local_socket_hands_nothing_over() {
    const PIECES: &str = "main;flush;do_syscall_64;ksys_write;sock_write_iter;unix_stream_sendmsg";
    // Each wakes somebody; or forty are written for one switch.
    for (switches, expected) in [(40.0, "thread_handoff"), (1.0, "extra_syscalls")] {
        let writes = Plant { system_ns: 6000.0, calls: &[("write", 40.0)], switches, ..Plant::NONE };
        let findings = analyse(&sampled_beside(writes, &[PIECES]));
        assert_eq!(named(&findings)[0].id.name(), expected, "{switches}: {:?}", findings.causes);
    }
}

/// What is said of writes where the second arm makes these `calls` more for each request, and runs this beside what both do.
fn said_of_writes(calls: &'static [(&'static str, f64)], stacks: &[&str]) -> (analyse::Findings, String) {
    const SENT: &str = "main;serve;flush;do_syscall_64;__x64_sys_sendto;tcp_sendmsg";
    let plant = Plant { system_ns: 6000.0, segments: 1.0, calls, ..Plant::NONE };
    let mut run = sampled_beside(plant, stacks);
    for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
        if let Some(told) = &mut pass.profile {
            let mut all = vec![(SENT, 700), ("main;serve", 300)];
            let is_more = told.stacks.len() > 2;
            all.extend(stacks.iter().filter(|_| is_more).map(|stack| (*stack, 900 / stacks.len() as u64)));
            *told = profile(&all);
        }
    }
    let findings = analyse(&run);
    let said = findings.causes.iter().find(|cause| cause.id.name() == "small_writes").unwrap().text.clone();
    (findings, said)
}

#[test]
fn writes_are_said_to_be_of_the_network_where_that_is_known_of_all() {
    const FILE: &str = "main;log;do_syscall_64;ksys_write;ext4_file_write_iter";
    const ALSO_FILE: &str = "main;log;do_syscall_64;__x64_sys_sendto;ext4_file_write_iter";
    let (_, said) = said_of_writes(&[("write", 1.0)], &[FILE]);
    assert!(said.starts_with("writes to the network: 1.00 a request against 1.00"), "{said}");
    let (_, said) =
        said_of_writes(&[("sendto", 1.0)], &["main;serve;flush;do_syscall_64;__x64_sys_sendto;tcp_sendmsg"]);
    assert!(said.starts_with("writes to the network: 2.00 a request against 1.00"), "{said}");
    let (findings, said) = said_of_writes(&[("sendto", 1.0)], &[ALSO_FILE]);
    assert!(said.starts_with("writes to the network, files or pipes: 2.00 a request against 1.00"), "{said}");
    // How many of the two go where is not known.
    let of_call = |on: &str| {
        let is = |row: &&analyse::AttributionRow| {
            row.path.iter().any(|part| part == "sendto") && row.path.iter().any(|part| part == on)
        };
        findings.attribution.iter().filter(is).map(|row| row.count).collect::<Vec<_>>()
    };
    assert!(
        !of_call("file").is_empty() && of_call("file").iter().all(Option::is_none),
        "{:?}",
        findings.attribution
    );
}

#[test]
fn cheap_writes_to_a_file_carry_the_time_inside_them() {
    // Writes to a loopback socket would be 20 times 1000 ns by the calibration: more than twice the gap.
    let cheap = Plant { system_ns: 9000.0, calls: &[("write", 20.0)], ..Plant::NONE };
    let findings =
        analyse(&sampled_beside(cheap, &["main;log;do_syscall_64;ksys_write;ext4_file_write_iter"]));
    assert_eq!(named(&findings)[0].id.name(), "file_writes", "{:?}", findings.causes);
    assert!((named(&findings)[0].share.unwrap() - 1.0).abs() < 0.12, "{:?}", findings.causes);
}

/// Of sixteen requests that arrive together, the first arm reads all at once and answers them at once; the second goes on request by
/// request, and asks others for as much as this.
fn one_by_one(asked: Option<u64>) -> Vec<&'static str> {
    const SENT: &str = "main;serve;flush;do_syscall_64;__x64_sys_sendto;tcp_sendmsg";
    const READ: &str = "main;serve;fill;do_syscall_64;__x64_sys_recvfrom;tcp_recvmsg";
    let mut run = sampled_beside(Plant { system_ns: 6000.0, segments: 1.0, ..Plant::NONE }, &[SENT, READ]);
    for arm in ["main", "pr"] {
        change(&mut run, arm, 0, |window| {
            let came = window.load.requests;
            asks_others(window, came, asked.map(|times| times * came));
        });
    }
    let main = run.diagnostics.iter_mut().filter(|record| record.arm == "main");
    for counts in main.flat_map(|record| &mut record.passes).filter_map(|pass| pass.counts.as_mut()) {
        for name in ["sendto", "recvfrom"] {
            *counts.syscalls.get_mut(name).unwrap() /= 16;
        }
    }
    named(&analyse(&run)).iter().map(|cause| cause.id.name()).collect()
}

#[test]
fn answers_sent_one_by_one_are_no_questions_to_others() {
    let told = one_by_one(Some(0));
    assert!(told.contains(&"small_writes") && !told.contains(&"backend_calls"), "{told:?}");
    // Where its connections are not seen, it may be another that is written to and read from.
    assert!(one_by_one(None).contains(&"backend_calls"));
}
