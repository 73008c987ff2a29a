//! One window as data, for generators on other machines.

use std::time::Duration;

use model::job::Job;
use serde::{Deserialize, Serialize};

use crate::schedule::Pace;
use crate::{Config, Idle, LoadError, Warmup};

/// What a generator is to do in one window: all of it, or one part of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowJob {
    /// What is sent, to the first of its endpoints.
    job: Job,
    pace: Pace,
    seed: u64,
    warmup: Duration,
    window: Duration,
    requests: Option<u64>,
    idle: Idle,
    slack: Duration,
}

impl WindowJob {
    /// What `config` says of when requests are sent, and `job` of what they are.
    #[must_use]
    pub fn new(job: Job, config: &Config) -> Self {
        Self {
            job: Job { connections: config.connections, threads: config.threads, ..job },
            pace: config.pace.clone(),
            seed: config.seed,
            warmup: config.warmup.min,
            window: config.window,
            requests: config.requests,
            idle: config.idle,
            slack: config.slack,
        }
    }

    /// The load before it.
    #[must_use]
    pub fn warmup(&self) -> Duration {
        self.warmup
    }

    /// Its parts, one for each generator: the connections and the arrivals are divided, the threads are each one's own.
    ///
    /// # Errors
    /// [`LoadError::Config`] where a generator would have no connection.
    pub fn split(&self, parts: u32) -> Result<Vec<Self>, LoadError> {
        let jobs = self.job.split(parts).ok_or(LoadError::Config(
            "there must be at least one connection for each generator: raise --connections",
        ))?;
        Ok(jobs.into_iter().map(|job| Self { job, ..self.clone() }).collect())
    }

    /// The same as a generator takes it, on the machine where it runs.
    ///
    /// # Errors
    /// [`LoadError`] where a request or the URL is wrong.
    pub fn config(&self) -> Result<Config, LoadError> {
        let endpoint = self.job.endpoints.first().ok_or(LoadError::Config("a window is of one endpoint"))?;
        let config = Config::of_job(&self.job, endpoint)?;
        Ok(Config {
            pace: self.pace.clone(),
            seed: self.seed,
            warmup: Warmup::fixed(self.warmup),
            window: self.window,
            requests: self.requests,
            idle: self.idle,
            slack: self.slack,
            ..config
        })
    }
}
