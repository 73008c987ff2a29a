//! CPUs kept from going idle, as `whyslow compare` does for what it measures itself.

use anyhow::Context;
use observe::{Awake, should_keep_awake};

/// Keeps the CPUs of a list such as `0,1` awake for as long as what is given lives, where that is likely to help.
pub(crate) fn keep(cpus: &str) -> anyhow::Result<Option<Awake>> {
    let cpus = cpus.parse().context("a list of CPUs reads")?;
    let keep = || Awake::keep(&cpus).context("the CPUs cannot be kept awake");
    should_keep_awake(&observe::fingerprint()).then(keep).transpose()
}
