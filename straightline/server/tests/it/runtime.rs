//! The runtime without a server, and its calls on plain threads.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use straightline::rt;

const MS: Duration = Duration::from_millis(1);

/// Runs a check both as a coroutine and on a plain thread: it must hold for either.
fn on_both(check: fn()) {
    rt::run(check).unwrap();
    check();
}

#[test]
fn sleepers_wake_in_the_order_of_their_times() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&order);
    rt::run(move || {
        for ms in [30, 10, 0, 20, 5] {
            let seen = Arc::clone(&seen);
            rt::spawn(move || {
                rt::sleep(ms * MS).unwrap();
                seen.lock().unwrap().push(ms);
            });
        }
    })
    .unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 5, 10, 20, 30]);
}

#[test]
fn a_sleep_is_never_short_and_seldom_long() {
    rt::run(|| {
        for us in [0, 1, 50, 100, 999, 1_000, 3_333] {
            let wanted = Duration::from_micros(us);
            let best = (0..10)
                .map(|_| {
                    let start = Instant::now();
                    rt::sleep(wanted).unwrap();
                    start.elapsed()
                })
                .inspect(|took| assert!(*took >= wanted, "{took:?} instead of {wanted:?}"))
                .min();
            let late = best.unwrap() - wanted;
            assert!(late < MS, "{late:?} late at best: a timer of whole milliseconds?");
        }
    })
    .unwrap();
}

/// Most that one coroutine moves before the others have their turn, in bytes, with room for what is under way.
const UNBROKEN_BYTES: usize = 512 * 1024;

/// Moves bytes by `move_some` until it is cancelled, while another coroutine takes turns with it.
fn check_turns(
    move_some: impl Fn(&mut rt::TcpStream) -> io::Result<usize> + Send + 'static,
    peer: fn(std::net::TcpStream),
) {
    const MOST_BYTES: usize = 64 * 1024 * 1024;
    rt::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = rt::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = listener.accept().unwrap().0;
        std::thread::spawn(move || peer(accepted));
        let moved = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&moved);
        let moves = rt::spawn(move || {
            while count.load(Ordering::Relaxed) < MOST_BYTES {
                count.fetch_add(move_some(&mut stream)?, Ordering::Relaxed);
            }
            Ok::<_, io::Error>(())
        });
        let mut seen = 0;
        while seen < MOST_BYTES / 8 {
            rt::yield_now().unwrap();
            let now = moved.load(Ordering::Relaxed);
            assert!(now - seen <= UNBROKEN_BYTES, "{} bytes without a turn for others", now - seen);
            seen = now;
        }
        moves.cancel();
        let outcome = moves.join().unwrap();
        assert!(outcome.as_ref().is_err_and(rt::is_cancelled), "{outcome:?}");
    })
    .unwrap();
}

#[test]
fn a_peer_that_never_pauses_leaves_others_their_turn() {
    // In small pieces, so that the peer is always ahead.
    check_turns(
        |stream| stream.read(&mut [0; 512]),
        |mut peer| while peer.write_all(&[0; 64 * 1024]).is_ok() {},
    );
    check_turns(
        |stream| stream.write(&[0; 512]),
        |mut peer| while peer.read(&mut [0; 64 * 1024]).is_ok_and(|count| count > 0) {},
    );
}

#[test]
fn a_spawned_coroutine_is_joined() {
    on_both(|| {
        let handle = rt::spawn(|| {
            rt::sleep(MS).unwrap();
            7
        });
        assert!(!handle.is_finished());
        assert_eq!(handle.join().unwrap(), 7);
        let panics = rt::spawn(|| std::panic::resume_unwind(Box::new("seven")));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.join()));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "seven");
    });
}

#[test]
fn a_cancelled_coroutine_gets_errors_from_then_on() {
    rt::run(|| {
        let handle = rt::spawn(|| {
            let first = rt::sleep(Duration::from_secs(60)).unwrap_err();
            let then = rt::Mutex::new(());
            let _held = then.lock().unwrap();
            assert!(then.lock().is_err_and(|error| rt::is_cancelled(&error)), "it would wait for ever");
            assert!(rt::yield_now().is_err());
            first
        });
        rt::sleep(2 * MS).unwrap();
        let start = Instant::now();
        handle.cancel();
        assert!(rt::is_cancelled(&handle.join().unwrap()));
        assert!(start.elapsed() < Duration::from_secs(1));

        for turns in 0..2 {
            let never = rt::spawn(|| panic!("it was cancelled before it began"));
            never.cancel();
            (0..turns).for_each(|_| rt::yield_now().unwrap());
            assert!(never.is_finished());
            assert!(rt::is_cancelled(&never.join().unwrap_err()));
        }
    })
    .unwrap();
    let thread = rt::spawn(|| 7);
    thread.cancel();
    assert_eq!(thread.join().unwrap(), 7, "a thread of its own is not cancelled");
}

#[test]
fn a_wait_may_be_as_long_as_can_be_said() {
    rt::run(|| {
        let sleeps = rt::spawn(|| rt::sleep(Duration::MAX));
        rt::sleep(2 * MS).unwrap();
        assert!(!sleeps.is_finished());
        sleeps.cancel();
        assert!(rt::is_cancelled(&sleeps.join().unwrap().unwrap_err()));
    })
    .unwrap();
    let (sender, receiver) = rt::channel(1);
    sender.send(7).unwrap();
    assert_eq!(receiver.recv_timeout(Duration::MAX).unwrap(), Some(7));
}

/// A result that nobody takes, and whose drop panics.
struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("without the noise of the hook"));
    }
}

#[test]
fn a_result_that_panics_when_dropped_costs_no_helper_thread() {
    /// More than there are helper threads.
    const MANY: usize = 80;
    static NOBODY_WAITS: AtomicBool = AtomicBool::new(false);
    rt::run(|| {
        let work = || {
            while !NOBODY_WAITS.load(Ordering::Relaxed) {
                std::thread::sleep(MS);
            }
            PanicsInDrop
        };
        let many: Vec<_> = (0..MANY).map(|_| rt::spawn(move || rt::blocking(work).is_err())).collect();
        rt::sleep(2 * MS).unwrap();
        many.iter().for_each(rt::JoinHandle::cancel);
        many.into_iter().for_each(|one| assert!(one.join().unwrap(), "it was cancelled"));
        NOBODY_WAITS.store(true, Ordering::Relaxed);
        let (sender, receiver) = rt::channel(1);
        let next = rt::spawn(move || sender.send(rt::blocking(|| 7)?));
        let answer = receiver.recv_timeout(Duration::from_secs(10));
        next.cancel();
        assert_eq!(answer.unwrap(), Some(7));
    })
    .unwrap();
}

#[test]
fn a_call_that_comes_to_one_who_gives_up_is_passed_on() {
    rt::run(|| {
        let pair = Arc::new((rt::Mutex::new(()), rt::Condvar::new()));
        let wait = || {
            let pair = Arc::clone(&pair);
            rt::spawn(move || {
                let guard = pair.0.lock()?;
                pair.1.wait_timeout(guard, 2_000 * MS).map(|(_, woken)| woken)
            })
        };
        let (first, second) = (wait(), wait());
        rt::sleep(2 * MS).unwrap();
        let held = pair.0.lock().unwrap();
        pair.1.notify_one();
        // The first was called, and waits for the lock.
        rt::sleep(2 * MS).unwrap();
        first.cancel();
        assert!(first.join().unwrap().is_err());
        drop(held);
        assert!(second.join().unwrap().unwrap(), "it timed out");
    })
    .unwrap();
}

#[test]
fn a_connection_is_there_only_when_the_other_end_took_it() {
    // A queue that is full: who connects next waits.
    let full = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let address = full.local_addr().unwrap();
    let fill = || std::net::TcpStream::connect_timeout(&address, 50 * MS);
    let _queued: Vec<_> = std::iter::from_fn(|| fill().ok()).take(8).collect();
    rt::run(move || {
        let stream = Arc::new(rt::TcpStream::connect(echo_server(1)).unwrap());
        stream.set_read_timeout(Some(2 * MS));
        assert_eq!((&*stream).read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        // What becomes readable while the same coroutine connects elsewhere is nothing to it.
        let writing = Arc::clone(&stream);
        rt::spawn(move || {
            rt::sleep(10 * MS).unwrap();
            (&*writing).write_all(b"back").unwrap();
        });
        let outcome = rt::TcpStream::connect_timeout(address, 100 * MS);
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut);
    })
    .unwrap();
}

#[test]
fn a_lock_excludes_and_a_dead_holder_frees_it() {
    on_both(|| {
        let shared = Arc::new(rt::Mutex::new(0));
        let adders: Vec<_> = (0..8)
            .map(|_| {
                let shared = Arc::clone(&shared);
                rt::spawn(move || {
                    for _ in 0..20 {
                        let mut value = shared.lock().unwrap();
                        let before = *value;
                        rt::yield_now().unwrap();
                        *value = before + 1;
                    }
                })
            })
            .collect();
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        assert_eq!(*shared.lock().unwrap(), 160);

        let inner = Arc::clone(&shared);
        let dies = rt::spawn(move || {
            let _held = inner.lock().unwrap();
            std::panic::resume_unwind(Box::new(()));
        });
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| dies.join())).unwrap_err();
        assert!(shared.try_lock().is_some());
    });
}

#[test]
fn a_waiter_that_gives_up_passes_the_lock_on() {
    rt::run(|| {
        let lock = Arc::new(rt::Mutex::new(()));
        let held = lock.lock().unwrap();
        let wait = |lock: &Arc<rt::Mutex<()>>| {
            let lock = Arc::clone(lock);
            rt::spawn(move || lock.lock().map(|_| ()))
        };
        let (first, second) = (wait(&lock), wait(&lock));
        rt::sleep(MS).unwrap();
        // The first is called by the release and cancelled before it runs.
        drop(held);
        first.cancel();
        assert!(second.join().unwrap().is_ok());
        first.join().ok();
    })
    .unwrap();
}

#[test]
fn a_condition_is_waited_for() {
    on_both(|| {
        let pair = Arc::new((rt::Mutex::new(0), rt::Condvar::new()));
        let other = Arc::clone(&pair);
        let raises = rt::spawn(move || {
            for _ in 0..3 {
                rt::sleep(MS).unwrap();
                *other.0.lock().unwrap() += 1;
                other.1.notify_all();
            }
        });
        let value = pair.1.wait_while(pair.0.lock().unwrap(), |value| *value < 3).unwrap();
        assert_eq!(*value, 3);
        let (value, woken) = pair.1.wait_timeout(value, 5 * MS).unwrap();
        assert_eq!((*value, woken), (3, false));
        drop(value);
        raises.join().unwrap();
    });
}

#[test]
fn a_channel_holds_back_its_sender_and_ends_with_it() {
    on_both(|| {
        let (sender, receiver) = rt::channel(2);
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let sends = rt::spawn(move || {
            for value in 0..100 {
                sender.send(value).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        rt::sleep(10 * MS).unwrap();
        assert_eq!(sent.load(Ordering::SeqCst), 2, "the third has no room");
        for value in 0..100 {
            assert_eq!(receiver.recv().unwrap(), Some(value));
        }
        assert_eq!(receiver.recv().unwrap(), None);
        sends.join().unwrap();

        let (sender, receiver) = rt::channel::<()>(1);
        assert_eq!(receiver.recv_timeout(2 * MS).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(receiver);
        assert_eq!(sender.send(()).unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn coroutines_and_threads_wake_each_other() {
    let (to_thread, from_coroutine) = rt::channel(1);
    let (to_coroutine, from_thread) = rt::channel(1);
    let thread = std::thread::spawn(move || {
        let mut sum = 0;
        while let Some(value) = from_coroutine.recv().unwrap() {
            sum += value;
            to_coroutine.send(value).unwrap();
        }
        sum
    });
    rt::run(move || {
        for value in 0..2_000u64 {
            to_thread.send(value).unwrap();
            assert_eq!(from_thread.recv().unwrap(), Some(value));
        }
    })
    .unwrap();
    assert_eq!(thread.join().unwrap(), 1_999_000);
}

#[test]
fn blocking_work_runs_beside_the_shard() {
    on_both(|| {
        assert_eq!(rt::blocking(|| 6 * 7).unwrap(), 42);
        let caught =
            std::panic::catch_unwind(|| rt::blocking(|| std::panic::resume_unwind(Box::new("deep"))));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "deep");
    });
    rt::run(|| {
        let start = Instant::now();
        let works: Vec<_> =
            (0..16).map(|_| rt::spawn(|| rt::blocking(|| std::thread::sleep(200 * MS)).unwrap())).collect();
        works.into_iter().for_each(|work| work.join().unwrap());
        assert!(start.elapsed() < 1_600 * MS, "it was done one after the other");
    })
    .unwrap();
}

#[test]
fn a_deep_call_borrows_a_stack() {
    fn deep(levels: usize) -> usize {
        let frame = std::hint::black_box([levels; 128]);
        if levels == 0 { 0 } else { deep(levels - 1) + std::hint::black_box(frame)[0] / levels }
    }
    on_both(|| {
        assert_eq!(rt::with_big_stack(16 * 1024 * 1024, || deep(2_000)).unwrap(), 2_000);
        let caught = std::panic::catch_unwind(|| {
            rt::with_big_stack(1024 * 1024, || std::panic::resume_unwind(Box::new(1)))
        });
        assert_eq!(*caught.map(|_: io::Result<()>| ()).unwrap_err().downcast::<i32>().unwrap(), 1);
        let error = rt::with_big_stack(rt::BIG_STACK_BYTES_MAX + 1, || ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

/// A plain server that sends back what it gets, for clients under test.
fn echo_server(connections: usize) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || io::copy(&mut stream.try_clone().unwrap(), &mut stream));
        }
    });
    address
}

#[test]
fn a_stream_carries_more_than_its_buffers_both_ways() {
    fn check() {
        let address = echo_server(1);
        let stream = rt::TcpStream::connect(address).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        let shared = Arc::new(stream);
        let reading = Arc::clone(&shared);
        let reads = rt::spawn(move || {
            let mut got = Vec::new();
            (&*reading).read_to_end(&mut got).unwrap();
            got
        });
        let sent: Vec<u8> = (0..5_000_000u32).map(|index| (index / 3) as u8).collect();
        (&*shared).write_all(&sent).unwrap();
        shared.shutdown(Shutdown::Write).unwrap();
        assert!(reads.join().unwrap() == sent);
    }
    on_both(check);
}

#[test]
fn a_stream_times_out_and_fails_as_it_should() {
    on_both(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut stream = rt::TcpStream::connect_timeout(address, Duration::from_secs(5)).unwrap();
        stream.set_read_timeout(Some(10 * MS));
        let start = Instant::now();
        assert_eq!(stream.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= 10 * MS);
        stream.set_write_timeout(Some(10 * MS));
        let outcome = (0..1_000).try_for_each(|_| stream.write_all(&[0; 64 * 1024]));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::TimedOut, "nobody reads");
        drop((stream, listener));
        assert_eq!(rt::TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let named = rt::TcpStream::connect_host(&format!("localhost:{}", address.port()));
        assert_eq!(named.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_stream_may_move_between_shards_and_threads() {
    let mut stream = rt::TcpStream::connect(echo_server(1)).unwrap();
    let ping = |stream: &mut rt::TcpStream| {
        stream.write_all(b"ping").unwrap();
        let mut back = [0; 4];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"ping");
    };
    for _ in 0..3 {
        ping(&mut stream);
        stream = rt::run(move || {
            ping(&mut stream);
            stream
        })
        .unwrap();
        stream = std::thread::spawn(move || {
            rt::run(move || {
                ping(&mut stream);
                stream
            })
            .unwrap()
        })
        .join()
        .unwrap();
    }
}

#[test]
fn many_coroutines_wait_at_once() {
    const MANY: usize = 10_000;
    let awake = rt::run(|| {
        let all: Vec<_> = (0..MANY)
            .map(|index| {
                rt::spawn(move || {
                    rt::sleep(Duration::from_micros(20_000 + (index as u64 * 7) % 10_000)).unwrap();
                    1
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).sum::<usize>()
    })
    .unwrap();
    assert_eq!(awake, MANY);
}

#[test]
fn everyone_has_a_turn() {
    rt::run(|| {
        let order = Arc::new(Mutex::new(String::new()));
        let all: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let order = Arc::clone(&order);
                rt::spawn(move || {
                    for _ in 0..4 {
                        order.lock().unwrap().push_str(name);
                        rt::yield_now().unwrap();
                    }
                })
            })
            .collect();
        all.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(*order.lock().unwrap(), "abcabcabcabc");
    })
    .unwrap();
}

#[test]
fn a_thread_has_one_shard() {
    let outcome = rt::run(|| std::panic::catch_unwind(|| rt::run(|| ())).is_err()).unwrap();
    assert!(outcome, "a shard within a shard");
}
