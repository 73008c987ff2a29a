//! The calling thread's part: it sets the phases, tells the events, and gathers what the workers counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use super::Event;
use super::clock::{SECOND_NS, as_ns, now_ns};
use super::control::{Control, Handle, Told};
use super::cpu::Ticks;
use super::link::Refusal;
use super::prepare::Plan;
use super::worker::{Message, Report, Setup, work};
use crate::histogram::Pool;
use crate::session::{Feed, Span, Spec};
use crate::summary::{Gathered, Measured};
use crate::{Address, Config, LoadError, Requests, Supply};

/// How long before an edge the workers are told of it: several times what waking them takes.
const LEAD_NS: u64 = 2_000_000;
/// How often the stop flag is looked at: soon for a person, seldom for a core that is shared with a worker.
const STOP_CHECK_NS: u64 = 50_000_000;
/// How long the first attempts to connect may take altogether.
const CONNECT_NS: u64 = 30 * SECOND_NS;
/// How long after its end workers may take to hand over: counting out a long backlog of unsent arrivals.
const HANDOVER_NS: u64 = 60 * SECOND_NS;

pub(crate) fn conduct(
    config: &Config,
    plan: Plan,
    supplies: Vec<Supply>,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Measured, LoadError> {
    let control = Control::new();
    let handles = plan.specs.iter().map(|_| Handle::new()).collect::<Result<Vec<_>, _>>()?;
    // One that each worker fills next, beside those that it has: what it gave away comes back within its next second.
    let pool = Pool::new(plan.specs.len());
    let (sender, messages) = channel();
    std::thread::scope(|scope| {
        let setups = setups(config, &plan, supplies, (&control, &handles, &pool), sender);
        let conductor = Conductor {
            config,
            control: &control,
            handles: &handles,
            pool: &pool,
            messages,
            stop,
            events,
            gathered: Gathered::new(plan.specs.len()),
            done: Vec::new(),
            ready: 0,
        };
        for setup in setups {
            let name = "load".to_owned();
            let spawned = std::thread::Builder::new().name(name).spawn_scoped(scope, || work(setup));
            if let Err(source) = spawned {
                conductor.dismiss();
                return Err(LoadError::System { what: "start a thread", source });
            }
        }
        conductor.conduct(&plan.address)
    })
}

fn setups<'a>(
    config: &Config,
    plan: &'a Plan,
    supplies: Vec<Supply>,
    (control, handles, pool): (&'a Control, &'a [Handle], &'a Pool),
    messages: Sender<Message>,
) -> Vec<Setup<'a>> {
    let mut supplies = supplies.into_iter();
    let setup = |(spec, handle): (&Spec, &'a Handle)| {
        let (spec, feed, address) = supplied(spec.clone(), supplies.next());
        Setup {
            spec,
            feed,
            address: address.unwrap_or_else(|| plan.address.clone()),
            sources: &plan.sources,
            tls: plan.tls.as_ref(),
            streams: config.http2,
            idle: config.idle,
            control,
            handle,
            pool,
            messages: messages.clone(),
        }
    };
    plan.specs.iter().zip(handles).map(setup).collect()
}

/// What a worker is to do with what it is supplied with.
fn supplied(spec: Spec, supply: Option<Supply>) -> (Spec, Option<Box<dyn Feed>>, Option<Address>) {
    match supply {
        None => (spec, None, None),
        Some(Supply { requests: Requests::Each(feed), address }) => (spec, Some(feed), address),
        Some(Supply { requests: Requests::Same(request), address }) => {
            let head = request.starts_with(b"HEAD ");
            (Spec { request, head, ..spec }, None, address)
        }
    }
}

struct Conductor<'a> {
    config: &'a Config,
    control: &'a Control,
    handles: &'a [Handle],
    pool: &'a Pool,
    messages: Receiver<Message>,
    stop: &'a AtomicBool,
    events: &'a mut dyn FnMut(Event<'_>),
    gathered: Gathered,
    done: Vec<Report>,
    ready: usize,
}

impl Conductor<'_> {
    fn conduct(mut self, address: &Address) -> Result<Measured, LoadError> {
        let measured = self.phases(address);
        if measured.is_err() {
            (self.events)(Event::Failed);
        }
        // Whatever happened, no worker may be left running: their scope waits for them.
        self.dismiss();
        measured
    }

    fn phases(&mut self, address: &Address) -> Result<Measured, LoadError> {
        self.await_connections(address)?;
        let steady = self.warm_up()?;
        self.window(steady)
    }

    /// Ends every worker at once.
    fn dismiss(&self) {
        self.control.set_window(Span { start_ns: 0, end_ns: 0 });
        self.handles.iter().for_each(Handle::wake);
    }

    fn wake_all(&self) {
        self.handles.iter().for_each(Handle::wake);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Listens to the workers until `until` or until `over` says so; false if stopped before.
    fn listen(&mut self, until_ns: u64, over: fn(&Self) -> bool) -> Result<bool, LoadError> {
        loop {
            let now = now_ns();
            if now >= until_ns || over(self) {
                return Ok(true);
            }
            if self.stopped() {
                return Ok(false);
            }
            let wait = Duration::from_nanos((until_ns - now).min(STOP_CHECK_NS));
            match self.messages.recv_timeout(wait) {
                Ok(message) => self.take(message)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(true),
            }
        }
    }

    fn take(&mut self, message: Message) -> Result<(), LoadError> {
        match message {
            Message::Ready => self.ready += 1,
            Message::Second(second) => {
                if let Some((index, second, response)) = self.gathered.second(second, self.pool) {
                    (self.events)(Event::Second { index, second, response: &response });
                    self.pool.give(response);
                }
            }
            Message::Done(report) => self.done.push(*report),
            Message::Failed(LoadError::Feed { error, after }) => {
                let after = after || self.sum(|told| &told.completed) > 0;
                return Err(LoadError::Feed { error, after });
            }
            Message::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn await_connections(&mut self, address: &Address) -> Result<(), LoadError> {
        self.listen(now_ns() + CONNECT_NS, |this| this.ready == this.handles.len())?;
        let established = self.sum(|told| &told.established);
        if established == 0 && !self.stopped() {
            return Err(self.refusal(address));
        }
        let requested = u64::from(self.config.connections);
        (self.events)(Event::Connected { established, requested });
        Ok(())
    }

    /// Loads until the caller's policy is content; says whether it was.
    fn warm_up(&mut self) -> Result<bool, LoadError> {
        let (min_ns, max_ns) = (as_ns(self.config.warmup.min), as_ns(self.config.warmup.max));
        if max_ns == 0 {
            return Ok(true);
        }
        let begin_ns = now_ns() + LEAD_NS;
        self.control.warm_up_at(begin_ns);
        self.wake_all();
        let (mut seconds, mut completed_before) = (Vec::new(), 0);
        loop {
            let next_ns = begin_ns + ((seconds.len() as u64 + 1) * SECOND_NS).min(max_ns);
            if !self.listen(next_ns, |_| false)? {
                return Ok(false);
            }
            let completed = self.sum(|told| &told.completed);
            seconds.push(completed - completed_before);
            (self.events)(Event::WarmupSecond { completed: completed - completed_before });
            completed_before = completed;
            let lasted_ns = next_ns - begin_ns;
            let steady = lasted_ns >= min_ns && (self.config.warmup.steady)(&seconds);
            if steady || lasted_ns >= max_ns {
                return Ok(steady);
            }
        }
    }

    fn sum(&self, of: fn(&Told) -> &AtomicU64) -> u64 {
        self.handles.iter().map(|handle| of(&handle.told).load(Ordering::Relaxed)).sum()
    }

    /// Why nothing could be opened, in the words of the first worker that knows.
    fn refusal(&mut self, address: &Address) -> LoadError {
        self.dismiss();
        let why = match self.hand_over() {
            Ok(()) => self.done.iter_mut().find_map(|report| report.connect_error.take()),
            Err(error) => return error,
        };
        let address = address.to_string();
        match why {
            Some(Refusal::Tls(why)) => LoadError::Tls { address, why, after: false },
            Some(Refusal::System(error)) => LoadError::Connect { address, why: error.to_string() },
            None => LoadError::Connect { address, why: "no answer".to_owned() },
        }
    }

    /// The window: soon, or when all shards begin theirs. Whoever is stopped while it waits, which is told, has one that ends
    /// as it begins.
    fn await_start(&mut self) -> Result<(Span, bool), LoadError> {
        if let Some(start) = self.config.start_at {
            let left = start.duration_since(SystemTime::now()).unwrap_or_default();
            let start_ns = now_ns() + as_ns(left);
            if !self.listen(start_ns.saturating_sub(LEAD_NS), |_| false)? {
                let now = now_ns();
                return Ok((Span { start_ns: now, end_ns: now }, true));
            }
            return Ok((self.lasting(start_ns.max(now_ns())), false));
        }
        Ok((self.lasting(now_ns() + LEAD_NS), false))
    }

    fn lasting(&self, start_ns: u64) -> Span {
        Span { start_ns, end_ns: start_ns + as_ns(self.config.window) }
    }

    fn window(&mut self, steady: bool) -> Result<Measured, LoadError> {
        let (span, stopped) = self.await_start()?;
        // Without a warm-up, the workers go from ready to the window.
        self.control.set_window(span);
        self.wake_all();
        let begun = self.listen(span.start_ns, |_| false)? && !stopped;
        (self.events)(Event::WindowStart { steady, at_ns: span.start_ns });
        let ticks = Ticks::read();
        let whole = begun && self.listen(span.end_ns, |this| this.done.len() == this.handles.len())?;
        let end_ns = now_ns().min(span.end_ns);
        (self.events)(Event::WindowEnd { at_ns: end_ns });
        let user_share = Ticks::read().user_share_since(ticks);
        if !whole {
            self.control.end_at(end_ns.max(span.start_ns));
            self.wake_all();
        }
        self.hand_over()?;
        while let Some((index, second, response)) = self.gathered.next_rest() {
            (self.events)(Event::Second { index, second, response: &response });
        }
        let reports = std::mem::take(&mut self.done);
        let end_ns = reports.iter().map(|report| report.ended_ns).max().unwrap_or(end_ns);
        let span = Span { start_ns: span.start_ns, end_ns };
        let measured = std::mem::take(&mut self.gathered).finish(span, reports, user_share, !whole, steady);
        let cpus = std::thread::available_parallelism().ok().map(|cpus| cpus.get() as f64);
        Ok(Measured { cpus, ..measured })
    }

    /// Waits for the last word of every worker.
    fn hand_over(&mut self) -> Result<(), LoadError> {
        let until_ns = now_ns() + HANDOVER_NS;
        while self.done.len() < self.handles.len() {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match self.messages.recv_timeout(left) {
                Ok(message) => self.take(message)?,
                Err(_) => {
                    let source = std::io::ErrorKind::TimedOut.into();
                    return Err(LoadError::System { what: "let a worker end", source });
                }
            }
        }
        Ok(())
    }
}
