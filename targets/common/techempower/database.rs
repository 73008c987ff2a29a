//! TechEmpower's rows by tokio-postgres: one connection, on which all that use it are pipelined.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

/// Rows of the table of worlds, numbered from 1.
const WORLDS: u32 = 10_000;
/// Most rows that one request may ask for.
const ROWS_MAX: usize = 500;

const ONE_WORLD: &str = "select id, randomnumber from world where id = $1";
const ALL_WORLDS: &str = "select id, randomnumber from world";
const FORTUNES: &str = "select id, message from fortune";
const UPDATE: &str = "update world set randomnumber = new.number \
    from unnest($1::int[], $2::int[]) as new (id, number) where world.id = new.id";

#[derive(Serialize)]
pub struct Greeting {
    pub message: &'static str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct World {
    id: i32,
    random_number: i32,
}

impl World {
    fn of(row: &Row) -> Self {
        Self { id: row.get(0), random_number: row.get(1) }
    }
}

pub struct Database {
    client: Client,
    one_world: Statement,
    fortunes: Statement,
    update: Statement,
    cache: HashMap<i32, World>,
}

impl Database {
    /// Connects and prepares; the connection is served by a task of its own.
    pub async fn open(url: &str) -> Result<Self, Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // It ends with the client, or shows in the client's next answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let rows = client.query(ALL_WORLDS, &[]).await?;
        Ok(Self {
            one_world: client.prepare(ONE_WORLD).await?,
            fortunes: client.prepare(FORTUNES).await?,
            update: client.prepare(UPDATE).await?,
            cache: rows.iter().map(World::of).map(|world| (world.id, world)).collect(),
            client,
        })
    }

    pub async fn world(&self) -> Result<World, Error> {
        Ok(World::of(&self.client.query_one(&self.one_world, &[&random()]).await?))
    }

    /// As many worlds, each by a query of its own, sent together.
    pub async fn worlds(&self, count: usize) -> Result<Vec<World>, Error> {
        try_join_all((0..count).map(|_| self.world())).await
    }

    /// Gives `count` worlds a new number each.
    pub async fn update(&self, count: usize) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(count).await?;
        // Whoever writes the same rows locks them in the same order; one that was drawn twice is written once.
        worlds.sort_unstable_by_key(|world| world.id);
        let mut before = None;
        for world in &mut worlds {
            world.random_number = match before {
                Some(World { id, random_number }) if id == world.id => random_number,
                _ => random(),
            };
            before = Some(*world);
        }
        let ids: Vec<i32> = worlds.iter().map(|world| world.id).collect();
        let numbers: Vec<i32> = worlds.iter().map(|world| world.random_number).collect();
        self.client.execute(&self.update, &[&ids, &numbers]).await?;
        Ok(worlds)
    }

    pub fn cached(&self, count: usize) -> Vec<World> {
        (0..count).filter_map(|_| self.cache.get(&random()).copied()).collect()
    }

    /// The page of all fortunes and one more.
    pub async fn fortunes(&self) -> Result<String, Error> {
        let rows = self.client.query(&self.fortunes, &[]).await?;
        let mut fortunes: Vec<(i32, &str)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        fortunes.push((0, "Additional fortune added at request time."));
        fortunes.sort_unstable_by_key(|(_, message)| *message);
        Ok(page(&fortunes))
    }
}

/// How many rows are asked for: 1 where that is no number, and never more than [`ROWS_MAX`].
pub fn rows(query: Option<&str>, name: &str) -> usize {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
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
