//! Where Redis is, and how to log in.

use super::error::Error;
use crate::kit::percent;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The port of Redis.
const PORT: u16 = 6379;
/// Longest time for connecting and logging in unless said: a server that is there takes milliseconds.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Longest time for a command unless said: a server that is well takes less than a millisecond.
const COMMAND_TIME: Duration = Duration::from_secs(5);

/// Where a Redis is, and how to log in: `redis://[[USER]:PASSWORD@]HOST[:PORT][/NUMBER]`.
///
/// ```
/// use straightline::kit::redis::Config;
///
/// let config: Config = "redis://:secret@localhost:6380/2".parse()?;
/// # assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), straightline::kit::redis::Error>(())
/// ```
#[derive(Clone)]
pub struct Config {
    pub(super) host: String,
    pub(super) port: u16,
    /// A user and its password; the user is `default` unless said.
    pub(super) login: Option<(String, String)>,
    pub(super) database: u32,
    pub(super) connect_time: Duration,
    pub(super) command_time: Duration,
}

impl fmt::Debug for Config {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the password.
        out.debug_struct("Config")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Longest time for connecting and logging in, 5 s unless said.
    pub fn connect_time(mut self, time: Duration) -> Self {
        self.connect_time = time;
        self
    }

    /// Longest time for a command or a pipeline, 5 s unless said.
    pub fn command_time(mut self, time: Duration) -> Self {
        self.command_time = time;
        self
    }
}

fn malformed(why: &str) -> Error {
    Error::Config(why.to_owned())
}

fn decoded(part: &str) -> Result<String, Error> {
    let text = percent::decode(part).map_err(|_| malformed("a % without two digits, or what is no text"))?;
    Ok(text.into_owned())
}

/// Host and port.
fn address(text: &str) -> Result<(&str, u16), Error> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| malformed("a [ without its ]"))?;
            (host, rest.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() || host.contains(',') {
        return Err(malformed("it must name one host"));
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| malformed("the port is no number")))?;
    Ok((host, port))
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix("redis://").ok_or_else(|| malformed("it begins with redis://"))?;
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, host) =
            authority.rsplit_once('@').map_or((None, authority), |(login, host)| (Some(login), host));
        let login = login.map(|login| {
            let (user, password) =
                login.split_once(':').ok_or_else(|| malformed("a login is USER:PASSWORD"))?;
            let user = if user.is_empty() { "default" } else { user };
            Ok((decoded(user)?, decoded(password)?))
        });
        let (host, port) = address(host)?;
        let number = || database.parse().map_err(|_| malformed("the database is no number"));
        Ok(Self {
            host: decoded(host)?,
            port,
            login: login.transpose()?,
            database: if database.is_empty() { 0 } else { number()? },
            connect_time: CONNECT_TIME,
            command_time: COMMAND_TIME,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Config;

    #[test]
    fn a_url_says_where_and_who() {
        let config: Config = "redis://me:p%3Aw@[::1]:6380/3".parse().unwrap();
        assert_eq!((config.host.as_str(), config.port, config.database), ("::1", 6380, 3));
        assert_eq!(config.login, Some(("me".to_owned(), "p:w".to_owned())));
        let config: Config = "redis://:word@localhost".parse().unwrap();
        assert_eq!((config.port, config.database), (6379, 0));
        assert_eq!(config.login, Some(("default".to_owned(), "word".to_owned())));
        for url in [
            "",
            "rediss://localhost",
            "redis://",
            "redis://me@localhost",
            "redis://a,b",
            "redis://[::1",
            "redis://localhost:port",
            "redis://localhost/zero",
            "redis://localhost/-1",
            "redis://%4",
        ] {
            assert!(url.parse::<Config>().is_err(), "{url}");
        }
    }
}
