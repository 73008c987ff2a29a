//! Each check of `verify` passes on a good server and fails on the one fault it is for.

use std::time::Duration;

use launch::verify;
use model::plan::Expect;

use crate::support::{at_once, launcher, server, wait_ready};

fn failed(fault: &str) -> Vec<&'static str> {
    let (spec, addr) = server(fault);
    let mut process = launcher().start(&spec).unwrap();
    let expect = Expect { body: Some("hello".to_owned()), ..Expect::default() };
    // A server with a fault may be ready all the same: what matters is that it listens.
    let _ = wait_ready(&mut process, addr, "/", &expect, Duration::from_secs(5));
    verify(addr, "/", &expect).into_iter().filter(|check| !check.ok).map(|check| check.name).collect()
}

#[test]
fn a_good_server_passes_all() {
    assert_eq!(failed("none"), [""; 0]);
}

#[test]
fn each_fault_fails_its_check() {
    let cases = [
        ("other-body", "answer"),
        ("two-types", "headers"),
        ("no-date", "date"),
        ("stale-date", "date"),
        ("no-pipelining", "pipelining"),
        ("head-body", "head"),
        ("finds-all", "404"),
        ("never-closes", "close"),
    ];
    at_once(cases, |(fault, check)| assert_eq!(failed(fault), [check], "{fault}"));
}

#[test]
fn a_server_that_closes_after_each_answer_has_no_keep_alive() {
    assert_eq!(failed("one-shot"), ["keep-alive", "pipelining", "head"]);
}
