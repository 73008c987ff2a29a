//! The generator against the published algorithm and against the distributions it promises.

use stats::Rng;

use crate::fixture::{cases, close, scipy, whole};

const DRAWS: usize = 20_000;

#[test]
fn outputs_are_those_of_the_published_algorithm() {
    for case in cases(&scipy(), "rng") {
        let mut rng = Rng::seeded(whole(case, "seed"));
        for output in case["outputs"].as_array().unwrap() {
            assert_eq!(rng.next_u64().to_string(), output.as_str().unwrap());
        }
    }
}

#[test]
fn numbers_drawn_have_their_moments() {
    let mut rng = Rng::seeded(3);
    let mut moments = |draw: fn(&mut Rng) -> f64| {
        let values: Vec<f64> = (0..DRAWS).map(|_| draw(&mut rng)).collect();
        (stats::descriptive::mean(&values).unwrap(), stats::descriptive::sd(&values).unwrap())
    };
    for (draw, mean, sd) in [
        (Rng::uniform as fn(&mut Rng) -> f64, 0.5, 12_f64.sqrt().recip()),
        (Rng::normal, 0.0, 1.0),
        (|rng| rng.below(10) as f64, 4.5, 8.25_f64.sqrt()),
        (|rng| f64::from(u8::from(rng.coin())), 0.5, 0.5),
    ] {
        let (our_mean, our_sd) = moments(draw);
        close(our_mean, mean, 0.03);
        close(our_sd, sd, 0.03);
    }
}

#[test]
fn below_reaches_every_number_alike() {
    let mut rng = Rng::seeded(23);
    let mut counts = [0_u32; 7];
    (0..DRAWS).for_each(|_| counts[rng.below(7) as usize] += 1);
    let expected = DRAWS as f64 / 7.0;
    assert!(
        counts.iter().all(|count| (f64::from(*count) - expected).abs() < 5.0 * expected.sqrt()),
        "{counts:?}"
    );
    assert_eq!(rng.below(1), 0);
    // Three quarters of the range: without rejection, every third number would come twice as often.
    let thirds = (0..3000).filter(|_| rng.below(3 << 62).is_multiple_of(3)).count();
    assert!((900..1100).contains(&thirds), "{thirds} of 3000");
}

#[test]
fn shuffling_reaches_every_order_alike() {
    let mut rng = Rng::seeded(29);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        let mut items = [1, 2, 3];
        rng.shuffle(&mut items);
        *counts.entry(items).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 6);
    assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
}

#[test]
fn seeds_and_streams_repeat_and_differ() {
    let take = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
    assert_eq!(take(Rng::seeded(9)), take(Rng::seeded(9)));
    assert_eq!(take(Rng::stream(9, 1)), take(Rng::stream(9, 1)));
    let mut first: Vec<_> = (0..50).map(|stream| take(Rng::stream(9, stream))).collect();
    first.extend([take(Rng::seeded(9)), take(Rng::stream(10, 0))]);
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 52, "no two streams start alike");
}
