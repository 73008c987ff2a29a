//! Rocket as its documentation shows it, without the fields that its shield adds.

#[path = "../../common/target.rs"]
mod target;

use rocket::config::{Ident, Shutdown};
use rocket::serde::Serialize;
use rocket::serde::json::Json;
use rocket::shield::Shield;
use rocket::{Build, Config, Rocket, get, launch, routes};

#[derive(Serialize)]
#[serde(crate = "rocket::serde")]
struct Greeting {
    message: &'static str,
}

#[get("/plaintext")]
fn plaintext() -> &'static str {
    target::BODY
}

#[get("/json")]
fn json() -> Json<Greeting> {
    Json(Greeting { message: target::BODY })
}

#[launch]
fn rocket() -> Rocket<Build> {
    let address = target::address();
    let config = Config {
        address: address.ip(),
        port: address.port(),
        workers: target::option("--workers", 1),
        ident: Ident::try_new(target::SERVER).expect("a name"),
        log_level: rocket::config::LogLevel::Off,
        // SIGTERM is to end it at once, not after the connections.
        shutdown: Shutdown { ctrlc: false, signals: Default::default(), ..Shutdown::default() },
        ..Config::release_default()
    };
    rocket::custom(config).attach(Shield::new()).mount("/", routes![plaintext, json])
}
