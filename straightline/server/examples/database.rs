//! A database client that blocks, on helper threads: `database [FILE [ADDRESS]]`.
//!
//! `GET /KEY` reads a value, `PUT /KEY` writes one. The same works for any client that blocks its thread. A client
//! that takes a stream (`Read + Write`) can run on `rt::TcpStream` instead and needs no helper thread; for PostgreSQL
//! there is `kit::postgres`, in the example `service`.

use rusqlite::{Connection, OptionalExtension};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use straightline::{Done, Error, Request, Response, Running, Server, rt};

/// Longest value in bytes.
const VALUE_BYTES: u64 = 64 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| ":memory:".into());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let server = Server::bind(address.as_str())?.on_signals(Duration::from_secs(5));
    start(server, Connection::open(file)?)?.join();
    Ok(())
}

/// Begins to serve what is in `database`.
pub(crate) fn start(server: Server, database: Connection) -> Result<Running, Box<dyn std::error::Error>> {
    database.execute_batch("create table if not exists pairs (key text primary key, value text) strict")?;
    // Locked on helper threads only, where waiting holds up no shard.
    let database = Arc::new(Mutex::new(database));
    Ok(serve(server, database)?)
}

fn serve(server: Server, database: Arc<Mutex<Connection>>) -> Result<Running, Error> {
    server.spawn(move |request, response| match request.method() {
        "GET" => read(&database, request, response),
        "PUT" => write(&database, request, response),
        _ => response.status(405).header("allow", "GET, PUT")?.send(b""),
    })
}

/// Runs `query` on a helper thread.
fn on_thread<T: Send + 'static>(
    database: &Arc<Mutex<Connection>>,
    query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> io::Result<T> {
    let database = Arc::clone(database);
    rt::blocking(move || query(&database.lock().unwrap_or_else(PoisonError::into_inner)))?
        .map_err(io::Error::other)
}

fn read(
    database: &Arc<Mutex<Connection>>,
    request: &Request<'_>,
    response: Response<'_>,
) -> io::Result<Done> {
    let key = request.path().to_owned();
    let value: Option<String> = on_thread(database, move |database| {
        database.query_row("select value from pairs where key = ?1", [key], |row| row.get(0)).optional()
    })?;
    match value {
        Some(value) => response.header("content-type", "text/plain; charset=utf-8")?.send(value.as_bytes()),
        None => response.status(404).send(b""),
    }
}

fn write(
    database: &Arc<Mutex<Connection>>,
    request: &mut Request<'_>,
    response: Response<'_>,
) -> io::Result<Done> {
    request.limit_body(VALUE_BYTES)?;
    let (key, mut value) = (request.path().to_owned(), String::new());
    request.read_to_string(&mut value)?;
    on_thread(database, move |database| {
        database.execute("insert or replace into pairs values (?1, ?2)", [key, value])
    })?;
    response.status(204).send(b"")
}
