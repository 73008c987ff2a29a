//! Servers that flood, push, change their minds or say nothing at all: memory is bounded, the run ends in time, and what is wrong
//! is said in one sentence.

use std::future::poll_fn;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::quic::{Script, say};
use crate::serving::certificates::Authority;
use crate::support::{Printed, WHYSLOW, fresh_folder};

/// Most memory that a run with two connections may ever have had, in KiB: half more than each has of a program that is not
/// optimised, and three times what it has of one that is.
const MOST_KIB: u64 = 32 * 1024;
/// What is sent at a time.
const MANY: &[u8] = &[b'x'; 16 * 1024];
/// Longest that a run of less than a second may take against a flood, on a machine that is busy.
const LONGEST: Duration = Duration::from_secs(10);
/// A short run, and less patience with a request.
const SHORT: [&str; 3] = ["-d1s", "--timeout", "700ms"];
/// How HTTP/2 begins. Source: RFC 9113, section 3.4.
const PREFACE_BYTES: usize = 24;
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// A frame of HTTP/2. Source: RFC 9113, section 4.1.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Kind, flags and stream of the next frame.
fn received(stream: &mut TcpStream) -> std::io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload)?;
    Ok((head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]])))
}

/// Serves each connection by `talk`, on a thread of its own.
fn serve(talk: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let talk = talk.clone();
            std::thread::spawn(move || talk(stream));
        }
    });
    address
}

/// Runs `whyslow load` to its end; with the most memory that it had, in KiB.
fn load(url: &str, flags: &[&str]) -> (Printed, u64) {
    let head = ["load", "-t1", "-c2", "--format", "json", url];
    let mut command = Command::new(WHYSLOW);
    command.args(head).args(flags).current_dir(fresh_folder());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        // It never falls. What the first look finds may be this process, of which the child is a copy until it runs the program.
        most = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(most);
        std::thread::sleep(Duration::from_millis(5));
    }
    (Printed::from_output(child.wait_with_output().unwrap()), most)
}

/// Either the run says in one line why it cannot be, or it counts what went wrong and warns of it.
fn is_clear(printed: &Printed) -> bool {
    match printed.code {
        Some(1 | 2) => printed.err.lines().count() == 1 && printed.out.is_empty(),
        Some(0) => !printed.json()["warnings"].as_array().unwrap().is_empty(),
        _ => false,
    }
}

#[test]
fn a_flood_of_frames_costs_no_memory_and_is_said() {
    let ping = frame(6, 0, 0, b"12345678");
    let floods: [(&str, Vec<u8>, Vec<u8>); 7] = [
        ("PING", vec![], ping),
        ("SETTINGS", vec![], frame(4, 0, 0, &[0, 3, 0, 0, 0, 9])),
        ("WINDOW_UPDATE", vec![], frame(8, 0, 0, &[0, 0, 0, 1])),
        ("RST_STREAM", vec![], frame(3, 0, 1, &[0, 0, 0, 8])),
        ("CONTINUATION", frame(HEADERS, 0, 1, &[0x88]), frame(9, 0, 1, b"\x00\x01a\x01b")),
        ("PUSH_PROMISE", vec![], frame(5, 4, 1, &[0, 0, 0, 2, 0x82, 0x84, 0x86])),
        ("unknown frames", vec![], frame(0xfa, 0, 0, &[7; 1000])),
    ];
    for (name, begin, flood) in floods {
        let many = flood.repeat(16 * 1024 / flood.len());
        let begin = [SETTINGS, &begin].concat();
        let address = serve(move |mut stream| {
            // What is answered to it is not read by anyone.
            let mut request = [0; 512];
            if stream.read(&mut request).is_ok() && stream.write_all(&begin).is_ok() {
                while stream.write_all(&many).is_ok() {}
            }
        });
        let flags = [&["--http2", "--streams", "4"][..], &SHORT].concat();
        let (printed, most) = load(&format!("http://{address}/"), &flags);
        assert!(is_clear(&printed), "{name}: {printed:?}");
        assert!(most < MOST_KIB, "{name}: {most} KiB");
    }
}

/// What is asked for, what a server says first, and what it then says for ever.
struct Flood {
    name: &'static str,
    flags: &'static [&'static str],
    begin: &'static [u8],
    more: &'static [u8],
}

const fn flood(
    name: &'static str,
    flags: &'static [&'static str],
    begin: &'static [u8],
    more: &'static [u8],
) -> Flood {
    Flood { name, flags, begin, more }
}

const EVENTS: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
const CALL: &[&str] = &["--grpc", "a.B/C"];
/// Settings; then ':status 200' and 'content-type: application/grpc' of the first call.
const ANSWERED: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x14\x01\x04\0\0\0\x01\x88\x0f\x10\x10application/grpc";

static FLOODS: [Flood; 13] = [
    flood("messages that nobody asked for", &["--ws"], b"", b"\x81\x05hello"),
    flood("a frame of 2^63 - 1 bytes", &["--ws"], b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", b"xxxxxxxx"),
    flood("a message of endless frames", &["--ws"], b"\x02\x01a", b"\x00\x01a"),
    flood("pings", &["--ws"], b"", b"\x89\x05hello"),
    flood("an endless line", &["--sse"], EVENTS, b"data: xxxxxxxx "),
    flood("events without end", &["--sse"], EVENTS, b"data: a\n\n"),
    flood("more events than are wanted", &["--sse", "--events", "3"], EVENTS, b"data: a\n\n"),
    flood("interim answers", &[], b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
    flood("an endless body", &[], b"HTTP/1.1 200 OK\r\n\r\n", b"xxxxxxxx"),
    flood("endless chunks", &[], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    flood("answers that nobody asked for", &[], b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    // One message of 4 GiB; frames without anything in them.
    flood("an endless message", CALL, ANSWERED, b"\0\0\x08\0\0\0\0\0\x01\0\xff\xff\xff\xffxxx"),
    flood("empty frames", CALL, ANSWERED, b"\0\0\0\0\0\0\0\0\x01"),
];

/// Says `begin` once it is asked, and then `more` for as long as somebody listens.
fn pour(mut stream: TcpStream, flood: &Flood) -> std::io::Result<()> {
    match flood.flags.first() {
        Some(&"--ws") => drop(tungstenite::accept(stream.try_clone()?).map_err(|_| ErrorKind::InvalidData)?),
        Some(&"--grpc") => {
            stream.write_all(SETTINGS)?;
            stream.read_exact(&mut [0; PREFACE_BYTES])?;
            while received(&mut stream)?.0 != HEADERS {}
        }
        _ => _ = stream.read(&mut [0; 4096])?,
    }
    stream.write_all(flood.begin)?;
    let many = flood.more.repeat(MANY.len() / flood.more.len());
    loop {
        stream.write_all(&many)?;
    }
}

/// Answers requests of HTTP/2 by messages that never end, and sends no more than the windows allow.
async fn pour_by_the_rules(stream: TcpStream) -> Option<()> {
    stream.set_nonblocking(true).ok()?;
    let mut connection = h2::server::handshake(tokio::net::TcpStream::from_std(stream).ok()?).await.ok()?;
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        let answer = http::Response::builder().header("content-type", "application/grpc").body(()).ok()?;
        let mut send = respond.send_response(answer, false).ok()?;
        tokio::spawn(async move {
            send.send_data(Bytes::from_static(b"\0\xff\xff\xff\xff"), false).ok()?;
            loop {
                send.reserve_capacity(MANY.len());
                let room = poll_fn(|context| send.poll_capacity(context)).await?.ok()?;
                send.send_data(Bytes::from_static(&MANY[..room.min(MANY.len())]), false).ok()?;
            }
            #[expect(unreachable_code, reason = "what the question marks end in")]
            Some(())
        });
    }
    None
}

/// Runs against a server that floods.
fn against(name: &str, url: &str, flags: &[&str]) {
    let begun = Instant::now();
    let (printed, most) = load(url, &[flags, &["-d700ms", "--timeout", "500ms"]].concat());
    let took = begun.elapsed();
    assert!(is_clear(&printed), "{name}: {printed:?}");
    assert!(most < MOST_KIB && took < LONGEST, "{name}: {most} KiB, {took:?}");
}

#[test]
fn a_flood_over_any_protocol_costs_no_memory_and_no_time() {
    for flood in &FLOODS {
        let address = serve(|stream| _ = pour(stream, flood));
        against(flood.name, &format!("http://{address}/"), flood.flags);
    }
    let address = serve(|stream| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { pour_by_the_rules(stream).await });
    });
    for flags in [CALL, &["--http2"]] {
        against("a message that never ends", &format!("http://{address}/"), flags);
    }
    // An unknown stream, and unknown frames on the control stream.
    let authority = Authority::new("floods");
    let certified = authority.certify("localhost", 4000);
    let identity = || authority.server(&certified, &rustls::version::TLS13, false);
    for (name, streams) in [
        ("an endless stream", vec![vec![0, 4, 0], vec![0x21]]),
        ("endless unknown frames", vec![vec![0, 4, 0]]),
    ] {
        let (address, _) = say(identity(), Script { streams, endless: true, ..Script::default() });
        against(name, &format!("https://{address}/"), &["--http3", "--insecure"]);
    }
}

/// Answers each request of HTTP/2 by 200 and, every so many, says `more`, whose argument counts the times.
fn answer(mut stream: TcpStream, more: fn(u32) -> Vec<u8>) -> std::io::Result<()> {
    stream.write_all(SETTINGS)?;
    stream.read_exact(&mut [0; PREFACE_BYTES])?;
    let mut answered = 0;
    loop {
        let (kind, flags, number) = received(&mut stream)?;
        match (kind, flags) {
            (4, 0) => stream.write_all(&frame(4, 1, 0, &[]))?,
            (HEADERS, flags) if flags & END_STREAM != 0 => {
                answered += 1;
                if answered % 10 == 0 {
                    stream.write_all(&more(answered / 10))?;
                }
                stream.write_all(&frame(HEADERS, 4 | END_STREAM, number, &[0x88]))?;
            }
            (7, _) => return Err(ErrorKind::ConnectionAborted.into()),
            _ => {}
        }
    }
}

#[test]
fn settings_that_change_in_the_middle_cost_no_request() {
    // MAX_CONCURRENT_STREAMS, HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, and one that nobody knows.
    let more = |times: u32| {
        let one = |id: u16, value: u32| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        let all = [
            one(3, 1 + times % 5),
            one(1, 4096 * (times % 2)),
            one(4, 65_535 * (times % 3)),
            one(5, 16_384 << (times % 4)),
            one(0xfafa, times),
        ];
        frame(4, 0, 0, &all.concat())
    };
    let address = serve(move |stream| _ = answer(stream, more));
    let flags = ["--http2", "--streams", "8", "--requests", "600", "-d60s"];
    let (printed, _) = load(&format!("http://{address}/"), &flags);
    let json = printed.json();
    let errors: u64 = json["errors"].as_object().unwrap().values().filter_map(|count| count.as_u64()).sum();
    assert_eq!((json["requests"].as_u64(), errors), (Some(600), 0), "{json}");
}

#[test]
fn a_server_that_pushes_though_it_was_told_not_to_breaks_the_protocol() {
    // A promise to the stream that is about to be answered.
    let address = serve(|stream| {
        _ = answer(stream, |times| frame(5, 4, times * 20 - 1, &[0, 0, 0, 2, 0x82, 0x84, 0x86]))
    });
    let (printed, _) = load(&format!("http://{address}/"), &["--http2", "--requests", "100", "-d60s"]);
    let json = printed.json();
    assert!(json["errors"]["parse"].as_u64() > Some(0) && is_clear(&printed), "{json}");
    assert!(json["requests"].as_u64() > Some(10), "each connection goes well up to the promise: {json}");
}

#[test]
fn a_server_that_never_says_anything_ends_no_run_late() {
    let silent = serve(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (plain, tls, quic) = (
        format!("http://{silent}/"),
        format!("https://{silent}/"),
        format!("https://{}/", udp.local_addr().unwrap()),
    );
    let cases: [(&str, &[&str]); 7] = [
        (&plain, &[]),
        (&plain, &["--http2"]),
        (&plain, &["--grpc", "a.B/C"]),
        (&plain, &["--ws"]),
        (&plain, &["--sse"]),
        (&tls, &["--insecure"]),
        (&quic, &["--http3", "--insecure"]),
    ];
    // They wait together.
    std::thread::scope(|scope| {
        for (url, flags) in cases {
            scope.spawn(move || {
                let (printed, most) = load(url, &[flags, &SHORT].concat());
                assert!(is_clear(&printed), "{flags:?}: {printed:?}");
                assert!(most < MOST_KIB, "{flags:?}: {most} KiB");
            });
        }
    });
}
