//! hyper 0.10's requests and responses over may's sockets, a coroutine per connection. The HTTP
//! code is that of hyper-threads; only sockets and spawning are exchanged.

#[path = "../../hyper-threads/src/serve.rs"]
mod serve;
#[path = "../../common/target.rs"]
mod target;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use hyper::net::NetworkStream;
use may::net::{TcpListener, TcpStream};

/// In words of 8 bytes: what the published port used.
const STACK_WORDS: usize = 8 * 1024;

fn main() -> io::Result<()> {
    may::config()
        .set_workers(target::option("--workers", 1))
        .set_stack_size(target::option("--stack-words", STACK_WORDS));
    let nodelay = target::option("--nodelay", false);
    let timeouts = target::option("--timeouts", true);
    let listener = TcpListener::bind(target::address())?;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(nodelay)?;
        may::go!(move || serve::serve(Stream(stream), timeouts));
    }
}

/// A socket of may, as hyper 0.10 wants it.
struct Stream(TcpStream);

impl Clone for Stream {
    fn clone(&self) -> Self {
        Stream(self.0.try_clone().expect("a descriptor is free")) // hyper does the same for std
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.read(to)
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl NetworkStream for Stream {
    fn peer_addr(&mut self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    fn set_read_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(after)
    }

    fn set_write_timeout(&self, after: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(after)
    }

    fn close(&mut self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }
}
