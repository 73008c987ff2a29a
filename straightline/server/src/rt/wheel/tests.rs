use super::{TICK_BITS, TimerKey, Wheel};

const TICK_NS: u64 = 1 << TICK_BITS;

/// A small generator, so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The wheel against a plain list: nothing expires early, nothing late by more than a tick, nothing twice.
#[test]
fn agrees_with_a_list() {
    for seed in 1..=20u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut wheel = Wheel::new();
        let mut waiting: Vec<(u64, u64, TimerKey)> = Vec::new();
        let mut now_ns = 0;
        for id in 0..3_000 {
            let reach = 1u64 << random.below(45);
            let deadline_ns = now_ns + random.below(reach);
            waiting.push((id, deadline_ns, wheel.insert(deadline_ns, id)));
            if random.below(4) == 0 {
                let (_, _, key) = waiting.swap_remove(random.below(waiting.len() as u64) as usize);
                assert!(wheel.cancel(key), "seed {seed}");
                assert!(!wheel.cancel(key), "seed {seed}");
            }
            now_ns += random.below(reach);
            check_expiry(&mut wheel, &mut waiting, now_ns, seed);
        }
        assert_eq!(wheel.len(), waiting.len(), "seed {seed}");
    }
}

fn check_expiry(wheel: &mut Wheel<u64>, waiting: &mut Vec<(u64, u64, TimerKey)>, now_ns: u64, seed: u64) {
    if let (Some(next_ns), Some(first_ns)) = (wheel.next_ns(), waiting.iter().map(|timer| timer.1).min()) {
        assert!(next_ns <= first_ns + 2 * TICK_NS, "seed {seed}: it would sleep past {first_ns}");
    }
    let mut expired = Vec::new();
    wheel.advance(now_ns, &mut expired);
    for id in expired {
        let at =
            waiting.iter().position(|timer| timer.0 == id).expect("it expires once, and not after a cancel");
        let (_, deadline_ns, _) = waiting.swap_remove(at);
        assert!(deadline_ns <= now_ns, "seed {seed}: early");
    }
    let late = waiting.iter().find(|timer| timer.1 + 2 * TICK_NS < now_ns);
    assert!(late.is_none(), "seed {seed}: {late:?} is late at {now_ns}");
}

#[test]
fn an_empty_wheel_has_nothing_to_wait_for() {
    let mut wheel = Wheel::new();
    assert_eq!(wheel.next_ns(), None);
    let key = wheel.insert(u64::MAX, ());
    assert!(wheel.next_ns().is_some());
    assert!(wheel.cancel(key));
    assert_eq!(wheel.next_ns(), None);
}
