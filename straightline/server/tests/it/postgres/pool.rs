//! Connections shared by handlers.

use super::cluster::with_server;
use crate::support::{Client as HttpClient, MODELS, Model, TestServer, until};
use bytes::BytesMut;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::kit::postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use straightline::kit::postgres::{Client, Error, Pool, PoolCounts};
use straightline::{StatusError, rt};

fn get(client: &mut HttpClient, path: &str) -> (u16, String) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let answer = client.response();
    (answer.status, answer.text())
}

#[test]
fn many_handlers_share_few_connections() {
    with_server(|server| {
        for model in MODELS {
            let pool = Pool::new(server.config("trusted", "sslmode=disable")).connections(3);
            let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (shared, counted) = (pool.clone(), Arc::clone(&most));
            let http = TestServer::of_model(model, move |request, response| {
                let mut database = shared.get_for(request)?;
                counted.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let row = database.query_one("select 'hi', pg_sleep(0.02)::text", &[]);
                now.fetch_sub(1, Ordering::SeqCst);
                response.send(row?.get::<&str>(0)?.as_bytes())
            });
            let start = Instant::now();
            let clients: Vec<_> = (0..12)
                .map(|_| {
                    let mut client = http.connect();
                    std::thread::spawn(move || {
                        (0..5).for_each(|_| assert_eq!(get(&mut client, "/"), (200, "hi".into())))
                    })
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            assert_eq!(most.load(Ordering::SeqCst), 3, "{model}");
            // One shard: had it been held, 60 sleeps of 20 ms would have been one after the other.
            assert!(start.elapsed() < Duration::from_millis(1100), "{model}: {:?}", start.elapsed());
            until("every connection comes back", || {
                pool.counts() == PoolCounts { open: 3, idle: 3, waiting: 0 }
            });
        }
    });
}

#[test]
fn whoever_waits_first_is_served_first_and_not_for_ever() {
    with_server(|server| {
        let config = server.config("trusted", "sslmode=disable");
        rt::run(move || {
            let pool = Pool::new(config).connections(1).wait_time(Duration::from_secs(5));
            let held = pool.get().unwrap();
            let order = Arc::new(Mutex::new(Vec::new()));
            let waiters: Vec<_> = (0..5)
                .map(|number| {
                    let (pool, order) = (pool.clone(), Arc::clone(&order));
                    rt::spawn(move || {
                        let outcome = pool.get();
                        order.lock().unwrap().push((number, outcome.is_ok()));
                    })
                })
                .collect();
            rt::sleep(Duration::from_millis(20)).unwrap();
            assert_eq!(pool.counts().waiting, 5);
            waiters[2].cancel();
            rt::sleep(Duration::from_millis(20)).unwrap();
            assert_eq!(pool.counts().waiting, 4);
            drop(held);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(*order.lock().unwrap(), [(2, false), (0, true), (1, true), (3, true), (4, true)]);
            assert_eq!(pool.counts(), PoolCounts { open: 1, idle: 1, waiting: 0 });
        })
        .unwrap();
        let pool = Pool::new(server.config("trusted", "sslmode=disable")).connections(1);
        let pool = pool.wait_time(Duration::from_millis(30));
        let _held = pool.get().unwrap();
        let outcome = pool.get();
        assert!(matches!(outcome, Err(Error::Busy)));
        assert_eq!(StatusError::status_of(&io::Error::from(outcome.unwrap_err())), Some(503));
    });
}

/// A value that cannot be written down.
#[derive(Debug)]
struct Panics;

impl ToSql for Panics {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        std::panic::resume_unwind(Box::new("meant to"));
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

#[test]
fn the_pool_is_whole_again_whatever_happens_to_its_connections() {
    with_server(|server| {
        for model in MODELS {
            let pool =
                Pool::new(server.config("trusted", "sslmode=disable&application_name=whole")).connections(2);
            let shared = pool.clone();
            let http = TestServer::of_model(model, move |request, response| {
                let mut database = shared.get_for(request)?;
                match request.path() {
                    "/end" => drop(database.query("select pg_terminate_backend(pg_backend_pid())", &[])?),
                    "/begin" => database.batch("begin")?,
                    "/panic" => {
                        let mut transaction = database.transaction()?;
                        transaction.execute("select 1", &[])?;
                        std::panic::resume_unwind(Box::new("meant to"));
                    }
                    "/value" => drop(database.query("select $1::int", &[&Panics])?),
                    "/wrong" => drop(database.query("select 1/0", &[])?),
                    _ => {}
                }
                assert!(!database.in_transaction() || request.path() == "/begin");
                let row = database.query_one("select 'well'", &[])?;
                response.send(row.get::<&str>(0)?.as_bytes())
            });
            let mut admin = server.connect();
            for (path, status) in [
                ("/end", 503),
                ("/", 200),
                ("/begin", 200),
                ("/", 200),
                ("/panic", 500),
                ("/", 200),
                ("/value", 500),
                ("/", 200),
                ("/wrong", 500),
                ("/", 200),
            ] {
                let mut client = http.connect();
                assert_eq!(get(&mut client, path).0, status, "{model}: {path}");
            }
            // The server closes what rests, as when it restarts: nobody sees it.
            let others = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'whole'";
            assert!(admin.query_one(others, &[]).unwrap().get::<i64>(0).unwrap() > 0);
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(get(&mut http.connect(), "/"), (200, "well".into()), "{model}");
            let counts = pool.counts();
            assert!(counts.open == counts.idle && counts.open <= 2 && counts.open > 0, "{counts:?}");
        }
    });
}

#[test]
fn a_client_that_goes_takes_its_statement_along() {
    with_server(|server| {
        for model in MODELS {
            let pool = Pool::new(server.config("trusted", "sslmode=disable")).connections(1);
            let (shared, seen) = (pool.clone(), Arc::new(Mutex::new(Vec::new())));
            let told = Arc::clone(&seen);
            let http = TestServer::of_model(model, move |request, response| {
                let mut database = shared.get_for(request)?;
                let outcome = database.query("select pg_sleep(30)::text", &[]);
                told.lock().unwrap().push((format!("{outcome:?}"), database.is_broken()));
                outcome?;
                response.send(b"")
            });
            let mut client = http.connect();
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            until("a connection is opened", || pool.counts() == PoolCounts { open: 1, idle: 0, waiting: 0 });
            std::thread::sleep(Duration::from_millis(200));
            drop(client);
            until("the statement ends", || !seen.lock().unwrap().is_empty());
            assert_eq!(*seen.lock().unwrap(), [("Err(ClientGone)".to_owned(), false)], "{model}");
            until("it comes back", || pool.counts() == PoolCounts { open: 1, idle: 1, waiting: 0 });
        }
    });
}

#[test]
fn clients_that_have_gone_are_passed_over_in_line() {
    with_server(|server| {
        for model in MODELS {
            let pool = Pool::new(server.config("trusted", "sslmode=disable")).connections(1);
            let (shared, seen) = (pool.clone(), Arc::new(Mutex::new(Vec::new())));
            let told = Arc::clone(&seen);
            let http = TestServer::of_model(model, move |request, response| {
                let outcome = shared.get_for(request);
                told.lock().unwrap().push(format!("{:?}", outcome.as_ref().err()));
                let sql = if request.path() == "/hold" { "select pg_sleep(0.5)::text" } else { "select 'x'" };
                outcome?.query(sql, &[])?;
                response.send(b"")
            });
            let ask = |path: &str| {
                let mut client = http.connect();
                client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
                client
            };
            let mut first = ask("/hold");
            until("it is connected", || seen.lock().unwrap().len() == 1);
            let impatient: Vec<_> = (0..5).map(|_| ask("/")).collect();
            until("they wait in line", || pool.counts().waiting == impatient.len());
            let mut last = ask("/");
            until("the last one, too", || pool.counts().waiting == impatient.len() + 1);
            drop(impatient);
            assert_eq!((first.response().status, last.response().status), (200, 200), "{model}");
            until("all were told", || seen.lock().unwrap().len() == 7);
            let (gone, mut told) = ("Some(ClientGone)", seen.lock().unwrap().clone());
            if model == Model::Threads {
                // Whoever is passed over gives the connection on before it says so.
                told[1..].sort_by_key(|told| told == "None");
            }
            assert_eq!(told, ["None", gone, gone, gone, gone, gone, "None"], "{model}");
            until("it comes back", || pool.counts() == PoolCounts { open: 1, idle: 1, waiting: 0 });
        }
    });
}

#[test]
fn what_a_handler_sets_is_not_there_for_the_next() {
    with_server(|server| {
        let pool = Pool::new(server.config("trusted", "sslmode=disable")).connections(1);
        let state = |client: &mut Client<'_>| {
            let row =
                client.query_one("select pg_backend_pid(), current_setting('lock_timeout')", &[]).unwrap();
            (row.get::<i32>(0).unwrap(), row.get::<String>(1).unwrap())
        };
        for (sql, in_transaction, replaced) in [
            ("set lock_timeout = 7", false, true),
            ("SET SESSION lock_timeout = 7", false, true),
            ("/* set local */ set lock_timeout = 7", false, true),
            ("set lock_timeout = 7", true, true),
            ("set local lock_timeout = 7", true, false),
            ("\n Set Local lock_timeout = 7; ", true, false),
            ("set transaction isolation level serializable", true, false),
            ("select 'set'", false, false),
        ] {
            for prepared in [true, false] {
                let mut client = pool.get().unwrap();
                let before = state(&mut client);
                assert_eq!(before.1, "0", "{sql}");
                let run = |client: &mut Client<'_>| match prepared {
                    true => client.execute(sql, &[]).map(drop),
                    false => client.batch(sql),
                };
                if in_transaction {
                    let mut transaction = client.transaction().unwrap();
                    run(&mut transaction).unwrap();
                    transaction.commit().unwrap();
                } else {
                    run(&mut client).unwrap();
                }
                drop(client);
                let after = state(&mut pool.get().unwrap());
                assert_eq!(after.0 != before.0, replaced, "{sql}, prepared: {prepared}");
            }
        }
        pool.get().unwrap().batch("begin; set local lock_timeout = 7; set lock_timeout = 8; commit").unwrap();
        assert_eq!(state(&mut pool.get().unwrap()).1, "0", "among several");
        pool.shared().execute("set lock_timeout = 7", &[]).unwrap();
        let row = pool.shared().query_one("select current_setting('lock_timeout')", &[]).unwrap();
        assert_eq!(row.get::<&str>(0).unwrap(), "0", "on the shared connection");
    });
}

#[test]
fn too_many_connections_are_told_from_other_refusals() {
    with_server(|server| {
        let pool = Pool::new(server.config("few", "sslmode=disable")).connections(5);
        let pool = pool.wait_time(Duration::from_millis(300));
        let first = pool.get().unwrap();
        let outcome = pool.get();
        assert!(matches!(outcome, Err(Error::TooManyConnections(_))), "{outcome:?}");
        assert_eq!(pool.counts(), PoolCounts { open: 1, idle: 0, waiting: 0 });
        drop(first);
        assert!(pool.get().is_ok());
    });
}
