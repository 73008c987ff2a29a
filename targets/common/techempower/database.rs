//! TechEmpower's rows by tokio-postgres: one connection, on which all that use it are pipelined.

#[path = "../../../straightline/server/examples/techempower/rules.rs"]
mod rules;

use std::collections::HashMap;

use futures_util::future::try_join_all;
use rules::{ALL_WORLDS, FORTUNES, ONE_WORLD, UPDATE, page, random, renew};
pub(crate) use rules::{Greeting, World, rows};
use tokio_postgres::{Client, Error, NoTls, Row, Statement};

/// A world of a row.
fn world(row: &Row) -> World {
    World { id: row.get(0), random_number: row.get(1) }
}

pub(crate) struct Database {
    client: Client,
    one_world: Statement,
    fortunes: Statement,
    update: Statement,
    cache: HashMap<i32, World>,
}

impl Database {
    /// Connects and prepares; the connection is served by a task of its own.
    pub(crate) async fn open(url: &str) -> Result<Self, Error> {
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
            cache: rows.iter().map(world).map(|world| (world.id, world)).collect(),
            client,
        })
    }

    pub(crate) async fn world(&self) -> Result<World, Error> {
        Ok(world(&self.client.query_one(&self.one_world, &[&random()]).await?))
    }

    /// As many worlds, each by a query of its own, sent together.
    pub(crate) async fn worlds(&self, count: usize) -> Result<Vec<World>, Error> {
        try_join_all((0..count).map(|_| self.world())).await
    }

    /// Gives `count` worlds a new number each.
    pub(crate) async fn update(&self, count: usize) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(count).await?;
        let (ids, numbers) = renew(&mut worlds);
        self.client.execute(&self.update, &[&ids, &numbers]).await?;
        Ok(worlds)
    }

    pub(crate) fn cached(&self, count: usize) -> Vec<World> {
        (0..count).filter_map(|_| self.cache.get(&random()).copied()).collect()
    }

    /// The page of all fortunes and one more.
    pub(crate) async fn fortunes(&self) -> Result<String, Error> {
        let rows = self.client.query(&self.fortunes, &[]).await?;
        Ok(page(rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
    }
}
