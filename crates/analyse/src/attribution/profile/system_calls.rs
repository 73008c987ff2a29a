//! Time inside system calls: everything that the kernel did for one, and not only its entry.

use model::record::{Frame, Profile, call_name};

use super::Counts;

/// How the kernel calls the entry of a system call, before its name; an entry that only calls the last of these is no
/// frame of its own. Source: Linux, `arch/*/include/asm/syscall_wrapper.h` and `include/linux/syscalls.h`.
const ENTRIES: [&str; 6] = ["__x64_sys_", "__arm64_sys_", "__riscv_sys_", "__do_sys_", "__se_sys_", "ksys_"];
/// System calls that write to whatever a descriptor is.
const WRITES: [&str; 3] = ["write", "writev", "sendfile"];
/// System calls that send to a socket, whatever that leads to.
const SENDS: [&str; 4] = ["send", "sendto", "sendmsg", "sendmmsg"];
/// Parts of the names of functions through which whatever goes to a socket goes.
const SOCKETS: [&str; 2] = ["sock_", "tcp_"];
/// Parts of the names of functions through which a thread tells another one on this machine that there is work.
const PIPES: [&str; 4] = ["pipe_write", "eventfd_write", "unix_dgram_sendmsg", "unix_stream_sendmsg"];
/// What writes to a pipe, an event descriptor or a local socket are called.
const PIPE_WRITES: &str = "write (to a pipe or local socket)";
/// What all other writes that do not go to a socket are called.
const FILE_WRITES: &str = "write (not to a socket)";

/// Functions in which the kernel handles a page that is touched and not there. Source: Linux, arch/x86/mm/fault.c and
/// arch/arm64/mm/fault.c.
const FAULT_HANDLERS: [&str; 3] = ["exc_page_fault", "do_user_addr_fault", "do_mem_abort"];
/// What the time in them is called outside of system calls.
const PAGE_FAULTS: &str = "(page faults)";
/// And what it is called where the page was touched by copying to it.
const COPYING_FAULTS: &str = "(page faults of copying)";
/// Parts of the names of functions that copy.
const COPIES: [&str; 3] = ["memcpy", "memmove", "mempcpy"];

/// Samples by the system call in which they were taken, or page faults; what else the kernel does is left out.
pub(super) fn counts(profiles: &[&Profile]) -> Counts<String> {
    let mut counts = Counts::new();
    for profile in profiles {
        for stack in &profile.stacks {
            let (kernel, program): (Vec<&Frame>, Vec<&Frame>) =
                profile.frames_of(stack).partition(|frame| frame.kernel);
            if let Some(name) = name(&kernel, program.last().copied()) {
                *counts.entry(name).or_default() += stack.samples;
            }
        }
    }
    counts
}

/// The system call of a stack's kernel frames, outermost first, into which the program's function `from` led.
fn name(kernel: &[&Frame], from: Option<&Frame>) -> Option<String> {
    let is_in =
        |parts: &[&str]| kernel.iter().any(|frame| parts.iter().any(|part| frame.name.contains(part)));
    let mut entered =
        kernel.iter().filter_map(|frame| ENTRIES.iter().find_map(|entry| frame.name.strip_prefix(entry)));
    let Some(entered) = entered.next() else {
        let copies = from.is_some_and(|frame| COPIES.iter().any(|name| frame.name.contains(name)));
        let name = if copies { COPYING_FAULTS } else { PAGE_FAULTS };
        return is_in(&FAULT_HANDLERS).then(|| name.to_owned());
    };
    // Link-time optimisation leaves suffixes such as `.isra.0`.
    let name = call_name(entered.split('.').next()?);
    let (writes, sends) = (WRITES.contains(&name), SENDS.contains(&name));
    let name = match name {
        _ if (writes || sends) && is_in(&PIPES) => PIPE_WRITES,
        _ if writes && !is_in(&SOCKETS) => FILE_WRITES,
        call => call,
    };
    Some(name.to_owned())
}
