use mlua::{Function, Lua, Table};

use crate::state::{Limit, State};
use crate::{ScriptError, Stats, Summary, Thread};

/// What a script is loaded with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Name of the script in messages.
    pub file: String,
    /// Its text.
    pub source: Vec<u8>,
    /// `wrk.scheme`.
    pub scheme: String,
    /// `wrk.host`, an IPv6 address without brackets.
    pub host: String,
    /// `wrk.port`; `None` where the URL has none.
    pub port: Option<String>,
    /// `wrk.path`, query included.
    pub path: String,
    /// `wrk.method`.
    pub method: String,
    /// `wrk.headers`.
    pub headers: Vec<(String, String)>,
    /// `wrk.body`; `nil` where it is empty.
    pub body: Vec<u8>,
    /// What `init` is given, from index 0: the URL and what follows it on the command line.
    pub args: Vec<String>,
    /// Whether hosts are looked up for `thread.addr`.
    pub resolve: bool,
}

/// What a script does, found out after `init` on the first thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// It has `request`: each request may differ.
    pub requests: bool,
    /// It has `delay`.
    pub delays: bool,
    /// It has `response`.
    pub listens: bool,
    /// Requests that one call of `request` returns.
    pub at_once: u32,
}

/// A script with the states of all its threads.
#[derive(Debug)]
pub struct Script {
    main: State,
    kind: Kind,
    /// The threads until they are taken.
    threads: Vec<Thread>,
    /// The states of the threads, so that `done` can look into them.
    _states: Vec<Lua>,
}

impl Script {
    /// Loads a script for `threads` threads: runs it in each state, then `setup` and `init`, and asks the first for a
    /// request once, which is not sent, as wrk does.
    ///
    /// # Errors
    /// What is wrong with the script.
    pub fn load(options: &Options, threads: u32, limit: &Limit) -> Result<Self, ScriptError> {
        let main = State::new(options, limit)?;
        if options.resolve {
            let service = options.port.as_deref().unwrap_or(&options.scheme);
            let resolve: Function = main.wrk()?.get("resolve").map_err(main.explain())?;
            resolve.call::<()>((options.host.as_str(), service)).map_err(main.explain())?;
        }
        let mut kind = None;
        let mut started = Vec::new();
        for _ in 0..threads {
            let thread = start(&main, options, limit)?;
            if kind.is_none() {
                kind = Some(inspect(&thread)?);
            }
            started.push(thread);
        }
        let kind = kind.unwrap_or(Kind { requests: false, delays: false, listens: false, at_once: 1 });
        let states = started.iter().map(|thread| thread.state.lua.clone()).collect();
        Ok(Self { main, kind, threads: started, _states: states })
    }

    /// What it does.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The threads, once.
    pub fn take_threads(&mut self) -> Vec<Thread> {
        std::mem::take(&mut self.threads)
    }

    /// Calls `done(summary, latency, requests)` if there is one; latencies in microseconds, rates per second.
    ///
    /// # Errors
    /// What the script did wrong.
    pub fn done(&self, summary: &Summary, latency: Stats, requests: Stats) -> Result<(), ScriptError> {
        if !self.main.has("done")? {
            return Ok(());
        }
        let summary = summary.table(&self.main.lua).map_err(self.main.explain())?;
        self.main.entries.done.call::<()>((summary, latency, requests)).map_err(self.main.explain())
    }
}

/// A new thread's state, after `setup` in the script's own state and `init` in the thread's.
fn start(main: &State, options: &Options, limit: &Limit) -> Result<Thread, ScriptError> {
    let thread = Thread::new(State::new(options, limit)?);
    let state = &thread.state;
    let wrk = state.wrk()?;
    wrk.set("thread", thread.handle()).map_err(state.explain())?;
    let setup: Function = main.wrk()?.get("setup").map_err(main.explain())?;
    setup.call::<()>(thread.handle()).map_err(main.explain())?;
    let init: Function = wrk.get("init").map_err(state.explain())?;
    init.call::<()>(args(state, options).map_err(state.explain())?).map_err(state.explain())?;
    Ok(thread)
}

fn args(state: &State, options: &Options) -> mlua::Result<Table> {
    let args = state.lua.create_table()?;
    for (index, word) in options.args.iter().enumerate() {
        args.raw_set(index, word.as_str())?;
    }
    Ok(args)
}

fn inspect(thread: &Thread) -> Result<Kind, ScriptError> {
    let mut at_once = 0;
    thread.request(|_| at_once += 1)?;
    Ok(Kind {
        requests: thread.state.has("request")?,
        delays: thread.state.has("delay")?,
        listens: thread.state.has("response")?,
        at_once,
    })
}
