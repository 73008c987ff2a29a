//! What one reading costs: time and CPU of a snapshot of this process with 1, 20 and 200 threads, of the host, and of
//! one look of a series.

use std::io::Write;
use std::time::Instant;

use observe::{Group, HostWatch};
use rustix::time::{ClockId, clock_gettime};

/// Repetitions of each: the median is printed.
const TIMES: usize = 201;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "median of {TIMES}          wall µs    CPU µs")?;
    let group = Group::from_pid(std::process::id())?;
    let mut threads = 1;
    for wanted in [1, 20, 200] {
        while threads < wanted {
            std::thread::spawn(std::thread::park);
            threads += 1;
        }
        let (wall, cpu) = median(|| drop(group.snapshot()));
        writeln!(out, "group, {wanted:>3} threads    {wall:>9.0} {cpu:>9.0}")?;
    }
    let host = HostWatch::new("0-63".parse()?);
    let (wall, cpu) = median(|| drop(host.snapshot()));
    writeln!(out, "host                  {wall:>9.0} {cpu:>9.0}")?;
    Ok(())
}

/// Median wall and CPU time in microseconds.
fn median(mut work: impl FnMut()) -> (f64, f64) {
    let own_cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let (mut walls, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let (wall, cpu) = (Instant::now(), own_cpu());
        work();
        walls.push(wall.elapsed().as_secs_f64() * 1e6);
        cpus.push(own_cpu() - cpu);
    }
    walls.sort_by(f64::total_cmp);
    cpus.sort_by(f64::total_cmp);
    (walls[TIMES / 2], cpus[TIMES / 2])
}
