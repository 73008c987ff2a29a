//! The files of a folder.

mod conditions;
mod kind;

use super::percent;
use crate::{Done, Request, Response};
use conditions::{Asked, Part, Version};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

/// What is answered at a path that ends in a slash.
const INDEX: &str = "index.html";

/// The files of a folder, and of those below it.
///
/// Nothing outside is ever opened: the kernel resolves each path below the folder (`RESOLVE_BENEATH`), symbolic links
/// included. Names that begin with a dot are not served, but for `.well-known`. Answers carry `ETag` and
/// `Last-Modified`; conditions and single ranges are honoured; a request for several ranges gets the whole file.
///
/// A file that is not in memory holds up the shard while the disk brings it: slow disks are not for this.
#[derive(Debug)]
pub struct Files {
    folder: OwnedFd,
    cache_control: Option<&'static str>,
}

/// A file that can be sent.
struct Found {
    file: File,
    version: Version,
    kind: &'static str,
}

impl Files {
    /// The files of `folder`.
    ///
    /// # Errors
    ///
    /// If there is no such folder.
    pub fn new(folder: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(folder.as_ref(), flags, Mode::empty())?;
        Ok(Self { folder, cache_control: None })
    }

    /// Adds the field `Cache-Control` to each answer.
    pub fn cache_control(mut self, value: &'static str) -> Self {
        self.cache_control = Some(value);
        self
    }

    /// Answers with the file at `path`, which is that of the request or a part of it, as it was sent.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 for a path that is not encoded well; those of the file system and of sending.
    pub fn serve<'a>(&self, path: &str, request: &Request<'a>, response: Response<'a>) -> io::Result<Done> {
        if !matches!(request.method(), "GET" | "HEAD") {
            return response.status(405).header("allow", "GET, HEAD")?.send(b"");
        }
        match self.find(&percent::decode(path)?)? {
            Some(found) => self.answer(&found, request, response),
            None => {
                response.status(404).header("content-type", "text/plain")?.send(b"there is no such file\n")
            }
        }
    }

    /// The file at a decoded path.
    fn find(&self, path: &str) -> io::Result<Option<Found>> {
        let mut path = path.trim_start_matches('/').to_owned();
        if path.is_empty() || path.ends_with('/') {
            path.push_str(INDEX);
        }
        if path.split('/').any(|name| name.starts_with('.') && name != ".well-known") {
            return Ok(None);
        }
        // Whoever opens a pipe waits for its other end, unless told not to.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match openat2(&self.folder, path.as_str(), flags, Mode::empty(), resolve) {
            Ok(file) => file,
            Err(error) if is_absence(error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let version = Version {
            bytes: stat.st_size as u64,
            modified_s: u64::try_from(stat.st_mtime).unwrap_or(0),
            modified_ns: stat.st_mtime_nsec as u32,
        };
        Ok(Some(Found { file: File::from(file), version, kind: kind::content_type(&path) }))
    }

    fn answer<'a>(&self, found: &Found, request: &Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let asked = Asked::from_headers(|name| request.header(name), request.method() == "GET");
        let response = response
            .header("etag", found.version.etag())?
            .header("last-modified", found.version.last_modified())?
            .header("accept-ranges", "bytes")?;
        let response = match self.cache_control {
            Some(value) => response.header("cache-control", value)?,
            None => response,
        };
        let whole = found.version.bytes;
        match asked.part(&found.version) {
            Part::NotModified => response.status(304).send(b""),
            Part::Failed => response.status(412).send(b""),
            Part::Unsatisfiable => {
                response.status(416).header("content-range", format!("bytes */{whole}"))?.send(b"")
            }
            Part::Whole => send(found, response, 0..whole),
            Part::Range(range) => {
                let said = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
                send(found, response.status(206).header("content-range", said)?, range)
            }
        }
    }
}

fn send(found: &Found, response: Response<'_>, range: Range<u64>) -> io::Result<Done> {
    let length = range.end - range.start;
    let mut response = response
        .header("content-type", found.kind)?
        // A browser that guesses may take what a user uploaded for a script.
        .header("x-content-type-options", "nosniff")?
        .header("content-length", length.to_string())?
        .start()?;
    response.write_file(&found.file, range)?;
    response.end()
}

/// Whether an error of opening says only that there is nothing to serve.
fn is_absence(error: Errno) -> bool {
    matches!(
        error,
        Errno::NOENT
            | Errno::NOTDIR
            | Errno::ISDIR
            | Errno::XDEV
            | Errno::LOOP
            | Errno::ACCESS
            | Errno::PERM
            | Errno::NAMETOOLONG
            | Errno::INVAL
            | Errno::NXIO
    )
}

#[cfg(test)]
mod tests {
    use super::Files;

    #[test]
    fn there_must_be_a_folder() {
        assert!(Files::new("/nonexistent").is_err());
        assert!(Files::new("/proc/self/status").is_err(), "a file is no folder");
    }
}
