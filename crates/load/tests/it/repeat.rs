//! Windows one after another are reported as one.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Outcome, Target, in_turn, run};
use testkit::{Behaviour, Server, ServerSpec};

use crate::simulation::MILLI;

fn window(behaviour: Behaviour, requests: u64) -> Outcome {
    let server = Server::start(ServerSpec::new(behaviour));
    let mut config = Config::new(Target::resolve(&server.url()).unwrap());
    (config.threads, config.connections) = (2, 6);
    config.pace = Pace::open(2_000.0, Arrival::Constant);
    config.requests = Some(requests);
    config.window = Duration::from_secs(20);
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn two_windows_are_the_sum_of_their_counts_on_the_same_connections() {
    let windows = vec![window(Behaviour::Prompt, 211), window(Behaviour::Delay { by_ns: 50 * MILLI }, 101)];
    let reports = [windows[0].report.clone(), windows[1].report.clone()];
    let whole = in_turn(windows).unwrap();
    let report = &whole.report;
    assert_eq!((report.requests, whole.response.len(), whole.shard.answers), (312, 312, 312));
    assert_eq!((whole.service.unwrap().len(), whole.send_lag.unwrap().len()), (312, 312));
    assert_eq!((report.threads, report.connections.requested, report.connections.established), (2, 6, 6));
    assert_eq!(report.window_ns, reports[0].window_ns + reports[1].window_ns);
    assert_eq!(report.seconds.len(), reports[0].seconds.len() + reports[1].seconds.len());
    assert_eq!(report.bytes_read, reports[0].bytes_read + reports[1].bytes_read);
    assert_eq!(report.per_connection.max, whole.shard.answers_per_connection.iter().copied().max().unwrap());
    assert_eq!(whole.shard.answers_per_connection.len(), 6);
    let rate = 312.0 / (report.window_ns as f64 / 1e9);
    assert!((report.rate_per_s - rate).abs() < 0.01 * rate, "{} is not {rate}", report.rate_per_s);
    // 50 ms against what a prompt server takes on the most crowded machine.
    assert!(report.warnings.iter().any(|warning| warning.id == "windows_differ"), "{:?}", report.warnings);
}

#[test]
fn one_window_is_itself_and_none_is_nothing() {
    let one = window(Behaviour::Prompt, 101);
    let report = one.report.clone();
    assert_eq!(in_turn(vec![one]).unwrap().report, report);
    assert!(in_turn(Vec::new()).is_none());
}
