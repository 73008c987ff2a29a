//! A few questions whose answers are kept whole: what a server says, not how fast.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::job::{Endpoint, Job};

use super::{prepare, run_fed};
use crate::list::ListFeed;
use crate::schedule::Pace;
use crate::session::{Batch, Feed, FeedError, Heard};
use crate::{Config, List, LoadError, Requests, Supply, Warmup};

/// Asks `endpoint` so many times for the requests of `job`, one after the other on one connection, within `limit` or until
/// `stop`. Gives the answers that came; there are fewer where some did not.
///
/// # Errors
/// [`LoadError`] where the job is wrong or the server cannot be reached.
pub fn ask(
    job: &Job,
    endpoint: &Endpoint,
    times: u32,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Heard>, LoadError> {
    let job = Job { connections: 1, threads: 1, ..job.clone() }.with_depth(1);
    let mut config = Config::of_job(&job, endpoint)?;
    config.pace = Pace::Closed;
    config.warmup = Warmup::NONE;
    config.window = limit;
    config.requests = Some(times.into());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let feed: Box<dyn Feed> = match job.has_statuses() {
        false => Box::new(Repeated(prepare::request(&config)?)),
        true => {
            let requests = job.requests.named(&config.target.path);
            let list = List::drawn(&requests, job.data.clone().map(Arc::new), &config.target)?;
            // The list is sent; a path that is filled there, as by `{random 1 9}`, can have a space.
            config.request.path.clone_from(&config.target.path);
            Box::new(ListFeed::new(Arc::new(list), config.seed, prepare::part(&config, 0)))
        }
    };
    let listening = Listening { feed, heard: Arc::clone(&heard) };
    let supply = Supply { requests: Requests::Each(Box::new(listening)), address: None };
    let outcome = run_fed(&config, vec![supply], stop, &mut |_| {})?;
    let heard = std::mem::take(&mut *heard.lock().unwrap_or_else(PoisonError::into_inner));
    match outcome.shard.malformed {
        Some(why) if heard.is_empty() => Err(LoadError::Unanswered { address: config.target.authority, why }),
        _ => Ok(heard),
    }
}

/// The same bytes again and again.
#[derive(Debug)]
struct Repeated(Vec<u8>);

impl Feed for Repeated {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        batch.push(&self.0);
        Ok(())
    }
}

/// Requests whose answers are kept.
#[derive(Debug)]
struct Listening {
    feed: Box<dyn Feed>,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Feed for Listening {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        self.feed.next(batch)
    }

    fn labels(&self) -> Vec<Option<u16>> {
        self.feed.labels()
    }

    fn listens(&self) -> bool {
        true
    }

    fn heard(&mut self, answer: &Heard) -> Result<(), FeedError> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(answer.clone());
        Ok(())
    }
}
