//! Builds, starts, pins, makes ready, verifies, stops and reaps one target, or a state of
//! a git repository. No other crate starts processes.
//!
//! A target never hangs directly below the program that measures it:
//!
//! ```text
//! whyslow ──▶ supervisor ──▶ shim ═exec═▶ target ──▶ whatever it forks
//!    │ stdin: "stop", or its end      │ log
//!    ◀ stdout: started, ended, stopped ┘
//! ```
//!
//! The *supervisor* is the same executable in another role. It is the subreaper of everything below it, so that a child
//! which leaves its process group or loses its parent is still its descendant. It stops all of them when it is told
//! to, and kills all of them when its standard input ends, which is what happens however its parent dies. The *shim* sets what must be set inside the new
//! process (parent-death signal, CPU set) and then becomes the target. Both take the place of code between fork and
//! exec, which could not be safe.
//!
//! The program that uses this crate calls [`role`] first thing in `main`.
#![forbid(unsafe_code)]

mod build;
mod cache;
mod compose;
mod container;
mod error;
mod git;
mod launcher;
mod listen;
mod log;
mod port;
mod probe;
mod process;
mod program;
mod protocol;
mod ready;
mod shim;
mod supervise;
mod tree;
mod verify;

pub use build::{BuildStep, Built};
pub use cache::{Cache, Entry};
pub use compose::{Project, compose};
pub use container::{Contained, Container, EngineError, image};
pub use error::{LaunchError, ProbeError};
pub use git::{GitError, Repository, WORK_TREE};
pub use launcher::{ENV_PADDING, Launcher, OWN_FOLDER, Spec, role};
pub use listen::listeners;
pub use log::log_tail;
pub use port::{Port, free_port, port_free};
pub use probe::{closes_after, probe, probe_with_body};
pub use process::{Exit, Process, Stopped};
pub use program::{executable_of, sha256, sha256_file};
pub use ready::{NOT_YET, Shown, takes, unexpected, wait_until};
pub use verify::{Check, verify};
