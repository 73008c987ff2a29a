use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlua::{Error, Lua, LuaString, Table, UserData, UserDataFields, UserDataMethods, Value, WeakLua};

use crate::address::Addr;
use crate::copy::copy;
use crate::state::{State, kind};
use crate::{CutError, ScriptError, requests};

/// What the states of a script share of one load thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    addr: Mutex<Option<SocketAddr>>,
    stopped: AtomicBool,
}

impl Shared {
    fn addr(&self) -> Option<SocketAddr> {
        // The value is whole whoever panicked beside it.
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_addr(&self, addr: Option<SocketAddr>) {
        *self.addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
    }
}

/// A load thread as a script holds it: `setup`'s argument and `wrk.thread`.
#[derive(Clone)]
pub(crate) struct Handle {
    lua: WeakLua,
    shared: Arc<Shared>,
}

impl Handle {
    fn globals(&self) -> mlua::Result<(Lua, Table)> {
        let lua = self.lua.try_upgrade().ok_or_else(|| Error::runtime("the thread is gone"))?;
        let globals = lua.globals();
        Ok((lua, globals))
    }
}

impl UserData for Handle {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("addr", |_, thread| Ok(thread.shared.addr().map(Addr)));
        fields.add_field_method_set("addr", |_, thread, addr: Option<Addr>| {
            thread.shared.set_addr(addr.map(|addr| addr.0));
            Ok(())
        });
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |here, thread, name: LuaString| {
            let (lua, globals) = thread.globals()?;
            let value: Value = globals.raw_get(lua.create_string(name.as_bytes())?)?;
            copy(&value, here)
        });
        methods.add_method("set", |_, thread, (name, value): (LuaString, Value)| {
            let (lua, globals) = thread.globals()?;
            globals.raw_set(lua.create_string(name.as_bytes())?, copy(&value, &lua)?)
        });
        methods.add_method("stop", |_, thread, ()| {
            thread.shared.stopped.store(true, Ordering::Relaxed);
            Ok(())
        });
    }
}

/// One load thread's state. It is used on that thread alone.
#[derive(Debug)]
pub struct Thread {
    pub(crate) state: State,
    shared: Arc<Shared>,
    /// The fields of the last answer, a name or a value on each line.
    fields: Vec<u8>,
}

impl Thread {
    pub(crate) fn new(state: State) -> Self {
        Self { state, shared: Arc::default(), fields: Vec::new() }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { lua: self.state.lua.weak(), shared: Arc::clone(&self.shared) }
    }

    /// Where the script wants this thread to connect to.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.shared.addr()
    }

    /// Whether the script has stopped this thread.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Calls `request()` and gives `take` each request in what it returns.
    ///
    /// # Errors
    /// What the script did wrong.
    pub fn request(&self, mut take: impl FnMut(&[u8])) -> Result<(), ScriptError> {
        let value: Value = self.state.entries.request.call(()).map_err(self.state.explain())?;
        let text = match self.state.lua.coerce_string(value.clone()) {
            Ok(Some(text)) => text,
            _ => {
                let sentence = format!(
                    "request() returned a {}, not the text of a request: see wrk.format",
                    kind(&value)
                );
                return Err(self.state.complain(&sentence));
            }
        };
        for request in requests(&text.as_bytes()) {
            take(request.map_err(|error| self.not_a_request(error))?);
        }
        Ok(())
    }

    fn not_a_request(&self, error: CutError) -> ScriptError {
        self.state.complain(&format!("request() returned what is not a request: {error}"))
    }

    /// Calls `delay()`: how long a connection rests.
    ///
    /// # Errors
    /// What the script did wrong.
    pub fn delay(&self) -> Result<Duration, ScriptError> {
        let value: Value = self.state.entries.delay.call(()).map_err(self.state.explain())?;
        let number = self.state.lua.coerce_number(value.clone()).ok().flatten();
        let rest = number.map(|ms| Duration::try_from_secs_f64(ms.floor() / 1e3));
        rest.and_then(Result::ok).ok_or_else(|| {
            let sentence = format!("delay() returned a {}, not milliseconds from 0 on", kind(&value));
            self.state.complain(&sentence)
        })
    }

    /// Calls `response(status, headers, body)`; `head` begins with the status line.
    ///
    /// # Errors
    /// What the script did wrong.
    pub fn response(&mut self, status: u16, head: &[u8], body: &[u8]) -> Result<(), ScriptError> {
        self.fields.clear();
        for (name, value) in http1::response::headers(head) {
            for word in [name, value] {
                self.fields.extend_from_slice(word);
                self.fields.push(b'\n');
            }
        }
        let State { lua, entries, .. } = &self.state;
        let text = |bytes: &[u8]| lua.create_string(bytes);
        text(&self.fields)
            .and_then(|fields| entries.response.call::<()>((status, fields, text(body)?)))
            .map_err(self.state.explain())
    }
}
