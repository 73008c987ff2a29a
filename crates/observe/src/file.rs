//! Reading many small files cheaply: one buffer for all, and folders opened once.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

use crate::ObserveError;

/// First size of the buffer in bytes: more than a `status` or `stat` file.
const BUFFER_BYTES: usize = 4096;

/// A buffer that whole files are read into, one after another.
pub(crate) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; BUFFER_BYTES] }
    }

    /// The whole file as text; bytes that are not UTF-8, which only names can hold, are replaced by `?`.
    pub(crate) fn read(&mut self, path: &str) -> io::Result<&str> {
        self.read_at(CWD, path)
    }

    /// The file `path` in the open folder `folder`.
    pub(crate) fn read_at(&mut self, folder: impl AsFd, path: &str) -> io::Result<&str> {
        let file = rustix::fs::openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let length = self.fill(&file)?;
        let bytes = &mut self.buffer[..length];
        if std::str::from_utf8(bytes).is_err() {
            bytes.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
        }
        Ok(std::str::from_utf8(bytes).expect("ASCII is UTF-8"))
    }

    fn fill(&mut self, file: &OwnedFd) -> io::Result<usize> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(length * 2, 0);
            }
            match rustix::io::read(file, &mut self.buffer[length..]) {
                Ok(0) => return Ok(length),
                Ok(count) => length += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a folder for [`Reader::read_at`].
pub(crate) fn folder(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// The numbers among the names in a folder: process or thread ids.
pub(crate) fn numbered(path: &str) -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir(path)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// The text of a file without white space at its ends, where there is one.
pub(crate) fn optional(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

pub(crate) fn cannot_read(path: &str) -> impl FnOnce(io::Error) -> ObserveError {
    let path = PathBuf::from(path);
    move |source| ObserveError::File { path, source }
}
