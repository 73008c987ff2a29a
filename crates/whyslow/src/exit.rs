//! Exit codes, the same for every command.

use std::process::ExitCode;

/// Why a command ends without its result, and the code that says so.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The command line, case or script is wrong; nothing was started.
    Usage(anyhow::Error),
    /// It could not be done.
    Failed(anyhow::Error),
}

impl Stop {
    /// For errors found before anything was started.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self::Usage(error.into())
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Failed(_) => Exit::Failed,
        }
    }

    pub(crate) fn error(&self) -> &anyhow::Error {
        match self {
            Self::Usage(error) | Self::Failed(error) => error,
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// An error and its causes, each said once: many of ours end with their cause.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// What a command's `run` gives.
pub(crate) type Outcome = Result<Exit, Stop>;

/// What an exit code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It was done; for a comparison, a verdict was reached.
    Done = 0,
    /// It could not be done.
    Failed = 1,
    /// The command line, case or script is wrong.
    Usage = 2,
    /// Done, and a `--fail-if` condition holds.
    ConditionHolds = 3,
    /// A comparison without a verdict for want of blocks, or a condition that a window was too short for.
    Inconclusive = 4,
    /// A comparison of which gates void every primary metric.
    Invalid = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    #[test]
    fn a_cause_is_said_once() {
        let missing = model::record::can_write("/nonexistent/folder/file".as_ref()).context("--hlog");
        let text = super::told(&missing.unwrap_err());
        assert!(text.starts_with("--hlog: cannot write /nonexistent/folder/file: No such file"), "{text}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
    }
}
