//! What few, lost or partial samples are worth, and what is said of parts that they leave to chance.

use model::record::{PassKind, Window};

use crate::support::analyse;
use crate::why::{Plant, named, scatter};
use crate::why_cpu::{sampled, sampled_beside};

#[test]
fn a_profile_of_a_small_part_of_the_cpu_time_is_not_used() {
    for (samples, carried) in [(1900, Some(1.0)), (1330, Some(0.7)), (150, None)] {
        let mut run = sampled("main;serve;price_of_everything");
        for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
            let Some(profile) = &mut pass.profile else { continue };
            profile.wall_ns = pass.window.target.wall_ns;
            profile.period_ns = pass.window.target.cpu.total_ns / 1900;
            profile.samples = samples;
        }
        let findings = analyse(&run);
        let share = named(&findings).first().map(|cause| cause.share.unwrap());
        let near = |(share, carried): (f64, f64)| (share - carried).abs() < 0.05;
        assert!(share.zip(carried).is_none_or(near) && share.is_some() == carried.is_some(), "{share:?}");
        let passes = findings.passes.iter().filter(|pass| pass.kind == PassKind::Sampling);
        for pass in passes {
            let has_note = pass.text.contains("its samples stand for 7.9 % of the CPU time");
            assert_eq!(has_note, carried.is_none(), "{}", pass.text);
        }
    }
}

#[test]
fn a_profile_of_which_most_is_lost_is_not_used_and_what_is_not_known_is_a_leaf() {
    for (lost, is_lost) in [(900, false), (20_000, true)] {
        let mut run = sampled("main;serve;price_of_everything");
        let profiles = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
        profiles.filter_map(|pass| pass.profile.as_mut()).for_each(|profile| profile.lost = lost);
        let findings = analyse(&run);
        let sampling = || findings.passes.iter().filter(|pass| pass.kind == PassKind::Sampling);
        for pass in sampling() {
            assert_eq!(pass.text.contains("of its samples were lost"), is_lost, "{}", pass.text);
        }
        assert!(sampling().count() > 0);
        let unknown = findings.attribution.iter().any(|row| row.path.contains(&"not sampled".to_owned()));
        assert_eq!(unknown, is_lost, "{:?}", findings.attribution);
    }
}

/// Threads that queue for a spin lock are found now in one state and now in another, by nobody's doing.
#[test]
fn a_split_that_moves_by_itself_is_not_laid_to_sampling() {
    let used = |shares: [f64; 2]| {
        let mut run = sampled("main;serve;price_of_everything");
        let split = |window: &mut Window, user: f64| {
            let cpu = &mut window.target.cpu;
            cpu.user_ns = (cpu.total_ns as f64 * user) as u64;
            cpu.system_ns = cpu.total_ns - cpu.user_ns;
        };
        for (index, record) in run.rounds.iter_mut().enumerate() {
            record.windows.iter_mut().for_each(|window| split(window, shares[index / 2 % 2]));
        }
        for pass in run.diagnostics.iter_mut().flat_map(|record| &mut record.passes) {
            split(&mut pass.window, if pass.kind == PassKind::Sampling { 0.92 } else { 0.78 });
        }
        let passes = analyse(&run).passes;
        let sampling = passes.iter().filter(|pass| pass.kind == PassKind::Sampling);
        sampling.map(|pass| pass.used).collect::<Vec<_>>()
    };
    assert_eq!((used([0.78, 0.94]), used([0.78, 0.78])), (vec![true; 2], vec![false; 2]));
}

#[test]
fn a_hundred_small_functions_carry_a_gap_together() {
    let functions: Vec<String> = (0..100).map(|n| format!("main;serve;step_{n}")).collect();
    let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
    let findings = analyse(&sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &functions));
    assert!((named(&findings)[0].share.unwrap() - 1.0).abs() < 0.05, "{:?}", findings.causes);
    assert!(findings.profiles[0].functions.len() < 100, "the largest alone are put out");
}

/// Work of many kinds, none of which has a tenth of the gap.
#[test]
fn where_no_part_is_sure_the_side_is_said() {
    let kinds = [
        "malloc",
        "memcpy",
        "memcmp",
        "inflate",
        "runtime.gcDrain",
        "httparse::parse",
        "clock_gettime",
        "pthread_mutex_lock",
        "SSL_read",
        "serde_json::to_vec",
        "tokio::poll",
        "render",
    ];
    let functions: Vec<String> = kinds.iter().map(|kind| format!("main;serve;{kind}")).collect();
    let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
    let mut run = sampled_beside(Plant { user_ns: 9000.0, ..Plant::NONE }, &functions);
    // So few samples that six of them may be none.
    let profiles = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
    for stack in profiles.filter_map(|pass| pass.profile.as_mut()).flat_map(|profile| &mut profile.stacks) {
        stack.samples /= 25;
    }
    let findings = analyse(&run);
    let causes = named(&findings);
    let last = causes.last().unwrap();
    assert_eq!(last.id.name(), "program_as_a_whole", "{:?}", findings.causes);
    assert!(last.text.contains("as a whole") && last.text.contains("standard error"), "{}", last.text);
    let left = findings.unattributed_share.unwrap();
    assert!(left.abs() < 0.1, "{left}: {:?}", findings.causes);
}

#[test]
fn samples_that_are_too_few_for_a_gap_are_said_to_be_and_taken_longer_where_that_can_be() {
    for (flag, words) in
        [("--quick", "; without --quick more are taken\nwhyslow compare main pr"), ("--no-open", "")]
    {
        let functions =
            ["main;serve;store;__memmove_avx_unaligned_erms", "main;serve;parse;malloc", "main;serve;render"];
        let mut run = sampled_beside(Plant { user_ns: 300.0, ..Plant::NONE }, &functions);
        run.manifest.command = ["whyslow", "compare", "main", "pr", flag].map(str::to_owned).to_vec();
        let profiles = run.diagnostics.iter_mut().flat_map(|record| &mut record.passes);
        for profile in profiles.filter_map(|pass| pass.profile.as_mut()) {
            for stack in &mut profile.stacks {
                stack.samples =
                    if stack.samples == 300 && profile.samples > 1000 { 1 } else { stack.samples / 20 };
            }
            profile.samples = profile.stacks.iter().map(|stack| stack.samples).sum();
        }
        let findings = analyse(&run);
        let ids: Vec<&str> = named(&findings).iter().map(|cause| cause.id.name()).collect();
        assert_eq!(ids, ["program_as_a_whole"], "{:?}", findings.causes);
        let said = format!("100 and 78 samples are too few to say where pr differs{words}");
        assert_eq!(findings.next.as_deref(), Some(&*said));
    }
}

/// The kernel's time goes up and down by more than it differs, and so do its parts.
#[test]
fn what_chance_may_make_has_an_interval_and_is_not_unattributed() {
    let functions = [&["main;serve;render"; 14][..], &["main;serve;send;tcp_sendmsg"]].concat();
    let mut run = sampled_beside(Plant { user_ns: 9000.0, system_ns: 600.0, ..Plant::NONE }, &functions);
    scatter(&mut run, 1500.0);
    let findings = analyse(&run);
    let rest = &findings.rests[0];
    assert!(rest.unattributed_share.abs() < 1e-9, "{rest:?} {:?}", findings.causes);
    let [low, high] = rest.small_between;
    assert!(
        low < 0.0 && rest.small_share > 0.02 && rest.small_share < high,
        "{rest:?} {:?}",
        findings.causes
    );
    assert_eq!(findings.unattributed_share, Some(rest.unattributed_share));
}
