//! A ladder whose rungs are known: each against the one before it, and all of them against the whole.

use analyse::{Metric, Verdict, ladder};
use model::plan::GateId;

use crate::support::{Behaves, arm, change, run};

#[test]
fn each_rung_is_weighed_against_the_one_before_it_and_their_product_is_the_whole() {
    let climbed = run(1, 10, &[arm("plain", 10_000.0), arm("lto", 8000.0), arm("all", 8000.0)]);
    let found = ladder(&climbed);
    assert_eq!(found.steps, ["plain", "lto", "all"]);
    let cpu = found.metrics.iter().find(|ladder| ladder.metric == Metric::CpuPerRequest).unwrap();
    let [first, second] = &cpu.rungs[..] else { panic!("{:?}", cpu.rungs) };
    assert_eq!((first.from.as_str(), first.to.as_str(), first.verdict), ("plain", "lto", Verdict::Faster));
    assert_eq!((second.from.as_str(), second.to.as_str(), second.verdict), ("lto", "all", Verdict::Equal));
    let near = |ratio: Option<f64>, want: f64| (ratio.unwrap() - want).abs() < 0.005;
    assert!(near(first.ratio, 0.8) && near(second.ratio, 1.0) && near(cpu.whole.ratio, 0.8), "{cpu:?}");
    assert!((cpu.product.unwrap() / cpu.whole.ratio.unwrap() - 1.0).abs() < 0.003, "{cpu:?}");
    assert!(first.ci_low.unwrap() < 0.8 && first.ci_high.unwrap() > 0.8 && first.blocks == 10, "{first:?}");
}

#[test]
fn a_gate_voids_the_rungs_of_its_arm_and_no_other() {
    let mut climbed = run(1, 10, &[arm("plain", 10_000.0), arm("lto", 8000.0), arm("all", 8000.0)]);
    change(&mut climbed, "all", 0, |window| window.load.errors.timeout = window.load.requests);
    let found = ladder(&climbed);
    let rate = found.metrics.iter().find(|ladder| ladder.metric == Metric::Rate).unwrap();
    assert_eq!((&rate.rungs[0].void_by[..], rate.rungs[0].verdict), (&[][..], Verdict::Faster));
    assert_eq!(
        (&rate.rungs[1].void_by[..], rate.rungs[1].verdict),
        (&[GateId::Errors][..], Verdict::Invalid)
    );
    assert_eq!(rate.whole.verdict, Verdict::Invalid);
}

#[test]
fn how_far_the_product_may_be_from_the_whole_has_an_interval() {
    let noisy = |name, cpu_ns| Behaves { name, cpu_ns, jitter: 0.05 };
    for seed in 1..=8 {
        let climbed = run(seed, 10, &[noisy("plain", 10_000.0), noisy("lto", 9000.0), noisy("all", 8000.0)]);
        let found = ladder(&climbed);
        let cpu = found.metrics.iter().find(|ladder| ladder.metric == Metric::CpuPerRequest).unwrap();
        let [low, high] = cpu.product_over_whole_ci.unwrap();
        let apart = cpu.product.unwrap() / cpu.whole.ratio.unwrap();
        assert!(low < high && low <= apart && apart <= high, "seed {seed}: {apart} in [{low}, {high}]");
        // Within a block the rungs multiply to the whole: what is left is far less than what a rung scatters by.
        let rung = &cpu.rungs[0];
        let scatter = rung.ci_high.unwrap() - rung.ci_low.unwrap();
        assert!(high - low < scatter && low < 1.02 && high > 0.98, "seed {seed}: [{low}, {high}], {scatter}");
    }
}

#[test]
fn what_a_step_brings_on_top_is_weighed_against_what_it_brings_by_itself() {
    // Each change by itself saves a fifth; on top of the first the second saves a tenth, and the third as much as alone.
    let arms = [
        arm("plain", 10_000.0),
        arm("a", 8000.0),
        arm("ab", 7200.0),
        arm("abc", 5760.0),
        arm("b", 8000.0),
        arm("c", 8000.0),
    ];
    let mut climbed = run(1, 10, &arms);
    for (step, alone) in [("ab", "b"), ("abc", "c")] {
        climbed.manifest.plan.alone.insert(step.to_owned(), alone.to_owned());
    }
    let found = ladder(&climbed);
    assert_eq!(found.steps, ["plain", "a", "ab", "abc"]);
    let of = |metric| &found.metrics.iter().find(|ladder| ladder.metric == metric).unwrap().alone;
    let near = |ratio: Option<f64>, want: f64| (ratio.unwrap() - want).abs() < 0.01;
    let [b, c] = &of(Metric::CpuPerRequest)[..] else { panic!("{found:?}") };
    assert_eq!((b.step.as_str(), b.by_itself.from.as_str(), b.by_itself.to.as_str()), ("ab", "plain", "b"));
    assert!(near(b.by_itself.ratio, 0.8) && near(b.interaction.ratio, 0.9 / 0.8), "{b:?}");
    let on_top = &b.interaction;
    assert!(
        on_top.verdict == Verdict::Slower && on_top.ci_low.unwrap() > 1.0 && on_top.blocks == 10,
        "{b:?}"
    );
    assert!(c.interaction.verdict == Verdict::Equal && near(c.interaction.ratio, 1.0), "{c:?}");
    // More is better of a rate: the same step brings less there, too.
    let rate = &of(Metric::Rate)[0].interaction;
    assert!(rate.verdict == Verdict::Slower && rate.ratio.unwrap() < 1.0, "{rate:?}");
}

#[test]
fn one_rung_is_the_whole() {
    let found = ladder(&run(1, 10, &[arm("plain", 10_000.0), arm("lto", 8000.0)]));
    assert!(found.metrics.iter().all(|metric| metric.product_over_whole_ci.is_none()));
}
