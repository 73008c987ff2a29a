//! The run directory: what goes in comes out, and what is half there never reads as whole.

mod directory;
mod support;
mod writing;
