//! Pages of other origins that may read answers.
//!
//! Source: the Fetch standard, section 3.2, "CORS protocol".

use crate::{Done, Request, Response};
use std::io;
use std::time::Duration;

/// Which pages of other origins may read answers.
///
/// ```no_run
/// use straightline::kit::Cors;
///
/// let cors = Cors::for_origins(&["https://app.example.com"]).methods("GET, POST").headers("content-type");
/// straightline::Server::bind("127.0.0.1:8080")?.serve(move |request, response| {
///     cors.serve(request, response, |_, response| response.send(b"for those pages"))
/// })?;
/// # Ok::<(), straightline::Error>(())
/// ```
///
/// It lets no request through or not: it tells browsers what pages may read. An answer that the server makes of an error
/// of the handler says the same as the others.
#[derive(Clone, Debug)]
pub struct Cors {
    /// `None` for every origin.
    origins: Option<Vec<String>>,
    credentials: bool,
    methods: String,
    headers: String,
    max_age: Duration,
}

/// How long a browser may remember what it was told, unless said: as long as any of them does.
const MAX_AGE: Duration = Duration::from_secs(2 * 60 * 60);

impl Cors {
    /// For pages of these origins, such as `https://example.com` or `http://localhost:3000`.
    pub fn for_origins(origins: &[&str]) -> Self {
        let origins = origins.iter().map(|origin| (*origin).to_owned()).collect();
        Self { origins: Some(origins), ..Self::of_all() }
    }

    /// For the pages of everybody. They never send cookies, whatever is said.
    pub fn of_all() -> Self {
        Self {
            origins: None,
            credentials: false,
            methods: "GET, HEAD, POST".to_owned(),
            headers: String::new(),
            max_age: MAX_AGE,
        }
    }

    /// Lets those pages send cookies. It has no effect on [`Cors::of_all`].
    pub fn credentials(mut self) -> Self {
        self.credentials = self.origins.is_some();
        self
    }

    /// The methods that pages may use, `GET, HEAD, POST` unless said.
    pub fn methods(mut self, methods: &str) -> Self {
        self.methods = methods.to_owned();
        self
    }

    /// The fields that pages may set, none unless said.
    pub fn headers(mut self, headers: &str) -> Self {
        self.headers = headers.to_owned();
        self
    }

    /// How long a browser may remember it, two hours unless said.
    pub fn max_age(mut self, age: Duration) -> Self {
        self.max_age = age;
        self
    }

    /// Answers the question of a browser before a request, or lets `handler` answer and adds who may read it.
    ///
    /// # Errors
    ///
    /// Those of `handler`, and of sending; `InvalidInput` if an origin, a method or a field named before has a character that
    /// cannot be.
    pub fn serve<'a, F>(
        &self,
        request: &mut Request<'a>,
        response: Response<'a>,
        handler: F,
    ) -> io::Result<Done>
    where
        F: FnOnce(&mut Request<'a>, Response<'a>) -> io::Result<Done>,
    {
        let origin = self.allowed(request.header("origin"));
        let asks = request.method() == "OPTIONS" && request.header("access-control-request-method").is_some();
        let mut response = match &self.origins {
            // What is told depends on who asks, and so does what a cache keeps.
            Some(_) => response.lasting_header("vary", "origin")?,
            None => response,
        };
        if let Some(origin) = origin {
            response = response.lasting_header("access-control-allow-origin", origin)?;
            if self.credentials {
                response = response.lasting_header("access-control-allow-credentials", "true")?;
            }
        }
        if !asks {
            return handler(request, response);
        }
        let mut response = response.status(204);
        if origin.is_some() {
            response = response.header("access-control-allow-methods", &self.methods)?;
            if !self.headers.is_empty() {
                response = response.header("access-control-allow-headers", &self.headers)?;
            }
            response = response.header("access-control-max-age", self.max_age.as_secs().to_string())?;
        }
        response.send(b"")
    }

    /// What is said to a page of this origin, if it may read anything.
    fn allowed<'s>(&'s self, origin: Option<&str>) -> Option<&'s str> {
        match &self.origins {
            None => Some("*"),
            Some(origins) => origins.iter().find(|known| Some(known.as_str()) == origin).map(String::as_str),
        }
    }
}
