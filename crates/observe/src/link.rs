//! What the link between server and generator carries at most, and how long its way there and back is.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use model::record::Link;

/// Bytes of one write, enough that the calls do not count.
const CHUNK: usize = 256 * 1024;
/// How long one loopback connection is written to: its window has opened after a few milliseconds.
const LOOPBACK: Duration = Duration::from_millis(100);
/// How long a link is read from, and from when on what comes is counted: over a long way the window takes some round trips to
/// open, and a limit of rate lets its first burst through.
const READING: Duration = Duration::from_millis(1500);
const OPENING: Duration = Duration::from_millis(500);
/// Round trips, of which the shortest counts: whatever else is in the others, the link is not.
const TRIPS: u32 = 10;
/// How long anything on a link may take.
const LIMIT: Duration = Duration::from_secs(10);

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
    while wrote.is_ok() && begin.elapsed() < LOOPBACK {
        wrote = writer.write_all(&chunk);
    }
    drop(writer);
    let bytes = reading.join().expect("reading does not panic")?;
    wrote?;
    Ok(bytes as f64 / begin.elapsed().as_secs_f64())
}

/// The server's end of a link that is measured once: gives the place where [`measure_link`] finds it.
///
/// # Errors
/// Where this host has no such address.
pub fn listen_for_link(host: IpAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((host, 0))?;
    let address = listener.local_addr()?;
    // Whoever does not come is waited for no longer than this process lives.
    std::thread::spawn(move || listener.accept().map(|(stream, _)| serve(stream)));
    Ok(address)
}

/// Sends back so many bytes as there are round trips, then as much as goes.
fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let mut byte = [0];
    for _ in 0..TRIPS {
        stream.read_exact(&mut byte)?;
        stream.write_all(&byte)?;
    }
    let chunk = vec![7; CHUNK];
    loop {
        stream.write_all(&chunk)?;
    }
}

/// Measures the link to a place that [`listen_for_link`] gave, in the direction in which answers go.
///
/// # Errors
/// Where it is not reached, or nothing comes.
pub fn measure_link(address: SocketAddr) -> io::Result<Link> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let (mut shortest, mut byte) = (LIMIT, [7]);
    for _ in 0..TRIPS {
        let begin = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        shortest = shortest.min(begin.elapsed());
    }
    let (begin, mut counted, mut bytes, mut chunk) = (Instant::now(), None, 0, vec![0; CHUNK]);
    while begin.elapsed() < READING {
        match stream.read(&mut chunk)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            more if counted.is_some() => bytes += more as u64,
            _ if begin.elapsed() >= OPENING => counted = Some(Instant::now()),
            _ => {}
        }
    }
    let counted = counted.ok_or(ErrorKind::TimedOut)?.elapsed().as_secs_f64();
    let round_trip_ns = u64::try_from(shortest.as_nanos()).unwrap_or(u64::MAX);
    Ok(Link { round_trip_ns, bytes_per_s: bytes as f64 / counted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_a_round_trip_and_carries_something() {
        let link = measure_link(listen_for_link([127, 0, 0, 1].into()).unwrap()).unwrap();
        assert!(link.round_trip_ns > 0 && link.bytes_per_s > 1e6, "{link:?}");
    }

    #[test]
    fn nobody_there_is_an_error() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(measure_link(gone).is_err());
    }
}
