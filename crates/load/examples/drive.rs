//! Drives a URL: `drive URL [connections] [pipeline] [seconds] [rate] [poisson|constant|connection] [threads]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Dispatch, Intensity, Pace};
use load::{Config, LoadError, Target, Warmup, run};

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
    let mut report = outcome.report;
    report.seconds.clear();
    println!("{report:#?}");
    Ok(())
}
