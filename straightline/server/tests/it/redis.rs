//! The client of Redis, against a real server and against some that are none.

mod generated;
mod instance;

use crate::support::{Client as HttpClient, MODELS, PATIENCE, TestServer, until};
use instance::{Instance, is_installed};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use straightline::kit::redis::{Client, Config, Error, Pool, PoolCounts, Value};
use straightline::rt;

fn status(client: &mut HttpClient, path: &str) -> u16 {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    client.response().status
}

#[test]
fn values_come_back_as_they_went() {
    if !is_installed() {
        return;
    }
    let server = Instance::start(&[]);
    let config = server.config("");
    let body = move || {
        let mut client = Client::connect(&config).unwrap();
        client.command(&[b"FLUSHALL"]).unwrap();
        assert_eq!(client.get("a").unwrap(), None);
        let large: Vec<u8> = (0..2_000_000_u32).map(|at| at as u8).collect();
        for value in [&b""[..], b"\r\n\0$5\r\n", &large] {
            client.set("a", value).unwrap();
            assert!(client.get("a").unwrap().as_deref() == Some(value), "{} bytes", value.len());
        }
        client.set_for("short", b"x", Duration::from_secs(60)).unwrap();
        assert!(
            matches!(client.command(&[b"PTTL", b"short"]), Ok(Value::Integer(ms)) if (1..=60_000).contains(&ms))
        );
        assert_eq!((client.remove("a").unwrap(), client.remove("a").unwrap()), (true, false));
        assert_eq!((client.increment("n").unwrap(), client.increment("n").unwrap()), (1, 2));
        // What the server says against a command leaves the connection as it was.
        client.command(&[b"HSET", b"h", b"one", b"1"]).unwrap();
        assert!(matches!(client.get("h"), Err(Error::Server(said)) if said.starts_with("WRONGTYPE")));
        let pairs = vec![(Value::Bytes(b"one".to_vec()), Value::Bytes(b"1".to_vec()))];
        assert_eq!(client.command(&[b"HGETALL", b"h"]).unwrap(), Value::Map(pairs));
        let script = b"return {1, {'two', {false}}, redis.error_reply('MY no')}";
        let answer = client.command(&[b"EVAL", script, b"0"]).unwrap();
        let Value::Array(nested) = &answer else { panic!("{answer:?}") };
        let two = Value::Array(vec![Value::Bytes(b"two".to_vec()), Value::Array(vec![Value::Null])]);
        assert_eq!(nested[..2], [Value::Integer(1), two]);
        // Some versions put a word of their own before it.
        assert!(matches!(&nested[2], Value::Error(said) if said.ends_with("MY no")), "{nested:?}");
        for refused in ["subscribe", "MULTI", "Select", "client"] {
            assert!(matches!(client.command(&[refused.as_bytes(), b"1"]), Err(Error::Unsupported(_))));
        }
        assert!(matches!(client.command(&[]), Err(Error::Unsupported(_))));
        assert!(!client.is_broken() && client.increment("n").unwrap() == 3);
    };
    body();
    rt::run(body).unwrap();
}

#[test]
fn a_pipeline_answers_each_command_in_its_place() {
    if !is_installed() {
        return;
    }
    let server = Instance::start(&[]);
    let mut client = Client::connect(&server.config("")).unwrap();
    let large = vec![b'x'; 100_000];
    let one: [&[u8]; 3] = [b"SET", b"k", &large];
    let answers = client.pipeline(&[&one, &[b"INCR", b"k"], &[b"GET", b"k"]]).unwrap();
    assert_eq!(answers[0].as_ref().unwrap(), &Value::Status("OK".into()));
    assert!(matches!(&answers[1], Err(Error::Server(_))));
    assert!(matches!(&answers[2], Ok(Value::Bytes(bytes)) if *bytes == large));
    let many: Vec<&[&[u8]]> = vec![&[b"INCR", b"count"]; 10_000];
    let answers = client.pipeline(&many).unwrap();
    for (at, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), Value::Integer(at as i64 + 1));
    }
    // All or nothing, but for what fails only as it is done.
    let done = client.transaction(&[&[b"INCR", b"count"], &[b"INCR", b"k"], &[b"INCR", b"count"]]).unwrap();
    assert!(matches!(done[..], [Ok(Value::Integer(10_001)), Err(_), Ok(Value::Integer(10_002))]), "{done:?}");
    let none = client.transaction(&[&[b"INCR", b"count"], &[b"INCR"]]);
    assert!(matches!(none, Err(Error::Server(_))), "{none:?}");
    assert_eq!(client.get("count").unwrap().unwrap(), b"10002");
}

#[test]
fn the_pool_is_whole_again_when_the_server_is_back() {
    if !is_installed() {
        return;
    }
    for model in MODELS {
        let mut server = Some(Instance::start(&[]));
        let port = server.as_ref().unwrap().port;
        let pool = Pool::new(server.as_ref().unwrap().config("")).connections(2);
        let shared = pool.clone();
        let http = TestServer::of_model(model, move |request, response| {
            let mut client = shared.get()?;
            if request.path() == "/panic" {
                std::panic::resume_unwind(Box::new("meant to"));
            }
            let count = client.increment("count")?;
            response.send(count.to_string().as_bytes())
        });
        let clients: Vec<_> = (0..8)
            .map(|_| {
                let mut client = http.connect();
                std::thread::spawn(move || (0..20).for_each(|_| assert_eq!(status(&mut client, "/"), 200)))
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        assert_eq!(status(&mut http.connect(), "/panic"), 500, "{model}");
        drop(server.take());
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(status(&mut http.connect(), "/"), 503, "{model}: nobody is there");
        let _server = Instance::start_at(port, &[]);
        assert_eq!(status(&mut http.connect(), "/"), 200, "{model}: it is back");
        until("every connection comes back", || {
            let PoolCounts { open, idle, waiting } = pool.counts();
            open == idle && (1..=2).contains(&open) && waiting == 0
        });
    }
}

#[test]
fn a_password_lets_in_or_not() {
    if !is_installed() {
        return;
    }
    let server = Instance::start(&["--requirepass", "right"]);
    assert!(Client::connect(&server.config(":right@")).is_ok());
    for login in ["", ":wrong@", "nobody:right@"] {
        let outcome = Client::connect(&server.config(login));
        assert!(matches!(outcome, Err(Error::Refused(_))), "{login}: {outcome:?}");
    }
}

/// What a server that is none does with a command, after it let the client in.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Dies,
    DiesAmidAnAnswer,
    SaysNothing,
    SaysGarbage,
    SaysTooMuch,
    HasNoRoom,
    None,
}

/// Serves one connection after the other, each with its fault.
fn serve(faults: Vec<Fault>) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for fault in faults {
            let (stream, _) = listener.accept().unwrap();
            std::thread::spawn(move || play(fault, stream));
        }
    });
    format!("redis://127.0.0.1:{port}").parse().unwrap()
}

/// A client that goes away ends it.
fn play(fault: Fault, mut stream: TcpStream) {
    let hello: &[u8] = match fault {
        Fault::HasNoRoom => b"-ERR max number of clients reached\r\n",
        _ => b"%1\r\n$5\r\nproto\r\n:3\r\n",
    };
    let answer: &[u8] = match fault {
        Fault::Dies | Fault::HasNoRoom | Fault::SaysNothing => b"",
        Fault::DiesAmidAnAnswer => b"$100\r\nhalf",
        Fault::SaysGarbage => b"HTTP/1.1 400 Bad Request\r\n\r\n",
        Fault::SaysTooMuch => b"$99999999999\r\n",
        Fault::None => b"$2\r\nhi\r\n",
    };
    let mut say = |what: &[u8]| read(&mut stream) && stream.write_all(what).is_ok();
    if say(hello) && say(answer) && !matches!(fault, Fault::Dies | Fault::DiesAmidAnAnswer) {
        while read(&mut stream) {}
    }
}

fn read(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0)
}

#[test]
fn the_handler_is_told_what_is_wrong_with_the_server() {
    for (fault, wanted) in [
        (Fault::Dies, 503),
        (Fault::DiesAmidAnAnswer, 503),
        (Fault::SaysNothing, 504),
        (Fault::SaysGarbage, 500),
        (Fault::SaysTooMuch, 500),
        (Fault::HasNoRoom, 503),
    ] {
        for model in MODELS {
            let time = match fault {
                Fault::SaysNothing => Duration::from_millis(100),
                _ => PATIENCE,
            };
            let pool = Pool::new(serve(vec![fault, Fault::None]).command_time(time)).connections(1);
            let shared = pool.clone();
            let http = TestServer::of_model(model, move |_, response| {
                let value = shared.get()?.get("a")?;
                response.send(&value.unwrap_or_default())
            });
            assert_eq!(status(&mut http.connect(), "/"), wanted, "{model}: {fault:?}");
            until("its place is free again", || pool.counts() == PoolCounts::default());
            if !matches!(fault, Fault::SaysNothing) {
                assert_eq!(status(&mut http.connect(), "/"), 200, "{model}: after {fault:?}");
                until("the next is kept", || pool.counts().idle == 1);
            }
        }
    }
}

#[test]
fn answers_that_would_take_the_memory_or_the_stack_are_refused() {
    for said in [
        "*1\r\n".repeat(1000),
        "*99999999999\r\n".to_owned(),
        "*-2\r\n".to_owned(),
        ":1x\r\n".to_owned(),
        "$1\r\nabc".to_owned(),
        "\r\n".to_owned(),
        ">1\r\n+pushed\r\n".to_owned(),
        "+".to_owned() + &"x".repeat(100_000),
        "+é\u{0}".repeat(20_000),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config: Config =
            format!("redis://127.0.0.1:{}", listener.local_addr().unwrap().port()).parse().unwrap();
        let shown: String = said.chars().take(20).collect();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut say = |what: &[u8]| read(&mut stream) && stream.write_all(what).is_ok();
            if say(b"+OK\r\n") && say(said.as_bytes()) {
                while read(&mut stream) {}
            }
        });
        let mut client = Client::connect(&config).unwrap();
        let outcome = client.command(&[b"GET", b"a"]);
        assert!(matches!(outcome, Err(Error::Protocol(_))), "{shown:?}: {outcome:?}");
        assert!(client.is_broken() && matches!(client.get("a"), Err(Error::Closed)));
    }
}

/// A store that answers each `GET` with the key, and says `surplus` once, after the first answer and `delay`; and what hears
/// when that is done.
fn with_surplus(surplus: &'static [u8], delay: Duration) -> (Config, Receiver<()>) {
    let (said, hears) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut surplus = Some(surplus);
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nodelay(true).unwrap();
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                let Some(key) = bytes[..count].split(|byte| *byte == b'\n').nth(4) else { return };
                let key = key.strip_suffix(b"\r").unwrap();
                if bytes[..count].windows(5).any(|word| word == b"HELLO") {
                    stream.write_all(b"%0\r\n").unwrap();
                    continue;
                }
                let answer = [format!("${}\r\n", key.len()).as_bytes(), key, b"\r\n"].concat();
                match surplus.take() {
                    Some(more) if delay.is_zero() => stream.write_all(&[&answer, more].concat()).unwrap(),
                    Some(more) => {
                        stream.write_all(&answer).unwrap();
                        std::thread::sleep(delay);
                        stream.write_all(more).unwrap();
                    }
                    None => {
                        stream.write_all(&answer).unwrap();
                        continue;
                    }
                }
                said.send(()).ok();
            }
        }
    });
    (format!("redis://127.0.0.1:{port}").parse().unwrap(), hears)
}

#[test]
fn what_nobody_asked_for_is_nobodys_answer() {
    for surplus in [&b"$6\r\nSECRET\r\n"[..], b"$", b"+OK\r\n"] {
        // With the answer, and a moment after the connection went back.
        for delay in [Duration::ZERO, Duration::from_millis(2)] {
            let (config, said) = with_surplus(surplus, delay);
            let pool = Pool::new(config).connections(1);
            for key in ["alice", "bob", "carol"] {
                let answer = pool.get().unwrap().get(key).unwrap().unwrap();
                assert_eq!(String::from_utf8(answer).unwrap(), key, "{surplus:?} after {delay:?}");
                if key == "alice" {
                    said.recv_timeout(PATIENCE).unwrap();
                }
            }
            assert_eq!(pool.counts(), PoolCounts { open: 1, idle: 1, waiting: 0 });
        }
    }
    let mut client = Client::connect(&with_surplus(b"$6\r\nSECRET\r\n", Duration::ZERO).0).unwrap();
    assert_eq!(client.get("alice").unwrap().unwrap(), b"alice");
    let second = client.get("bob");
    assert!(matches!(second, Err(Error::Protocol(_))), "{second:?}");
    assert!(client.is_broken());
}
