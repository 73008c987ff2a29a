use std::io;
use std::path::PathBuf;

/// Why something cannot be observed; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The process is not there.
    #[error("there is no process {0} that can be seen")]
    NoProcess(u32),
    /// The process was there when watching began and is not there any more.
    #[error("process {0} has ended")]
    Ended(u32),
    /// A file that every Linux has cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file reads otherwise than its documentation says.
    #[error("{} does not read as documented", .0.display())]
    Damaged(PathBuf),
}
