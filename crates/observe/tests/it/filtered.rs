//! Threads below a seccomp filter, as all of a container are.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Numbers of perf_event_open(2), ptrace(2) and bpf(2), and of the errors that filters answer with.
#[cfg(target_arch = "x86_64")]
pub(crate) const CALLS: [i64; 3] = [298, 101, 321];
#[cfg(target_arch = "aarch64")]
pub(crate) const CALLS: [i64; 3] = [241, 117, 280];
pub(crate) const EPERM: u32 = 1;
pub(crate) const ENOSYS: u32 = 38;

/// Does `work` in a thread whose system call `call`, and that of all processes which it starts, is refused with `errno`.
pub(crate) fn refusing<T: Send>(call: i64, errno: u32, work: impl FnOnce() -> T + Send) -> T {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let rules = BTreeMap::from([(call, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno), arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    std::thread::scope(|scope| {
        let below = scope.spawn(|| {
            seccompiler::apply_filter(&program).unwrap();
            work()
        });
        below.join().unwrap()
    })
}
