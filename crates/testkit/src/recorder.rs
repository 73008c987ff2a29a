use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait for a byte before the recorder looks whether it is to stop.
const STOP_CHECK: Duration = Duration::from_millis(20);
/// Time that each answer takes, so that a second brings a thousand requests and not a hundred thousand.
const ANSWER_TAKES: Duration = Duration::from_millis(1);

/// What is answered to a request.
pub type Answer = fn(&[u8]) -> Vec<u8>;

/// A server that keeps every request as it came, byte for byte, by connection.
#[derive(Debug)]
pub struct Recorder {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    kept: Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
    listening: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts it with what it answers.
    ///
    /// # Panics
    /// Where the machine has no free loopback port: no test can go on then.
    #[must_use]
    pub fn start(answer: Answer) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a test needs a free loopback port");
        let address = listener.local_addr().expect("a listener has an address");
        let stop = Arc::new(AtomicBool::new(false));
        let kept = Arc::default();
        let (flag, store) = (Arc::clone(&stop), Arc::clone(&kept));
        let listening = std::thread::spawn(move || listen(&listener, answer, &flag, &store));
        Self { address, stop, kept, listening: Some(listening) }
    }

    /// The URL of its root.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Stops it: the requests of each connection that sent any, in order of acceptance.
    ///
    /// # Panics
    /// Where its thread failed.
    #[must_use]
    pub fn finish(mut self) -> Vec<Vec<Vec<u8>>> {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
        self.listening.take().expect("only this takes it").join().expect("a recorder does not panic");
        let mut kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.retain(|requests| !requests.is_empty());
        kept
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn listen(
    listener: &TcpListener,
    answer: Answer,
    stop: &Arc<AtomicBool>,
    kept: &Arc<Mutex<Vec<Vec<Vec<u8>>>>>,
) {
    let mut connections = Vec::new();
    for socket in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Ok(socket) = socket else { continue };
        let index = {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push(Vec::new());
            kept.len() - 1
        };
        let (stop, kept) = (Arc::clone(stop), Arc::clone(kept));
        connections.push(std::thread::spawn(move || {
            // A client that goes away in the middle ends its connection only.
            let _ = serve(socket, answer, &stop, |request| {
                kept.lock().unwrap_or_else(PoisonError::into_inner)[index].push(request);
            });
        }));
    }
    for connection in connections {
        let _ = connection.join();
    }
}

fn serve(
    mut socket: TcpStream,
    answer: Answer,
    stop: &AtomicBool,
    mut keep: impl FnMut(Vec<u8>),
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(STOP_CHECK))?;
    let mut unread = Vec::new();
    let mut buf = [0; 16 * 1024];
    while !stop.load(Ordering::Relaxed) {
        match socket.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(bytes) => unread.extend_from_slice(&buf[..bytes]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        while let Some(bytes) = request_bytes(&unread) {
            let request: Vec<u8> = unread.drain(..bytes).collect();
            let reply = answer(&request);
            keep(request);
            std::thread::sleep(ANSWER_TAKES);
            socket.write_all(&reply)?;
        }
    }
    Ok(())
}

/// Length of the first whole request: head, and as much body as `Content-Length` says.
fn request_bytes(unread: &[u8]) -> Option<usize> {
    let head = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&unread[..head]).to_ascii_lowercase();
    let body = text.lines().find_map(|line| line.strip_prefix("content-length:"));
    let bytes = head + body.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
    (unread.len() >= bytes).then_some(bytes)
}
