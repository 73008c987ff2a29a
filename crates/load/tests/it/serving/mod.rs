//! Small blocking servers over any stream: a thread for each connection, one answer for each request.

pub(crate) mod certificates;
pub(crate) mod streams;

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

/// What one connection brought.
#[derive(Debug, Clone, Default)]
pub(crate) struct Served {
    pub(crate) requests: usize,
    /// The first line of each request.
    pub(crate) lines: Vec<String>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) handshake: Option<HandshakeKind>,
    pub(crate) protocol: Option<Vec<u8>>,
    pub(crate) host: Option<String>,
    pub(crate) certified: bool,
}

/// What the connections so far brought.
pub(crate) type Log = Arc<Mutex<Vec<Served>>>;

/// How a server answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manner {
    /// Written for each request.
    pub(crate) answer: Vec<u8>,
    /// Answers after which the connection is closed.
    pub(crate) close_after: Option<usize>,
    /// Whether TLS is closed without a word.
    pub(crate) rude: bool,
}

impl Manner {
    pub(crate) fn body(bytes: usize) -> Self {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'x');
        Self { answer, ..Self::default() }
    }

    pub(crate) fn closing(answer: &str) -> Self {
        Self { answer: answer.as_bytes().to_vec(), close_after: Some(1), rude: false }
    }
}

/// Serves on a free port of `host` until the test ends.
pub(crate) fn tcp(host: &str, manner: Manner) -> (SocketAddr, Log) {
    let listener = TcpListener::bind((host, 0)).unwrap();
    let (address, log) = (listener.local_addr().unwrap(), Log::default());
    let kept = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            stream.set_nodelay(true).unwrap();
            let peer = stream.peer_addr().ok().map(|peer| peer.ip());
            begin(stream, manner.clone(), Arc::clone(&kept), Served { peer, ..Served::default() });
        }
    });
    (address, log)
}

pub(crate) fn unix(path: &Path, manner: Manner) -> Log {
    let (listener, log) = (UnixListener::bind(path).unwrap(), Log::default());
    let kept = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            begin(stream, manner.clone(), Arc::clone(&kept), Served::default());
        }
    });
    log
}

/// Serves TLS on a free port of 127.0.0.1 until the test ends.
pub(crate) fn tls(config: ServerConfig, manner: Manner) -> (SocketAddr, Log) {
    tls_on(TcpListener::bind(("127.0.0.1", 0)).unwrap(), config, manner)
}

/// The same on a port of the caller's.
pub(crate) fn tls_on(listener: TcpListener, config: ServerConfig, manner: Manner) -> (SocketAddr, Log) {
    let (address, log, config) = (listener.local_addr().unwrap(), Log::default(), Arc::new(config));
    let kept = Arc::clone(&log);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (config, manner, log) = (Arc::clone(&config), manner.clone(), Arc::clone(&kept));
            std::thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                while stream.conn.is_handshaking() {
                    if stream.conn.complete_io(&mut stream.sock).is_err() {
                        // What is left unread at a close resets the connection, and the alert is lost.
                        let _ = io::copy(&mut stream.sock, &mut io::sink());
                        return;
                    }
                }
                let seen = Served {
                    handshake: stream.conn.handshake_kind(),
                    protocol: stream.conn.alpn_protocol().map(<[u8]>::to_vec),
                    host: stream.conn.server_name().map(str::to_owned),
                    certified: stream.conn.peer_certificates().is_some(),
                    ..Served::default()
                };
                let _ = serve(&mut stream, &manner, &log, seen);
                if !manner.rude {
                    stream.conn.send_close_notify();
                    let _ = stream.conn.complete_io(&mut stream.sock);
                    // The word is all there is: the socket stays open until the client has heard it.
                    let _ = io::copy(&mut stream.sock, &mut io::sink());
                }
            });
        }
    });
    (address, log)
}

fn begin(mut stream: impl Read + Write + Send + 'static, manner: Manner, log: Log, seen: Served) {
    std::thread::spawn(move || serve(&mut stream, &manner, &log, seen));
}

fn serve(stream: &mut (impl Read + Write), manner: &Manner, log: &Log, seen: Served) -> io::Result<()> {
    let index = {
        let mut log = log.lock().unwrap();
        log.push(seen);
        log.len() - 1
    };
    let (mut held, mut buf, mut answered) = (Vec::new(), vec![0; 16 * 1024], 0);
    loop {
        let bytes = stream.read(&mut buf)?;
        if bytes == 0 {
            return Ok(());
        }
        held.extend_from_slice(&buf[..bytes]);
        while let Some(end) = held.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = held.drain(..end + 4).collect();
            let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
            let mut log = log.lock().unwrap();
            log[index].requests += 1;
            log[index].lines.push(line);
            drop(log);
            stream.write_all(&manner.answer)?;
            answered += 1;
            if manner.close_after == Some(answered) {
                return Ok(());
            }
        }
        stream.flush()?;
    }
}

/// Requests over all connections.
pub(crate) fn requests(log: &Log) -> usize {
    log.lock().unwrap().iter().map(|seen| seen.requests).sum()
}
