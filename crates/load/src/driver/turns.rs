//! Several endpoints, one of which is loaded at a time: a job and its commands.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use model::job::{Job, Polled, Turn, TurnPace, TurnReport, first_late};

use super::conductor::{Conductor, Crew, Taken, lead};
use super::control::Order;
use super::{prepare, supplies, wall_ns};
use crate::merge::Together;
use crate::repeat::in_turn;
use crate::schedule::{Arrival, Pace};
use crate::summary::{Facts, outcome};
use crate::{Config, Idle, LoadError, Outcome};

/// Warnings that are of one stretch of time, and mean nothing of many short ones.
const OF_ONE_STRETCH: [&str; 3] = ["drift", "not_steady", "windows_differ"];

/// A generator with its connections open to every endpoint; quiet but in its turns.
pub struct Turns<'c, 'a> {
    conductor: &'c mut Conductor<'a>,
    configs: &'c [Config],
    established: Vec<u64>,
    pools: BTreeMap<u32, Outcome>,
}

/// Opens connections to every endpoint of `job`, lets `work` give turns, and closes them whatever came of that.
///
/// # Errors
/// [`LoadError`] where the job is wrong or an endpoint cannot be reached; what `work` gives.
pub fn serve<T>(
    job: &Job,
    work: impl FnOnce(&mut Turns<'_, '_>) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let configs =
        job.endpoints.iter().map(|endpoint| Config::of_job(job, endpoint)).collect::<Result<Vec<_>, _>>()?;
    if configs.is_empty() {
        return Err(LoadError::Config("a job has at least one endpoint"));
    }
    prepare::allow_descriptors(&configs)?;
    let crew = |config: &Config| Crew::of_turns(config.clone(), prepare::prepare(config)?);
    let crews = configs.iter().map(crew).collect::<Result<Vec<_>, _>>()?;
    let feeds = configs.iter().map(supplies).collect();
    // Whoever gives turns ends by giving none.
    let never = AtomicBool::new(false);
    lead(&crews, feeds, &never, &mut |_| {}, |conductor| {
        let established = conductor.await_all()?;
        work(&mut Turns { conductor, configs: &configs, established, pools: BTreeMap::new() })
    })
}

impl Turns<'_, '_> {
    /// Connections that are open to each endpoint.
    #[must_use]
    pub fn established(&self) -> &[u64] {
        &self.established
    }

    /// Loads one endpoint for one turn; nothing is in flight when this returns.
    ///
    /// # Errors
    /// [`LoadError`]; what goes wrong with single requests is counted.
    pub fn turn(&mut self, turn: &Turn) -> Result<TurnReport, LoadError> {
        let config = self
            .configs
            .get(turn.endpoint)
            .ok_or(LoadError::Config("a turn is of an endpoint of the job"))?;
        let (pace, idle) = pace(turn.pace);
        let order = Order {
            pace: pace.clone(),
            seed: turn.seed,
            requests: turn.requests,
            idle,
            drain_ns: turn.drain_ns,
        };
        let taken = self.conductor.turn(turn.endpoint, order, turn.begin_ns, turn.length_ns)?;
        let report = report(turn, &taken);
        if let Some(pool) = turn.pool {
            let config = Config {
                pace,
                seed: turn.seed,
                window: Duration::from_nanos(turn.length_ns),
                ..config.clone()
            };
            self.add(pool, &config, taken);
        }
        Ok(report)
    }

    fn add(&mut self, pool: u32, config: &Config, mut taken: Taken) {
        taken.measured.name(config.list.as_ref().map_or(&[], |list| list.names()));
        let start_ns = wall_ns(taken.measured.span.start_ns);
        let shards = vec![config.shard.index];
        let together =
            Together { shards, of: config.shard.of, first_start_ns: start_ns, last_start_ns: start_ns };
        let turn = outcome(&Facts::from_config(config), taken.measured, together);
        let silences = turn.silences.clone();
        let sum = match self.pools.remove(&pool) {
            None => turn,
            Some(mut sum) => {
                let before = std::mem::take(&mut sum.silences);
                let mut whole = in_turn(vec![sum, turn]).expect("two make one");
                whole.silences = [before, silences].concat();
                whole
            }
        };
        self.pools.insert(pool, sum);
    }

    /// The turns of a pool as one window, and forgets them; nothing where there was none.
    pub fn pooled(&mut self, pool: u32) -> Option<Outcome> {
        let mut sum = self.pools.remove(&pool)?;
        sum.report.warnings.retain(|warning| !OF_ONE_STRETCH.contains(&warning.id.as_str()));
        // Slices are no seconds.
        sum.report.seconds.clear();
        sum.shard.report = sum.report.clone();
        Some(sum)
    }
}

fn report(turn: &Turn, taken: &Taken) -> TurnReport {
    let Taken { measured, quiet_ns } = taken;
    let answered = !measured.response.is_empty();
    let failed = measured.errors.unanswered();
    let due = measured.requests + failed + measured.unfinished + measured.unsent;
    TurnReport {
        endpoint: turn.endpoint,
        start_ns: measured.span.start_ns,
        end_ns: measured.span.end_ns,
        quiet_ns: *quiet_ns,
        requests: measured.requests,
        in_time: measured.in_time.unwrap_or(measured.requests),
        due: matches!(turn.pace, TurnPace::Open { .. }).then_some(due),
        errors: measured.errors,
        given_up: measured.unfinished,
        late_ns: first_late(measured.late_ns.clone()),
        silences_ns: measured.silences.iter().flatten().map(|span| [span.start_ns, span.end_ns]).collect(),
        unsent: measured.unsent,
        bytes_read: measured.bytes_read,
        mean_response_ns: if answered { measured.response.mean() } else { 0.0 },
        cpu: Polled { busy_ns: measured.cpu_ns.iter().sum(), polled_ns: measured.polled_ns },
    }
}

fn pace(asked: TurnPace) -> (Pace, Idle) {
    match asked {
        TurnPace::Closed { poll: true } => (Pace::Closed, Idle::Poll),
        TurnPace::Closed { poll: false } => (Pace::Closed, Idle::Sleep),
        TurnPace::Open { rate, poisson } => {
            let arrival = if poisson { Arrival::Poisson } else { Arrival::Constant };
            (Pace::open(rate.get(), arrival), Idle::Sleep)
        }
    }
}
