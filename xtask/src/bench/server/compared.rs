//! Rows that `whyslow compare` measures by itself.

use model::record::{Run, Window};

use super::super::blocks::Blocks;
use super::super::page::{figure, table};
use super::super::target::Cpus;
use super::super::whyslow;
use super::{OURS, PAGE, Row, Scale};

/// CPU of the server per request in nanoseconds.
fn per_request(window: &Window, cpu_ns: u64) -> Option<f64> {
    (window.load.requests > 0).then(|| cpu_ns as f64 / window.load.requests as f64)
}

pub(super) fn keep_alive(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let run = compare(scale, cpus, Row::KeepAlive, &["--connections", "64", "--equal-rates", "none"])?;
    let bars = "Bars: user CPU at most that of `may-mini` and 0.6 of `hyper-futures`; total at most 1.06 of \
                `epoll-limit`.";
    Ok(cpu_section("CPU per request, 64 connections kept alive", bars, Row::KeepAlive, scale, &run))
}

pub(super) fn pipeline(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let words = ["--connections", "64", "--pipeline", "16", "--equal-rates", "none"];
    let run = compare(scale, cpus, Row::Pipeline, &words)?;
    let bars = "Bars: total at most that of `may-mini` and 0.6 of `hyper-futures`.";
    Ok(cpu_section(
        "CPU per request, 16 in flight on each of 64 connections",
        bars,
        Row::Pipeline,
        scale,
        &run,
    ))
}

pub(super) fn http2(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let words = ["--http2", "--streams", "16", "--connections", "64", "--equal-rates", "none"];
    let run = compare(scale, cpus, Row::Http2, &words)?;
    let bars = "Bar: total at most 0.7 of `hyper-futures@http2`.";
    Ok(cpu_section(
        "CPU per request, HTTP/2 with 16 streams on each of 64 connections",
        bars,
        Row::Http2,
        scale,
        &run,
    ))
}

fn compare(scale: &Scale, cpus: &Cpus, row: Row, words: &[&str]) -> anyhow::Result<Run> {
    let (blocks, warmup) = (scale.blocks.to_string(), format!("{}s", scale.warmup_s));
    let mut all: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for (name, value) in [
        ("--blocks", blocks),
        ("--warmup", warmup.clone()),
        ("--warmup-cap", warmup),
        ("--server-cpus", cpus.server.clone()),
        ("--load-cpus", cpus.load.clone()),
        ("--path", "/plaintext".to_owned()),
        ("--baseline", OURS.to_owned()),
        ("--seed", "20261120".to_owned()),
    ] {
        all.extend([name.to_owned(), value]);
    }
    let mut arms = scale.arms.clone();
    arms[0] = whyslow::measured(OURS, "");
    scale.instrument.compare(&arms, &all, &PAGE.folder().join(row.name()))
}

fn cpu_section(title: &str, bars: &str, row: Row, scale: &Scale, run: &Run) -> String {
    let first = |of: fn(&Window) -> Option<f64>| Blocks::of_run(run, |windows| of(windows.first()?));
    let user = first(|window| per_request(window, window.target.cpu.user_ns));
    let total = first(|window| per_request(window, window.target.cpu.total_ns));
    let rate = first(|window| Some(window.load.rate_per_s));
    let rows: Vec<Vec<String>> = arms_of(run)
        .iter()
        .map(|arm| {
            vec![
                arm.clone(),
                total.count(arm).to_string(),
                figure(user.median(arm), 0),
                figure(total.median(arm), 0),
                user.ratio(OURS, arm),
                total.ratio(OURS, arm),
                figure(rate.median(arm), 0),
            ]
        })
        .collect();
    let head = [
        "server",
        "n",
        "user ns",
        "total ns",
        "straightline / it, user",
        "… total",
        "requests/s (closed loop)",
    ];
    format!(
        "## {title}\n\n{}; medians of n blocks of fresh servers that take turns, closed loop; ns of server CPU per request. {bars}\n\n{}",
        scale.method(row),
        table(&head, &rows)
    )
}

pub(super) fn micros(ns: Option<u64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e3)
}

/// The arms of a run in the order in which they were named.
fn arms_of(run: &Run) -> Vec<String> {
    run.manifest.plan.arms.iter().map(|arm| arm.name.clone()).collect()
}

/// Each peer in a run of its own with straightline: a block is then over before a hypervisor has moved a CPU.
pub(super) fn latency(scale: &Scale, cpus: &Cpus) -> anyhow::Result<String> {
    let connections = scale.connections.to_string();
    let words = ["--connections", &connections, "--equal-rates", "70"];
    let rows: Vec<Vec<String>> = scale.arms[1..]
        .iter()
        .map(|peer| {
            let pair = Scale { arms: vec![OURS.to_owned(), peer.clone()], ..scale.clone() };
            Ok(latencies(peer, &compare(&pair, cpus, Row::Latency, &words)?))
        })
        .collect::<anyhow::Result<_>>()?;
    let head = [
        "server",
        "n",
        "rate/s",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "straightline's p99.9 µs",
        "straightline / it, p99.9",
    ];
    Ok(format!(
        "## Latency at 70 % of the slower server's capacity, {connections} connections\n\n{}; each server in a run of its own \
         with straightline; medians of n blocks of servers that take turns, open loop, latency from the intended instant. Where n is 0, \
         no block has a valid window of the server: most such servers did not survive the load. Bar: p99.9 at most that of \
         every peer.\n\n{}",
        scale.method(Row::Latency),
        table(&head, &rows)
    ))
}

fn latencies(peer: &str, run: &Run) -> Vec<String> {
    // The first window is a closed loop, which finds the knees; the second has the equal rate.
    let second = |of: fn(&Window) -> Option<f64>| Blocks::of_run(run, |windows| of(windows.get(1)?));
    let rate = second(|window| Some(window.load.rate_per_s));
    let p50 = second(|window| micros(window.load.response_ns.p50));
    let p99 = second(|window| micros(window.load.response_ns.p99));
    let p99_9 = second(|window| micros(window.load.response_ns.p99_9));
    vec![
        peer.to_owned(),
        p99_9.count(peer).to_string(),
        figure(rate.median(peer), 0),
        figure(p50.median(peer), 0),
        figure(p99.median(peer), 0),
        figure(p99_9.median(peer), 0),
        figure(p99_9.median(OURS), 0),
        p99_9.ratio(OURS, peer),
    ]
}
