//! Shards: together they are one generator, and nothing is lost when they are put together.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use load::session::{Finished, Spec};
use load::{Config, Latencies, Merged, Shard, Target, latencies, merge, run, second_line, shard_log};
use model::record::ShardRecord;
use testkit::{Behaviour, Server, ServerSpec};

use crate::simulation::{MILLI, SECOND, simulate, spec};

/// Every value of a histogram with its count.
fn counts(latencies: &Latencies) -> Vec<(u64, u64)> {
    latencies.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect()
}

fn responses(parts: &[Finished]) -> Latencies {
    let mut all = latencies();
    for finished in parts {
        all.add(&finished.tally.censored).unwrap();
        finished.tally.full.iter().for_each(|second| load::add_latencies(&mut all, &second.response));
    }
    all
}

#[test]
fn three_shards_of_a_simulation_have_the_histogram_of_one_process() {
    for arrival in [Arrival::Constant, Arrival::Poisson] {
        let pace =
            Pace::Open { intensity: Intensity::Flat { per_s: 1000.0 }, arrival, dispatch: Dispatch::Shared };
        // Answered 30 ms after it was sent; those of the last 30 ms are censored, each with another age.
        let run = |part, parts| {
            let spec = Spec { seed: 9, part: Part { part, parts }, ..spec(100, pace.clone()) };
            simulate(spec, Behaviour::Delay { by_ns: 30 * MILLI }, SECOND).0
        };
        let (whole, shards) = ([run(0, 1)], [run(0, 3), run(1, 3), run(2, 3)]);
        assert_eq!(counts(&responses(&whole)), counts(&responses(&shards)), "{arrival:?}");
        let unfinished = |parts: &[Finished]| parts.iter().map(|part| part.tally.unfinished).sum::<u64>();
        assert!(unfinished(&whole) > 0);
        assert_eq!(unfinished(&whole), unfinished(&shards));
    }
}

/// One shard of three, run against `server`.
fn shard(server: &Server, index: u32) -> (ShardRecord, String, Latencies) {
    paced(server, index, Pace::open(3_000.0, Arrival::Poisson))
}

fn paced(server: &Server, index: u32, pace: Pace) -> (ShardRecord, String, Latencies) {
    let mut config = Config::new(Target::resolve(&server.url()).unwrap());
    config.pace = pace;
    (config.threads, config.connections, config.seed) = (1, 4, 5);
    config.shard = Shard { index, of: 3 };
    config.window = Duration::from_millis(1_300);
    let mut seconds = Vec::new();
    let outcome = run(&config, &AtomicBool::new(false), &mut |event| {
        if let load::Event::Second { index, response, .. } = event {
            seconds.push(second_line(index, response));
        }
    });
    let outcome = outcome.unwrap();
    let log = shard_log(&outcome, &seconds);
    (outcome.shard, log, outcome.response)
}

fn merged(parts: &[&(ShardRecord, String, Latencies)]) -> Merged {
    merge(parts.iter().map(|(record, log, _)| (record.clone(), log.clone())).collect()).unwrap()
}

#[test]
fn a_merge_loses_nothing_in_whatever_order_it_is_done() {
    let server = Server::start(ServerSpec::new(Behaviour::Slow { one_in: 50, by_ns: 5 * MILLI }));
    let shards = [shard(&server, 0), shard(&server, 1), shard(&server, 2)];
    let log = server.finish();
    let all = merged(&[&shards[2], &shards[0], &shards[1]]);
    let sum = |of: fn(&ShardRecord) -> u64| shards.iter().map(|(record, ..)| of(record)).sum::<u64>();
    let report = &all.outcome.report;
    assert_eq!(report.requests, sum(|record| record.report.requests));
    assert_eq!(report.requests + report.unfinished, log.entries.len() as u64, "as the server counted");
    assert_eq!(report.response_ns.count, sum(|record| record.report.response_ns.count));
    assert_eq!(report.connections.established, 12);
    assert_eq!(report.threads, 3);
    let mut added = latencies();
    shards.iter().for_each(|(_, _, response)| added.add(response).unwrap());
    assert_eq!(counts(&all.outcome.response), counts(&added));
    assert_eq!(report.seconds.len(), 2);
    let within: u64 = report.seconds.iter().map(|second| second.requests).sum();
    assert_eq!(within, report.requests);
    assert!(
        report.seconds.iter().all(|second| second.p99_ns >= Some(5 * MILLI * 9 / 10)),
        "{:?}",
        report.seconds
    );
    // First two, then the third.
    let two = merged(&[&shards[0], &shards[2]]);
    assert!(two.outcome.report.warnings.iter().any(|warning| warning.id == "shards_missing"));
    let again =
        merge(vec![(two.outcome.shard, two.log), (shards[1].0.clone(), shards[1].1.clone())]).unwrap();
    assert_eq!(counts(&again.outcome.response), counts(&added));
    assert_eq!(again.outcome.report.seconds, report.seconds);
    assert_eq!(again.outcome.report.response_ns.p99, report.response_ns.p99);
    assert_eq!(again.outcome.shard.shards.len(), 3);
    let phases = |report: &model::record::LoadReport| report.phases.clone().unwrap();
    assert_eq!(phases(&again.outcome.report), phases(report), "connections and first bytes are merged, too");
    assert_eq!(phases(report).connect_ns.count, 12);
    assert_eq!(phases(report).first_byte_ns.map(|first| first.count), Some(report.service_ns.count));
}

#[test]
fn schedules_of_one_mean_and_another_shape_are_not_merged() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let ramp = |from_per_s, to_per_s| Intensity::Ramp { from_per_s, to_per_s, over_s: 1.3 };
    let intensities = [Intensity::Flat { per_s: 1000.0 }, ramp(500.0, 1500.0), ramp(1500.0, 500.0)];
    let shards: Vec<_> = (0..)
        .zip(intensities)
        .map(|(index, intensity)| {
            let (arrival, dispatch) = (Arrival::Constant, Dispatch::Shared);
            paced(&server, index, Pace::Open { intensity, arrival, dispatch })
        })
        .map(|(record, log, _)| (record, log))
        .collect();
    for (one, other) in [(0, 1), (1, 2)] {
        let [a, b] = [&shards[one], &shards[other]].map(|(record, _)| &record.report.schedule);
        assert!((a.rate_per_s.unwrap() - b.rate_per_s.unwrap()).abs() < 1e-6, "{a:?} {b:?}");
        let refused = merge(vec![shards[one].clone(), shards[other].clone()]).unwrap_err().to_string();
        assert!(refused.contains("they differ in the schedule or its seed"), "{refused}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused_in_one_sentence() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let (record, log, _) = shard(&server, 0);
    let other = |change: fn(&mut ShardRecord)| {
        let mut other = ShardRecord { shards: vec![1], ..record.clone() };
        change(&mut other);
        other
    };
    let cases: [(Vec<(ShardRecord, String)>, &str); 6] = [
        (vec![], "there is no shard to merge"),
        (vec![(record.clone(), log.clone()); 2], "shard 0 of 3 is there twice"),
        (
            vec![(record.clone(), log.clone()), (other(|record| record.of = 4), log.clone())],
            "how many shards",
        ),
        (
            vec![
                (record.clone(), log.clone()),
                (other(|record| record.report.schedule.seed = 6), log.clone()),
            ],
            "the schedule or its seed",
        ),
        (vec![(record.clone(), "no log".to_owned())], "the log of shard 0 is damaged"),
        (vec![(record.clone(), log.replace(",HIST", ",HISU"))], "the log of shard 0 is damaged"),
    ];
    for (parts, words) in cases {
        let text = merge(parts).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{words}: {text}");
    }
    let late = other(|record| record.last_start_ns += SECOND);
    let short = other(|record| record.report.window_ns /= 2);
    for (shard, id) in [(late, "shards_skewed"), (short, "shards_unlike")] {
        let merged = merge(vec![(record.clone(), log.clone()), (shard, log.clone())]).unwrap();
        let warnings = merged.outcome.report.warnings;
        assert!(warnings.iter().any(|warning| warning.id == id), "{warnings:?}");
    }
}
