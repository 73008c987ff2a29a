use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::units::{ParseError, serde_as_text};

/// The largest CPU number that is read: Linux is built for at most 8192 CPUs (`CONFIG_NR_CPUS`).
const MAX_CPU: u32 = 8191;

/// A set of CPU numbers in Linux list notation: `0`, `0,2-3`. Never empty when parsed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// The CPUs in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no CPU in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs that both sets hold.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// The CPUs of this set that `other` does not hold.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }

    /// The first half and the rest, the smaller half first; a single CPU goes into both.
    #[must_use]
    pub fn halves(&self) -> (Self, Self) {
        if self.len() < 2 {
            return (self.clone(), self.clone());
        }
        let half = self.len() / 2;
        (self.iter().take(half).collect(), self.iter().skip(half).collect())
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let wrong = || ParseError::new("a CPU list", text, "Linux list notation, such as 0 or 0,2-3");
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|cpu| *cpu <= MAX_CPU);
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            match (number(low), number(high)) {
                (Some(low), Some(high)) if low <= high => cpus.extend(low..=high),
                _ => return Err(wrong()),
            }
        }
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut separator = "";
        while let Some(low) = rest.next() {
            let mut high = low;
            while rest.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            match high - low {
                0 => write!(f, "{separator}{low}")?,
                _ => write!(f, "{separator}{low}-{high}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

serde_as_text!(CpuSet);
