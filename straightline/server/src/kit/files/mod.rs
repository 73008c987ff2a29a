//! The files of a folder.

mod conditions;
mod kind;

use super::coding::{Coding, taken};
use super::{PLAIN, percent};
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
/// `Last-Modified`; conditions and single ranges are honoured; a request for several ranges gets the whole file. A folder is answered with
/// its `index.html`, where the path ends in a slash, and with a redirect there, where it does not.
///
/// A file that is not in memory holds up the shard while the disk brings it: slow disks are not for this.
#[derive(Debug)]
pub struct Files {
    folder: OwnedFd,
    cache_control: Option<&'static str>,
    precompressed: bool,
}

/// What is at a path.
enum Entry {
    File(Found),
    Folder,
    Nothing,
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
        Ok(Self { folder, cache_control: None, precompressed: false })
    }

    /// Adds the field `Cache-Control` to each answer.
    pub fn cache_control(mut self, value: &'static str) -> Self {
        self.cache_control = Some(value);
        self
    }

    /// Sends `a.css.br` or `a.css.gz` for `a.css`, where there is one and the client takes it (`Accept-Encoding`): whoever makes the files
    /// compresses them once. All answers say `Vary: accept-encoding` then.
    pub fn precompressed(mut self) -> Self {
        self.precompressed = true;
        self
    }

    /// Answers with the file at `path`, which is that of the request or the end of it, as it was sent.
    ///
    /// # Errors
    ///
    /// One that is answered with 400 for a path that is not encoded well; those of the file system and of sending.
    pub fn serve<'a>(&self, path: &str, request: &Request<'a>, response: Response<'a>) -> io::Result<Done> {
        if !matches!(request.method(), "GET" | "HEAD") {
            let response = response.status(405).header("allow", "GET, HEAD")?;
            return response.send_error("this method is not for files", None, b"");
        }
        let path = percent::decode(path)?;
        let path = path.trim_start_matches('/');
        match self.find(path, request)? {
            Entry::File(found) => self.answer(&found, request, response),
            Entry::Folder if self.has_index(path, request)? => {
                response.status(301).header("location", with_slash(request))?.send(b"")
            }
            Entry::Folder | Entry::Nothing => {
                let missing = "there is no such file";
                response.status(404).send_error(missing, Some(PLAIN), b"there is no such file\n")
            }
        }
    }

    /// Whether a folder is to be seen, and the client asked for it without a slash.
    fn has_index(&self, path: &str, request: &Request<'_>) -> io::Result<bool> {
        let has_slash = request.path().ends_with('/');
        Ok(!has_slash && matches!(self.find(&format!("{path}/"), request)?, Entry::File(_)))
    }

    /// What is at a decoded path, coded as the client likes best.
    fn find(&self, path: &str, request: &Request<'_>) -> io::Result<Entry> {
        let index = if path.is_empty() || path.ends_with('/') { INDEX } else { "" };
        let path = format!("{path}{index}");
        if path.split('/').any(|name| name.starts_with('.') && name != ".well-known") {
            return Ok(Entry::Nothing);
        }
        let kind = kind::content_type(&path);
        if self.precompressed {
            for coding in taken(request.header("accept-encoding")).take_while(|one| *one != Coding::Identity)
            {
                let ending = if coding == Coding::Brotli { "br" } else { "gz" };
                if let coded @ Entry::File(_) = self.open(&format!("{path}.{ending}"), kind, coding)? {
                    return Ok(coded);
                }
            }
        }
        self.open(&path, kind, Coding::Identity)
    }

    fn open(&self, path: &str, kind: &'static str, coding: Coding) -> io::Result<Entry> {
        // Whoever opens a pipe waits for its other end, unless told not to.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = match openat2(&self.folder, path, flags, Mode::empty(), resolve) {
            Ok(file) => file,
            Err(error) if is_absence(error) => return Ok(Entry::Nothing),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Ok(Entry::Folder),
            _ => return Ok(Entry::Nothing),
        }
        let version = Version {
            bytes: stat.st_size as u64,
            modified_s: u64::try_from(stat.st_mtime).unwrap_or(0),
            modified_ns: stat.st_mtime_nsec as u32,
            coding: coding.name(),
        };
        Ok(Entry::File(Found { file: File::from(file), version, kind }))
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
        let response =
            if self.precompressed { response.header("vary", "accept-encoding")? } else { response };
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
    let response = match found.version.coding {
        Some(coding) => response.header("content-encoding", coding)?,
        None => response,
    };
    let mut response = response
        .header("content-type", found.kind)?
        // A browser that guesses may take what a user uploaded for a script.
        .header("x-content-type-options", "nosniff")?
        .header("content-length", length.to_string())?
        .start()?;
    response.write_file(&found.file, range)?;
    response.end()
}

/// The path of a request with a slash behind it, as seen from there: what stands after `./` can name no other server.
fn with_slash(request: &Request<'_>) -> String {
    let name = request.path().rsplit('/').next().unwrap_or_default();
    let query = request.query().map_or_else(String::new, |query| format!("?{query}"));
    format!("./{name}/{query}")
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
