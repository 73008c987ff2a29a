//! Generated forms, good and with a few bytes changed, for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED`
//! (8 by default) on: good ones are read as they were made, and whatever comes is read or refused.

use crate::support::{Client, Random, TestServer, note, number_of};
use std::io::{self, Read};
use std::time::{Duration, Instant};
use straightline::kit::forms::{Form, Multipart};
use straightline::{Done, Request, Response};

/// Bytes of a form, at most; those made here are shorter.
const MOST: u64 = 1 << 20;
/// What names, values and files are made of: all that could be taken for something else.
const PIECES: [&str; 12] = ["a", "ö", "&", "=", "+", "%41", "%", "\r\n", "--", "--B", "\"", ";"];

type Fields = Vec<(String, Vec<u8>)>;

/// Says the fields of a form, so that none can be taken for another.
fn handle(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    let mut fields = Fields::new();
    if request.path() == "/multipart" {
        let mut form = Multipart::new(request, MOST)?;
        while let Some(mut part) = form.next()? {
            let mut bytes = Vec::new();
            part.read_to_end(&mut bytes)?;
            fields.push((part.name().to_owned(), bytes));
        }
    } else {
        let form = Form::read(request, MOST)?;
        fields.extend(form.iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())));
    }
    response.send(format!("{fields:?}").as_bytes())
}

fn text(random: &mut Random, most: u64) -> String {
    (0..random.below(most)).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]).collect()
}

fn fields(random: &mut Random) -> Fields {
    (0..random.below(5)).map(|_| (text(random, 4), text(random, 12).into_bytes())).collect()
}

/// As browsers encode it.
fn urlencoded(fields: &Fields) -> Vec<u8> {
    let encoded = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pair = |(name, value): &(String, Vec<u8>)| format!("{}={}", encoded(name.as_bytes()), encoded(value));
    fields.iter().map(pair).collect::<Vec<_>>().join("&").into_bytes()
}

/// As browsers encode it, with a boundary that no field can have in it.
fn multipart(fields: &Fields) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        // The living standard for HTML has names so.
        let name = name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
        bytes.extend_from_slice(b"--BOUNDARY\r\nContent-Disposition: form-data; name=\"");
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b"\"\r\n\r\n");
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"--BOUNDARY--\r\n");
    bytes
}

/// Sends a form in pieces; what is answered.
fn ask(client: &mut Client, path: &str, body: &[u8], random: &mut Random) -> (u16, String) {
    let kind = match path {
        "/multipart" => "multipart/form-data; boundary=BOUNDARY",
        _ => "application/x-www-form-urlencoded",
    };
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    let (first, rest) = body.split_at(random.below(length as u64 + 1) as usize);
    client.send(&[head.as_bytes(), first].concat());
    client.send(rest);
    let answer = client.response();
    (answer.status, answer.text())
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(4) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.insert(at, random.next() as u8),
        }
    }
}

/// How a form is encoded.
type Encode = fn(&Fields) -> Vec<u8>;

fn run(path: &str, encode: Encode) {
    let time = Duration::from_secs(number_of("FUZZ_SECONDS").unwrap_or(2));
    let seed = number_of("FUZZ_SEED").unwrap_or(8);
    let server = TestServer::new(handle);
    let (start, mut random, mut rounds, mut refused) = (Instant::now(), Random(seed), 0u64, 0u64);
    while rounds == 0 || start.elapsed() < time {
        let fields = fields(&mut random);
        let mut body = encode(&fields);
        let good = random.below(4) == 0;
        if !good {
            change(&mut body, &mut random);
        }
        let (status, said) = ask(&mut server.connect(), path, &body, &mut random);
        let what = format!("seed {seed}, round {rounds}: {:?}", String::from_utf8_lossy(&body));
        assert!(matches!(status, 200 | 400 | 413), "{what}: {status} {said}");
        if good && path == "/urlencoded" {
            assert_eq!((status, said), (200, format!("{fields:?}")), "{what}");
        } else if good {
            let values =
                |fields: &Fields| fields.iter().map(|(_, value)| format!("{value:?}")).collect::<Vec<_>>();
            assert!(
                status != 200 || values(&fields).iter().all(|value| said.contains(value)),
                "{what}: {said}"
            );
        }
        refused += u64::from(status != 200);
        rounds += 1;
    }
    note(&format!("{path}, seed {seed}: {rounds} forms, {refused} of them refused"));
    assert!(refused < rounds, "nothing was read: {refused} of {rounds}");
    assert_eq!(server.metric("handler_panics_total"), 0);
    server.until("every connection ends", |server| server.metric("open_connections") == 0);
}

#[test]
fn fuzz_forms_are_read_or_refused() {
    run("/urlencoded", urlencoded);
}

#[test]
fn fuzz_parts_are_read_or_refused() {
    run("/multipart", multipart);
}
