use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::LaunchError;

/// Size of one read while hashing, in bytes: large enough that the calls cost nothing beside the hash.
const HASH_CHUNK_BYTES: usize = 128 * 1024;

/// The executable that `argv` names, as exec would find it: relative to `dir` where the name has a slash, else on `PATH`.
///
/// # Errors
/// [`LaunchError::NoProgram`] where there is none that may be executed.
pub fn executable_of(argv: &[String], dir: Option<&Path>) -> Result<PathBuf, LaunchError> {
    let name = argv.first().map(String::as_str).unwrap_or_default();
    let dir = dir.unwrap_or(Path::new(""));
    let found = if name.contains('/') {
        Some(dir.join(name)).filter(|path| is_executable(path))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| dir.join(folder).join(name))
            .find(|path| is_executable(path))
    };
    found.filter(|_| !name.is_empty()).ok_or_else(|| LaunchError::NoProgram(name.to_owned()))
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// SHA-256 of a file in hexadecimal, and its length in bytes.
///
/// # Errors
/// [`LaunchError::File`] where it cannot be read.
pub fn sha256_file(path: &Path) -> Result<(String, u64), LaunchError> {
    hash(path).map_err(|source| LaunchError::File { path: path.to_owned(), source })
}

fn hash(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut sha, mut bytes, mut chunk) = (Sha256::new(), 0, vec![0; HASH_CHUNK_BYTES]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok((hexadecimal(&sha.finalize()), bytes)),
            count => {
                sha.update(&chunk[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// SHA-256 of `bytes` in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_on_the_path_and_relative_to_the_folder() {
        let word = |name: &str| vec![name.to_owned()];
        assert!(executable_of(&word("sh"), None).is_ok());
        assert!(executable_of(&word("bin/sh"), Some(Path::new("/"))).is_ok());
        for missing in ["", "no-such-program-here", "./sh", "/etc/passwd", "/"] {
            assert!(executable_of(&word(missing), None).is_err(), "{missing}");
        }
        assert!(executable_of(&[], None).is_err());
    }
}
