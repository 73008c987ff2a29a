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

#[path = "techempower/rules.rs"]
mod rules;

use rules::{ALL_WORLDS, FORTUNES, Greeting, ONE_WORLD, UPDATE, World, page, random, renew, rows};
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use straightline::kit::json;
use straightline::kit::postgres::{Client, Config, Error as DatabaseError, Pool, Query, Row, Shared};
use straightline::{Done, FieldLine, Request, Response, Running, Server};

/// Most statements that the database is sent in one go.
const PIPELINE: usize = 250;

const SERVER: FieldLine = FieldLine::new("Server: whyslow");
const PLAIN: FieldLine = FieldLine::new("Content-Type: text/plain");
const HTML: FieldLine = FieldLine::new("Content-Type: text/html; charset=utf-8");

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

/// A world of a row.
fn world(row: &Row) -> Result<World, DatabaseError> {
    Ok(World { id: row.get(0)?, random_number: row.get(1)? })
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
            let world = world(&row)?;
            cache.insert(world.id, world);
            Ok(())
        })?;
        Ok(Self { pool: Pool::new(config), cache })
    }

    fn answer<'a>(&self, path: &str, request: &Request<'a>, response: Response<'a>) -> io::Result<Done> {
        match path {
            "/db" => json::send(response, &self.world()?),
            "/queries" => {
                json::send(response, &worlds(self.pool.shared(), rows(request.query(), "queries"))?)
            }
            "/updates" => json::send(response, &self.update(rows(request.query(), "queries"))?),
            "/cached-queries" => json::send(response, &self.cached(rows(request.query(), "count"))),
            "/fortunes" => response.field(HTML)?.send(self.fortunes()?.as_bytes()),
            _ => response.status(404).send(b""),
        }
    }

    fn world(&self) -> Result<World, DatabaseError> {
        world(&self.pool.shared().query_one(ONE_WORLD, &[&random()])?)
    }

    /// Gives `count` worlds a new number each.
    fn update(&self, count: usize) -> Result<Vec<World>, DatabaseError> {
        let database = self.pool.shared();
        let mut worlds = worlds(database, count)?;
        let (ids, numbers) = renew(&mut worlds);
        database.execute(UPDATE, &[&ids, &numbers])?;
        Ok(worlds)
    }

    fn cached(&self, count: usize) -> Vec<World> {
        (0..count).filter_map(|_| self.cache.get(&random()).copied()).collect()
    }

    fn fortunes(&self) -> Result<String, DatabaseError> {
        let rows = self.pool.shared().query(FORTUNES, &[])?;
        let fortunes = rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?)));
        Ok(page(fortunes.collect::<Result<_, DatabaseError>>()?))
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
            worlds.push(world(rows.first().ok_or(DatabaseError::RowCount(0))?)?);
        }
    }
    Ok(worlds)
}
