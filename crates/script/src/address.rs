use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use mlua::{Error, FromLua, Lua, MetaMethod, UserData, UserDataMethods, Value};

/// How long `wrk.connect` tries.
const CONNECT: Duration = Duration::from_secs(2);

/// An address as a script holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addr(pub(crate) SocketAddr);

impl UserData for Addr {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, addr, ()| {
            Ok(format!("{}:{}", addr.0.ip(), addr.0.port()))
        });
    }
}

impl FromLua for Addr {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<Self> {
        match &value {
            Value::UserData(data) => Ok(*data.borrow::<Self>()?),
            other => Err(wrong(other)),
        }
    }
}

fn wrong(value: &Value) -> Error {
    Error::runtime(format!("an address of wrk.lookup is wanted here, not a {}", value.type_name()))
}

/// `wrk.lookup(host, service)`: the addresses of a host, service being a port or the name of one.
pub(crate) fn lookup(_: &Lua, (host, service): (String, String)) -> mlua::Result<Vec<Addr>> {
    let port = match service.as_str() {
        "http" => Ok(80),
        "https" => Ok(443),
        number => number.parse().map_err(|_| {
            Error::runtime(format!("'{service}' is not a service: write a port, \"http\" or \"https\""))
        }),
    }?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = (bare, port)
        .to_socket_addrs()
        .map_err(|error| Error::runtime(format!("the host '{host}' has no address ({error})")))?;
    Ok(found.map(Addr).collect())
}

/// `wrk.connect(addr)`: whether it accepts a connection.
pub(crate) fn connect(_: &Lua, addr: Addr) -> mlua::Result<bool> {
    Ok(TcpStream::connect_timeout(&addr.0, CONNECT).is_ok())
}
