//! A small product: users in PostgreSQL, sessions by cookie, a JSON API, a chat by WebSocket, metrics, and restarts that no
//! client sees: `service DATABASE_URL [ADDRESS]`.
//!
//! | request | what |
//! |---|---|
//! | `POST /users` | `{"name": "ada", "password": "…"}` makes a user |
//! | `POST /sessions` | the same logs in, by a cookie |
//! | `DELETE /sessions` | logs out |
//! | `GET /me` | who is logged in |
//! | `GET /chat` | a WebSocket: what one says, all hear |
//! | `GET /metrics` | counters for Prometheus |
//!
//! It takes over the socket that a service manager hands it. To restart it, start the next one on the same socket and send
//! the first SIGTERM: it answers what it has begun, closes its chats with 1001, and ends.

use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use straightline::kit::postgres::{Client, Config, Error as DatabaseError, Pool};
use straightline::kit::websocket::{Mailbox, Message, Upgrade};
use straightline::kit::{Params, Router, cookies, json};
use straightline::{Done, Error, Handle, Request, Response, Running, Server, StatusError};

/// Connections to the database for each shard.
const CONNECTIONS: usize = 4;
/// Longest body of a request in bytes: a name and a password.
const BODY_BYTES: u64 = 4096;
/// Longest name in bytes, and longest password: bcrypt looks at no more.
const TEXT_BYTES: usize = 72;
/// Longest message of the chat in bytes.
const MESSAGE_BYTES: usize = 16 * 1024;
/// How long a restart waits for answers under way.
const DRAIN_TIME: Duration = Duration::from_secs(10);
const SESSION: &str = "session";

const SCHEMA: &str = "
    create extension if not exists pgcrypto;
    create table if not exists users (
        id bigint generated always as identity primary key, name text not null unique, password text not null);
    create table if not exists sessions (
        key uuid primary key default gen_random_uuid(), owner bigint not null references users on delete cascade,
        expires timestamptz not null default now() + interval '30 days');
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("service DATABASE_URL [ADDRESS]")?;
    let server = match Server::from_systemd() {
        Err(Error::NoSocketHandedOver) => {
            let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".into());
            Server::bind(address.as_str())?
        }
        handed_over => handed_over?,
    };
    start(server.on_signals(DRAIN_TIME), url.parse()?)?.join();
    Ok(())
}

/// Begins to serve.
pub(crate) fn start(server: Server, config: Config) -> Result<Running, Box<dyn std::error::Error>> {
    Client::connect(config.clone())?.batch(SCHEMA)?;
    let service = Arc::new(Service {
        pool: Pool::new(config).connections(CONNECTIONS),
        upgrade: Upgrade::new().message_bytes(MESSAGE_BYTES),
        chat: Mutex::default(),
        handle: OnceLock::new(),
    });
    let router = routes(&service)?;
    let running = server.name("service").spawn(move |request, response| router.serve(request, response))?;
    service.handle.get_or_init(|| running.handle());
    Ok(running)
}

struct Service {
    pool: Pool,
    upgrade: Upgrade,
    /// Everybody who listens.
    chat: Mutex<Vec<Mailbox>>,
    handle: OnceLock<Handle>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    name: String,
    password: String,
}

#[derive(Serialize)]
struct User {
    id: i64,
    name: String,
}

fn routes(service: &Arc<Service>) -> Result<Router, straightline::kit::RouteError> {
    type Answer = for<'a> fn(&Service, &mut Request<'a>, Response<'a>) -> io::Result<Done>;
    let table: [(&str, &str, Answer); 6] = [
        ("POST", "/users", Service::sign_up),
        ("POST", "/sessions", Service::log_in),
        ("DELETE", "/sessions", Service::log_out),
        ("GET", "/me", Service::who),
        ("GET", "/chat", Service::talk),
        ("GET", "/metrics", Service::count),
    ];
    table.into_iter().try_fold(Router::new(), |router, (method, path, answer)| {
        let service = Arc::clone(service);
        router.route(method, path, move |request: &mut Request<'_>, response, _: &Params<'_>| {
            answer(&service, request, response)
        })
    })
}

impl Service {
    fn sign_up<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let login = login(request)?;
        let made = self.pool.get_for(request)?.query_one(
            "insert into users (name, password) values ($1, crypt($2, gen_salt('bf', 6))) returning id",
            &[&login.name, &login.password],
        );
        match made {
            Ok(row) => json::send(response.status(201), &User { id: row.get("id")?, name: login.name }),
            Err(DatabaseError::Server(said)) if said.code == "23505" => {
                Err(StatusError::new(409, "there is a user of this name\n").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn log_in<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let login = login(request)?;
        let row = self.pool.get_for(request)?.query_opt(
            "insert into sessions (owner) select id from users where name = $1 and password = crypt($2, password)
             returning key::text",
            &[&login.name, &login.password],
        )?;
        let row = row.ok_or(StatusError::new(403, "name or password is wrong\n"))?;
        cookies::set(response, &cookies::secret(SESSION, row.get::<&str>("key")?))?.status(204).send(b"")
    }

    fn log_out<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        if let Some(key) = session_key(request) {
            let end = "delete from sessions where key = $1::text::uuid";
            self.pool.get_for(request)?.execute(end, &[&key])?;
        }
        cookies::remove(response, SESSION)?.status(204).send(b"")
    }

    fn who<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        json::send(response, &self.user(request)?)
    }

    /// Who is logged in.
    fn user(&self, request: &Request<'_>) -> io::Result<User> {
        let nobody = || StatusError::new(401, "nobody is logged in\n");
        let key = session_key(request).ok_or_else(nobody)?;
        let row = self.pool.get_for(request)?.query_opt(
            "select u.id, u.name from sessions s join users u on u.id = s.owner
             where s.key = $1::text::uuid and s.expires > now()",
            &[&key],
        )?;
        let row = row.ok_or_else(nobody)?;
        Ok(User { id: row.get("id")?, name: row.get("name")? })
    }

    /// What one says, all hear. The connection to the database goes back before the talk begins.
    fn talk<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let user = self.user(request)?;
        self.upgrade.serve(request, response, |socket| {
            self.listeners(|all| all.push(socket.mailbox()));
            while let Some(message) = socket.recv()? {
                if let Message::Text(text) = message {
                    let said = Message::text(format!("{}: {text}", user.name));
                    // Who is gone, or takes nothing, hears no more.
                    self.listeners(|all| all.retain(|listener| listener.post(said.clone()).is_ok()));
                }
            }
            Ok(())
        })
    }

    /// Does something with all who listen. Nothing waits meanwhile, so a lock of the standard library will do.
    fn listeners(&self, act: impl FnOnce(&mut Vec<Mailbox>)) {
        act(&mut self.chat.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn count<'a>(&self, _: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let mut text = self.handle.get().map(Handle::metrics).unwrap_or_default();
        let counts = self.pool.counts();
        for (state, count) in [("open", counts.open), ("idle", counts.idle), ("waiting", counts.waiting)] {
            writeln!(text, "service_database{{state=\"{state}\"}} {count}").map_err(io::Error::other)?;
        }
        response.header("content-type", "text/plain; version=0.0.4")?.send(text.as_bytes())
    }
}

fn login(request: &mut Request<'_>) -> io::Result<Login> {
    let login: Login = json::read(request, BODY_BYTES)?;
    let fits = |text: &str| (1..=TEXT_BYTES).contains(&text.len()) && !text.contains('\0');
    if fits(&login.name) && fits(&login.password) {
        return Ok(login);
    }
    Err(StatusError::new(400, "name and password have 1 to 72 bytes\n").into())
}

/// The key that a client sent, if it can be one.
fn session_key(request: &Request<'_>) -> Option<String> {
    let key = cookies::get(request, SESSION)?;
    let fits = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (key.len() == 36 && key.bytes().enumerate().all(fits)).then_some(key)
}
