//! Where the database is, and how to log in.

use super::error::Error;
use crate::kit::percent;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// The port of PostgreSQL.
const PORT: u16 = 5432;
/// Longest time for connecting and logging in, unless the URL says another: a server that is there takes milliseconds.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Longest time for a statement unless said: after so long the user has gone.
const QUERY_TIME: Duration = Duration::from_secs(30);

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// Never.
    Disable,
    /// If the server can.
    Prefer,
    /// Always. As with `libpq`, any certificate will do, unless [`Config::tls`] says whom to trust.
    Require,
}

/// Where a database is, and how to log in.
///
/// ```
/// use straightline::kit::postgres::Config;
///
/// let config: Config = "postgres://me:secret@localhost/books?sslmode=disable".parse()?;
/// # assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), straightline::kit::postgres::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) database: String,
    pub(super) ssl_mode: SslMode,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
    pub(super) connect_time: Duration,
    pub(super) query_time: Option<Duration>,
    /// What the session is to begin with, such as `application_name`.
    pub(super) settings: Vec<(String, String)>,
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password.
        out.debug_struct("Config")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("database", &self.database)
            .field("ssl_mode", &self.ssl_mode)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Trusts only whom `config` trusts, where TLS is spoken.
    pub fn tls(mut self, config: rustls::ClientConfig) -> Self {
        self.tls = Some(Arc::new(config));
        self
    }

    /// Whether the connection is encrypted; [`SslMode::Prefer`] unless said.
    pub fn ssl_mode(mut self, mode: SslMode) -> Self {
        self.ssl_mode = mode;
        self
    }

    /// Longest time for connecting and logging in, 5 s unless said.
    pub fn connect_time(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    /// Longest time for a statement, 30 s unless said; `None` for ever. One that takes longer is cancelled.
    pub fn query_time(mut self, time: Option<Duration>) -> Self {
        self.query_time = time;
        self
    }

    fn option(&mut self, name: &str, value: String) -> Result<(), Error> {
        match name {
            "sslmode" => {
                self.ssl_mode = match value.as_str() {
                    "disable" => SslMode::Disable,
                    "prefer" => SslMode::Prefer,
                    "require" => SslMode::Require,
                    _ => return Err(malformed("sslmode is disable, prefer or require")),
                }
            }
            "connect_timeout" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or_else(|| malformed("connect_timeout is a number of seconds"))?;
                self.connect_time = Duration::from_secs(seconds);
            }
            "application_name" | "options" | "search_path" | "statement_timeout" => {
                self.settings.push((name.to_owned(), value));
            }
            _ => return Err(malformed(format!("there is no option {name}"))),
        }
        Ok(())
    }
}

fn malformed(why: impl Into<String>) -> Error {
    Error::Config(why.into())
}

/// A part of a URL as it was meant.
fn decoded(part: &str) -> Result<String, Error> {
    let text = percent::decode(part).map_err(|_| malformed("a % without two digits, or what is no text"))?;
    // It would end the text in what is sent to the server.
    if text.contains('\0') { Err(malformed("it has a NUL")) } else { Ok(text.into_owned()) }
}

/// Host and port.
fn address(text: &str) -> Result<(String, u16), Error> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| malformed("a [ without its ]"))?;
            (host.to_owned(), rest.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (decoded(host)?, Some(port)),
            None => (decoded(text)?, None),
        },
    };
    if host.is_empty() || host.starts_with('/') || host.contains(',') {
        return Err(malformed("it must name one host, reached by TCP"));
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| malformed("the port is no number")))?;
    Ok((host, port))
}

impl FromStr for Config {
    type Err = Error;

    /// Source: PostgreSQL 15, section 34.1.1.2, without sockets of files and without several hosts.
    fn from_str(url: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| malformed("it begins with postgres://"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (decoded(user)?, Some(decoded(password)?)),
            None => (decoded(login)?, None),
        };
        if user.is_empty() {
            return Err(malformed("it names no user"));
        }
        let (host, port) = address(host)?;
        let database = if database.is_empty() { user.clone() } else { decoded(database)? };
        let mut config = Self {
            host,
            port,
            user,
            password,
            database,
            ssl_mode: SslMode::Prefer,
            tls: None,
            connect_time: CONNECT_TIME,
            query_time: Some(QUERY_TIME),
            settings: Vec::new(),
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| malformed("an option without ="))?;
            config.option(name, decoded(value)?)?;
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, SslMode};
    use std::time::Duration;

    #[test]
    fn a_url_says_where_and_who() {
        let config: Config =
            "postgresql://me%40home:p%3A%2Fw@[::1]:5433/my%20db?sslmode=require&connect_timeout=3&application_name=x"
                .parse()
                .unwrap();
        assert_eq!((config.host.as_str(), config.port), ("::1", 5433));
        assert_eq!((config.user.as_str(), config.password.as_deref()), ("me@home", Some("p:/w")));
        assert_eq!((config.database.as_str(), config.ssl_mode), ("my db", SslMode::Require));
        assert_eq!(config.connect_time, Duration::from_secs(3));
        assert_eq!(config.settings, [("application_name".to_owned(), "x".to_owned())]);
        let config: Config = "postgres://me@localhost".parse().unwrap();
        assert_eq!((config.port, config.database.as_str(), config.password), (5432, "me", None));
    }

    #[test]
    fn what_is_no_url_of_one_database_is_refused() {
        for url in [
            "",
            "mysql://me@localhost",
            "postgres://localhost/db",
            "postgres://me@/db",
            "postgres://me@a,b/db",
            "postgres://me@%2Frun%2Fpostgres/db",
            "postgres://me@localhost:port/db",
            "postgres://me@localhost:70000/db",
            "postgres://me@[::1/db",
            "postgres://me%00@localhost/db",
            "postgres://me%4@localhost/db",
            "postgres://me@localhost/db?sslmode=maybe",
            "postgres://me@localhost/db?sslmode",
            "postgres://me@localhost/db?connect_timeout=0",
            "postgres://me@localhost/db?host=other",
        ] {
            assert!(url.parse::<Config>().is_err(), "{url}");
        }
    }
}
