//! Handlers by method and path.

use super::{PLAIN, percent};
use crate::rt::watch::Name;
use crate::{Done, Request, Response, StatusError};
use std::borrow::Cow;
use std::fmt;
use std::io;

/// What answers at one path, by one method.
type Route = dyn for<'a> Fn(&mut Request<'a>, Response<'a>, &Params<'_>) -> io::Result<Done> + Send + Sync;

/// Handlers by method and path. A path may hold parameters, `/books/{id}`, and end in one for all the rest,
/// `/files/{*path}`. The rest may be empty: `/files/` is answered there, too, unless it has a route of its own.
///
/// HEAD is answered by the handler of GET, whose body is then not sent. An unknown path is answered with 404, an
/// unknown method of a known path with 405; OPTIONS says which there are, and of `*` those of all paths. What the bodies of 404
/// and 405 are, [`Server::error_bodies`](crate::Server::error_bodies) may say.
///
/// What is told of a handler, by [`Event`](crate::Event) and by the stacks of those that wait, names its route.
///
/// ```no_run
/// let router = straightline::kit::Router::new()
///     .route("GET", "/hello/{name}", |_, response, params| {
///         response.send(format!("Hello, {}!", params.decoded("name")?).as_bytes())
///     })?;
/// straightline::Server::bind("127.0.0.1:8080")?
///     .serve(move |request, response| router.serve(request, response))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Router {
    /// Places in `paths`.
    routes: matchit::Router<usize>,
    paths: Vec<Methods>,
    /// Paths that are in `routes` only as those of an empty rest.
    without_rest: Vec<String>,
}

/// The handlers of one path.
struct Methods {
    pattern: String,
    handlers: Vec<Handler>,
}

/// A route as it is called in events, such as `GET /users/{id}`; its method, and what answers.
type Handler = (&'static Name, String, Box<Route>);

/// Why a route cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteError {
    /// The path is malformed, or some request would match it and another path alike.
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The method has a handler at this path already.
    Twice {
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
}

impl fmt::Display for RouteError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path, cause } => write!(out, "the path {path} cannot be routed: {cause}"),
            Self::Twice { method, path } => write!(out, "{method} {path} has a handler already"),
        }
    }
}

impl std::error::Error for RouteError {}

impl fmt::Debug for Router {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.paths.iter().map(|path| &path.pattern)).finish()
    }
}

impl Router {
    /// One that knows no path.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `handler` answer requests of `method` at `path`.
    ///
    /// # Errors
    ///
    /// [`RouteError`] says what is wrong with the path.
    pub fn route<F>(mut self, method: &str, path: &str, handler: F) -> Result<Self, RouteError>
    where
        F: for<'a> Fn(&mut Request<'a>, Response<'a>, &Params<'_>) -> io::Result<Done>
            + Send
            + Sync
            + 'static,
    {
        let known = self.paths.iter().position(|methods| methods.pattern == path);
        let place = known.unwrap_or(self.paths.len());
        if known.is_none() {
            self.insert(path, place)?;
            self.paths.push(Methods { pattern: path.to_owned(), handlers: Vec::new() });
        }
        let handlers = &mut self.paths[place].handlers;
        if handlers.iter().any(|(_, other, _)| other == method) {
            return Err(RouteError::Twice { method: method.to_owned(), path: path.to_owned() });
        }
        let name = Name::keep(&format!("{method} {path}"));
        handlers.push((name, method.to_owned(), Box::new(handler)));
        Ok(self)
    }

    fn insert(&mut self, path: &str, place: usize) -> Result<(), RouteError> {
        if let Some(at) = self.without_rest.iter().position(|other| other == path) {
            self.without_rest.swap_remove(at);
            self.routes.remove(path);
        }
        let wrong = |error: matchit::InsertError| error.to_string();
        let inserted = self.routes.insert(path, place).map_err(wrong);
        inserted.map_err(|cause| RouteError::Path { path: path.to_owned(), cause })?;
        // What takes the rest of a path takes no empty one by itself. Where that path is known, it has a route of its own.
        if let Some((before, _)) = rest_of(path)
            && self.routes.insert(before, place).is_ok()
        {
            self.without_rest.push(before.to_owned());
        }
        Ok(())
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// Those of the handler, and of sending.
    pub fn serve<'a>(&self, request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        if request.method() == "OPTIONS" && request.path() == "*" {
            return response.status(204).header("allow", self.allowed())?.send(b"");
        }
        let Ok(found) = self.routes.at(request.path()) else {
            let missing = "there is nothing here";
            return response.status(404).send_error(missing, Some(PLAIN), b"there is nothing here\n");
        };
        let methods = &self.paths[*found.value];
        match methods.handler(request.method()) {
            Some((name, _, handler)) => {
                request.name_route(name);
                let rest = rest_of(&methods.pattern).map(|(_, name)| name);
                handler(request, response, &Params { found: found.params, rest })
            }
            None => {
                let status = if request.method() == "OPTIONS" { 204 } else { 405 };
                let response = response.status(status).header("allow", allowed(methods.names()))?;
                match status {
                    204 => response.send(b""),
                    _ => response.send_error("this method is not for this path", None, b""),
                }
            }
        }
    }

    /// What the server answers at some path or other.
    ///
    /// Source: RFC 9110, section 9.3.7.
    fn allowed(&self) -> String {
        allowed(self.paths.iter().flat_map(Methods::names))
    }
}

impl Methods {
    fn handler(&self, method: &str) -> Option<&Handler> {
        let of = |wanted: &str| self.handlers.iter().find(|(_, other, _)| other == wanted);
        of(method).or_else(|| if method == "HEAD" { of("GET") } else { None })
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.handlers.iter().map(|(_, method, _)| method.as_str())
    }
}

/// What stands before the parameter for all the rest, and its name, if a path ends in one.
fn rest_of(path: &str) -> Option<(&str, &str)> {
    let (before, name) = path.strip_suffix('}')?.rsplit_once("{*")?;
    // Braces that are doubled stand for themselves.
    if before.ends_with('{') { None } else { Some((before, name)) }
}

/// The value of `Allow`, where these methods have handlers.
fn allowed<'m>(methods: impl Iterator<Item = &'m str>) -> String {
    let mut allowed = Vec::new();
    for method in methods {
        let follows = if method == "GET" { "HEAD" } else { "OPTIONS" };
        for method in [method, follows, "OPTIONS"] {
            if !allowed.contains(&method) {
                allowed.push(method);
            }
        }
    }
    allowed.join(", ")
}

/// The parts of a path that a route left open.
#[derive(Debug)]
pub struct Params<'p> {
    found: matchit::Params<'p, 'p>,
    /// The name of that for all the rest, which may be empty.
    rest: Option<&'p str>,
}

impl Params<'_> {
    /// The part called `name`, as it was sent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.found.get(name).or_else(|| self.rest.filter(|rest| *rest == name).map(|_| ""))
    }

    /// The part called `name`, decoded; empty if the route has none of this name.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 if it is not encoded well.
    pub fn decoded(&self, name: &str) -> Result<Cow<'_, str>, StatusError> {
        percent::decode(self.get(name).unwrap_or_default())
    }
}
