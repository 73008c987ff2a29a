//! The smallest server, and the one that is measured: `hello [ADDRESS [WORKERS]]`.

fn main() -> Result<(), straightline::Error> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1);
    straightline::Server::bind(address.as_str())?
        .workers(workers)
        .on_signals(std::time::Duration::from_secs(5))
        .serve(|_, response| response.header("content-type", "text/plain")?.send(b"Hello, World!"))?;
    Ok(())
}
