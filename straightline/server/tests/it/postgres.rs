//! The client of PostgreSQL, against a real server and against some that are none.

pub(crate) mod cluster;
mod fake;
mod few;
mod pool;
mod shared;
mod tls;

use crate::support::PATIENCE;
use cluster::with_server;
use std::io::Write;
use std::time::{Duration, Instant};
use straightline::kit::postgres::{Client, Error, Parameters, Query};
use straightline::rt;

/// Does the same on a thread and in a coroutine.
fn twice(body: impl Fn() + Send + Sync + Clone + 'static) {
    body();
    rt::run(body).unwrap();
}

fn code(outcome: Result<impl Sized, Error>) -> String {
    let error = outcome.err().expect("it fails");
    error.code().unwrap_or_else(|| panic!("{error:?}")).to_owned()
}

#[test]
fn users_log_in_as_the_server_asks() {
    with_server(|server| {
        let (good, bad) = ("pass%20word", "password");
        for (user, takes_any) in [("trusted", true), ("by_md5", false), ("by_scram", false)] {
            let config = |word: &str| server.config(&format!("{user}:{word}"), "sslmode=disable");
            let (right, wrong) = (config(good), config(bad));
            let none = server.config(user, "sslmode=disable");
            twice(move || {
                let mut client = Client::connect(right.clone()).unwrap();
                let row = client.query_one("select current_user::text", &[]).unwrap();
                assert_eq!(row.get::<&str>(0).unwrap(), user);
                assert_eq!(Client::connect(wrong.clone()).is_ok(), takes_any);
                if !takes_any {
                    assert_eq!(code(Client::connect(wrong.clone())), "28P01");
                    assert!(matches!(Client::connect(none.clone()), Err(Error::Authentication(_))));
                }
            });
        }
        let outcome = Client::connect(server.config("stranger", "sslmode=disable"));
        assert!(matches!(outcome, Err(Error::Refused(_))), "{outcome:?}");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let nobody = format!("postgres://me@127.0.0.1:{port}/db").parse().unwrap();
        assert!(matches!(Client::connect(nobody), Err(Error::Connect(_))));
    });
}

#[test]
fn values_come_back_as_they_went() {
    with_server(|server| {
        let mut client = server.connect();
        client
            .batch(
                "create type mood as enum ('sad', 'fine'); create domain small as int check (value < 10);
                 create table v (b bool, i int, l bigint, d float8, t text, y bytea, a int[], m mood, s small, o text)",
            )
            .unwrap();
        let long = "é".repeat(500_000);
        let bytes: Vec<u8> = (0..=255).collect();
        let insert = "insert into v values ($1, $2, $3, $4, $5, $6, $7, $8::text::mood, $9, $10)";
        let (numbers, nothing) = (vec![1, 2, 3], None::<&str>);
        let values: Parameters<'_> =
            &[&true, &-7, &i64::MAX, &1.5, &long, &bytes, &numbers, &"fine", &9, &nothing];
        assert_eq!(client.execute(insert, values).unwrap(), 1);
        let row = client.query_one("select * from v", &[]).unwrap();
        assert_eq!((row.get::<bool>("b").unwrap(), row.get::<i32>("i").unwrap()), (true, -7));
        assert_eq!((row.get::<i64>("l").unwrap(), row.get::<f64>("d").unwrap()), (i64::MAX, 1.5));
        assert!(row.get::<&str>("t").unwrap() == long && row.get::<&[u8]>("y").unwrap() == bytes);
        assert_eq!(row.get::<Vec<i32>>("a").unwrap(), numbers);
        assert_eq!((row.get::<Option<&str>>("o").unwrap(), row.get::<i32>("s").unwrap()), (None, 9));
        let mood = row.columns().iter().find(|column| column.name() == "m").unwrap();
        assert_eq!(mood.kind().name(), "mood");
        // What does not fit is said, and the connection is as good as before.
        assert!(matches!(client.query("select $1::int", &[&"x"]), Err(Error::Parameter { index: 0, .. })));
        let count = client.query("select $1::int", &[]);
        assert!(matches!(count, Err(Error::ParameterCount { takes: 1, given: 0 })));
        assert_eq!(code(client.query("select 1/0", &[])), "22012");
        assert_eq!(code(client.query("selekt", &[])), "42601");
        assert_eq!(code(client.execute("insert into v (s) values ($1)", &[&10])), "23514");
        assert!(matches!(client.query_one("select 1 where false", &[]), Err(Error::RowCount(0))));
        assert!(matches!(client.query_one("values (1), (2)", &[]), Err(Error::RowCount(2))));
        assert_eq!(client.query_opt("values (1)", &[]).unwrap().unwrap().get::<i32>(0).unwrap(), 1);
        assert_eq!(client.query("", &[]).unwrap().len(), 0);
        for outcome in [client.execute("select 'a\0'", &[]).map(drop), client.batch("select 'a\0'")] {
            assert!(matches!(outcome, Err(Error::Unsendable(_))), "NUL: {outcome:?}");
        }
        let mut seen = 0;
        let each = client.query_each("select generate_series(1, 100000)", &[], |_| {
            seen += 1;
            if seen == 10 { Err(Error::RowCount(10)) } else { Ok(()) }
        });
        assert!(matches!(each, Err(Error::RowCount(10))) && seen == 10);
        assert_eq!(client.query("select 1", &[]).unwrap().len(), 1);
        client.batch("drop table v; drop type mood; drop domain small").unwrap();
    });
}

#[test]
fn statements_are_prepared_once_and_again_when_they_must() {
    with_server(|server| {
        let mut client = server.connect();
        let known = |client: &mut Client<'_>| {
            let row = client.query_one("select count(*) from pg_prepared_statements", &[]).unwrap();
            row.get::<i64>(0).unwrap()
        };
        for _ in 0..10 {
            client.query("select 'again'", &[]).unwrap();
        }
        assert_eq!(known(&mut client), 2);
        for number in 0..300 {
            client.query(&format!("select {number}"), &[]).unwrap();
        }
        assert_eq!(known(&mut client), 256);
        client.batch("create temporary table t (a int); insert into t values (1)").unwrap();
        assert_eq!(client.query_one("select * from t", &[]).unwrap().columns().len(), 1);
        client.batch("alter table t add b int default 2").unwrap();
        let row = client.query_one("select * from t", &[]).unwrap();
        assert_eq!(row.get::<i32>("b").unwrap(), 2, "the plan of the smaller table");
        client.batch("deallocate all").unwrap();
        assert_eq!(client.query("select * from t", &[]).unwrap().len(), 1, "the server forgot it");
    });
}

#[test]
fn transactions_end_well_or_not_at_all() {
    with_server(|server| {
        let config = server.config("trusted", "sslmode=disable");
        twice(move || {
            let mut client = Client::connect(config.clone()).unwrap();
            client.batch("create temporary table t (a int primary key)").unwrap();
            let count = |client: &mut Client<'_>| {
                client.query_one("select count(*) from t", &[]).unwrap().get::<i64>(0).unwrap()
            };
            let insert = "insert into t values ($1)";
            let mut dropped = client.transaction().unwrap();
            dropped.execute(insert, &[&1]).unwrap();
            assert_eq!(count(&mut dropped), 1);
            drop(dropped);
            assert!(!client.in_transaction() && count(&mut client) == 0);
            let mut kept = client.transaction().unwrap();
            kept.execute(insert, &[&1]).unwrap();
            let mut inner = kept.transaction().unwrap();
            inner.execute(insert, &[&2]).unwrap();
            assert_eq!(code(inner.execute(insert, &[&2])), "23505");
            drop(inner);
            let mut inner = kept.transaction().unwrap();
            inner.execute(insert, &[&3]).unwrap();
            inner.commit().unwrap();
            kept.commit().unwrap();
            assert_eq!(count(&mut client), 2);
            let mut failed = client.transaction().unwrap();
            failed.execute(insert, &[&4]).unwrap();
            failed.execute(insert, &[&4]).unwrap_err();
            assert!(matches!(failed.commit(), Err(Error::RolledBack)));
            let mut undone = client.transaction().unwrap();
            undone.execute(insert, &[&5]).unwrap();
            undone.rollback().unwrap();
            assert!(!client.in_transaction() && count(&mut client) == 2);
        });
    });
}

#[test]
fn a_pipeline_answers_each_statement_in_its_place() {
    with_server(|server| {
        let mut client = server.connect();
        let numbers: Vec<i32> = (0..200).collect();
        let values: Vec<[&(dyn straightline::kit::postgres::types::ToSql + Sync); 1]> =
            numbers.iter().map(|number| [number as _]).collect();
        let queries: Vec<Query<'_>> = values
            .iter()
            .map(|value| Query { sql: "select 100 / ($1::int - 50)", parameters: value })
            .collect();
        let answers = client.pipeline(&queries).unwrap();
        assert_eq!(answers.len(), 200);
        for (number, answer) in numbers.iter().zip(answers) {
            match answer {
                Ok(answer) => assert_eq!(answer.rows[0].get::<i32>(0).unwrap(), 100 / (number - 50)),
                Err(error) => assert!(*number == 50 && error.code() == Some("22012"), "{number}: {error}"),
            }
        }
        // Large both ways: neither side waits for the other.
        let large = "x".repeat(20_000);
        let query = Query { sql: "select repeat($1, 50)", parameters: &[&large] };
        let answers = client.pipeline(&[query; 40]).unwrap();
        let bytes: usize =
            answers.iter().map(|a| a.as_ref().unwrap().rows[0].get::<&str>(0).unwrap().len()).sum();
        assert_eq!(bytes, 40_000_000);
        let mixed = [
            Query { sql: "selekt", parameters: &[] },
            Query { sql: "select 1", parameters: &[&1] },
            Query { sql: "select 2", parameters: &[] },
        ];
        let answers = client.pipeline(&mixed).unwrap();
        let good: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(good, [false, false, true]);
        assert!(client.pipeline(&[mixed[2]; 257]).is_err());
        assert_eq!(client.query("select 1", &[]).unwrap().len(), 1);
    });
}

#[test]
fn rows_are_copied_in_whole_or_not_at_all() {
    with_server(|server| {
        let mut client = server.connect();
        client.batch("create temporary table t (a int, b text)").unwrap();
        let copy = "copy t from stdin";
        let mut rows = client.copy_in(copy).unwrap();
        for number in 0..50_000 {
            writeln!(rows, "{number}\trow {number}").unwrap();
        }
        assert_eq!(rows.finish().unwrap(), 50_000);
        let mut dropped = client.copy_in(copy).unwrap();
        dropped.write_all(b"1\tone\n").unwrap();
        drop(dropped);
        let mut bad = client.copy_in(copy).unwrap();
        bad.write_all(b"no number\tone\n").unwrap();
        assert_eq!(code(bad.finish()), "22P02");
        assert!(matches!(client.copy_in("select 1"), Err(Error::Unsupported(_))));
        assert_eq!(code(client.copy_in("selekt")), "42601");
        assert!(matches!(client.execute(copy, &[]), Err(Error::Unsupported(_))));
        assert!(matches!(client.batch(copy), Err(Error::Unsupported(_))));
        let outcome = client.execute("copy t to stdout", &[]);
        assert!(matches!(outcome, Err(Error::Unsupported(_))), "{outcome:?}");
        let row = client.query_one("select count(*) from t", &[]).unwrap();
        assert_eq!(row.get::<i64>(0).unwrap(), 50_000);
    });
}

#[test]
fn a_coroutine_that_is_cancelled_takes_its_statement_along() {
    with_server(|server| {
        let config = server.config("trusted", "sslmode=disable");
        rt::run(move || {
            let mut other = Client::connect(config.clone()).unwrap();
            let mut runs = move || {
                let sql = "select count(*) from pg_stat_activity where state = 'active' and query like '%taken_along()%' \
                    and pid <> pg_backend_pid()";
                other.query_one(sql, &[]).unwrap().get::<i64>(0).unwrap() > 0
            };
            let asks = rt::spawn(move || {
                let mut client = Client::connect(config)?;
                client.query("select pg_sleep(30)::text /* taken_along() */", &[])
            });
            let mut until = |wanted: bool| {
                let start = Instant::now();
                while runs() != wanted {
                    assert!(start.elapsed() < PATIENCE, "it should run: {wanted}");
                    rt::sleep(Duration::from_millis(10)).unwrap();
                }
            };
            until(true);
            asks.cancel();
            assert!(matches!(asks.join().unwrap(), Err(Error::Cancelled(_))));
            until(false);
        })
        .unwrap();
    });
}

#[test]
fn a_statement_that_takes_too_long_is_cancelled() {
    with_server(|server| {
        let config = server.config("trusted", "sslmode=disable");
        twice(move || {
            let mut client = Client::connect(config.clone()).unwrap();
            let pid = |client: &mut Client<'_>| {
                client.query_one("select pg_backend_pid()", &[]).unwrap().get::<i32>(0).unwrap()
            };
            let before = pid(&mut client);
            client.set_query_time(Some(Duration::from_millis(100)));
            let start = Instant::now();
            assert!(matches!(client.query("select pg_sleep(30)::text", &[]), Err(Error::Deadline)));
            assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
            client.set_query_time(Some(Duration::from_secs(10)));
            assert_eq!(pid(&mut client), before, "the connection goes on");
            let mut other = Client::connect(config.clone()).unwrap();
            let end = "select pg_terminate_backend(pg_backend_pid())";
            let outcome = other.query(end, &[]);
            assert!(matches!(outcome, Err(Error::Closed(Some(_)))), "{outcome:?}");
            assert_eq!(code(outcome), "57P01");
            assert!(other.is_broken());
        });
    });
}
