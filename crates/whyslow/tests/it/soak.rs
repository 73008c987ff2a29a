//! A server that leaks, and one that does not.

use std::process::{Child, Command};
use std::time::Duration;

use crate::support::{FIXTURE, Printed, whyslow, within};

/// Bytes that the server keeps of each request.
const LEAKED_BYTES: f64 = 8192.0;
/// Of so many requests one leaves a descriptor behind.
const REQUESTS_PER_DESCRIPTOR: f64 = 4.0;
/// Requests each second.
const RATE: f64 = 400.0;

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn soak(fault: &str, window: &str, bound: &str) -> (Printed, u32) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Ends(Command::new(FIXTURE).args([&port.to_string(), fault]).spawn().unwrap());
    let up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(within(Duration::from_secs(5), up));
    let (url, rate) = (format!("http://127.0.0.1:{port}/"), RATE.to_string());
    let args = ["load", "-t1", "-c2", window, "-R", &rate, "--format", "json", "--fail-if", bound, &url];
    (whyslow(&args), server.0.id())
}

#[test]
fn what_a_server_leaks_is_told_with_its_interval_and_fails_a_run() {
    let (printed, pid) = soak("leak", "-d3s", "rss_slope > 1000MiB/h");
    assert_eq!(printed.code, Some(3), "{printed:?}");
    let server = &printed.json()["server"];
    assert_eq!(server["pid"], pid);
    let slope = |end: &str| server["rss_slope_bytes"][end].as_f64().unwrap();
    let truth = RATE * LEAKED_BYTES * 3600.0;
    assert!((0.8..1.25).contains(&(slope("per_h") / truth)), "{server} and {truth}");
    assert!(
        slope("low") > 0.0 && slope("low") <= slope("per_h") && slope("per_h") <= slope("high"),
        "{server}"
    );
    assert!(server["looks"].as_u64().unwrap() > 50, "{server}");
}

#[test]
fn descriptors_that_a_server_leaks_fail_a_run() {
    let (printed, _) = soak("leak-descriptors", "-d3s", "descriptors_slope > 10000/h");
    assert_eq!(printed.code, Some(3), "{printed:?}");
    let json = printed.json();
    let slope = json["server"]["descriptors_slope"]["per_h"].as_f64().unwrap();
    let truth = RATE / REQUESTS_PER_DESCRIPTOR * 3600.0;
    assert!((0.8..1.25).contains(&(slope / truth)), "{} and {truth}", json["server"]);
}

#[test]
fn a_server_that_keeps_its_size_passes() {
    let (printed, _) = soak("none", "-d3s", "descriptors_slope > 5000/h");
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    let server = &json["server"];
    assert!(server["rss_slope_bytes"]["low"].as_f64().unwrap() <= 1024.0 * 1024.0, "{server}");
    assert!(server["descriptors"].as_u64().unwrap() >= 5, "two connections, a listener and more: {server}");
    let far = whyslow(&["load", "--soak", "-d1s", "http://[2001:db8::1]:1/"]);
    assert!(far.code == Some(2) && far.err.contains("a server on this machine"), "{far:?}");
}

#[test]
fn a_window_that_is_too_short_to_tell_decides_nothing() {
    let (printed, _) = soak("none", "-d1s", "rss_slope > 1MiB/h");
    assert_eq!(printed.code, Some(4), "{printed:?}");
    for words in ["--fail-if: rss_slope > 1MiB/h is not decided", "the window was too short to tell; some -d"]
    {
        assert!(printed.err.contains(words), "{words}: {printed:?}");
    }
    let json = printed.json();
    let slope = &json["server"]["rss_slope_bytes"];
    // A page in the eleven twelfths of a second between the first part and the last, at either end.
    let wide = slope["high"].as_f64().unwrap() - slope["low"].as_f64().unwrap();
    assert!(wide > 2.0 * 4096.0 * 3600.0, "{slope}");
}
