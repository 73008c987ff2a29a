//! A small site: routes, files, compression, server-sent events and an access log: `site [ADDRESS [FOLDER]]`.

#![expect(clippy::print_stdout, reason = "the log goes to whoever started it")]

use std::io::{self, Write};
use std::time::Duration;
use straightline::kit::{Compressed, Events, Files, Params, Router, ServerEvent, logged};
use straightline::{Done, Error, Request, Response, Running, Server, rt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let folder = arguments.next().unwrap_or_else(|| ".".into());
    let server = Server::bind(address.as_str())?.on_signals(Duration::from_secs(5));
    start(server, Files::new(folder)?, |line| println!("{line}"))?.join();
    Ok(())
}

/// Begins to serve; `log` takes a line for each answer.
pub(crate) fn start(server: Server, files: Files, log: fn(&str)) -> Result<Running, Error> {
    let router = routes(files).expect("the routes differ");
    server.spawn(logged(
        move |request, response| router.serve(request, response),
        move |entry| log(&entry.to_string()),
    ))
}

fn routes(files: Files) -> Result<Router, straightline::kit::RouteError> {
    Router::new()
        .route("GET", "/hello/{name}", hello)?
        .route("POST", "/length", length)?
        .route("GET", "/numbers", numbers)?
        .route("GET", "/ticks", ticks)?
        .route("GET", "/files/{*path}", move |request, response, params| {
            files.serve(params.get("path").unwrap_or_default(), request, response)
        })
}

fn hello(_: &mut Request<'_>, response: Response<'_>, params: &Params<'_>) -> io::Result<Done> {
    let text = format!("Hello, {}!\n", params.decoded("name")?);
    response.header("content-type", "text/plain; charset=utf-8")?.send(text.as_bytes())
}

/// Says how long the body is, however long it is, in a buffer's worth of memory.
fn length(request: &mut Request<'_>, response: Response<'_>, _: &Params<'_>) -> io::Result<Done> {
    let bytes = io::copy(request, &mut io::sink())?;
    response.send(format!("{bytes}\n").as_bytes())
}

/// A long text, compressed while it is made.
fn numbers(request: &mut Request<'_>, response: Response<'_>, _: &Params<'_>) -> io::Result<Done> {
    let response = response.header("content-type", "text/plain")?;
    let mut body = Compressed::start(request, response)?;
    for number in 0..10_000 {
        writeln!(body, "{number}")?;
    }
    body.end()
}

/// Ten events, a tenth of a second apart.
fn ticks(_: &mut Request<'_>, response: Response<'_>, _: &Params<'_>) -> io::Result<Done> {
    let mut events = Events::start(response)?;
    for tick in 1..=10 {
        rt::sleep(Duration::from_millis(100))?;
        let text = tick.to_string();
        events.send(&ServerEvent { name: Some("tick"), id: Some(&text), data: &text })?;
    }
    events.end()
}
