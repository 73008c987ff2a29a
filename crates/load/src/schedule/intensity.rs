use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How many requests are due each second, as a function of time since the origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Intensity {
    /// One rate.
    Flat {
        /// Requests per second.
        per_s: f64,
    },
    /// A straight line, then flat at its end.
    Ramp {
        /// Requests per second at the origin.
        from_per_s: f64,
        /// Requests per second at the end of the line.
        to_per_s: f64,
        /// Length of the line in seconds.
        over_s: f64,
    },
    /// One rate after another; the last one stays.
    Steps(Vec<Step>),
    /// One request at each of these instants, in seconds after the origin, never falling; then none. It is not sent anywhere.
    #[serde(skip)]
    Recorded(Arc<[f64]>),
}

/// One rate for some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests per second.
    pub per_s: f64,
    /// How long, in seconds.
    pub for_s: f64,
}

impl Intensity {
    /// Requests per second to warm up with: those at the origin, or where these are none half of a ramp's end and the first
    /// step that has some.
    #[must_use]
    pub fn warmup_per_s(&self) -> f64 {
        match self {
            Self::Flat { per_s } => *per_s,
            Self::Ramp { from_per_s: 0.0, to_per_s, .. } => to_per_s / 2.0,
            Self::Ramp { from_per_s, .. } => *from_per_s,
            Self::Steps(steps) => {
                steps.iter().map(|step| step.per_s).find(|per_s| *per_s > 0.0).unwrap_or(0.0)
            }
            Self::Recorded(instants_s) => mean_per_s(instants_s),
        }
    }

    /// The corners of the line that the rate follows, in seconds after the origin and requests per second; none where
    /// it is one rate, or recorded.
    #[must_use]
    pub fn corners(&self) -> Vec<[f64; 2]> {
        match self {
            Self::Flat { .. } | Self::Recorded(_) => Vec::new(),
            Self::Ramp { from_per_s, to_per_s, over_s } => vec![[0.0, *from_per_s], [*over_s, *to_per_s]],
            Self::Steps(steps) => {
                let mut begin_s = 0.0;
                let level = |step: &Step| {
                    let end_s = begin_s + step.for_s;
                    [[std::mem::replace(&mut begin_s, end_s), step.per_s], [end_s, step.per_s]]
                };
                steps.iter().flat_map(level).collect()
            }
        }
    }

    /// The same with every rate multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        match self {
            Self::Flat { per_s } => Self::Flat { per_s: per_s * factor },
            Self::Ramp { from_per_s, to_per_s, over_s } => {
                Self::Ramp { from_per_s: from_per_s * factor, to_per_s: to_per_s * factor, over_s: *over_s }
            }
            Self::Steps(steps) => {
                Self::Steps(steps.iter().map(|step| Step { per_s: step.per_s * factor, ..*step }).collect())
            }
            Self::Recorded(instants_s) => {
                Self::Recorded(instants_s.iter().map(|instant_s| instant_s / factor).collect())
            }
        }
    }

    /// Whether every rate and length can be worked with and something is ever due.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let rate = |per_s: f64| per_s.is_finite() && per_s >= 0.0;
        let length = |seconds: f64| seconds.is_finite() && seconds > 0.0;
        match self {
            Self::Flat { per_s } => rate(*per_s) && *per_s > 0.0,
            Self::Ramp { from_per_s, to_per_s, over_s } => {
                rate(*from_per_s) && rate(*to_per_s) && from_per_s + to_per_s > 0.0 && length(*over_s)
            }
            Self::Steps(steps) => {
                steps.iter().all(|step| rate(step.per_s) && length(step.for_s))
                    && steps.iter().any(|step| step.per_s > 0.0)
            }
            Self::Recorded(instants_s) => {
                !instants_s.is_empty()
                    && instants_s.is_sorted()
                    && instants_s.iter().all(|instant_s| instant_s.is_finite() && *instant_s >= 0.0)
            }
        }
    }

    /// Requests due in the first `seconds`, the inverse of [`Intensity::instant_s`].
    #[must_use]
    pub fn due_by(&self, seconds: f64) -> f64 {
        match self {
            Self::Flat { per_s } => per_s * seconds,
            Self::Ramp { from_per_s, to_per_s, over_s } => {
                let within = seconds.min(*over_s);
                let slope = (to_per_s - from_per_s) / over_s;
                from_per_s * within + slope * within * within / 2.0 + to_per_s * (seconds - within)
            }
            Self::Steps(steps) => {
                let mut left = seconds;
                let last = steps.last().map_or(0.0, |step| step.per_s);
                let due = |step: &Step| {
                    let within = left.min(step.for_s);
                    left -= within;
                    step.per_s * within
                };
                let stepped: f64 = steps.iter().map(due).sum();
                stepped + last * left
            }
            Self::Recorded(instants_s) => instants_s.partition_point(|instant_s| *instant_s < seconds) as f64,
        }
    }

    /// The instant in seconds at which `count` requests have become due; `None` where that never happens.
    ///
    /// This is the inverse of the cumulative rate.
    #[must_use]
    pub fn instant_s(&self, count: f64) -> Option<f64> {
        match self {
            Self::Flat { per_s } => flat(count, *per_s),
            Self::Ramp { from_per_s, to_per_s, over_s } => ramp(count, *from_per_s, *to_per_s, *over_s),
            Self::Steps(steps) => stepped(count, steps),
            Self::Recorded(instants_s) => instants_s.get(count as usize).copied(),
        }
    }
}

/// Requests per second over a recording, its last second included.
fn mean_per_s(instants_s: &[f64]) -> f64 {
    instants_s.len() as f64 / (instants_s.last().copied().unwrap_or(0.0) + 1.0)
}

fn flat(count: f64, per_s: f64) -> Option<f64> {
    (per_s > 0.0).then(|| count / per_s)
}

/// Solves from·t + (to − from)·t²/(2·over) = count for t, in the form that does not cancel.
fn ramp(count: f64, from: f64, to: f64, over_s: f64) -> Option<f64> {
    let in_ramp = (from + to) / 2.0 * over_s;
    if count > in_ramp {
        return flat(count - in_ramp, to).map(|after| over_s + after);
    }
    let slope = (to - from) / over_s;
    let root = (from * from + 2.0 * slope * count).max(0.0).sqrt();
    Some(if count <= 0.0 { 0.0 } else { 2.0 * count / (from + root) })
}

fn stepped(mut count: f64, steps: &[Step]) -> Option<f64> {
    let (last, earlier) = steps.split_last()?;
    let mut begin_s = 0.0;
    for step in earlier {
        let due = step.per_s * step.for_s;
        // An arrival exactly on an edge belongs to the next step, unless nothing is due there.
        if count < due {
            return flat(count, step.per_s).map(|within| begin_s + within);
        }
        count -= due;
        begin_s += step.for_s;
    }
    flat(count, last.per_s).map(|within| begin_s + within)
}
