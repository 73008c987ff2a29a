//! Servers that are none, and what a client makes of them.

use crate::support::{Client as HttpClient, MODELS, PATIENCE, Random, TestServer};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};
use straightline::kit::postgres::{Client, Config, Error, Pool, PoolCounts};

/// Lets everybody in: `AuthenticationOk`, `BackendKeyData`, `ReadyForQuery`.
pub(super) const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";
/// A statement without parameters that gives one column of text.
pub(super) const DESCRIBED: &[u8] =
    b"1\0\0\0\x04t\0\0\0\x06\0\0T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0Z\0\0\0\x05I";
/// One row of it.
pub(super) const ANSWERED: &[u8] =
    b"2\0\0\0\x04D\0\0\0\x0c\0\x01\0\0\0\x02hiC\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// A server that says one part after each message that comes, and then does `last` with the connection. Further connections
/// are closed at once.
fn serve(parts: Vec<Vec<u8>>, last: impl FnOnce(TcpStream) + Send + 'static) -> Config {
    serve_within(PATIENCE, parts, last)
}

/// The same; a client that is silent for longer than `patience` is closed.
fn serve_within(
    patience: Duration,
    parts: Vec<Vec<u8>>,
    last: impl FnOnce(TcpStream) + Send + 'static,
) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(patience)).unwrap();
        for part in parts {
            if stream.read(&mut [0; 4096]).unwrap_or(0) == 0 || stream.write_all(&part).is_err() {
                return;
            }
        }
        thread::spawn(move || last(stream));
        while let Ok((other, _)) = listener.accept() {
            drop(other);
        }
    });
    let config: Config = format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode=disable").parse().unwrap();
    config.query_time(Some(PATIENCE))
}

fn parts(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

fn ask(config: Config) -> Result<String, Error> {
    let mut client = Client::connect(config)?;
    let row = client.query_one("select a from b", &[])?;
    Ok(row.get::<&str>(0)?.to_owned())
}

/// The whole exchange is as the messages above say; every test below changes one thing of it.
#[test]
fn a_good_answer_is_taken_however_slowly_it_comes() {
    assert_eq!(ask(serve(parts(&[WELCOME, DESCRIBED, ANSWERED]), drop)).unwrap(), "hi");
    let config = serve(parts(&[WELCOME, DESCRIBED]), |mut stream| {
        stream.set_nodelay(true).unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        for byte in ANSWERED {
            stream.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    assert_eq!(ask(config).unwrap(), "hi");
}

#[test]
fn a_server_that_dies_is_an_error_at_once() {
    for (said, fatal) in [
        (&b""[..], None),
        (&ANSWERED[..20], None),
        (b"E\0\0\0\x1fSFATAL\0VFATAL\0C57P01\0Mbye\0\0", Some("57P01")),
    ] {
        let config = serve(parts(&[WELCOME, DESCRIBED, said]), drop);
        let outcome = ask(config);
        assert!(matches!(outcome, Err(Error::Closed(_))), "{outcome:?}");
        assert_eq!(outcome.unwrap_err().code(), fatal);
    }
    let config = serve(parts(&[WELCOME, DESCRIBED]), |stream| {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    });
    assert!(matches!(ask(config), Err(Error::Lost(_) | Error::Closed(None))));
}

/// What a server that is none does with a statement, after it let the client in.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Dies,
    SaysNothing,
    SaysGarbage,
    HasNoRoom,
}

/// Begins a request to cancel a statement, behind its length.
///
/// Source: PostgreSQL 15, section 55.7, `CancelRequest`.
pub(super) const CANCEL: [u8; 4] = [4, 210, 22, 46];

/// Plays `fault` to the first session, and serves the second well.
fn at_first(fault: Fault) -> Config {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut fault = Some(fault);
        while let Ok((mut stream, _)) = listener.accept() {
            let mut first = [0; 4096];
            let count = stream.read(&mut first).unwrap_or(0);
            if count > 0 && first[4..8] != CANCEL {
                let fault = fault.take();
                thread::spawn(move || play(fault, stream));
            }
        }
    });
    format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode=disable").parse().unwrap()
}

/// A session whose first message was read.
fn play(fault: Option<Fault>, mut stream: TcpStream) {
    let said: &[&[u8]] = match fault {
        Some(Fault::Dies) => &[WELCOME, DESCRIBED],
        Some(Fault::SaysNothing) => &[WELCOME, DESCRIBED, b""],
        Some(Fault::SaysGarbage) => &[WELCOME, DESCRIBED, b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        Some(Fault::HasNoRoom) => &[b"E\0\0\0\x17SFATAL\0C53300\0Mno\0\0"],
        None => &[WELCOME, DESCRIBED, ANSWERED],
    };
    let is_heard = |stream: &mut TcpStream| stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0);
    for part in said {
        if stream.write_all(part).is_err() || !is_heard(&mut stream) {
            return;
        }
    }
    if !matches!(fault, Some(Fault::Dies)) {
        while is_heard(&mut stream) {}
    }
}

#[test]
fn the_handler_is_told_what_is_wrong_and_the_pool_is_whole_again() {
    for (fault, wanted, said) in [
        (Fault::Dies, 503, "the connection to the database ended\n"),
        (Fault::SaysNothing, 504, "the database takes too long\n"),
        (Fault::SaysGarbage, 500, "the handler failed\n"),
        (Fault::HasNoRoom, 503, "the database is busy\n"),
    ] {
        for model in MODELS {
            let time = Duration::from_secs(if matches!(fault, Fault::SaysNothing) { 1 } else { 60 });
            let pool = Pool::new(at_first(fault).query_time(Some(time))).connections(1);
            let shared = pool.clone();
            let http = TestServer::of_model(model, move |_, response| {
                let row = shared.get()?.query_one("select a from b", &[])?;
                response.send(row.get::<&str>(0)?.as_bytes())
            });
            let get = |client: &mut HttpClient| {
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
                let answer = client.response();
                (answer.status, answer.text())
            };
            assert_eq!(get(&mut http.connect()), (wanted, said.to_owned()), "{model}: {fault:?}");
            http.until("its place is free again", |_| pool.counts() == PoolCounts::default());
            assert_eq!(get(&mut http.connect()).0, 200, "{model}: after {fault:?}");
            http.until("the next is kept", |_| pool.counts() == PoolCounts { open: 1, idle: 1, waiting: 0 });
        }
    }
}

/// The row of [`ANSWERED`] with another text.
fn answered(text: [u8; 2]) -> Vec<u8> {
    let mut answer = ANSWERED.to_vec();
    let at = answer.windows(2).position(|pair| pair == b"hi").unwrap();
    answer[at..at + 2].copy_from_slice(&text);
    answer
}

/// Answers its statements with the numbers 10, 11 and so on, whatever the connection, and says `surplus` after the first answer
/// once `delay` has passed; and what hears when that is done.
fn with_surplus(surplus: Vec<u8>, delay: Duration) -> (Config, Receiver<()>) {
    let (said_all, hears) = channel();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut number = 10;
        while let Ok((mut stream, _)) = listener.accept() {
            stream.set_nodelay(true).unwrap();
            let mut said = vec![DESCRIBED.to_vec(), WELCOME.to_vec()];
            let mut heard = [0; 4096];
            // Until the end, or until the client says that this was all.
            while stream.read(&mut heard).is_ok_and(|count| count > 0) && heard[0] != b'X' {
                let next = said.pop();
                let is_answer = next.is_none();
                let mut next =
                    next.unwrap_or_else(|| answered(number.to_string().as_bytes().try_into().unwrap()));
                if is_answer && number == 10 && delay.is_zero() {
                    next.extend_from_slice(&surplus);
                }
                stream.write_all(&next).unwrap();
                if is_answer && number == 10 && !delay.is_zero() {
                    thread::sleep(delay);
                    stream.write_all(&surplus).unwrap();
                }
                if is_answer && number == 10 {
                    said_all.send(()).ok();
                }
                number += i32::from(is_answer);
            }
        }
    });
    (format!("postgres://me:secret@127.0.0.1:{port}/db?sslmode=disable").parse().unwrap(), hears)
}

#[test]
fn what_nobody_asked_for_is_nobodys_answer() {
    let texts = |said: &Receiver<()>, ask: &dyn Fn() -> Result<String, Error>| -> Vec<String> {
        let first = ask().unwrap();
        said.recv_timeout(PATIENCE).unwrap();
        [first].into_iter().chain((1..4).map(|_| ask().unwrap())).collect()
    };
    let row = |row: straightline::kit::postgres::Row| Ok(row.get::<&str>(0)?.to_owned());
    let notice = b"N\0\0\0\x0aMlate\0".to_vec();
    for surplus in [answered(*b"xx"), b"Z\0\0\0\x05I".to_vec(), b"D\0".to_vec(), notice] {
        // With the answer, and a moment after the connection went back.
        for delay in [Duration::ZERO, Duration::from_millis(2)] {
            let (config, said) = with_surplus(surplus.clone(), delay);
            let pool = Pool::new(config).connections(1);
            let taken = texts(&said, &|| pool.get()?.query_one("select a from b", &[]).and_then(row));
            assert_eq!(taken, ["10", "11", "12", "13"], "{surplus:?} after {delay:?}");
            let (config, said) = with_surplus(surplus.clone(), delay);
            let pool = Pool::new(config);
            let shared = texts(&said, &|| pool.shared().query_one("select a from b", &[]).and_then(row));
            assert_eq!(shared, ["10", "11", "12", "13"], "shared: {surplus:?} after {delay:?}");
        }
    }
}

#[test]
fn a_client_that_is_told_too_much_asks_no_more() {
    let mut client = Client::connect(with_surplus(answered(*b"xx"), Duration::ZERO).0).unwrap();
    assert_eq!(client.query_one("select a from b", &[]).unwrap().get::<&str>(0).unwrap(), "10");
    let second = client.query_one("select a from b", &[]);
    assert!(matches!(second, Err(Error::Protocol(_))), "{second:?}");
    assert!(client.is_broken());
    // What may come at any time changes nothing.
    let notice = b"N\0\0\0\x0aMlate\0".to_vec();
    let mut client = Client::connect(with_surplus(notice, Duration::ZERO).0).unwrap();
    for wanted in ["10", "11"] {
        assert_eq!(client.query_one("select a from b", &[]).unwrap().get::<&str>(0).unwrap(), wanted);
    }
    // Nor does it hide why the server closes.
    let farewell = b"E\0\0\0\x1fSFATAL\0VFATAL\0C57P01\0Mbye\0\0".to_vec();
    let mut client = Client::connect(with_surplus(farewell, Duration::ZERO).0).unwrap();
    assert_eq!(client.query_one("select a from b", &[]).unwrap().get::<&str>(0).unwrap(), "10");
    let second = client.query_one("select a from b", &[]).unwrap_err();
    assert_eq!(second.code(), Some("57P01"), "{second}");
}

#[test]
fn a_server_that_says_nothing_is_an_error_in_time() {
    let start = Instant::now();
    let silent = serve(Vec::new(), |stream| {
        thread::sleep(PATIENCE);
        drop(stream);
    });
    let outcome = ask(silent.connect_time(Duration::from_millis(100)));
    assert!(
        matches!(&outcome, Err(Error::Connect(why)) if why.kind() == std::io::ErrorKind::TimedOut),
        "{outcome:?}"
    );
    let silent = serve(parts(&[WELCOME, DESCRIBED]), |stream| {
        thread::sleep(PATIENCE);
        drop(stream);
    });
    let mut client = Client::connect(silent.query_time(Some(Duration::from_millis(100)))).unwrap();
    let outcome = client.query("select a from b", &[]);
    assert!(matches!(outcome, Err(Error::Deadline)), "{outcome:?}");
    assert!(client.is_broken(), "it did not come to an end with what was cancelled");
    assert!(matches!(client.query("select 1", &[]), Err(Error::Closed(None))));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn what_is_not_the_protocol_is_refused() {
    for said in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"D\0\0\0\x03",
        b"D\x7f\xff\xff\xff",
        b"D\xff\xff\xff\xff",
        b"T\0\0\0\x06\0\0",
        b"Z\0\0\0\x05X",
        b"R\0\0\0\x08\0\0\0\0",
        b"Z\0\0\0\x05IZ\0\0\0\x05I",
    ] {
        let outcome = ask(serve(parts(&[WELCOME, DESCRIBED, said]), |stream| {
            thread::sleep(Duration::from_secs(1));
            drop(stream);
        }));
        let row_count = matches!(outcome, Err(Error::RowCount(0))) && said.starts_with(b"Z\0\0\0\x05I");
        assert!(row_count || matches!(outcome, Err(Error::Protocol(_))), "{said:?}: {outcome:?}");
    }
}

#[test]
fn a_row_that_is_too_large_is_told_from_what_is_not_the_protocol() {
    let head = [b"D", &300_000_010_u32.to_be_bytes()[..]].concat();
    let outcome = ask(serve(parts(&[WELCOME, DESCRIBED, &head]), drop));
    assert!(matches!(outcome, Err(Error::TooLarge(300_000_010))), "{outcome:?}");
}

#[test]
fn logins_that_would_tell_the_password_are_refused() {
    for (said, wanted) in [
        (&b"R\0\0\0\x08\0\0\0\x03"[..], "the password itself"),
        (b"R\0\0\0\x08\0\0\0\x07", "not spoken here"),
        (b"R\0\0\0\x0d\0\0\0\x0aOWN\0\0", "OWN"),
    ] {
        let outcome = ask(serve(parts(&[said]), drop));
        let Err(Error::Authentication(why)) = &outcome else { panic!("{said:?}: {outcome:?}") };
        assert!(why.contains(wanted), "{why}");
    }
    let outcome = ask(serve(parts(&[b"E\0\0\0\x17SFATAL\0C53300\0Mno\0\0"]), drop));
    assert!(matches!(outcome, Err(Error::TooManyConnections(_))), "{outcome:?}");
}

#[test]
fn what_somebody_puts_before_the_handshake_is_not_taken_for_encrypted() {
    let mut injected = b"S".to_vec();
    injected.extend_from_slice(WELCOME);
    let config = serve(vec![injected], |mut stream| {
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        thread::sleep(Duration::from_millis(200));
    });
    let outcome = ask(config.ssl_mode(straightline::kit::postgres::SslMode::Require));
    assert!(matches!(outcome, Err(Error::Tls(_))), "{outcome:?}");
    let outcome = ask(serve(parts(&[b"N"]), drop).ssl_mode(straightline::kit::postgres::SslMode::Require));
    assert!(matches!(outcome, Err(Error::Tls(_))), "{outcome:?}");
    let prefers = serve(parts(&[b"N", WELCOME, DESCRIBED, ANSWERED]), drop);
    assert_eq!(ask(prefers.ssl_mode(straightline::kit::postgres::SslMode::Prefer)).unwrap(), "hi");
}

/// Answers with a few bytes changed, for as long as `FUZZ_SECONDS` says: whatever comes, the client comes to an end.
#[test]
fn fuzz_answers_end_in_an_error_or_an_answer() {
    let time = Duration::from_secs(crate::support::number_of("FUZZ_SECONDS").unwrap_or(2));
    let seed = crate::support::number_of("FUZZ_SEED").unwrap_or(7);
    let (start, mut random, mut rounds, mut failed) = (Instant::now(), Random(seed), 0, 0);
    while rounds == 0 || start.elapsed() < time {
        let mut said = parts(&[WELCOME, DESCRIBED, ANSWERED]);
        for _ in 0..=random.below(3) {
            let part = &mut said[random.below(3) as usize];
            let at = random.below(part.len() as u64) as usize;
            match random.below(4) {
                0 => part[at] ^= 1 << random.below(8),
                1 => part.truncate(at.max(1)),
                2 => part.insert(at, random.next() as u8),
                _ => part[at] = random.next() as u8,
            }
        }
        let begun = Instant::now();
        // The server closes after the last part, or when the client waits for more, so that only a hang takes long.
        let outcome = ask(serve_within(Duration::from_millis(20), said.clone(), drop));
        assert!(begun.elapsed() < PATIENCE / 2, "seed {seed}, round {rounds}: {said:?}");
        failed += u64::from(outcome.is_err());
        rounds += 1;
    }
    crate::support::note(&format!("{rounds} rounds, {failed} of them refused"));
    assert!(failed > 0 && failed < rounds, "{failed} of {rounds}");
}
