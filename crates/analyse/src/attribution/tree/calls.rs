//! How the time of system calls of one name divides by what they are on. They are counted by name alone, so that a count is known of what
//! they are on where that is all of them.

use std::collections::BTreeMap;

use super::place::Leaf;
use super::table::On;

/// Share of the time of a call from which on it is all of it.
const ALL: f64 = 0.9;

/// CPU time of the system calls of one arm, in nanoseconds per request.
#[derive(Default)]
pub(crate) struct Calls<'a> {
    of_name: BTreeMap<&'a str, f64>,
    on_one: BTreeMap<(&'a str, Option<On>), f64>,
}

impl<'a> Calls<'a> {
    /// Those of some leaves, each with its time.
    pub(crate) fn new(leaves: impl Iterator<Item = (&'a Leaf, f64)>) -> Self {
        let mut calls = Self::default();
        for (leaf, ns) in leaves {
            if let Leaf::Call { call, on, .. } = leaf {
                *calls.of_name.entry(call).or_default() += ns;
                *calls.on_one.entry((call, *on)).or_default() += ns;
            }
        }
        calls
    }

    /// Whether all calls of this name are on one kind of thing, or none; nothing where some are. Of calls
    /// that were not sampled all are on anything.
    pub(crate) fn all_or_none(&self, call: &str, on: Option<On>) -> Option<bool> {
        let all = self.of_name.get(call).copied().unwrap_or(0.0);
        let these = self.on_one.get(&(call, on)).copied().unwrap_or(0.0);
        match these {
            _ if these >= ALL * all => Some(true),
            _ if these <= (1.0 - ALL) * all => Some(false),
            _ => None,
        }
    }

    /// Whether calls of this name were sampled at all.
    pub(crate) fn has(&self, call: &str) -> bool {
        self.of_name.get(call).is_some_and(|ns| *ns > 0.0)
    }
}
