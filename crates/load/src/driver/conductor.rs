//! The calling thread's part: it sets the phases, tells the events, and gathers what the workers counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use super::Event;
use super::clock::{SECOND_NS, as_ns, now_ns};
use super::control::{Control, Handle, Order, Progress};
use super::cpu::Ticks;
use super::link::Refusal;
use super::prepare::Plan;
use super::worker::{Message, Report, Setup, work};
use crate::histogram::Pool;
use crate::session::{Feed, Span, Spec};
use crate::summary::{Gathered, Measured};
use crate::{Address, Config, LoadError, Requests, Supply};

/// How long before an edge the workers get the order: several times what waking them takes.
const LEAD_NS: u64 = 2_000_000;
/// The same before a turn, of which there are many: a worker that wakes later begins late, and the other turns outvote it.
const TURN_LEAD_NS: u64 = 500_000;
/// How often the stop flag is looked at: soon for a person, seldom for a core that is shared with a worker.
const STOP_CHECK_NS: u64 = 50_000_000;
/// How long the first attempts to connect may take altogether.
const CONNECT_NS: u64 = 30 * SECOND_NS;
/// How long after its end workers may take to hand over: counting out a long backlog of unsent arrivals.
const HANDOVER_NS: u64 = 60 * SECOND_NS;

/// The workers of one endpoint, with their orders and reports.
pub(crate) struct Crew {
    config: Config,
    plan: Plan,
    control: Control,
    handles: Vec<Handle>,
    pool: Pool,
}

impl Crew {
    fn new(config: Config, plan: Plan, control: Control) -> Result<Self, LoadError> {
        let handles = plan.specs.iter().map(|_| Handle::new()).collect::<Result<Vec<_>, _>>()?;
        // One that each worker fills next, beside those that it has: what it gave away comes back within its next second.
        let pool = Pool::new(plan.specs.len());
        Ok(Self { config, plan, control, handles, pool })
    }

    /// One that loads a single window, as it is made for.
    pub(crate) fn of_window(config: &Config, plan: Plan) -> Result<Self, LoadError> {
        Self::new(config.clone(), plan, Control::new())
    }

    /// One that waits for turns.
    pub(crate) fn of_turns(config: Config, plan: Plan) -> Result<Self, LoadError> {
        Self::new(config, plan, Control::waiting())
    }
}

/// Loads one window.
pub(crate) fn conduct(
    crew: Crew,
    supplies: Vec<Supply>,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event<'_>),
) -> Result<Measured, LoadError> {
    lead(&[crew], vec![supplies], stop, events, |conductor| conductor.phases())
}

/// Starts the workers of all crews, lets `work` lead them, and ends them whatever came of that.
pub(crate) fn lead<T>(
    crews: &[Crew],
    supplies: Vec<Vec<Supply>>,
    stop: &AtomicBool,
    events: &mut dyn FnMut(Event<'_>),
    work: impl FnOnce(&mut Conductor<'_>) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    let (sender, messages) = channel();
    std::thread::scope(|scope| {
        let mut conductor = Conductor {
            crews,
            crew: 0,
            messages,
            stop,
            events,
            gathered: Gathered::new(crews[0].handles.len()),
            done: Vec::new(),
            ready: vec![0; crews.len()],
        };
        for (index, (crew, supplies)) in crews.iter().zip(supplies).enumerate() {
            for setup in setups(index, crew, supplies, sender.clone()) {
                let name = "load".to_owned();
                let spawned =
                    std::thread::Builder::new().name(name).spawn_scoped(scope, || self::work(setup));
                if let Err(source) = spawned {
                    conductor.dismiss();
                    return Err(LoadError::System { what: "start a thread", source });
                }
            }
        }
        drop(sender);
        let worked = work(&mut conductor);
        if worked.is_err() {
            (conductor.events)(Event::Failed);
        }
        // Whatever happened, no worker may be left running: their scope waits for them.
        conductor.dismiss();
        worked
    })
}

fn setups(
    index: usize,
    crew: &Crew,
    supplies: Vec<Supply>,
    messages: Sender<(usize, Message)>,
) -> Vec<Setup<'_>> {
    let Crew { config, plan, control, handles, pool } = crew;
    let mut supplies = supplies.into_iter();
    let setup = |(spec, handle)| {
        let (spec, feed, address) = supplied(Spec::clone(spec), supplies.next());
        Setup {
            spec,
            feed,
            address: address.unwrap_or_else(|| plan.address.clone()),
            sources: &plan.sources,
            tls: plan.tls.as_ref(),
            spoken: plan.spoken.clone(),
            idle: config.idle,
            control,
            handle,
            pool,
            crew: index,
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

/// Whoever tells the workers when.
pub(crate) struct Conductor<'a> {
    crews: &'a [Crew],
    /// The one that is loaded.
    crew: usize,
    messages: Receiver<(usize, Message)>,
    stop: &'a AtomicBool,
    events: &'a mut dyn FnMut(Event<'_>),
    gathered: Gathered,
    done: Vec<Report>,
    /// Workers of each crew that have tried all their connections.
    ready: Vec<usize>,
}

/// What one turn brought.
pub(crate) struct Taken {
    pub(crate) measured: Measured,
    /// When nothing was in flight any more.
    pub(crate) quiet_ns: u64,
}

impl<'a> Conductor<'a> {
    fn crew(&self) -> &'a Crew {
        &self.crews[self.crew]
    }

    fn handles(&self) -> &'a [Handle] {
        &self.crew().handles
    }

    fn phases(&mut self) -> Result<Measured, LoadError> {
        self.await_connections()?;
        let steady = self.warm_up()?;
        self.window(steady)
    }

    /// Waits until every crew has tried all its connections; how many each has open.
    pub(crate) fn await_all(&mut self) -> Result<Vec<u64>, LoadError> {
        let mut established = Vec::new();
        for crew in 0..self.crews.len() {
            self.crew = crew;
            self.await_connections()?;
            established.push(self.sum(|progress| &progress.established));
        }
        Ok(established)
    }

    /// One turn of one crew, from quiet to quiet.
    pub(crate) fn turn(
        &mut self,
        crew: usize,
        order: Order,
        begin_ns: Option<u64>,
        length_ns: u64,
    ) -> Result<Taken, LoadError> {
        self.crew = crew;
        self.gathered = Gathered::new(self.handles().len());
        let start_ns = begin_ns.unwrap_or_default().max(now_ns() + TURN_LEAD_NS);
        let span = Span { start_ns, end_ns: start_ns + length_ns };
        let last_ns = span.end_ns + order.drain_ns;
        self.crew().control.begin(order, span);
        self.wake_all();
        let ticks = Ticks::read();
        let whole = self.listen(last_ns, Self::is_done)?;
        if !whole {
            self.crew().control.end_at(now_ns().max(span.start_ns));
            self.wake_all();
        }
        self.hand_over()?;
        let user_share = Ticks::read().user_share_since(ticks);
        while self.gathered.next_rest().is_some() {}
        let reports = std::mem::take(&mut self.done);
        let quiet_ns = reports.iter().map(|report| report.ended_ns).max().unwrap_or(span.end_ns);
        // One that sent all it was to send has ended early.
        let span = Span { end_ns: quiet_ns.min(span.end_ns), ..span };
        let gathered = std::mem::take(&mut self.gathered);
        Ok(Taken { measured: gathered.finish(span, reports, user_share, !whole, true), quiet_ns })
    }

    fn is_done(&self) -> bool {
        self.done.len() == self.handles().len()
    }

    /// Ends every worker at once.
    fn dismiss(&self) {
        for crew in self.crews {
            crew.control.set_window(Span { start_ns: 0, end_ns: 0 });
            crew.control.end();
            crew.handles.iter().for_each(Handle::wake);
        }
    }

    fn wake_all(&self) {
        self.handles().iter().for_each(Handle::wake);
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
                Ok((crew, message)) => self.take(crew, message)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(true),
            }
        }
    }

    fn take(&mut self, crew: usize, message: Message) -> Result<(), LoadError> {
        match message {
            Message::Ready => self.ready[crew] += 1,
            Message::Second(second) => {
                if let Some((index, second, response)) = self.gathered.second(second, &self.crews[crew].pool)
                {
                    (self.events)(Event::Second { index, second, response: &response });
                    self.gathered.give_back(response);
                }
            }
            Message::Done(report) => self.done.push(*report),
            Message::Failed(LoadError::Feed { error, after }) => {
                let after = after || self.sum(|progress| &progress.completed) > 0;
                return Err(LoadError::Feed { error, after });
            }
            Message::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn await_connections(&mut self) -> Result<(), LoadError> {
        self.listen(now_ns() + CONNECT_NS, |this| this.ready[this.crew] == this.handles().len())?;
        let established = self.sum(|progress| &progress.established);
        if self.sum(|progress| &progress.opened) == 0 && !self.stopped() {
            return Err(self.refusal());
        }
        let requested = u64::from(self.crew().config.connections);
        (self.events)(Event::Connected { established, requested });
        Ok(())
    }

    /// Loads until the caller's policy is content; says whether it was.
    fn warm_up(&mut self) -> Result<bool, LoadError> {
        let (min_ns, max_ns) = (as_ns(self.crew().config.warmup.min), as_ns(self.crew().config.warmup.max));
        if max_ns == 0 {
            return Ok(true);
        }
        let begin_ns = now_ns() + LEAD_NS;
        self.crew().control.warm_up_at(begin_ns);
        self.wake_all();
        let (mut seconds, mut completed_before) = (Vec::new(), 0);
        loop {
            let next_ns = begin_ns + ((seconds.len() as u64 + 1) * SECOND_NS).min(max_ns);
            if !self.listen(next_ns, |_| false)? {
                return Ok(false);
            }
            let completed = self.sum(|progress| &progress.completed);
            seconds.push(completed - completed_before);
            (self.events)(Event::WarmupSecond { completed: completed - completed_before });
            completed_before = completed;
            let lasted_ns = next_ns - begin_ns;
            let steady = lasted_ns >= min_ns && (self.crew().config.warmup.steady)(&seconds);
            if steady || lasted_ns >= max_ns {
                return Ok(steady);
            }
        }
    }

    fn sum(&self, counter: fn(&Progress) -> &AtomicU64) -> u64 {
        self.handles().iter().map(|handle| counter(&handle.progress).load(Ordering::Relaxed)).sum()
    }

    /// Why nothing could be opened, in the words of the first worker that knows.
    fn refusal(&mut self) -> LoadError {
        self.crew().control.call_off();
        self.wake_all();
        let why = match self.hand_over() {
            Ok(()) => self.done.iter_mut().find_map(|report| report.connect_error.take()),
            Err(error) => return error,
        };
        let address = self.crew().plan.address.to_string();
        match why {
            Some(Refusal::Tls(why)) => LoadError::Tls { address, why, after: false },
            Some(Refusal::System(error)) => LoadError::Connect { address, why: error.to_string() },
            None => LoadError::Connect { address, why: "no answer".to_owned() },
        }
    }

    /// The window: soon, or when all shards begin theirs. Whoever is stopped while it waits, which is told, has one that ends
    /// as it begins.
    fn await_start(&mut self) -> Result<(Span, bool), LoadError> {
        if let Some(start) = self.crew().config.start_at.get() {
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
        Span { start_ns, end_ns: start_ns + as_ns(self.crew().config.window) }
    }

    fn window(&mut self, steady: bool) -> Result<Measured, LoadError> {
        let (span, stopped) = self.await_start()?;
        // Without a warm-up, the workers go from ready to the window.
        self.crew().control.set_window(span);
        self.wake_all();
        let begun = self.listen(span.start_ns, |_| false)? && !stopped;
        (self.events)(Event::WindowStart { steady, at_ns: span.start_ns });
        let ticks = Ticks::read();
        let whole = begun && self.listen(span.end_ns, Self::is_done)?;
        let end_ns = now_ns().min(span.end_ns);
        (self.events)(Event::WindowEnd { at_ns: end_ns });
        let user_share = Ticks::read().user_share_since(ticks);
        if !whole {
            self.crew().control.end_at(end_ns.max(span.start_ns));
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
        while !self.is_done() {
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            match self.messages.recv_timeout(left) {
                Ok((crew, message)) => self.take(crew, message)?,
                Err(_) => {
                    let source = std::io::ErrorKind::TimedOut.into();
                    return Err(LoadError::System { what: "let a worker end", source });
                }
            }
        }
        Ok(())
    }
}
