//! warp 0.3 as its documentation shows it; the features are the steps of the ladder.

#[path = "../../common/target.rs"]
mod target;

use std::io;

use tokio::runtime::Builder;
use warp::http::header::{CONTENT_TYPE, SERVER};
use warp::{Filter, Rejection, Reply};

#[cfg(feature = "tikv-jemallocator")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> io::Result<()> {
    let workers = target::option("--workers", 1);
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    runtime.block_on(serve());
    Ok(())
}

async fn serve() {
    let routes = fixed("plaintext", "text/plain", target::BODY)
        .or(fixed("welcome", "application/json", "Welcome!"))
        .with(warp::reply::with::header(SERVER.as_str(), target::SERVER));
    let server = warp::serve(routes);
    if target::option("--pipeline", false) {
        server.unstable_pipeline().run(target::address()).await;
    } else {
        server.run(target::address()).await;
    }
}

/// Always the same answer to one path.
fn fixed(
    path: &'static str,
    content_type: &'static str,
    body: &'static str,
) -> impl Filter<Extract = (impl Reply,), Error = Rejection> + Clone {
    warp::path(path)
        .and(warp::path::end())
        .map(move || warp::reply::with_header(body, CONTENT_TYPE.as_str(), content_type))
}
