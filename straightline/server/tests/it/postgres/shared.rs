//! One connection for many handlers at once.

use super::cluster::{Cluster, with_server};
use super::code;
use std::time::Duration;
use straightline::kit::postgres::{Config, Error, Pool, Query};
use straightline::rt;

fn config(server: &Cluster) -> Config {
    server.config("trusted", "sslmode=disable")
}

/// Handlers at once.
const HANDLERS: i32 = 40;
/// What each asks, one after the other.
const ROUNDS: i32 = 20;

#[test]
fn each_hears_the_answer_to_what_it_asked_over_one_connection() {
    with_server(|server| {
        let pool = Pool::new(config(server));
        rt::run(move || {
            let handlers: Vec<_> = (0..HANDLERS)
                .map(|handler| {
                    let pool = pool.clone();
                    rt::spawn(move || {
                        let mut processes = Vec::new();
                        for round in 0..ROUNDS {
                            let wanted = handler * ROUNDS + round;
                            let row = pool
                                .shared()
                                .query_one("select $1::int, pg_backend_pid()", &[&wanted])
                                .unwrap();
                            assert_eq!(row.get::<i32>(0).unwrap(), wanted);
                            processes.push(row.get::<i32>(1).unwrap());
                            let many =
                                Query { sql: "select generate_series(1, $1::int)", parameters: &[&round] };
                            let answers = pool.shared().pipeline(&[many; 3]).unwrap();
                            for answer in answers {
                                assert_eq!(answer.unwrap().rows.len(), usize::try_from(round).unwrap());
                            }
                        }
                        processes
                    })
                })
                .collect();
            let mut processes: Vec<i32> =
                handlers.into_iter().flat_map(|handler| handler.join().unwrap()).collect();
            processes.dedup();
            assert_eq!(processes.len(), 1, "one connection served all");
        })
        .unwrap();
    });
}

#[test]
fn what_is_wrong_with_one_statement_is_nobody_elses_affair() {
    with_server(|server| {
        let pool = Pool::new(config(server));
        rt::run(move || {
            let handlers: Vec<_> = (0..HANDLERS)
                .map(|handler| {
                    let pool = pool.clone();
                    rt::spawn(move || {
                        let shared = pool.shared();
                        for round in 0..ROUNDS {
                            match (handler + round) % 5 {
                                0 => assert_eq!(code(shared.query("select 1 / $1::int", &[&0])), "22012"),
                                1 => assert_eq!(code(shared.query("select no_such_column", &[])), "42703"),
                                2 => {
                                    let outcome = shared.query("select $1::int", &[&"text"]);
                                    assert!(matches!(outcome, Err(Error::Parameter { index: 0, .. })));
                                }
                                3 => {
                                    let queries = [1, 0, 2].map(|by| (by, "select 6 / $1::int"));
                                    let by: Vec<
                                        [&(dyn straightline::kit::postgres::types::ToSql + Sync); 1],
                                    > = queries.iter().map(|(by, _)| [by as _]).collect();
                                    let queries: Vec<_> = by
                                        .iter()
                                        .zip(&queries)
                                        .map(|(parameters, (_, sql))| Query { sql, parameters })
                                        .collect();
                                    let answers = shared.pipeline(&queries).unwrap();
                                    let values: Vec<_> = answers
                                        .iter()
                                        .map(|answer| {
                                            answer.as_ref().ok().map(|one| one.rows[0].get::<i32>(0).unwrap())
                                        })
                                        .collect();
                                    assert_eq!(values, [Some(6), None, Some(3)]);
                                }
                                _ => {
                                    let row = shared.query_one("select $1::int", &[&handler]).unwrap();
                                    assert_eq!(row.get::<i32>(0).unwrap(), handler);
                                }
                            }
                        }
                    })
                })
                .collect();
            handlers.into_iter().for_each(|handler| handler.join().unwrap());
        })
        .unwrap();
    });
}

#[test]
fn a_connection_that_ends_is_replaced_and_nobody_hears_anothers_answer() {
    with_server(|server| {
        let (pool, killer) = (Pool::new(config(server)), config(server));
        rt::run(move || {
            let asking: Vec<_> = (0..HANDLERS)
                .map(|handler| {
                    let pool = pool.clone();
                    rt::spawn(move || {
                        let mut failed = 0;
                        for round in 0..ROUNDS * 5 {
                            let wanted = handler * 1000 + round;
                            match pool.shared().query_one("select $1::int as shared_and_killed", &[&wanted]) {
                                Ok(row) => assert_eq!(row.get::<i32>(0).unwrap(), wanted),
                                Err(Error::Closed(_) | Error::Lost(_) | Error::Busy) => failed += 1,
                                Err(error) => panic!("{error}"),
                            }
                        }
                        failed
                    })
                })
                .collect();
            let mut client = straightline::kit::postgres::Client::connect(killer).unwrap();
            let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                where query like '%shared_and_killed%' and pid <> pg_backend_pid()";
            while asking.iter().any(|handler| !handler.is_finished()) {
                client.query(kill, &[]).unwrap();
                rt::sleep(Duration::from_millis(20)).unwrap();
            }
            let failed: i32 = asking.into_iter().map(|handler| handler.join().unwrap()).sum();
            crate::support::note(&format!("{failed} of {} were told that it ended", HANDLERS * ROUNDS * 5));
            let row = pool.shared().query_one("select 7", &[]);
            assert_eq!(
                row.or_else(|_| pool.shared().query_one("select 7", &[])).unwrap().get::<i32>(0).unwrap(),
                7
            );
        })
        .unwrap();
    });
}

#[test]
fn a_statement_that_takes_too_long_is_cancelled_and_the_next_are_answered() {
    with_server(|server| {
        let pool = Pool::new(config(server).query_time(Some(Duration::from_millis(300))));
        rt::run(move || {
            pool.shared().query("select 1", &[]).unwrap();
            let slow = {
                let pool = pool.clone();
                rt::spawn(move || pool.shared().query("select pg_sleep(60)::text", &[]))
            };
            assert!(matches!(slow.join().unwrap(), Err(Error::Deadline)));
            assert_eq!(pool.shared().execute("select 1", &[]).unwrap(), 1);
        })
        .unwrap();
    });
}

#[test]
fn who_is_cancelled_leaves_the_line_to_the_others() {
    with_server(|server| {
        let pool = Pool::new(config(server));
        rt::run(move || {
            let ask = |pool: &Pool| {
                let pool = pool.clone();
                rt::spawn(move || pool.shared().query("select pg_sleep(0.01)::text", &[]).is_ok())
            };
            for at in [0, 1, 5] {
                let handlers: Vec<_> = (0..10).map(|_| ask(&pool)).collect();
                rt::sleep(Duration::from_millis(15)).unwrap();
                handlers[at].cancel();
                let outcomes: Vec<_> = handlers.into_iter().map(|handler| handler.join()).collect();
                assert_eq!(outcomes.len(), 10, "all came to an end");
                assert!(pool.shared().query("select 1", &[]).is_ok());
            }
        })
        .unwrap();
    });
}
