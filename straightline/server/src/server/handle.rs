//! What can be done with a server that runs.

use super::counters::prometheus;
use super::event::Event;
use super::run::Link;
use super::service::Service;
use super::threads::Threads;
use crate::rt::shard::{Shard, Sighting};
use crate::rt::waker::{Promise, deadline_in, unpoisoned};
use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a shard to answer a question, which it does between two coroutines.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// How long cancelled coroutines may take to give up, after the deadline of a drain.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// How much longer than that a shard may take to end, before it is left behind.
const SLACK: Duration = Duration::from_millis(500);
/// How often it is looked, after the deadline, whether a coroutine holds a shard.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What serves: shards, or a thread for each connection.
pub(crate) enum Kind {
    Shards(Vec<Link>),
    Threads(Arc<Threads>),
}

pub(crate) struct Inner {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    pub(crate) service: Arc<Service>,
    /// To whoever waits for the end.
    pub(crate) news: Sender<News>,
}

/// What is told to whoever waits for the end of a server.
pub(crate) enum News {
    /// It is to have ended by then.
    Until(Instant),
    /// The thread of a number ended, and gave up so much of its work.
    Ended(usize, usize),
}

/// The life of one thread of a server, whose end is told however it comes.
pub(crate) struct Life {
    news: Sender<News>,
    index: usize,
    abandoned: usize,
}

impl Life {
    pub(crate) fn new(news: &Sender<News>, index: usize) -> Self {
        // One that panics has told so on the standard error stream, and its work is lost.
        Self { news: news.clone(), index, abandoned: 1 }
    }

    /// Lives it: `life` says how much of its work was given up.
    pub(crate) fn live(mut self, life: impl FnOnce() -> usize) {
        self.abandoned = life();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.news.send(News::Ended(self.index, self.abandoned)).ok();
    }
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
    /// A thread cannot be cancelled: with [`Server::threads`](crate::Server::threads) it is left behind, and so is the thread of a
    /// shard that a coroutine holds then ([`Event::ShardLeft`]). Both end with the process at the latest.
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
        self.inner.news.send(News::Until(until)).ok();
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
#[non_exhaustive]
pub struct Drained {
    /// Connections and coroutines that were given up because they were not done at the deadline.
    pub abandoned: usize,
}

/// A server that runs on threads of its own. Dropping it lets the server run on.
#[derive(Debug)]
pub struct Running {
    pub(crate) handle: Handle,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) news: Mutex<Receiver<News>>,
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

    /// Waits until the server was drained; after the deadline no longer than a second for coroutines that were cancelled, and
    /// for what holds its thread not at all.
    pub fn join(mut self) -> Drained {
        let abandoned = self.wait();
        self.helpers.stop();
        Drained { abandoned }
    }

    /// Waits for the threads to end; how much was given up.
    fn wait(&mut self) -> usize {
        let mut threads: Vec<_> = std::mem::take(&mut self.threads).into_iter().map(Some).collect();
        let (mut abandoned, mut until) = (0, None);
        while threads.iter().any(Option::is_some) {
            match self.hear(until) {
                Some(News::Until(at)) => until = Some(until.map_or(at, |before: Instant| before.min(at))),
                Some(News::Ended(index, given_up)) => {
                    if let Some(thread) = threads.get_mut(index).and_then(Option::take) {
                        // What it panicked with, it has told by itself.
                        thread.join().ok();
                        abandoned += given_up;
                    }
                }
                None => abandoned += until.map_or(0, |until| self.leave_behind(&mut threads, until)),
            }
        }
        abandoned
    }

    /// Waits no longer for threads that do not end, or would not; how much is given up with them.
    fn leave_behind(&self, threads: &mut [Option<JoinHandle<()>>], until: Instant) -> usize {
        let left = threads.iter_mut().enumerate().filter(|(_, thread)| thread.is_some());
        let given_up = left.filter_map(|(index, thread)| {
            let given_up = self.leave_one(index, until)?;
            *thread = None;
            Some(given_up)
        });
        given_up.sum()
    }

    /// The next news; `None` if there are none by `until`, or for a moment after it.
    fn hear(&self, until: Option<Instant>) -> Option<News> {
        let news = unpoisoned(&self.news);
        let Some(until) = until else { return news.recv().ok() };
        let left = until.saturating_duration_since(Instant::now()).max(LOOK_EVERY);
        news.recv_timeout(left).ok()
    }

    /// Whether a thread is to be left behind, and how much is given up with it.
    fn leave_one(&self, index: usize, until: Instant) -> Option<usize> {
        let inner = &self.handle.inner;
        if Instant::now() < until {
            return None;
        }
        let is_late = until.elapsed() > GRACE + SLACK;
        let link = match &inner.kind {
            Kind::Shards(links) => links.get(index)?,
            Kind::Threads(_) => return is_late.then_some(1),
        };
        if !is_late && !link.watch.is_held() {
            return None;
        }
        link.shut();
        inner.service.tell(Event::ShardLeft { shard: index, handler: link.watch.name().text() });
        Some(usize::try_from(link.counters.open.value()).unwrap_or(usize::MAX).max(1))
    }

    /// [`Handle::drain`], and waits for the end.
    pub fn drain(self, deadline: Duration) -> Drained {
        self.handle.drain(deadline);
        self.join()
    }
}
