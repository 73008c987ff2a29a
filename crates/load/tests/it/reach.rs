//! Ways to a server: unix sockets, IPv6, names, source addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use load::schedule::{Arrival, Pace};
use load::{Config, Target, run};

use crate::serving::{self, Manner, requests};

fn config(target: Target) -> Config {
    let mut config = Config::new(target);
    config.connections = 8;
    config.requests = Some(1_009);
    config.window = Duration::from_secs(20);
    config
}

#[test]
fn unix_sockets_ipv6_and_names_are_counted_alike() {
    let socket = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("reach-{}.socket", std::process::id()));
    let _ = std::fs::remove_file(&socket);
    let unix = serving::unix(&socket, Manner::body(13));
    let (six, by_six) = serving::tcp("::1", Manner::body(13));
    let (four, by_name) = serving::tcp("127.0.0.1", Manner::body(13));
    let cases = [
        (Target::unix("http://any.test/", socket.clone()), unix),
        (Target::resolve(&format!("http://[::1]:{}/", six.port())), by_six),
        (Target::resolve(&format!("http://localhost:{}/", four.port())), by_name),
    ];
    for (target, log) in cases {
        let target = target.unwrap();
        for (pace, so_far) in [(Pace::Closed, 1_009), (Pace::open(5_000.0, Arrival::Constant), 2_018)] {
            let config = Config { pace, ..config(target.clone()) };
            let report = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap().report;
            let counts = (report.requests, report.errors.total(), requests(&log));
            assert_eq!(counts, (1_009, 0, so_far), "{}", target.url);
        }
    }
    std::fs::remove_file(&socket).unwrap();
}

#[test]
fn connections_come_from_each_source_in_turn() {
    let (address, log) = serving::tcp("127.0.0.1", Manner::body(13));
    let mut config = config(Target::resolve(&format!("http://{address}/")).unwrap());
    // ::1 cannot reach an address of IPv4 and takes no turn.
    let sources: [IpAddr; 4] =
        ["127.0.0.2", "127.0.0.3", "127.0.0.4", "::1"].map(|text| text.parse().unwrap());
    config.sources = sources.to_vec();
    config.threads = 1;
    config.connections = 9;
    run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let mut from: BTreeMap<IpAddr, u32> = BTreeMap::new();
    log.lock().unwrap().iter().for_each(|seen| *from.entry(seen.peer.unwrap()).or_default() += 1);
    assert_eq!(
        from.into_iter().collect::<Vec<_>>(),
        sources[..3].iter().map(|ip| (*ip, 3)).collect::<Vec<_>>()
    );
}

#[test]
fn a_source_that_cannot_be_used_is_said_before_anything_is_sent() {
    let (address, log) = serving::tcp("127.0.0.1", Manner::body(13));
    // 192.0.2.1 is for documentation, and no machine has it.
    for (source, words) in [("192.0.2.1", "not an address of this machine"), ("::1", "of the same family")] {
        let mut config = config(Target::resolve(&format!("http://{address}/")).unwrap());
        config.sources = vec![source.parse().unwrap()];
        let text = run(&config, &AtomicBool::new(false), &mut |_| {}).unwrap_err().to_string();
        assert!(text.contains(words), "{text}");
    }
    assert!(log.lock().unwrap().is_empty());
}
