//! The server that is measured: `measured [ADDRESS [WORKERS [threads]]]`.
//!
//! `/plaintext` answers at once, `/wait` after a minute, `/upload` when it has read the body, `/work` when it has held its shard for
//! 200 µs; `/shard` says which shard that would be.

use std::time::{Duration, Instant};
use straightline::{Error, FieldLine, Running, Server, rt};

const SERVER: FieldLine = FieldLine::new("Server: whyslow");
const PLAIN: FieldLine = FieldLine::new("Content-Type: text/plain");
/// What `/work` takes: about as much as a page from a template.
const WORK: Duration = Duration::from_micros(200);

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    let server = Server::bind(address.as_str())?.on_signals(Duration::from_secs(1));
    let server = match arguments.next().as_deref() {
        Some("threads") => server.threads(),
        _ => server.workers(workers),
    };
    start(server)?.join();
    Ok(())
}

/// Begins to serve.
pub(crate) fn start(server: Server) -> Result<Running, Error> {
    server.spawn(|request, response| {
        let response = response.field(SERVER)?.field(PLAIN)?;
        match request.path() {
            "/plaintext" => response.send(b"Hello, World!"),
            "/wait" => {
                rt::sleep(Duration::from_secs(60))?;
                response.send(b"Hello, World!")
            }
            "/work" => {
                let begin = Instant::now();
                while begin.elapsed() < WORK {
                    std::hint::spin_loop();
                }
                response.send(b"Hello, World!")
            }
            // The name of a shard's thread ends with its number.
            "/shard" => response.send(std::thread::current().name().unwrap_or_default().as_bytes()),
            "/upload" => {
                let bytes = std::io::copy(request, &mut std::io::sink())?;
                response.send(bytes.to_string().as_bytes())
            }
            _ => response.status(404).send(b""),
        }
    })
}
