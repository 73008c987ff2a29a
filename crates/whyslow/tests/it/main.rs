//! The program from outside: what it refuses, what it serves, what it measures, what it leaves behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends by panicking")]

mod bisect;
mod calls;
mod capacity;
mod case;
#[path = "../../../observe/tests/it/cgroup.rs"]
mod cgroup;
mod compare;
mod composed;
mod confirmed;
mod containers;
mod doctor;
mod dropin;
mod ended;
mod events;
mod failures;
#[path = "../../../observe/tests/it/filtered.rs"]
mod filtered;
mod flags;
mod floods;
mod generators;
mod init;
mod kinds;
mod ladder;
mod load;
mod manual;
mod messages;
mod metrics;
mod ordinary;
#[path = "../../../load/tests/it/quic.rs"]
#[allow(dead_code, reason = "the tests of the generator itself use more of it")]
mod quic;
mod refusals;
mod remote;
mod report;
mod reported;
mod reported_answers;
mod reported_sent;
mod requests;
mod revisions;
mod running;
mod secrets;
mod serve;
mod services;
#[path = "../../../load/tests/it/serving/mod.rs"]
#[allow(dead_code, reason = "the tests of the generator itself use more of it")]
mod serving;
mod shards;
mod shim;
mod shortage;
mod soak;
mod support;
mod there;
mod view;
mod watch;
mod wire;
#[path = "../../../load/tests/it/wires.rs"]
#[allow(dead_code, reason = "the tests of the generator itself use more of it")]
mod wires;
mod workload;
