//! An interval with the level it attains, and an estimate with its interval.

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
    /// The same with an interval that has room for a bias of the logarithm.
    #[must_use]
    pub fn widened(self, bias: Bias) -> Self {
        let Interval { low, high, level } = self.interval;
        Self { interval: Interval { low: low - bias.low, high: high + bias.high, level }, ..self }
    }

    /// The ratio whose logarithm was estimated: 1 means equal.
    pub fn ratio(&self) -> f64 {
        self.value.exp()
    }

    /// The interval of the ratio.
    pub fn ratio_interval(&self) -> Interval {
        self.interval.exp()
    }
}

/// How far an estimate may be off for a reason that more data would not show, each at least 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bias {
    /// The truth may be lower by this.
    pub low: f64,
    /// The truth may be higher by this.
    pub high: f64,
}
