use std::sync::Arc;

use mlua::chunk::ChunkMode;
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, VmState};

use crate::script::Options;
use crate::{ScriptError, address};

/// Says that a script has run for long enough, and why; asked every few microseconds while one runs.
pub type Limit = Arc<dyn Fn() -> Option<&'static str> + Send + Sync>;

/// Instructions between two looks at the limit: about 100 µs.
const LOOK: u32 = 10_000;

/// What the prelude returns: how the host calls a script.
#[derive(Debug)]
pub(crate) struct Entries {
    pub(crate) request: Function,
    pub(crate) delay: Function,
    pub(crate) response: Function,
    pub(crate) done: Function,
    has: Function,
}

/// One Lua state with the script loaded.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) lua: Lua,
    pub(crate) entries: Entries,
    file: Arc<str>,
}

impl State {
    /// A new state in which the script has run once.
    pub(crate) fn new(options: &Options, limit: &Limit) -> Result<Self, ScriptError> {
        let failed = |error: mlua::Error| ScriptError::from_lua(&error, &options.file);
        let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::new()).map_err(failed)?;
        let entries = prelude(&lua).map_err(failed)?;
        describe(&lua, options).map_err(failed)?;
        watch(&lua, limit, LOOK).map_err(failed)?;
        let state = Self { lua, entries, file: options.file.as_str().into() };
        let source = without_first_comment(&options.source);
        let chunk = state.lua.load(source.as_slice()).set_name(format!("@{}", options.file));
        chunk.set_mode(ChunkMode::Text).exec().map_err(failed)?;
        Ok(state)
    }

    pub(crate) fn explain(&self) -> impl Fn(mlua::Error) -> ScriptError {
        let file = Arc::clone(&self.file);
        move |error| ScriptError::from_lua(&error, &file)
    }

    /// An error without a line.
    pub(crate) fn complain(&self, sentence: &str) -> ScriptError {
        ScriptError::in_file(&self.file, sentence)
    }

    /// Whether the script defines the global function `name` now.
    pub(crate) fn has(&self, name: &str) -> Result<bool, ScriptError> {
        self.entries.has.call(name).map_err(self.explain())
    }

    /// The table `wrk`, which a script may have replaced.
    pub(crate) fn wrk(&self) -> Result<Table, ScriptError> {
        self.lua.globals().get("wrk").map_err(self.explain())
    }
}

fn prelude(lua: &Lua) -> mlua::Result<Entries> {
    let host = lua.create_table()?;
    host.raw_set("lookup", lua.create_function(address::lookup)?)?;
    host.raw_set("connect", lua.create_function(address::connect)?)?;
    let entries: Table = lua.load(include_str!("prelude.lua")).set_name("=wrk").call(host)?;
    Ok(Entries {
        request: entries.raw_get("request")?,
        delay: entries.raw_get("delay")?,
        response: entries.raw_get("response")?,
        done: entries.raw_get("done")?,
        has: entries.raw_get("has")?,
    })
}

/// Sets the fields of `wrk` that come from the command line.
fn describe(lua: &Lua, options: &Options) -> mlua::Result<()> {
    let wrk: Table = lua.globals().get("wrk")?;
    wrk.raw_set("scheme", options.scheme.as_str())?;
    wrk.raw_set("host", options.host.as_str())?;
    wrk.raw_set("port", options.port.as_deref())?;
    wrk.raw_set("path", options.path.as_str())?;
    wrk.raw_set("method", options.method.as_str())?;
    if !options.body.is_empty() {
        wrk.raw_set("body", lua.create_string(&options.body)?)?;
    }
    let headers: Table = wrk.raw_get("headers")?;
    for (name, value) in &options.headers {
        headers.raw_set(name.as_str(), value.as_str())?;
    }
    Ok(())
}

/// Ends what runs in `lua` once the limit says so.
fn watch(lua: &Lua, limit: &Limit, every: u32) -> mlua::Result<()> {
    let own = Arc::clone(limit);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(every), move |lua, debug| {
        let Some(why) = own() else { return Ok(VmState::Continue) };
        // A script that catches this is stopped again at its next instruction.
        watch(lua, &own, 1)?;
        let place = match (debug.source().short_src, debug.current_line()) {
            (Some(file), Some(line)) => format!("{file}:{line}: "),
            _ => String::new(),
        };
        Err(mlua::Error::runtime(format!("{place}stopped while it ran: {why}")))
    })
}

/// The source with a first line `#!…` made a blank one.
fn without_first_comment(source: &[u8]) -> Vec<u8> {
    match source.first() {
        Some(b'#') => {
            source[source.iter().position(|byte| *byte == b'\n').unwrap_or(source.len())..].to_vec()
        }
        _ => source.to_vec(),
    }
}

/// What kind of value a script gave, in Lua's words.
pub(crate) fn kind(value: &Value) -> &'static str {
    if value.is_integer() { "number" } else { value.type_name() }
}
