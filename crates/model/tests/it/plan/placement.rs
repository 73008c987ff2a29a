//! Who gets which CPUs.

use model::plan::{Placement, PlanError};
use model::units::CpuSet;

/// Allowed, `--server-cpus`, `--load-cpus`, then what comes of it.
const CASES: [(&str, &str, &str, &str, &str, bool); 9] = [
    ("0-1", "", "", "0", "1", false),
    ("0-3", "", "", "0-1", "2-3", false),
    // The smaller half is the server's: a generator needs more than a fast server.
    ("0-2", "", "", "0", "1-2", false),
    ("4,6,8,10", "", "", "4,6", "8,10", false),
    ("3", "", "", "3", "3", true),
    ("0-3", "3", "", "3", "0-2", false),
    ("0-3", "", "0", "1-3", "0", false),
    ("0-3", "0-1", "1-2", "0-1", "1-2", true),
    ("0-1", "0-1", "", "0-1", "0-1", true),
];

fn list(text: &str) -> Option<CpuSet> {
    (!text.is_empty()).then(|| text.parse().unwrap())
}

#[test]
fn each_side_gets_its_cpus() {
    for (allowed, server, load, want_server, want_load, shared) in CASES {
        let case = format!("{allowed} with '{server}' and '{load}'");
        let found =
            Placement::choose(&list(allowed).unwrap(), list(server).as_ref(), list(load).as_ref()).unwrap();
        assert_eq!(found.server.to_string(), want_server, "{case}");
        assert_eq!(found.load.to_string(), want_load, "{case}");
        assert_eq!(found.shared, shared, "{case}");
    }
}

#[test]
fn a_cpu_that_is_not_ours_is_refused_by_flag_and_number() {
    let cases = [
        ("0-3", "", "--server-cpus names CPU 2-3, which this process may not use: it has 0-1"),
        ("", "7", "--load-cpus names CPU 7, which this process may not use: it has 0-1"),
    ];
    for (server, load, want) in cases {
        let refused: PlanError =
            Placement::choose(&list("0-1").unwrap(), list(server).as_ref(), list(load).as_ref()).unwrap_err();
        assert_eq!(refused.to_string(), want);
    }
}
