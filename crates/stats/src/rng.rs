//! A small seeded generator: the only source of chance in this workspace's mathematics.
//!
//! Source: xoshiro256++ 1.0 and splitmix64, D. Blackman and S. Vigna, <https://prng.di.unimi.it/>.

/// Increment of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// 2^-53: turns the 53 bits that a double can hold into steps of [0, 1).
const UNIT_STEP: f64 = 1.0 / (1_u64 << 53) as f64;

/// A seeded generator; the same seed gives the same numbers on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator whose whole sequence is fixed by `seed`.
    pub fn seeded(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut mix)) }
    }

    /// Generator number `stream` of a family, so that threads or arms share a seed but not a sequence.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut mix = stream;
        Self::seeded(seed ^ splitmix64(&mut mix))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in [0, 1), uniform in steps of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * UNIT_STEP
    }

    /// A whole number in 0..n, exactly uniform.
    ///
    /// Source: D. Lemire, Fast random integer generation in an interval, ACM TOMACS 29(1), 2019.
    ///
    /// # Panics
    /// When `n` is zero: there is no such number.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no whole number is below zero");
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            let low = product as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 64) as u64;
            }
        }
    }

    /// A fair coin.
    pub fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 1
    }

    /// Puts the items in an order drawn uniformly from all orders (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A standard normal number.
    ///
    /// Source: G. Box and M. Muller, Ann. Math. Statist. 29(2), 1958; the second number is not kept, so
    /// that the state stays four words.
    pub fn normal(&mut self) -> f64 {
        // 1 - u lies in (0, 1], so that the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(GOLDEN_GAMMA);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
