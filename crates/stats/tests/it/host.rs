//! A simulated host on which two arms take turns.
//!
//! Time is counted in slices and runs on through all blocks of a session. What the host does (it drifts, jumps, swings,
//! remembers) meets whichever arm has its turn; what processes do (each block has its own effect on each arm, an arm's cost
//! wanders) belongs to one arm.

use stats::Rng;
use stats::cycles::BlockValue;

/// Slices of one A B B A: a disturbance of this period is the one that turns cancel least.
const ROUND_TRIP: f64 = 4.0;

/// A host and what is planted on it. Sizes are of the logarithm of a slice's cost.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    /// What the test prints.
    pub(crate) name: &'static str,
    /// ln(arm / baseline) in truth.
    pub(crate) effect: f64,
    /// Standard deviation between blocks of the difference of the arms: layout, addresses, hash seeds.
    block_sd: f64,
    /// Change in a hundred slices.
    drift: f64,
    /// Chance that the speed of the host jumps within a slice, by 10 to 100 % of the cost or back.
    jumps: f64,
    /// Amplitude of a periodic disturbance.
    wave: f64,
    /// Its period, in slices.
    period: f64,
    /// Correlation of neighbouring slices in what the host remembers, and in what each arm does.
    memory: f64,
    /// Standard deviation of what the host remembers.
    host_sd: f64,
    /// Standard deviation of what each arm remembers: it makes the cycles of a block correlated.
    arm_sd: f64,
    /// Standard deviation of the noise of a slice.
    noise_sd: f64,
    /// Whether noise and blocks have heavy tails (Student's t, three degrees of freedom).
    heavy: bool,
}

/// Nothing but noise, and blocks that differ by little.
pub(crate) const CALM: Host = Host {
    name: "calm",
    effect: 0.0,
    block_sd: 0.002,
    drift: 0.0,
    jumps: 0.0,
    wave: 0.0,
    period: ROUND_TRIP,
    memory: 0.0,
    host_sd: 0.0,
    arm_sd: 0.0,
    noise_sd: 0.005,
    heavy: false,
};

/// Cycles that spread by 2.1 %, as those of a Go server with a collector do.
pub(crate) const NOISY: Host = Host { name: "noisy", noise_sd: 0.015, heavy: true, ..CALM };

/// Everything at once.
pub(crate) const ROUGH: Host = Host {
    name: "everything at once",
    block_sd: 0.003,
    drift: 0.1,
    jumps: 0.05,
    wave: 0.02,
    period: 7.3,
    memory: 0.8,
    host_sd: 0.02,
    arm_sd: 0.005,
    heavy: true,
    ..CALM
};

/// One host for each way in which a host can be bad, and one with all of them.
pub(crate) const HOSTS: [Host; 9] = [
    CALM,
    Host { name: "drift", drift: 0.5, ..CALM },
    Host { name: "jumps", jumps: 0.1, ..CALM },
    Host { name: "heavy tails", heavy: true, ..CALM },
    Host { name: "correlated cycles", memory: 0.9, host_sd: 0.02, arm_sd: 0.01, ..CALM },
    Host { name: "blocks that differ", block_sd: 0.02, ..CALM },
    Host { name: "a period of one A B B A", wave: 0.05, ..CALM },
    Host { name: "a period of fifty slices", wave: 0.05, period: 50.0, ..CALM },
    ROUGH,
];

/// What a host is at, in the middle of a session.
struct State {
    time: f64,
    phase: f64,
    level: f64,
    remembered: f64,
}

impl Host {
    /// The same host with this ln(arm / baseline) in truth.
    pub(crate) fn with_effect(self, effect: f64) -> Self {
        Self { effect, ..self }
    }

    /// The same host with blocks that differ by this.
    pub(crate) fn with_block_sd(self, block_sd: f64) -> Self {
        Self { block_sd, ..self }
    }

    /// The same host with slices that differ by this.
    pub(crate) fn with_noise_sd(self, noise_sd: f64) -> Self {
        Self { noise_sd, ..self }
    }

    /// The values of so many blocks of so many cycles.
    pub(crate) fn session(&self, rng: &mut Rng, blocks: usize, cycles: usize) -> Vec<f64> {
        let phase = std::f64::consts::TAU * rng.uniform();
        let mut state = State { time: 0.0, phase, level: 0.0, remembered: rng.normal() };
        (0..blocks).map(|_| self.block(&mut state, rng, cycles)).collect()
    }

    fn block(&self, state: &mut State, rng: &mut Rng, cycles: usize) -> f64 {
        let each = self.block_sd / 2_f64.sqrt();
        let levels = [0.0, self.effect].map(|level| level + each * self.draw(rng));
        let mut remembered = [rng.normal(), rng.normal()];
        let mut order = [0, 1];
        let mut ratios = Vec::with_capacity(cycles);
        for cycle in 0..cycles {
            // A random order, then the same reversed.
            if cycle % 2 == 0 {
                rng.shuffle(&mut order);
            } else {
                order.reverse();
            }
            let mut cost = [0.0; 2];
            for arm in order {
                remembered[arm] = self.next(remembered[arm], rng);
                let own = self.arm_sd * remembered[arm] + self.noise_sd * self.draw(rng);
                cost[arm] = levels[arm] + own + self.slice(state, rng);
            }
            ratios.push(cost[1] - cost[0]);
        }
        BlockValue::from_cycles(&ratios).expect("a block has cycles").value
    }

    /// What the host adds to one slice, whoever's it is.
    fn slice(&self, state: &mut State, rng: &mut Rng) -> f64 {
        state.time += 1.0;
        state.remembered = self.next(state.remembered, rng);
        let swing = (std::f64::consts::TAU * state.time / self.period + state.phase).sin();
        self.drift * state.time / 100.0
            + self.wave * swing
            + self.host_sd * state.remembered
            + self.jump(state, rng)
    }

    /// The mean speed over a slice in which the host may jump, at any instant.
    fn jump(&self, state: &mut State, rng: &mut Rng) -> f64 {
        let before = state.level;
        if rng.uniform() >= self.jumps {
            return before;
        }
        state.level = if before > 0.0 { 0.0 } else { (1.1 + 0.9 * rng.uniform()).ln() };
        let share = rng.uniform();
        (share * before.exp() + (1.0 - share) * state.level.exp()).ln()
    }

    /// One step of a first-order autoregression with variance 1.
    fn next(&self, value: f64, rng: &mut Rng) -> f64 {
        if self.memory == 0.0 {
            return 0.0;
        }
        self.memory * value + (1.0 - self.memory * self.memory).sqrt() * rng.normal()
    }

    /// A number with standard deviation 1.
    fn draw(&self, rng: &mut Rng) -> f64 {
        if !self.heavy {
            return rng.normal();
        }
        let squares: f64 = (0..3).map(|_| rng.normal().powi(2)).sum();
        // Divided by √3, the standard deviation of Student's t with three degrees of freedom.
        rng.normal() / (squares / 3.0).sqrt() / 3_f64.sqrt()
    }
}
