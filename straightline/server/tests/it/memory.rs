//! What must not grow: small here, at full size by `cargo xtask soak`.

use crate::support::{
    Client, MODELS, Model, TestServer, in_own_process, number_of, raise_descriptors, resident_kib, say,
};
use std::io::{self, Write};

/// Growth that is no leak: caches of the allocator, pools and stacks, in KiB.
const SLACK_KIB: u64 = 4 * 1024;

#[test]
fn an_upload_takes_no_memory() {
    in_own_process("memory::upload");
}

pub(crate) fn upload() {
    let mib = number_of("STRAIGHTLINE_UPLOAD_MIB").unwrap_or(64);
    for model in MODELS {
        let server = TestServer::of_model(model, |request, response| {
            let bytes = io::copy(request, &mut io::sink())?;
            response.send(bytes.to_string().as_bytes())
        });
        let send = |mib: u64| {
            let mut client = server.connect();
            let piece = vec![b'x'; 1024 * 1024];
            let head = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", mib << 20);
            client.send(head.as_bytes());
            let mut most = 0;
            for _ in 0..mib {
                client.send(&piece);
                most = most.max(resident_kib());
            }
            assert_eq!(client.response().text(), (mib << 20).to_string());
            most
        };
        let before = send(4);
        let most = send(mib);
        say(&format!("{model:?}: {mib} MiB, at most {before} KiB before, {most} KiB during"));
        assert!(most < before + SLACK_KIB, "{model:?}: memory grew from {before} to {most} KiB");
    }
}

#[test]
fn idle_connections_and_waiting_handlers_take_little() {
    in_own_process("memory::wait_and_idle");
}

pub(crate) fn wait_and_idle() {
    /// Most memory for an idle connection, in bytes.
    const IDLE_BYTES: u64 = 1024;
    /// Most memory for a handler that waits, in bytes; the stacks of a build that is not optimised are deeper.
    const WAITING_BYTES: u64 = if cfg!(debug_assertions) { 14 * 1024 } else { 12 * 1024 };
    raise_descriptors();
    let server = TestServer::new(|request, response| {
        let response = response.header("content-type", "text/plain")?;
        if request.path() == "/wait" {
            straightline::rt::sleep(std::time::Duration::from_secs(3))?;
        }
        response.send(b"ok")
    });
    let mut asked = 0;
    for (path, count, most) in [("/idle", 2_000, IDLE_BYTES), ("/wait", 500, WAITING_BYTES)] {
        let mut open = |count: usize| {
            let ask = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes();
            let streams = (0..count).map(|_| std::net::TcpStream::connect(server.address).unwrap());
            let mut streams: Vec<_> = streams.collect();
            streams.iter_mut().for_each(|stream| stream.write_all(&ask).unwrap());
            asked += count as u64;
            server.until("all are asked", |server| server.metric("requests_total") >= asked);
            streams
        };
        let first = open(64);
        let before = resident_kib();
        let rest = open(count);
        std::thread::sleep(std::time::Duration::from_millis(500));
        let each = (resident_kib().saturating_sub(before)) * 1024 / count as u64;
        say(&format!("{path}: {each} bytes for each of {count}"));
        assert!(each <= most, "{path}: {each} bytes for each of {count}, at most {most}");
        drop((first, rest));
    }
}

#[test]
fn requests_of_a_client_that_never_reads_take_no_memory() {
    in_own_process("memory::ask_and_never_read");
}

pub(crate) fn ask_and_never_read() {
    /// Far more than all buffers of the kernel hold.
    const MOST: usize = 128 << 20;
    for model in MODELS {
        let server = TestServer::of_model(model, |_, response| response.send(&[b'x'; 8_000]));
        let flood = || {
            let mut client = server.connect();
            client.stream.set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
            let piece = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000);
            let mut sent = 0;
            while sent < MOST && client.stream.write_all(&piece).is_ok() {
                sent += piece.len();
            }
            assert!(sent < MOST, "{model:?}: {sent} bytes of requests were taken");
            (client, resident_kib())
        };
        let (first, second) = (flood(), flood());
        let (before, after) = (first.1, second.1);
        say(&format!("{model:?}: {before} KiB with one, {after} KiB with two"));
        assert!(after < before + SLACK_KIB, "{model:?}: memory grew from {before} to {after} KiB");
    }
}

#[test]
fn panics_leave_no_memory_behind() {
    in_own_process("memory::panic_often");
}

pub(crate) fn panic_often() {
    let panics = number_of("STRAIGHTLINE_PANICS").unwrap_or(10_000);
    MODELS.iter().for_each(|model| panic_so_often(*model, panics));
}

fn panic_so_often(model: Model, panics: u64) {
    let server = TestServer::of_model(model, |_, response| {
        let _on_the_heap = vec![1u8; 1000];
        let _answer = response.header("a", "b")?;
        std::panic::resume_unwind(Box::new("without the noise of the hook"))
    });
    let panic = |times: u64| {
        for _ in 0..times {
            let mut client: Client = server.connect();
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(client.response().status, 500);
            // What is heard of the server is this program's memory, too.
            server.events.lock().unwrap().clear();
        }
    };
    panic(1_000);
    let before = resident_kib();
    panic(panics);
    let after = resident_kib();
    say(&format!("{model}: {panics} panics, {before} KiB before, {after} KiB after"));
    assert!(after < before + SLACK_KIB, "{model}: memory grew from {before} to {after} KiB");
    assert_eq!(server.metric("handler_panics_total"), panics + 1_000, "{model}");
    server.until("all is given back", |server| server.metric("open_connections") == 0);
    assert!(server.metric("stacks_peak") <= 3, "{model}: stacks are given back");
}
