//! What the link between server and generator carries at most: bytes per second over one loopback connection.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Bytes of one write, enough that the calls do not count.
const CHUNK: usize = 256 * 1024;
/// How long is written: the connection's window has opened after a few milliseconds.
const LENGTH: Duration = Duration::from_millis(100);

/// Bytes per second that one loopback connection carries between two threads of this process.
///
/// # Errors
/// Where this host refuses sockets.
pub fn loopback_bytes_per_s() -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut writer = TcpStream::connect(listener.local_addr()?)?;
    let (mut reader, _) = listener.accept()?;
    let reading = std::thread::spawn(move || -> io::Result<u64> {
        let (mut chunk, mut bytes) = (vec![0; CHUNK], 0);
        loop {
            match reader.read(&mut chunk)? {
                0 => return Ok(bytes),
                more => bytes += more as u64,
            }
        }
    });
    let (begin, chunk) = (Instant::now(), vec![7; CHUNK]);
    let mut wrote = Ok(());
    while wrote.is_ok() && begin.elapsed() < LENGTH {
        wrote = writer.write_all(&chunk);
    }
    drop(writer);
    let bytes = reading.join().expect("reading does not panic")?;
    wrote?;
    Ok(bytes as f64 / begin.elapsed().as_secs_f64())
}
