//! Answers of Redis with a few bytes changed.

use crate::support::{PATIENCE, Random, note, number_of};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use straightline::kit::redis::{Client, Config, Error, Value};

const HELLO: &[u8] = b"%1\r\n$5\r\nproto\r\n:3\r\n";
/// An answer with a value of every kind.
const ANSWER: &[u8] = b"*10\r\n+OK\r\n-ERR no\r\n:-7\r\n,1.5\r\n#t\r\n_\r\n$5\r\nbytes\r\n\
    =7\r\ntxt:abc\r\n%1\r\n+key\r\n(123456\r\n~2\r\n!3\r\nbad\r\n*-1\r\n";

/// The answer with up to three changes.
fn changed(random: &mut Random) -> Vec<u8> {
    let mut said = ANSWER.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(said.len() as u64) as usize;
        match random.below(4) {
            0 => said[at] ^= 1 << random.below(8),
            1 => said.truncate(at.max(1)),
            2 => said.insert(at, random.next() as u8),
            _ => said[at] = random.next() as u8,
        }
    }
    said
}

/// For as long as `FUZZ_SECONDS` says: whatever comes, the client comes to an end, and is used again only after a whole answer.
#[test]
fn fuzz_answers_are_read_or_refused() {
    let time = Duration::from_secs(number_of("FUZZ_SECONDS").unwrap_or(2));
    let seed = number_of("FUZZ_SEED").unwrap_or(7);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let config: Config = format!("redis://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (start, mut random, mut rounds, mut refused) = (Instant::now(), Random(seed), 0, 0);
    while rounds == 0 || start.elapsed() < time {
        let said = changed(&mut random);
        let begun = Instant::now();
        let (outcome, broken) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut server, _) = listener.accept().unwrap();
                for answer in [HELLO, &said] {
                    assert!(server.read(&mut [0; 64]).unwrap() > 0);
                    // The client may give up before all was said.
                    let _ = server.write_all(answer);
                }
            });
            let mut client = Client::connect(&config).unwrap();
            (client.command(&[b"PING"]), client.is_broken())
        });
        assert!(begun.elapsed() < PATIENCE / 2, "seed {seed}, round {rounds}: {said:?}");
        let read = matches!(outcome, Ok(Value::Array(_)));
        let whole = matches!(outcome, Ok(_) | Err(Error::Refused(_)));
        assert!(whole || broken, "seed {seed}, round {rounds}: {said:?}: {outcome:?}");
        refused += u64::from(!read);
        rounds += 1;
    }
    note(&format!("{rounds} rounds, {refused} of them refused"));
    assert!(refused > 0 && refused < rounds, "{refused} of {rounds}");
}
