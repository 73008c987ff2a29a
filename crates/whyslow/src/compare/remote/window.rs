//! One window of a load, or a part of it, as the agent's own process drives it.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use load::WindowJob;
use model::units::CpuSet;

use super::clock::now_ns;
use super::{Command, Event, agent};
use crate::load_command::config::pin;

/// Opens the connections, says so, and loads from the instant on that the answer names.
pub(super) fn run(
    job: &WindowJob,
    cpus: Option<&CpuSet>,
    commands: &Receiver<Command>,
    stop: &AtomicBool,
) -> anyhow::Result<Event> {
    if let Some(cpus) = cpus {
        pin(cpus)?;
    }
    let config = job.config()?;
    let (mut began_ns, mut seconds, mut begin_known) = (0, Vec::new(), Ok(()));
    let mut follow = |event: load::Event| match event {
        load::Event::Connected { .. } => begin_known = await_begin(commands, &config.start_at),
        load::Event::WindowStart { at_ns, .. } => began_ns = at_ns,
        load::Event::Second { index, response, .. } => seconds.push(load::second_line(index, response)),
        _ => {}
    };
    let outcome = load::run(&config, stop, &mut follow)?;
    begin_known?;
    let log = load::shard_log(&outcome, &seconds);
    Ok(Event::Window { began_ns, record: Box::new(outcome.shard), log })
}

/// Waits for when the window begins; its connections are open, and nothing is sent meanwhile.
fn await_begin(commands: &Receiver<Command>, start_at: &Arc<OnceLock<SystemTime>>) -> anyhow::Result<()> {
    agent::say(&Event::Connected)?;
    loop {
        match commands.recv().context("nobody says when the window begins")? {
            Command::Clock => agent::say(&Event::Clock(now_ns()))?,
            Command::Begin { at_ns } => {
                let left = Duration::from_nanos(at_ns.saturating_sub(now_ns()));
                let _ = start_at.set(SystemTime::now() + left);
                return Ok(());
            }
            other => anyhow::bail!("it waits for the begin of a window and was told {other:?}"),
        }
    }
}
