//! The tests of the TechEmpower Framework Benchmarks: `techempower DATABASE_URL [ADDRESS [WORKERS]]`.
//!
//! | request | what |
//! |---|---|
//! | `GET /json` | an object of one text, serialised for each request |
//! | `GET /plaintext` | `Hello, World!` |
//! | `GET /db` | one row of 10 000, by a random number |
//! | `GET /queries?queries=N` | N of them, 1 to 500, each by a query of its own |
//! | `GET /fortunes` | all fortunes and one more, sorted, as a page of HTML |
//! | `GET /updates?queries=N` | N rows, read and given a new random number each |
//! | `GET /cached-queries?count=N` | N rows out of this process's memory |
//!
//! The database is made by `targets/common/techempower/seed.sql`; `-` stands for none, which is enough for the first two.

use serde::Serialize;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;
use straightline::kit::json;
use straightline::kit::postgres::{Client, Config, Error as DatabaseError, Pool, Query, Row, Shared};
use straightline::{Done, FieldLine, Request, Response, Running, Server};

/// Rows of the table of worlds, numbered from 1.
const WORLDS: u32 = 10_000;
/// Most rows that one request may ask for.
const ROWS_MAX: usize = 500;
/// Most statements that the database is sent in one go.
const PIPELINE: usize = 250;

const SERVER: FieldLine = FieldLine::new("Server: whyslow");
const PLAIN: FieldLine = FieldLine::new("Content-Type: text/plain");
const HTML: FieldLine = FieldLine::new("Content-Type: text/html; charset=utf-8");

const ONE_WORLD: &str = "select id, randomnumber from world where id = $1";
const ALL_WORLDS: &str = "select id, randomnumber from world";
const FORTUNES: &str = "select id, message from fortune";
const UPDATE: &str = "update world set randomnumber = new.number \
    from unnest($1::int[], $2::int[]) as new (id, number) where world.id = new.id";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("techempower DATABASE_URL [ADDRESS [WORKERS]]")?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let server = Server::bind(address.as_str())?.workers(workers).on_signals(Duration::from_secs(1));
    let database = if url == "-" { None } else { Some(url.parse()?) };
    start(server, database)?.join();
    Ok(())
}

/// Begins to serve.
pub(crate) fn start(server: Server, database: Option<Config>) -> Result<Running, Box<dyn std::error::Error>> {
    let database = database.map(Database::open).transpose()?;
    Ok(server.spawn(move |request, response| {
        let response = response.field(SERVER)?;
        match (request.path(), &database) {
            ("/plaintext", _) => response.field(PLAIN)?.send(b"Hello, World!"),
            ("/json", _) => json::send(response, &Greeting { message: "Hello, World!" }),
            (path, Some(database)) => database.answer(path, request, response),
            _ => response.status(404).send(b""),
        }
    })?)
}

#[derive(Serialize)]
struct Greeting {
    message: &'static str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct World {
    id: i32,
    random_number: i32,
}

impl World {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        Ok(Self { id: row.get(0)?, random_number: row.get(1)? })
    }
}

struct Database {
    pool: Pool,
    /// All worlds, for the test of caches.
    cache: HashMap<i32, World>,
}

impl Database {
    fn open(config: Config) -> Result<Self, DatabaseError> {
        let mut cache = HashMap::new();
        Client::connect(config.clone())?.query_each(ALL_WORLDS, &[], |row| {
            let world = World::of(&row)?;
            cache.insert(world.id, world);
            Ok(())
        })?;
        Ok(Self { pool: Pool::new(config), cache })
    }

    fn answer<'a>(&self, path: &str, request: &Request<'a>, response: Response<'a>) -> io::Result<Done> {
        match path {
            "/db" => json::send(response, &self.world()?),
            "/queries" => json::send(response, &worlds(self.pool.shared(), rows(request, "queries"))?),
            "/updates" => json::send(response, &self.update(rows(request, "queries"))?),
            "/cached-queries" => json::send(response, &self.cached(rows(request, "count"))),
            "/fortunes" => response.field(HTML)?.send(self.fortunes()?.as_bytes()),
            _ => response.status(404).send(b""),
        }
    }

    fn world(&self) -> Result<World, DatabaseError> {
        World::of(&self.pool.shared().query_one(ONE_WORLD, &[&random()])?)
    }

    /// Gives `count` worlds a new number each.
    fn update(&self, count: usize) -> Result<Vec<World>, DatabaseError> {
        let database = self.pool.shared();
        let mut worlds = worlds(database, count)?;
        // Whoever writes the same rows locks them in the same order.
        worlds.sort_unstable_by_key(|world| world.id);
        let mut before = None;
        for world in &mut worlds {
            // One that was drawn twice is written once.
            world.random_number = match before {
                Some(World { id, random_number }) if id == world.id => random_number,
                _ => random(),
            };
            before = Some(*world);
        }
        let ids: Vec<i32> = worlds.iter().map(|world| world.id).collect();
        let numbers: Vec<i32> = worlds.iter().map(|world| world.random_number).collect();
        database.execute(UPDATE, &[&ids, &numbers])?;
        Ok(worlds)
    }

    fn cached(&self, count: usize) -> Vec<World> {
        (0..count).filter_map(|_| self.cache.get(&random()).copied()).collect()
    }

    fn fortunes(&self) -> Result<String, DatabaseError> {
        let rows = self.pool.shared().query(FORTUNES, &[])?;
        let mut fortunes = rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?)));
        let mut fortunes = fortunes.by_ref().collect::<Result<Vec<(i32, &str)>, DatabaseError>>()?;
        fortunes.push((0, "Additional fortune added at request time."));
        fortunes.sort_unstable_by_key(|(_, message)| *message);
        Ok(page(&fortunes))
    }
}

/// As many worlds, each by a query of its own; they are sent together, and then their answers are read.
fn worlds(database: Shared<'_>, count: usize) -> Result<Vec<World>, DatabaseError> {
    let ids: Vec<i32> = (0..count).map(|_| random()).collect();
    let mut worlds = Vec::with_capacity(count);
    for ids in ids.chunks(PIPELINE) {
        let parameters: Vec<[&(dyn straightline::kit::postgres::types::ToSql + Sync); 1]> =
            ids.iter().map(|id| [id as _]).collect();
        let queries: Vec<Query<'_>> =
            parameters.iter().map(|parameters| Query { sql: ONE_WORLD, parameters }).collect();
        for answer in database.pipeline(&queries)? {
            let rows = answer?.rows;
            worlds.push(World::of(rows.first().ok_or(DatabaseError::RowCount(0))?)?);
        }
    }
    Ok(worlds)
}

/// How many rows are asked for: 1 where that is no number, and never more than [`ROWS_MAX`].
fn rows(request: &Request<'_>, name: &str) -> usize {
    let mut pairs = request.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok());
    value.unwrap_or(1).clamp(1, ROWS_MAX)
}

/// A number of a world, by a generator of this thread's own (xorshift, Marsaglia 2003).
fn random() -> i32 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(()) | 1);
    }
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.set(state);
    let number = ((state >> 32) * u64::from(WORLDS)) >> 32;
    i32::try_from(number).unwrap_or(0) + 1
}

fn page(fortunes: &[(i32, &str)]) -> String {
    let mut page = String::with_capacity(2048);
    page.push_str("<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>");
    page.push_str("<tr><th>id</th><th>message</th></tr>");
    for (id, message) in fortunes {
        page.push_str("<tr><td>");
        page.push_str(&id.to_string());
        page.push_str("</td><td>");
        escape(message, &mut page);
        page.push_str("</td></tr>");
    }
    page.push_str("</table></body></html>");
    page
}

/// Appends a text as HTML shows it.
fn escape(mut text: &str, page: &mut String) {
    while let Some(at) = text.find(['&', '<', '>', '"', '\'']) {
        page.push_str(&text[..at]);
        page.push_str(match text.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        text = &text[at + 1..];
    }
    page.push_str(text);
}
