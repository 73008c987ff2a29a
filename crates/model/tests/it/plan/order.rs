//! Order, padding and arrivals of the rounds: balanced, and the same for the same seed.

use std::collections::BTreeSet;

use model::plan::{MAX_ENV_PADDING_BYTES, Round, SplitMix64};

use crate::plan::support::plan;

/// Blocks of a long run: even, so that every block has its mirror.
const BLOCKS: u32 = 30;
const SEEDS: [u64; 4] = [0, 1, 7, u64::MAX];

fn rounds(seed: u64, arms: &[&str]) -> Vec<Vec<Round>> {
    let plan = plan(seed, arms);
    (0..BLOCKS).map(|block| plan.rounds(block)).collect()
}

fn order(block: &[Round]) -> Vec<usize> {
    block.iter().map(|round| round.arm).collect()
}

#[test]
fn each_block_has_each_arm_once_in_its_places() {
    for seed in SEEDS {
        for (number, block) in rounds(seed, &["a", "b", "c"]).iter().enumerate() {
            let arms: BTreeSet<usize> = block.iter().map(|round| round.arm).collect();
            assert_eq!(arms, BTreeSet::from([0, 1, 2]), "seed {seed}, block {number}");
            for (place, round) in block.iter().enumerate() {
                let found = (round.block, round.position, round.attempt);
                assert_eq!(found, (number as u32, place as u32, 0), "seed {seed}");
            }
        }
    }
}

#[test]
fn every_second_block_is_the_reverse_of_the_one_before() {
    for seed in SEEDS {
        for pair in rounds(seed, &["a", "b", "c", "d"]).chunks(2) {
            let mut mirrored = order(&pair[1]);
            mirrored.reverse();
            assert_eq!(order(&pair[0]), mirrored, "seed {seed}");
        }
    }
}

#[test]
fn the_first_arm_is_first_as_often_as_last() {
    for seed in SEEDS {
        let ab = rounds(seed, &["a", "b"]).iter().filter(|block| order(block) == [0, 1]).count();
        assert_eq!(ab, BLOCKS as usize / 2, "seed {seed}");
    }
}

#[test]
fn pairs_of_blocks_differ_in_order() {
    for seed in SEEDS {
        let orders: BTreeSet<Vec<usize>> =
            rounds(seed, &["a", "b", "c", "d"]).iter().map(|block| order(block)).collect();
        assert!(orders.len() >= 8, "seed {seed}: only {} orders in {BLOCKS} blocks", orders.len());
    }
}

#[test]
fn a_seed_gives_the_same_rounds_and_another_seed_others() {
    for seed in SEEDS {
        assert_eq!(rounds(seed, &["a", "b"]), rounds(seed, &["a", "b"]), "seed {seed}");
        assert_ne!(rounds(seed, &["a", "b"]), rounds(seed ^ 2, &["a", "b"]), "seed {seed}");
    }
}

#[test]
fn all_arms_of_a_block_meet_the_same_arrivals_and_no_two_blocks_do() {
    let rounds = rounds(11, &["a", "b", "c"]);
    let mut seeds = BTreeSet::new();
    for block in &rounds {
        assert!(block.iter().all(|round| round.arrival_seed == block[0].arrival_seed));
        seeds.insert(block[0].arrival_seed);
    }
    assert_eq!(seeds.len(), rounds.len());
}

#[test]
fn padding_moves_over_its_whole_range() {
    let rounds = rounds(3, &["a", "b", "c", "d"]);
    let padding: Vec<u64> = rounds.iter().flatten().map(|round| round.env_padding_bytes).collect();
    assert!(padding.iter().all(|bytes| *bytes <= MAX_ENV_PADDING_BYTES));
    let distinct: BTreeSet<&u64> = padding.iter().collect();
    assert!(distinct.len() > padding.len() / 2, "{} different paddings", distinct.len());
    let (low, high) = (MAX_ENV_PADDING_BYTES / 10, MAX_ENV_PADDING_BYTES * 9 / 10);
    assert!(padding.iter().any(|bytes| *bytes < low) && padding.iter().any(|bytes| *bytes > high));
}

/// Source: the first outputs of SplitMix64 for seed 0, as in Vigna's splitmix64.c.
#[test]
fn the_generator_gives_the_published_numbers() {
    let mut random = SplitMix64::new(0);
    for number in [0xe220_a839_7b1d_cdaf_u64, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f] {
        assert_eq!(random.next_u64(), number);
    }
}

#[test]
fn a_fork_is_for_one_purpose_and_one_index() {
    let first = |purpose: &str, index: u64| SplitMix64::fork(5, purpose, index).next_u64();
    assert_eq!(first("order", 0), first("order", 0));
    let all = BTreeSet::from([first("order", 0), first("order", 1), first("port", 0), first("port", 1)]);
    assert_eq!(all.len(), 4);
}

#[test]
fn draws_stay_below_their_bound_and_reach_it() {
    let mut random = SplitMix64::new(9);
    let mut seen = [0_u32; 6];
    for _ in 0..6000 {
        seen[random.below(6) as usize] += 1;
    }
    // Expected 1000 each, standard deviation 29: these limits are seven of them away.
    assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
}
