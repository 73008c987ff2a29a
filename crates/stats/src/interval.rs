//! An interval with the level it attains, an estimate with its interval, and what a disturbance may have moved it by.

/// A closed confidence interval with the level it really attains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Confidence level attained, 0 to 1; exact methods attain at least the level asked for.
    pub level: f64,
}

impl Interval {
    /// Whether `value` lies in the closed interval.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half the distance between the ends.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The interval of the ratio, from an interval of its logarithm.
    pub fn exp(&self) -> Self {
        Self { low: self.low.exp(), high: self.high.exp(), level: self.level }
    }
}

/// A point estimate with its interval; of a log-ratio unless the function that made it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Point estimate.
    pub value: f64,
    /// Interval around it, on the same scale.
    pub interval: Interval,
    /// Independent observations (pairs) behind it.
    pub n: usize,
}

impl Estimate {
    /// The ratio whose logarithm was estimated: 1 means equal.
    pub fn ratio(&self) -> f64 {
        self.value.exp()
    }

    /// The interval of the ratio.
    pub fn ratio_interval(&self) -> Interval {
        self.interval.exp()
    }

    /// The same estimate with its interval reaching further out on either side, at the same level: what chance and the
    /// disturbance together leave open.
    ///
    /// A bias never narrows an interval: one below zero counts as none, and one that is not a number as without bound.
    ///
    /// ```
    /// use stats::{Bias, Estimate, Interval};
    ///
    /// let seen = Estimate { value: 0.05, interval: Interval { low: 0.04, high: 0.06, level: 0.95 }, n: 12 };
    /// let widened = seen.widened(Bias { low: 0.05, high: 0.01 });
    /// assert!(!seen.interval.contains(0.0) && widened.interval.contains(0.0));
    /// assert_eq!((widened.value, widened.interval.high, widened.n), (0.05, 0.06 + 0.01, 12));
    /// ```
    pub fn widened(self, bias: Bias) -> Self {
        let low = self.interval.low - reach(bias.low);
        let high = self.interval.high + reach(bias.high);
        Self { interval: Interval { low, high, ..self.interval }, ..self }
    }
}

/// How far a disturbance may have moved a log-ratio; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bias {
    /// How far below the figures the truth may lie for it, in ln units, ≥ 0.
    pub low: f64,
    /// How far above the figures the truth may lie for it, in ln units, ≥ 0.
    pub high: f64,
}

fn reach(bias: f64) -> f64 {
    if bias.is_nan() { f64::INFINITY } else { bias.max(0.0) }
}
