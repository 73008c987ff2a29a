use std::ops::AddAssign;

/// One CPU's line of `/proc/stat`, in clock ticks. Guest time is part of `user` and `nice` already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CpuTicks {
    pub(crate) user: u64,
    pub(crate) nice: u64,
    pub(crate) system: u64,
    pub(crate) idle: u64,
    pub(crate) iowait: u64,
    pub(crate) irq: u64,
    pub(crate) softirq: u64,
    pub(crate) steal: u64,
}

impl AddAssign for CpuTicks {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.nice += other.nice;
        self.system += other.system;
        self.idle += other.idle;
        self.iowait += other.iowait;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.steal += other.steal;
    }
}

/// The lines `cpuN` of `/proc/stat`; fields that an old kernel lacks are 0. Source: proc_stat(5).
pub(crate) fn cpu_lines(text: &str) -> impl Iterator<Item = (u32, CpuTicks)> {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The first line, of all CPUs together, has no number and is left out here.
        let cpu =
            line.as_bytes().get(3).filter(|byte| byte.is_ascii_digit()).and(words.next())?.parse().ok()?;
        let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let ticks = CpuTicks {
            user: next(),
            nice: next(),
            system: next(),
            idle: next(),
            iowait: next(),
            irq: next(),
            softirq: next(),
            steal: next(),
        };
        Some((cpu, ticks))
    })
}

/// Threads of the host that run or wait for a CPU at this moment, from `/proc/stat`. Source: proc_stat(5).
pub(crate) fn running(text: &str) -> Option<u32> {
    text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}
