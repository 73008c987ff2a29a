//! The tree from outside: leaves sum to CPU per request, causes do not overlap, and what is said is where the gap is.

use std::path::Path;

use analyse::{AttributionRow, Change, Findings};
use model::plan::{ArmSource, Revision};
use model::record::{PassKind, Run, RunDir, SourceChange};

use crate::support::{analyse, change};
use crate::why::{Plant, planted};
use crate::why_cpu::sampled_beside;
use crate::why_idle::waiting_in;

/// Stacks of one server that sends each answer by itself, and of one that sends several at once.
const SEND: &str = "main;serve;flush;do_syscall_64;__x64_sys_writev;tcp_sendmsg";

fn sums(findings: &Findings) {
    let cpu = |name: &str| {
        findings.arms.iter().find(|arm| arm.name == name).unwrap().cpu_ns_per_request.unwrap().total
    };
    for arm in findings.arms.iter().filter(|arm| arm.name != findings.baseline) {
        let rows = || findings.attribution.iter().filter(|row| row.arm == arm.name);
        let [from, to] = [rows().map(|row| row.baseline_ns).sum::<f64>(), rows().map(|row| row.arm_ns).sum()];
        assert!((from / cpu(&findings.baseline) - 1.0).abs() < 0.01, "{from}");
        assert!((to / cpu(&arm.name) - 1.0).abs() < 0.01, "{to}");
        for row in rows() {
            let parts = row.more_ns.zip(row.dearer_ns);
            let exact = |(more, dearer): (f64, f64)| (more + dearer - row.delta_ns).abs() < 1e-6;
            assert!(parts.is_none_or(exact), "{row:?}");
        }
    }
    // Those of an identity say where, and not why: they are what is left.
    let explains = findings.causes.iter().filter(|cause| cause.grade != analyse::Grade::AccountsFor);
    let carried: f64 = explains.filter_map(|cause| cause.share).sum();
    let left = findings.unattributed_share.unwrap();
    let small: f64 = findings.rests.iter().map(|rest| rest.small_share).sum();
    assert!(
        (carried + small + left - 1.0).abs() < 1e-6,
        "{carried}, {small} and {left}: {:?}",
        findings.causes
    );
}

#[test]
fn leaves_sum_to_cpu_per_request_and_causes_do_not_overlap() {
    let work = Plant { user_ns: 4500.0, system_ns: 4500.0, calls: &[("writev", 2.0)], ..Plant::NONE };
    let mut unsampled = sampled_beside(work, &[SEND, "main;serve;render"]);
    for record in &mut unsampled.diagnostics {
        record.passes.retain(|pass| pass.kind != PassKind::Sampling);
    }
    let waits =
        Plant { calls: &[("clock_nanosleep", 1.0), ("futex", 1.4)], idle_rate: Some(0.1), ..Plant::NONE };
    let mut one_sided = sampled_beside(work, &[SEND, "main;serve;render"]);
    one_sided.diagnostics.retain(|record| record.arm == "pr");
    for run in [
        sampled_beside(work, &[SEND, "main;serve;render"]),
        unsampled,
        one_sided,
        planted(waits),
        waiting_in(waits.calls, &[("main;serve;futex_wait", 60_000)]),
    ] {
        sums(&analyse(&run));
    }
}

#[test]
fn the_leaves_of_a_recorded_run_sum_to_the_gap() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/fixtures/demo");
    let findings = analyse(&RunDir::open(&folder).read().unwrap());
    let arm = |name: &str| findings.arms.iter().find(|arm| arm.name == name).unwrap();
    let cpu = |name: &str| arm(name).cpu_ns_per_request.unwrap().total;
    let others: Vec<&str> = findings.arms.iter().map(|arm| arm.name.as_str()).collect();
    let others: Vec<&str> = others.into_iter().filter(|name| *name != findings.baseline).collect();
    assert_eq!(others.len(), 2);
    for name in others {
        let rows = || findings.attribution.iter().filter(|row| row.arm == name);
        assert!(rows().count() > 0, "{name} has no leaves");
        let sum: f64 = rows().map(|row| row.delta_ns).sum();
        let gap = cpu(name) - cpu(&findings.baseline);
        let error = rows().map(|row| row.delta_se_ns.powi(2)).sum::<f64>().sqrt().max(0.01 * gap.abs());
        assert!((sum - gap).abs() <= error, "{name}: {sum} ns in leaves, a gap of {gap} ns ± {error} ns");
    }
}

#[test]
fn samples_of_one_arm_are_not_set_beside_none_of_the_other() {
    let plant = Plant { user_ns: 9000.0, ..Plant::NONE };
    let mut run = sampled_beside(plant, &["main;serve;render"]);
    run.diagnostics.retain(|record| record.arm == "pr");
    let findings = analyse(&run);
    assert!(
        findings.attribution.iter().all(|row| row.path[1] == "not sampled"),
        "{:?}",
        findings.attribution
    );
}

/// Two revisions of which the second one has a line more, in which it spends its time; what follows stands a line further down.
const RANGE: &str = "\
diff --git a/src/shop.c b/src/shop.c
--- a/src/shop.c
+++ b/src/shop.c
@@ -10,3 +10,4 @@ int price(int n)
 {
+    for (int i = 0; i < n; i++) sum += i;
     return sum;
 }
";

#[test]
fn of_two_revisions_lines_that_changed_are_told_from_those_that_only_moved() {
    let mut run = sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &["main;serve;price"]);
    run.manifest.changes = vec![SourceChange { arm: "pr".to_owned(), diff: RANGE.to_owned() }];
    for record in &mut run.diagnostics {
        let moved = u32::from(record.arm == "pr");
        for profile in record.passes.iter_mut().filter_map(|pass| pass.profile.as_mut()) {
            for frame in profile.frames.iter_mut().filter(|frame| !frame.kernel) {
                frame.file = Some("/checkout/src/shop.c".to_owned());
                frame.line = Some(if frame.name == "price" { 11 } else { 30 + moved });
            }
        }
    }
    let findings = analyse(&run);
    let node = &findings.said[0];
    assert_eq!((node.path[3].as_str(), node.changed), ("price", Some(Change::Line)), "{node:?}");
    let serve: Vec<_> =
        findings.attribution.iter().filter(|row| row.path.contains(&"serve".to_owned())).collect();
    let [serve] = serve[..] else { panic!("one place, wherever it stands: {serve:?}") };
    assert_eq!((serve.changed, serve.path[4].as_str()), (Some(Change::None), "shop.c:31"), "{serve:?}");
    let cause = findings.causes.iter().find(|cause| cause.id.name() == "own_code").unwrap();
    assert!(cause.text.contains("(changed in this range)"), "{}", cause.text);
}

#[test]
fn a_function_that_is_the_same_is_told_with_the_changed_line_that_calls_it() {
    let mut run = sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &["main;serve;price;sum"]);
    run.manifest.changes = vec![SourceChange { arm: "pr".to_owned(), diff: RANGE.to_owned() }];
    check_out(&mut run, 1, "/cache/1/files");
    let profiles = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    for profile in profiles.filter_map(|pass| pass.profile.as_mut()) {
        for frame in profile.frames.iter_mut().filter(|frame| !frame.kernel) {
            frame.file = Some("/cache/1/files/src/shop.c".to_owned());
            frame.line = Some(if frame.name == "price" { 11 } else { 30 });
        }
    }
    let findings = analyse(&run);
    let node = &findings.said[0];
    assert_eq!((node.path[3].as_str(), node.changed), ("sum", Some(Change::None)), "{node:?}");
    let caller = node.caller.as_ref().unwrap();
    let (function, file) = (caller.function.as_str(), caller.file.as_deref());
    assert_eq!((function, file, caller.line), ("price", Some("src/shop.c"), Some(11)));
    let cause = findings.causes.iter().find(|cause| cause.id.name() == "own_code").unwrap();
    assert!(cause.text.contains("(called from price, shop.c:11, changed in this range)"), "{}", cause.text);
}

/// An arm is a revision that was checked out into this folder.
fn check_out(run: &mut Run, arm: usize, checkout: &str) {
    run.manifest.plan.arms[arm].source = ArmSource::Git(Revision {
        asked: arm.to_string(),
        commit: None,
        tree: arm.to_string(),
        changed: false,
        git_dir: "/shop/.git".to_owned(),
        checkout: checkout.to_owned(),
        put_back: None,
    });
}

#[test]
fn lines_of_two_checkouts_join_and_those_of_other_folders_are_no_lines_of_the_repository() {
    let mut run = sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &["main;serve;price"]);
    run.manifest.changes = vec![SourceChange { arm: "pr".to_owned(), diff: RANGE.to_owned() }];
    let folders = ["/cache/1/files", "/cache/2/files"];
    (0..2).for_each(|arm| check_out(&mut run, arm, folders[arm]));
    for record in &mut run.diagnostics {
        let arm = usize::from(record.arm == "pr");
        for profile in record.passes.iter_mut().filter_map(|pass| pass.profile.as_mut()) {
            for frame in profile.frames.iter_mut().filter(|frame| !frame.kernel) {
                let (folder, line) = match frame.name.as_str() {
                    "price" => ("/libraries", 11),
                    _ => (folders[arm], 30 + arm as u32),
                };
                (frame.file, frame.line) = (Some(format!("{folder}/src/shop.c")), Some(line));
            }
        }
    }
    let findings = analyse(&run);
    let rows = |name: &str| {
        let is_of = |row: &&AttributionRow| row.path.iter().any(|node| node == name);
        findings.attribution.iter().filter(is_of).collect::<Vec<_>>()
    };
    let [serve] = rows("serve")[..] else { panic!("one place in both: {:?}", rows("serve")) };
    let place = serve.place.as_ref().unwrap();
    assert_eq!((place.file.as_deref(), serve.changed), (Some("src/shop.c"), Some(Change::None)), "{serve:?}");
    assert!(serve.baseline_ns > 0.0 && serve.arm_ns > 0.0, "{serve:?}");
    let [price] = rows("price")[..] else { panic!("{:?}", rows("price")) };
    let place = price.place.as_ref().unwrap();
    let file = place.file.as_deref();
    assert_eq!((file, price.changed), (Some("/libraries/src/shop.c"), Some(Change::None)), "{price:?}");
    let own = findings.causes.iter().find(|cause| cause.id.name() == "own_code").unwrap();
    assert_eq!(own.place.as_ref(), Some(place), "the cause is where its row is");
}

/// A server that gave up sending each answer by itself, for which it works more.
fn batches() -> Run {
    let plant = Plant { system_ns: 4000.0, calls: &[("writev", 1.0)], ..Plant::NONE };
    let mut run = sampled_beside(plant, &[SEND]);
    // As many samples as it takes of the time.
    let profiles = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    for stack in profiles.filter_map(|pass| pass.profile.as_mut()).flat_map(|profile| &mut profile.stacks) {
        stack.samples = if stack.samples == 900 { 400 } else { stack.samples };
    }
    change(&mut run, "main", 0, |window| {
        let more = 700 * window.load.requests;
        window.target.cpu.user_ns += more;
        window.target.cpu.total_ns += more;
    });
    run.manifest.plan.baseline = 1;
    run
}

#[test]
fn what_is_saved_and_what_is_paid_is_said_with_how_often() {
    let findings = analyse(&batches());
    sums(&findings);
    let paths: Vec<(String, f64)> =
        findings.said.iter().map(|one| (one.path.join(" > "), one.delta_ns.round())).collect();
    let [saved, paid] = &findings.said[..] else { panic!("{paths:?}") };
    assert_eq!(saved.path[..2], ["kernel", "writev"], "{paths:?}");
    assert!((saved.delta_ns + 4000.0).abs() < 150.0 && (paid.delta_ns - 700.0).abs() < 100.0, "{paths:?}");
    assert_eq!(paid.path[..2], ["user", "own code"], "{paths:?}");
    let count = saved.count.unwrap();
    assert!((count.baseline - 1.0).abs() < 0.01 && count.arm == 0.0, "{count:?}");
    assert!((saved.more_ns.unwrap() - saved.delta_ns).abs() < 1e-6, "all of it is fewer calls: {saved:?}");
    let paid = findings.causes.iter().find(|cause| cause.id.name() == "own_code").unwrap();
    assert!(paid.ns_per_request > 0.0 && paid.share.unwrap() < 0.0, "{paid:?}");
}

#[test]
fn an_idle_interval_is_of_one_wait() {
    let waits: [(Plant, &str, &str); 2] = [
        (
            Plant { calls: &[("futex", 1.4)], delayed: 50, idle_rate: Some(0.1), ..Plant::NONE },
            "delayed_ack",
            "lock_contention",
        ),
        (
            Plant { calls: &[("futex", 1.4)], refused: 0.01, idle_rate: Some(0.1), ..Plant::NONE },
            "listen_backlog",
            "lock_contention",
        ),
    ];
    for (plant, first, second) in waits {
        let findings = analyse(&planted(plant));
        let share = |id: &str| {
            findings
                .causes
                .iter()
                .find(|cause| cause.id.name() == id)
                .and_then(|cause| cause.share)
                .unwrap_or(0.0)
        };
        assert!(share(first) > 0.85 && share(second) < 0.15, "{:?}", findings.causes);
        assert!(share(first) + share(second) < 1.001, "{:?}", findings.causes);
    }
}
