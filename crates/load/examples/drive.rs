//! Drives a URL: `drive URL [connections] [pipeline] [seconds] [rate] [poisson|constant|connection] [threads]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Dispatch, Intensity, Pace};
use load::{Config, LoadError, Target, Warmup, run};
use model::record::{LoadReport, Percentiles};

fn main() -> Result<(), LoadError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |index: usize, default: &'static str| words.get(index).map_or(default, String::as_str);
    let number = |index, default| word(index, default).parse().unwrap_or(0.0);
    let mut config = Config::new(Target::resolve(word(0, "http://127.0.0.1:8080/"))?);
    config.connections = number(1, "64") as u32;
    config.pipeline = number(2, "1") as u32;
    config.window = Duration::from_secs_f64(number(3, "5"));
    let rate = number(4, "0");
    config.threads = number(6, "1") as u32;
    config.warmup = Warmup::fixed(Duration::from_secs(1));
    if rate > 0.0 {
        let arrival = if word(5, "constant") == "poisson" { Arrival::Poisson } else { Arrival::Constant };
        let dispatch = if word(5, "") == "connection" { Dispatch::Connection } else { Dispatch::Shared };
        config.pace = Pace::Open { intensity: Intensity::Flat { per_s: rate }, arrival, dispatch };
    }
    let outcome = run(&config, &AtomicBool::new(false), &mut |_| {})?;
    print(&outcome.report);
    Ok(())
}

fn print(report: &LoadReport) {
    let us = |value: Option<u64>| value.map_or("-".to_owned(), |ns| format!("{:.1}", ns as f64 / 1e3));
    let line = |name: &str, p: &Percentiles| {
        let figures = [p.p50, p.p90, p.p99, p.p99_9, p.p99_99].map(us).join(" ");
        println!("{name} µs p50 p90 p99 p99.9 p99.99: {figures}, max {:.1}", p.max as f64 / 1e3);
    };
    line("response", &report.response_ns);
    line("service ", &report.service_ns);
    line("send lag", &report.send_lag_ns);
    let cpu = report.cpu_ns_per_request;
    println!(
        "{:.0}/s, ratio {:?}, CPU {:.0} = {:.0} + {:.0} ns/request, busy {:.2}, in flight {:.1}, unfinished {}, unsent {}, {:?}, {:?}",
        report.rate_per_s,
        report.rate_ratio,
        cpu.user + cpu.system,
        cpu.user,
        cpu.system,
        report.busiest_thread,
        report.in_flight,
        report.unfinished,
        report.unsent,
        report.errors,
        report.per_connection
    );
    report.warnings.iter().for_each(|warning| println!("{}: {}", warning.id, warning.text));
}
