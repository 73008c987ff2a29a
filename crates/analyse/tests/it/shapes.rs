//! How responses are spread over time: made-up histograms whose peaks are known.

use analyse::ResponseShape;
use model::plan::SplitMix64;
use model::record::{DiagnosticRecord, MachineLog, Pass, PassKind, Profile, Run, Window};

use crate::support::{analyse, change, pair};

/// Seeds of sampled histograms.
const SEEDS: u64 = 40;
/// Responses of each window.
const SAMPLED: u32 = 300;

/// The responses of `pr` at capacity, where each of its ten windows has these buckets.
fn shape(buckets: &[[u64; 2]]) -> ResponseShape {
    shape_of(&pair(1.0), |window| window.response_buckets = buckets.to_vec())
}

fn shape_of(run: &Run, with: impl Fn(&mut Window)) -> ResponseShape {
    let mut run = run.clone();
    change(&mut run, "pr", 0, with);
    let findings = analyse(&run);
    assert!(findings.arms[0].response_shapes.is_empty(), "where none were kept there is no shape");
    let [shape] = &findings.arms[1].response_shapes[..] else { panic!("{:?}", findings.arms[1]) };
    shape.clone()
}

/// The same where each window has a sample of its own.
fn shape_of_samples(seed: u64, modes: &[(f64, f64, f64)]) -> ResponseShape {
    let mut run = pair(1.0);
    for (index, record) in run.rounds.iter_mut().filter(|record| record.arm == "pr").enumerate() {
        record.windows[0].response_buckets = sampled(100 * seed + index as u64, modes);
    }
    shape_of(&run, |_| ())
}

/// The bucket of a response, 16 an octave.
fn bucket(ns: f64) -> u64 {
    let (ns, octave) = (ns as u64, 1 << (ns as u64).ilog2());
    octave + (ns - octave) / (octave / 16) * (octave / 16)
}

/// Buckets of a sample: each response is of one of the modes (median in nanoseconds, spread of its logarithm, share).
fn sampled(seed: u64, modes: &[(f64, f64, f64)]) -> Vec<[u64; 2]> {
    let mut random = SplitMix64::fork(seed, "responses", 0);
    let mut buckets = std::collections::BTreeMap::new();
    for _ in 0..SAMPLED {
        let mut which = random.unit();
        let mode = modes.iter().find(|(_, _, share)| {
            which -= share;
            which < 0.0
        });
        let (median, spread, _) = mode.unwrap_or(&modes[0]);
        // The sum of twelve is nearly normal.
        let normal: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        *buckets.entry(bucket(median * (spread * normal).exp())).or_default() += 1;
    }
    buckets.into_iter().map(|(edge, count)| [edge, count]).collect()
}

#[test]
fn one_peak_is_one_however_its_sample_falls() {
    for seed in 1..=SEEDS {
        for spread in [0.02, 0.1, 0.4, 1.0] {
            let found = shape_of_samples(seed, &[(200_000.0, spread, 1.0)]);
            assert_eq!(found.peaks.len(), 1, "seed {seed}, spread {spread}: {}", found.text);
            let place = (found.peaks[0].at_ns / 200_000.0).ln().abs();
            assert!(place < 0.05 + spread / 2.0, "seed {seed}, spread {spread}: {}", found.text);
        }
    }
}

#[test]
fn two_peaks_are_two_with_their_places_and_shares() {
    for seed in 1..=SEEDS {
        let found = shape_of_samples(seed, &[(15_000.0, 0.1, 0.7), (40_000.0, 0.1, 0.3)]);
        let [first, second] = &found.peaks[..] else { panic!("seed {seed}: {}", found.text) };
        assert!((first.at_ns / 15_000.0 - 1.0).abs() < 0.1, "seed {seed}: {}", found.text);
        assert!((second.at_ns / 40_000.0 - 1.0).abs() < 0.1, "seed {seed}: {}", found.text);
        assert!((first.share - 0.7).abs() < 0.05 && (first.share + second.share - 1.0).abs() < 1e-9);
        assert_eq!((first.windows, second.windows, found.windows), (10, 10, 10));
    }
}

#[test]
fn a_peak_holds_enough_and_stands_out() {
    let at_1_ms = [1_048_576, 10_000];
    let number = |more: &[[u64; 2]]| shape(&[&[at_1_ms], more].concat()).peaks.len();
    assert_eq!(number(&[[10_485_760, 40]]), 1, "0.4 % are a tail");
    assert_eq!(number(&[[10_485_760, 60]]), 2, "0.6 % are a peak");
    let valley = |valley: u64| {
        let octaves = [(1_048_576, 10_000), (2_097_152, valley), (4_194_304, valley), (8_388_608, 3200)];
        let spread =
            |(octave, count): (u64, u64)| (0..16).map(move |part| [octave + octave / 16 * part, count / 16]);
        shape(&octaves.into_iter().flat_map(spread).collect::<Vec<_>>()).peaks.len()
    };
    assert_eq!(valley(2800), 1, "half as high is no valley");
    assert_eq!(valley(800), 2);
}

#[test]
fn the_sentence_says_where_and_how_many() {
    for (buckets, text) in [
        (&[[1_048_576, 1000]][..], "responses at capacity have one peak: 1.08 ms (100 %)"),
        (
            &[[1_048_576, 750], [25_165_824, 250]],
            "responses at capacity have two peaks: 1.08 ms (75 %) and 25.7 ms (25 %)",
        ),
        (
            &[[16_384, 500], [1_048_576, 480], [25_165_824, 20]],
            "responses at capacity have 3 peaks: 16.9 µs (50 %), 1.08 ms (48 %) and 25.7 ms (2.0 %)",
        ),
    ] {
        assert_eq!(shape(buckets).text, text);
    }
}

#[test]
fn a_peak_at_40_ms_is_laid_on_delayed_acknowledgements_only_where_they_were_sent() {
    let with = |acks: u64| {
        shape_of(&pair(1.0), |window| {
            window.response_buckets = vec![[1_048_576, 900], [40_894_464, 100]];
            window.server_cpus.tcp.delayed_acks = acks;
        })
    };
    let found = with(99);
    assert_eq!(found.peaks[1].coincides_with.map(|id| id.name()), Some("delayed_ack"));
    assert!(
        found.text.ends_with(
            "; that at 41.9 ms lies where delayed acknowledgements do (0.99 for each of its responses)"
        ),
        "{}",
        found.text
    );
    let few = with(10);
    assert_eq!(few.peaks[1].coincides_with, None);
    assert!(few.text.ends_with("41.9 ms (10 %)"), "{}", few.text);
}

#[test]
fn a_peak_as_long_as_a_collector_s_pauses_is_laid_on_them() {
    let with = |pauses: &[(&str, u64, u64)]| {
        let mut run = pair(1.0);
        change(&mut run, "pr", 0, |window| {
            window.response_buckets = vec![[1_048_576, 900], [20_971_520, 100]];
        });
        for arm in ["main", "pr"] {
            let window = run.rounds.iter().find(|record| record.arm == arm).unwrap().windows[0].clone();
            let mut machine = MachineLog { allocated_bytes_per_s: Some(5e9), ..MachineLog::default() };
            for (operation, count, each_ns) in pauses {
                (0..*count).for_each(|_| machine.add(operation, *each_ns));
            }
            let pass = |kind| Pass {
                kind,
                window: window.clone(),
                counts: None,
                profile: (kind == PassKind::Sampling).then(Profile::default),
                services: std::collections::BTreeMap::new(),
                machine: (kind == PassKind::Sampling).then(|| machine.clone()),
                waits: None,
                missing: Vec::new(),
            };
            let passes = vec![pass(PassKind::Untouched), pass(PassKind::Sampling)];
            run.diagnostics.push(DiagnosticRecord { passes, ..DiagnosticRecord::new(arm, 0) });
        }
        analyse(&run).arms.swap_remove(1).response_shapes.swap_remove(0)
    };
    let short = ("G1CollectForAllocation", 400, 3_000_000);
    let found = with(&[short, ("G1CollectForAllocation", 40, 21_000_000), ("ICBufferFull", 900, 40_000)]);
    assert_eq!(found.peaks[1].coincides_with.map(|id| id.name()), Some("gc"));
    let text =
        "that at 21.5 ms takes as long as its pauses for memory to be collected (21.0 ms each on average)";
    assert!(found.text.ends_with(text), "{}", found.text);
    for others in
        [&[short, ("G1CollectForAllocation", 2, 21_000_000)][..], &[("Deoptimize", 40, 21_000_000)], &[]]
    {
        assert_eq!(with(others).peaks[1].coincides_with, None, "{others:?}");
    }
}

#[test]
fn a_peak_of_some_rounds_only_is_told_from_one_of_all() {
    let mut run = pair(1.0);
    let records = run.rounds.iter_mut().filter(|record| record.arm == "pr");
    for (index, record) in records.enumerate() {
        let slow = if index < 3 { 4_194_304 } else { 1_048_576 };
        record.windows[0].response_buckets = vec![[slow, 1000]];
    }
    let found = shape_of(&run, |_| ());
    assert_eq!(found.peaks.iter().map(|peak| peak.windows).collect::<Vec<_>>(), [7, 3]);
    assert!(found.text.ends_with("; that at 4.32 ms is in 3 of 10 windows"), "{}", found.text);
}
