//! How many connections are opened to servers that are none, or that have no room.

use super::fake::{ANSWERED, CANCEL, DESCRIBED, WELCOME};
use crate::support::PATIENCE;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use straightline::kit::postgres::{Config, Error, Pool, PoolCounts};
use straightline::rt;

/// What a refused session is told.
const NO_ROOM: &[u8] = b"E\0\0\0\x17SFATAL\0C53300\0Mno\0\0";
/// Time for a statement.
const TIME: Duration = Duration::from_millis(500);

fn is_heard(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0)
}

/// Has `play` do with each session what it likes, once it has begun; and how many there were. `play` is given the number of those open.
fn counted(play: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> (Config, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sessions = Arc::new(AtomicUsize::new(0));
    let (counts, play, open) = (Arc::clone(&sessions), Arc::new(play), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let (counts, play, open) = (Arc::clone(&counts), Arc::clone(&play), Arc::clone(&open));
            thread::spawn(move || {
                let mut first = [0; 4096];
                if stream.read(&mut first).unwrap_or(0) > 0 && first[4..8] != CANCEL {
                    counts.fetch_add(1, Ordering::SeqCst);
                    play(stream, open.fetch_add(1, Ordering::SeqCst) + 1);
                    open.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let config: Config = format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode=disable").parse().unwrap();
    (config.query_time(Some(TIME)), sessions)
}

/// Lets a session in, answers its first statement with `said`, and is silent for `silent`.
fn after_the_first(said: &'static [u8], silent: Duration) -> (Config, Arc<AtomicUsize>) {
    counted(move |mut stream, _| {
        if stream.write_all(WELCOME).is_ok() && is_heard(&mut stream) && stream.write_all(said).is_ok() {
            thread::sleep(silent);
        }
    })
}

#[test]
fn a_shared_statement_is_tried_once_more_at_most() {
    let ready: &[u8] = b"Z\0\0\0\x05IZ\0\0\0\x05IZ\0\0\0\x05I";
    let much: &[u8] = b"1\0\0\0\x04t\0\0\0\x06\0\0n\0\0\0\x04Z\0\0\0\x05IZ\0\0\0\x05I";
    for (name, said, silent) in [
        ("ready and nothing else", ready, 4 * TIME),
        ("more than an answer", much, 4 * TIME),
        ("the end after a preparation", DESCRIBED, Duration::ZERO),
    ] {
        for requests in [1, 20] {
            let (config, sessions) = after_the_first(said, silent);
            let begun = Instant::now();
            rt::run(move || {
                let pool = Pool::new(config);
                let ask = || {
                    let pool = pool.clone();
                    rt::spawn(move || pool.shared().query_one("select a from b", &[]).map(drop))
                };
                let asked: Vec<_> = (0..requests).map(|_| ask()).collect();
                for outcome in asked {
                    let outcome = outcome.join().unwrap();
                    assert!(
                        matches!(outcome, Err(Error::Closed(_) | Error::Lost(_) | Error::Protocol(_))),
                        "{name}: {outcome:?}"
                    );
                }
            })
            .unwrap();
            let sessions = sessions.load(Ordering::SeqCst);
            assert!(sessions <= 2 * requests, "{name}: {sessions} sessions for {requests} requests");
            assert!(begun.elapsed() < TIME, "{name}: {:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_shared_statement_has_its_time_with_everything_before_it() {
    // A server that lets nobody in, and one that answers nothing.
    for welcomes in [false, true] {
        let (config, sessions) = counted(move |mut stream, _| {
            if !welcomes || (stream.write_all(WELCOME).is_ok() && is_heard(&mut stream)) {
                thread::sleep(20 * TIME);
            }
        });
        rt::run(move || {
            let pool = Pool::new(config);
            let ask = || {
                let pool = pool.clone();
                rt::spawn(move || {
                    let begun = Instant::now();
                    let outcome = pool.shared().query_one("select a from b", &[]).map(drop);
                    (outcome, begun.elapsed())
                })
            };
            // Who leads is told last, after the time that a cancelled statement has to end.
            let leads = ask();
            rt::sleep(TIME / 2).unwrap();
            let waits: Vec<_> = (0..5).map(|_| ask()).collect();
            for waits in waits {
                let (outcome, took) = waits.join().unwrap();
                assert!(matches!(outcome, Err(Error::Deadline | Error::Connect(_))), "{outcome:?}");
                assert!(took < TIME * 3 / 2, "{took:?}");
            }
            assert!(matches!(leads.join().unwrap().0, Err(Error::Deadline | Error::Connect(_))));
        })
        .unwrap();
        let sessions = sessions.load(Ordering::SeqCst);
        assert!(sessions <= 6, "{sessions} sessions for 6 requests");
    }
}

/// A server with room for `room` sessions, which end by themselves after as many statements.
fn with_room(room: usize, statements: usize) -> (Config, Arc<AtomicUsize>) {
    counted(move |mut stream, open| {
        if open > room {
            stream.write_all(NO_ROOM).ok();
            return;
        }
        let mut said = WELCOME.to_vec();
        for next in [DESCRIBED].into_iter().chain((0..statements).map(|_| ANSWERED)) {
            if stream.write_all(&said).is_err() || !is_heard(&mut stream) {
                return;
            }
            said = next.to_vec();
        }
        stream.write_all(&said).ok();
        is_heard(&mut stream);
    })
}

fn until_waiting(pool: &Pool, count: usize) {
    let begun = Instant::now();
    while pool.counts().waiting < count {
        assert!(begun.elapsed() < PATIENCE, "{:?}", pool.counts());
        rt::sleep(Duration::from_millis(1)).unwrap();
    }
}

#[test]
fn who_finds_no_room_waits_for_one_of_the_others() {
    let (config, sessions) = with_room(1, 100);
    rt::run(move || {
        let pool = Pool::new(config).connections(4).wait_time(20 * TIME);
        let held = pool.get().unwrap();
        let ask = || {
            let pool = pool.clone();
            rt::spawn(move || pool.get()?.query_one("select a from b", &[]).map(drop))
        };
        let waiting: Vec<_> = (0..6).map(|_| ask()).collect();
        until_waiting(&pool, waiting.len());
        assert_eq!(pool.counts().open, 1);
        drop(held);
        waiting.into_iter().for_each(|waits| waits.join().unwrap().unwrap());
        assert_eq!(pool.counts(), PoolCounts { open: 1, idle: 1, waiting: 0 });
    })
    .unwrap();
    assert!(sessions.load(Ordering::SeqCst) <= 7, "{sessions:?}: each asked once");
}

#[test]
fn who_finds_no_room_and_has_no_others_is_told_so_at_once() {
    let begun = Instant::now();
    let (config, sessions) = with_room(0, 0);
    rt::run(move || {
        let pool = Pool::new(config).connections(4).wait_time(100 * TIME);
        let ask = || {
            let pool = pool.clone();
            rt::spawn(move || pool.get().map(drop))
        };
        let asked: Vec<_> = (0..10).map(|_| ask()).collect();
        for outcome in asked {
            let outcome = outcome.join().unwrap();
            assert!(matches!(outcome, Err(Error::TooManyConnections(_))), "{outcome:?}");
        }
        assert_eq!(pool.counts(), PoolCounts::default());
    })
    .unwrap();
    let sessions = sessions.load(Ordering::SeqCst);
    assert!(sessions <= 20 && begun.elapsed() < 20 * TIME, "{sessions} in {:?}", begun.elapsed());
}

#[test]
fn who_waits_takes_the_place_of_a_connection_that_broke() {
    let (config, _) = with_room(1, 1);
    rt::run(move || {
        let pool = Pool::new(config).connections(2).wait_time(20 * TIME);
        let mut held = pool.get().unwrap();
        let waits = {
            let pool = pool.clone();
            rt::spawn(move || pool.get()?.query_one("select a from b", &[]).map(drop))
        };
        until_waiting(&pool, 1);
        held.query_one("select a from b", &[]).unwrap();
        assert!(held.query_one("select a from b", &[]).is_err(), "the server ended it");
        // The server has room again when its thread has seen that.
        rt::sleep(TIME / 10).unwrap();
        drop(held);
        waits.join().unwrap().unwrap();
    })
    .unwrap();
}
