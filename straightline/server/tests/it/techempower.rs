//! The example of TechEmpower's tests, held against their rules.

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../examples/techempower.rs"]
mod example;

use crate::postgres::cluster::with_server;
use crate::support::{Answer, Client};
use serde_json::Value;
use std::collections::HashMap;
use straightline::{Running, Server};

const SEED: &str = include_str!("../../../../targets/common/techempower/seed.sql");

/// What must come out of the twelve fortunes and the added one.
const FORTUNES: &str = concat!(
    "<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>",
    "<tr><td>11</td><td>&lt;script&gt;alert(&quot;This should not be displayed in a browser alert box.&quot;);&lt;/script&gt;",
    "</td></tr><tr><td>4</td><td>A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1</td></tr>",
    "<tr><td>5</td><td>A computer program does what you tell it to do, not what you want it to do.</td></tr>",
    "<tr><td>2</td><td>A computer scientist is someone who fixes things that aren&#39;t broken.</td></tr>",
    "<tr><td>8</td><td>A list is only as strong as its weakest link. — Donald Knuth</td></tr>",
    "<tr><td>0</td><td>Additional fortune added at request time.</td></tr>",
    "<tr><td>3</td><td>After enough decimal places, nobody gives a damn.</td></tr>",
    "<tr><td>7</td><td>Any program that runs right is obsolete.</td></tr>",
    "<tr><td>10</td><td>Computers make very fast, very accurate mistakes.</td></tr>",
    "<tr><td>6</td><td>Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen</td></tr>",
    "<tr><td>9</td><td>Feature: A bug with seniority.</td></tr>",
    "<tr><td>1</td><td>fortune: No such file or directory</td></tr>",
    "<tr><td>12</td><td>フレームワークのベンチマーク</td></tr></table></body></html>",
);

/// The example with a database of its own, and a client of that database.
fn with_example(name: &str, test: impl FnOnce(&Running, straightline::kit::postgres::Client<'static>)) {
    with_server(|server| {
        server.connect().batch(&format!("create database {name}")).unwrap();
        let config = server.config_of(name);
        let mut database = straightline::kit::postgres::Client::connect(config.clone()).unwrap();
        database.batch(SEED).unwrap();
        let listening = Server::bind("127.0.0.1:0").unwrap().workers(1);
        let running = example::start(listening, Some(config)).unwrap();
        test(&running, database);
    });
}

fn ask(client: &mut Client, target: &str) -> Answer {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let answer = client.response();
    assert_eq!(answer.status, 200, "{target}");
    for field in ["server", "date", "content-length"] {
        assert!(answer.header(field).is_some(), "{target} has no {field}");
    }
    answer
}

/// The worlds of an answer: number of the row, random number.
fn worlds(answer: &Answer) -> Vec<(i64, i64)> {
    let value: Value = serde_json::from_str(&answer.text()).unwrap();
    let one = |world: &Value| {
        assert_eq!(world.as_object().unwrap().len(), 2, "{world}");
        let pair = (world["id"].as_i64().unwrap(), world["randomNumber"].as_i64().unwrap());
        assert!((1..=10_000).contains(&pair.0) && (1..=10_000).contains(&pair.1), "{pair:?}");
        pair
    };
    assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
    match &value {
        Value::Array(worlds) => worlds.iter().map(one).collect(),
        world => vec![one(world)],
    }
}

#[test]
fn fixed_answers_need_no_database() {
    let running = example::start(Server::bind("127.0.0.1:0").unwrap().workers(1), None).unwrap();
    let mut client = Client::new(running.local_addr());
    for (target, kind, body) in [
        ("/plaintext", "text/plain", "Hello, World!"),
        ("/json", "application/json", r#"{"message":"Hello, World!"}"#),
    ] {
        let answer = ask(&mut client, target);
        assert_eq!(
            (answer.header("content-type").as_deref(), answer.text().as_str()),
            (Some(kind), body),
            "{target}"
        );
    }
    client.send(b"GET /db HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.response().status, 404);
}

#[test]
fn as_many_worlds_come_as_are_asked_for() {
    with_example("as_many_worlds_come_as_are_asked_for", |running, mut database| {
        let mut stored = HashMap::new();
        for row in database.query("select id::bigint, randomnumber::bigint from world", &[]).unwrap() {
            stored.insert(row.get::<i64>(0).unwrap(), row.get::<i64>(1).unwrap());
        }
        let mut client = Client::new(running.local_addr());
        for target in ["/db", "/queries?queries=", "/cached-queries?count="] {
            let counts = if target == "/db" { &[("", 1)][..] } else { &COUNTS };
            for (asked, count) in counts {
                let worlds = worlds(&ask(&mut client, &format!("{target}{asked}")));
                assert_eq!(worlds.len(), *count, "{target}{asked}");
                assert!(worlds.iter().all(|(id, number)| stored[id] == *number), "{target}{asked}");
            }
        }
        let one = ask(&mut client, "/db").text();
        assert!(one.starts_with('{'), "one world is no list: {one}");
        assert!(ask(&mut client, "/queries").text().starts_with('['), "a list of one is a list");
        let drawn: Vec<(i64, i64)> = worlds(&ask(&mut client, "/queries?queries=500"));
        let different: std::collections::HashSet<i64> = drawn.iter().map(|(id, _)| *id).collect();
        assert!(different.len() > 400, "rows are drawn at random: {}", different.len());
    });
}

/// What is asked for, and how many rows come for it.
const COUNTS: [(&str, usize); 7] =
    [("", 1), ("foo", 1), ("0", 1), ("-7", 1), ("20", 20), ("500", 500), ("501", 500)];

#[test]
fn updates_are_in_the_database_when_they_are_answered() {
    with_example("updates_are_in_the_database_when_they_are_answered", |running, mut database| {
        let mut client = Client::new(running.local_addr());
        for (asked, count) in COUNTS {
            let before = database.query_one("select sum(randomnumber)::bigint from world", &[]).unwrap();
            let worlds = worlds(&ask(&mut client, &format!("/updates?queries={asked}")));
            assert_eq!(worlds.len(), count, "{asked}");
            for (id, number) in &worlds {
                let row = database
                    .query_one("select randomnumber::bigint from world where id::bigint = $1", &[id])
                    .unwrap();
                assert_eq!(row.get::<i64>(0).unwrap(), *number, "row {id} of {count}");
            }
            let after = database.query_one("select sum(randomnumber)::bigint from world", &[]).unwrap();
            let sum = |row: straightline::kit::postgres::Row| row.get::<i64>(0).unwrap();
            assert!(count == 1 || sum(before) != sum(after), "numbers are new ones");
        }
    });
}

#[test]
fn fortunes_are_a_page_that_is_sorted_and_escaped() {
    with_example("fortunes_are_a_page_that_is_sorted_and_escaped", |running, _| {
        let answer = ask(&mut Client::new(running.local_addr()), "/fortunes");
        assert_eq!(answer.header("content-type").as_deref(), Some("text/html; charset=utf-8"));
        assert_eq!(answer.text(), FORTUNES);
    });
}
