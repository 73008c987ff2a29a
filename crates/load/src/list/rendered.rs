//! Requests as bytes: those that are always the same, and those of which pieces change.

use model::job::fill::{Piece, Place, decimal, in_part, in_target, pieces, whole_path};
use model::job::{self, Data};

use crate::request::chunked;
use crate::{LoadError, Request, Target};

/// One request of a list, as far as it can be rendered ahead of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rendered {
    /// Always the same.
    Fixed(Vec<u8>),
    /// Filled for each arrival.
    Filled(Box<Filled>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filled {
    head: Vec<Part>,
    body: Vec<Piece>,
    chunked: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// Of a field, or of what never changes.
    Plain(Piece),
    /// Of the target, where not every character may stand.
    InTarget(Piece),
    /// All of the target: a path, or a URL of this host and port.
    Target(Piece, String),
    /// Length of the body.
    Length,
}

impl Rendered {
    pub(crate) fn new(request: &job::Request, data: Option<&Data>, target: &Target) -> Result<Self, String> {
        job::fill::check(request, data)?;
        let plain = Request::for_target(request, target);
        let split = |text: &str| pieces(text.as_bytes(), data);
        let path = split(&plain.path)?;
        let fields: Vec<(String, Vec<Piece>)> = plain
            .headers
            .iter()
            .map(|(name, value)| Ok((name.clone(), split(value)?)))
            .collect::<Result<_, String>>()?;
        let body = pieces(&plain.body, data)?;
        let mut all = path.iter().chain(fields.iter().flat_map(|(_, value)| value)).chain(&body);
        if all.all(Piece::is_fixed) {
            return Self::fixed(plain, &path, &fields, &body).map_err(|error| error.to_string());
        }
        plain.check_framing().map_err(|error| error.to_string())?;
        let mut head = vec![text(format!("{} ", plain.method))];
        match &path[..] {
            [only @ (Piece::Column(_) | Piece::Taken(_))] => {
                head.push(Part::Target(only.clone(), target.authority.clone()));
            }
            _ => head.extend(path.into_iter().map(Part::InTarget)),
        }
        head.push(text(" HTTP/1.1\r\n".to_owned()));
        for (name, value) in fields {
            head.push(text(format!("{name}: ")));
            head.extend(value.into_iter().map(Part::Plain));
            head.push(text("\r\n".to_owned()));
        }
        if plain.wants_length() {
            head.extend([text("Content-Length: ".to_owned()), Part::Length, text("\r\n".to_owned())]);
        }
        head.push(text("\r\n".to_owned()));
        Ok(Self::Filled(Box::new(Filled { head: joined(head), body, chunked: plain.is_chunked() })))
    }

    /// A request without placeholders; double braces are single ones now.
    fn fixed(
        plain: Request,
        path: &[Piece],
        fields: &[(String, Vec<Piece>)],
        body: &[Piece],
    ) -> Result<Self, LoadError> {
        let string = |pieces: &[Piece]| String::from_utf8_lossy(&bytes(pieces)).into_owned();
        let headers = fields.iter().map(|(name, value)| (name.clone(), string(value))).collect();
        let request = Request { method: plain.method, path: string(path), headers, body: bytes(body) };
        request.render().map(Self::Fixed)
    }

    /// Appends the request for one arrival; `scratch` is for its body.
    pub(crate) fn write(&self, place: &Place<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(bytes) => out.extend_from_slice(bytes),
            Self::Filled(filled) => filled.write(place, scratch, out),
        }
    }
}

impl Filled {
    fn write(&self, place: &Place<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        /// Where the numbers of pieces of the body begin, so that none is that of a piece of the head.
        const BODY: u64 = 1 << 20;
        scratch.clear();
        for (nth, piece) in self.body.iter().enumerate() {
            piece.write(place, BODY + nth as u64, scratch);
        }
        let body_bytes = scratch.len();
        for (nth, part) in self.head.iter().enumerate() {
            match part {
                Part::Plain(piece) => piece.write(place, nth as u64, out),
                Part::InTarget(piece @ (Piece::Column(_) | Piece::Taken(_))) => {
                    piece.write(place, nth as u64, scratch);
                    out.extend_from_slice(&in_part(&scratch[body_bytes..]));
                    scratch.truncate(body_bytes);
                }
                Part::Target(piece, authority) => {
                    piece.write(place, nth as u64, scratch);
                    let value = &scratch[body_bytes..];
                    out.extend_from_slice(&in_target(whole_path(value, authority).unwrap_or(value)));
                    scratch.truncate(body_bytes);
                }
                Part::InTarget(piece) => piece.write(place, nth as u64, out),
                Part::Length => decimal(body_bytes as u64, out),
            }
        }
        match self.chunked {
            true => out.extend(chunked(scratch)),
            false => out.extend_from_slice(scratch),
        }
    }
}

fn text(text: String) -> Part {
    Part::Plain(Piece::Text(text.into_bytes()))
}

fn bytes(pieces: &[Piece]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in pieces {
        if let Piece::Text(text) = piece {
            bytes.extend_from_slice(text);
        }
    }
    bytes
}

/// Texts next to each other as one, so that each is copied by one call.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (
                Some(Part::Plain(Piece::Text(before))),
                Part::Plain(Piece::Text(more)) | Part::InTarget(Piece::Text(more)),
            ) => before.extend(more),
            (_, Part::InTarget(Piece::Text(text))) => joined.push(Part::Plain(Piece::Text(text))),
            (_, part) => joined.push(part),
        }
    }
    joined
}
