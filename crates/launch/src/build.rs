use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::plan::{Arm, Placeholders, fill};

use crate::launcher::fill_env;
use crate::ready::LOG_LINES;
use crate::{Entry, LaunchError, Launcher, Spec, log_tail};

/// Longest build of one command: compilers of large projects take tens of minutes, nothing sound takes hours.
const BUILD_LIMIT: Duration = Duration::from_secs(2 * 3600);

/// Between two looks at whether the build is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// One command of a build, as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildStep {
    /// Its number, from 1.
    pub step: usize,
    /// How many there are.
    pub steps: usize,
    /// The command.
    pub command: String,
}

/// Whether a build had to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// Its commands ran.
    Now,
    /// The same files were built by the same command before.
    Before,
}

impl Launcher {
    /// Builds `arm`, a revision in its place in the cache; `progress` is called with each command as it begins. A build that this
    /// program does not survive does not survive it either.
    ///
    /// # Errors
    /// [`LaunchError::Build`] for a command that ends badly, [`LaunchError::Git`] for a revision that cannot be checked out,
    /// else as [`Launcher::start`].
    pub fn build(
        &self,
        arm: &Arm,
        values: &Placeholders,
        log: &Path,
        progress: &mut dyn FnMut(&BuildStep),
    ) -> Result<Built, LaunchError> {
        let Some(revision) = arm.source.revision() else {
            return self.commands(arm, values, log, progress).map(|()| Built::Now);
        };
        let entry = Entry::for_revision(revision);
        let locked = entry.lock(LOOK, &|| self.is_unwanted());
        let path = || PathBuf::from(&revision.checkout);
        let Some(_lock) = locked.map_err(|source| LaunchError::File { path: path(), source })? else {
            return Err(LaunchError::Interrupted);
        };
        let built = if entry.is_built() { Built::Before } else { Built::Now };
        if built == Built::Now {
            entry.check_out(revision)?;
            self.commands(arm, values, log, progress)?;
            entry.put_back(revision)?;
        }
        entry.stamp(revision)?;
        Ok(built)
    }

    /// Runs the build commands of `arm` one after another, their output appended to `log`.
    fn commands(
        &self,
        arm: &Arm,
        values: &Placeholders,
        log: &Path,
        progress: &mut dyn FnMut(&BuildStep),
    ) -> Result<(), LaunchError> {
        if let Some(dir) = &arm.build_dir {
            let path = PathBuf::from(dir);
            fs::create_dir_all(&path).map_err(|source| LaunchError::File { path, source })?;
        }
        for (index, words) in arm.build.iter().enumerate() {
            let argv: Vec<String> = words.iter().map(|word| fill(word, values)).collect();
            let step = BuildStep { step: index + 1, steps: arm.build.len(), command: argv.join(" ") };
            progress(&step);
            let spec = Spec {
                argv,
                env: fill_env(arm, values),
                dir: arm.dir.as_ref().map(PathBuf::from),
                log: log.to_owned(),
                ..Spec::default()
            };
            self.finish("build", &spec)?;
        }
        Ok(())
    }

    /// Runs a command to its end; `what` says what it is for.
    ///
    /// # Errors
    /// [`LaunchError::Build`] where it ends badly, else as [`Launcher::start`].
    pub fn finish(&self, what: &'static str, spec: &Spec) -> Result<(), LaunchError> {
        let mut process = self.start(spec)?;
        let until = Instant::now() + BUILD_LIMIT;
        let mut exit = None;
        while exit.is_none() && Instant::now() < until && !process.is_unwanted() {
            exit = process.wait(LOOK);
        }
        let unwanted = process.is_unwanted();
        let stopped = process.stop();
        if unwanted {
            return Err(LaunchError::Interrupted);
        }
        match exit.or(stopped.exit) {
            Some(exit) if exit.is_success() => Ok(()),
            exit => Err(LaunchError::Build {
                what,
                command: spec.argv.join(" "),
                exit: exit.unwrap_or(crate::Exit::Signal(rustix::process::Signal::KILL.as_raw())),
                log: log_tail(&spec.log, LOG_LINES),
            }),
        }
    }
}
