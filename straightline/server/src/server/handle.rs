//! What can be done with a server that runs.

use super::counters::prometheus;
use super::event::Event;
use super::run::Link;
use super::service::Service;
use super::threads::Threads;
use crate::rt::shard::{Shard, Sighting};
use crate::rt::waker::{Promise, deadline_in};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a shard to answer a question, which it does between two coroutines.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// What serves: shards, or a thread for each connection.
pub(crate) enum Kind {
    Shards(Vec<Link>),
    Threads(Arc<Threads>),
}

pub(crate) struct Inner {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) service: Arc<Service>,
}

/// A way to talk to a running server from anywhere, its own handlers included.
#[derive(Clone)]
pub struct Handle {
    pub(crate) inner: Arc<Inner>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Handle").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

impl Handle {
    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.inner.address
    }

    /// Begins to end the server: it accepts no more, closes idle connections, and answers what it has begun with
    /// `Connection: close`. What still waits after `deadline` gets an error; see [`rt::is_cancelled`](crate::rt::is_cancelled).
    /// A thread cannot be cancelled: with [`Server::threads`](crate::Server::threads) it is left behind.
    ///
    /// Of several deadlines the earliest counts.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let running = straightline::Server::bind("127.0.0.1:0")?.spawn(|_, response| response.send(b"hello"))?;
    /// running.handle().drain(Duration::from_secs(1));
    /// assert_eq!(running.join().abandoned, 0);
    /// # Ok::<(), straightline::Error>(())
    /// ```
    pub fn drain(&self, deadline: Duration) {
        self.inner.service.tell(Event::Draining);
        let until = deadline_in(deadline);
        match &self.inner.kind {
            Kind::Shards(links) => links.iter().for_each(|link| link.drain(until)),
            Kind::Threads(threads) => threads.drain(until),
        }
    }

    /// The counters of every shard in the text format of Prometheus.
    ///
    /// Waits for each shard to bring its gauges up to date, up to a second if one is held.
    pub fn metrics(&self) -> String {
        match &self.inner.kind {
            Kind::Shards(links) => {
                ask(links, super::run::sample);
                prometheus(links.iter().map(|link| &*link.counters))
            }
            Kind::Threads(threads) => prometheus(std::iter::once(&threads.sum())),
        }
    }

    /// The stacks of all suspended coroutines, as text: one paragraph for each, innermost call first.
    ///
    /// Looking up the names of functions takes long (tens of milliseconds at first), on the calling thread.
    pub fn stacks(&self) -> String {
        let Kind::Shards(links) = &self.inner.kind else {
            return "no coroutines: every connection has a thread, which a debugger shows\n".to_owned();
        };
        let mut text = String::new();
        for (index, sightings) in ask(links, |shard| shard.sightings()).into_iter().enumerate() {
            describe(&mut text, index, sightings);
        }
        text
    }
}

/// Asks every shard the same, and collects the answers of those that are not held.
fn ask<T: Send + 'static>(links: &[Link], question: fn(&Rc<Shard>) -> T) -> Vec<Option<T>> {
    let asked: Vec<_> = links
        .iter()
        .map(|link| {
            let (answer, kept) = {
                let promise = Promise::new();
                (Arc::clone(&promise), promise)
            };
            link.remote.call(move |shard| kept.keep(question(shard)));
            answer
        })
        .collect();
    let deadline = Instant::now() + ANSWER_TIME;
    asked.into_iter().map(|answer| answer.take_until(Some(deadline)).ok().flatten()).collect()
}

fn describe(text: &mut String, shard: usize, sightings: Option<Vec<Sighting>>) {
    // Writing to a string cannot fail.
    let Some(sightings) = sightings else {
        writeln!(text, "shard {shard} is held and does not answer\n").ok();
        return;
    };
    writeln!(text, "shard {shard}: {} coroutines suspended", sightings.len()).ok();
    for sighting in sightings {
        let (name, ms) = (sighting.name, sighting.suspended.as_millis());
        writeln!(text, "\ncoroutine `{name}`, suspended for {ms} ms\n{}", sighting.stack).ok();
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections and coroutines that were given up because they were not done at the deadline.
    pub abandoned: usize,
}

/// A server that runs on threads of its own. Dropping it lets the server run on.
#[derive(Debug)]
pub struct Running {
    pub(crate) handle: Handle,
    pub(crate) threads: Vec<JoinHandle<usize>>,
    pub(crate) helpers: Helpers,
}

/// Threads that are of no use without the server.
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    pub(crate) signals: Option<signal_hook::iterator::Handle>,
    pub(crate) watchdog: Option<std::thread::Thread>,
    pub(crate) stop: Arc<std::sync::atomic::AtomicBool>,
}

impl Helpers {
    pub(crate) fn stop(&self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(signals) = &self.signals {
            signals.close();
        }
        if let Some(watchdog) = &self.watchdog {
            watchdog.unpark();
        }
    }
}

impl Running {
    /// A way to talk to it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Where the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.handle.local_addr()
    }

    /// Waits until the server was drained.
    pub fn join(self) -> Drained {
        // A shard that panicked has told so on the standard error stream, and serves no more.
        let abandoned = self.threads.into_iter().map(|thread| thread.join().unwrap_or(1)).sum();
        self.helpers.stop();
        Drained { abandoned }
    }

    /// [`Handle::drain`], and waits for the end.
    pub fn drain(self, deadline: Duration) -> Drained {
        self.handle.drain(deadline);
        self.join()
    }
}
