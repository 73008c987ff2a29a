//! `whyslow view`: the pages of the runs kept here, served on loopback by straightline.

mod events;
mod routes;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use straightline::{Done, Request, Response, Server};

use crate::cli::ViewArgs;
use crate::exit::{Exit, Outcome, Stop};
use crate::history::{self, Index, Shelf};
use routes::{Answer, Routes};

/// Time that answers have to end in once the program is asked to stop.
const DRAIN: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ViewArgs) -> Outcome {
    let (shelf, folder) = match &args.run {
        Some(run) => {
            history::missing(run, &args.runs).map_or(Ok(()), Err).map_err(Stop::usage)?;
            (Shelf::of_run(run), None)
        }
        None => history::folder_is_there(&args.runs)
            .map(|()| (Shelf::of_folder(&args.runs), Some(args.runs.as_path())))
            .map_err(Stop::usage)?,
    };
    let index = Index::open(folder)?;
    let routes = Arc::new(Routes { shelf, index: Mutex::new(index) });
    let server = Server::bind(args.listen)
        .with_context(|| format!("cannot listen on {}: choose another address with --listen", args.listen))?;
    let address = server.local_addr();
    crate::say(&greeting(address, args.run.is_some().then(|| routes.shelf.runs())));
    // A page is analysed while it is asked for: that may block, so each connection has a thread of its own.
    server
        .threads()
        .on_signals(DRAIN)
        .serve(move |request, response| answer(&routes, request, response))
        .context("the server ended")?;
    Ok(Exit::Done)
}

fn greeting(
    address: SocketAddr,
    runs: Option<impl IntoIterator<Item = (String, std::path::PathBuf)>>,
) -> String {
    let warning = if address.ip().is_loopback() {
        ""
    } else {
        "\nwarning: whoever reaches this address can read the runs"
    };
    let page = runs
        .and_then(|runs| runs.into_iter().next())
        .map_or_else(String::new, |(name, _)| format!("run/{name}"));
    format!("http://{address}/{page}  (Ctrl-C ends it){warning}")
}

fn answer(routes: &Routes, request: &mut Request<'_>, response: Response<'_>) -> std::io::Result<Done> {
    let answer = match routes::refusal(request.method(), request.host()) {
        Some(refusal) => refusal,
        None => routes.answer(request.path()),
    };
    match answer {
        Answer::Page { status, page } => response
            .status(status)
            .header("Content-Type", "text/html; charset=utf-8")?
            .header("Content-Security-Policy", format!("{}; frame-ancestors 'none'", page.policy))?
            .header("X-Content-Type-Options", "nosniff")?
            .header("Referrer-Policy", "no-referrer")?
            .header("Cross-Origin-Resource-Policy", "same-origin")?
            .header("Cache-Control", "no-store")?
            .send(page.html.as_bytes()),
        Answer::Events { run } => events::send(&run, request, response),
    }
}
